"""The settings of a benchmark, and the loading and, if anything is fitted, the splitting of its data sets."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from veridical.datasets import load_reader, name_and_path, read
from veridical.datasets.split import content_hash, document_of, split_by_document
from veridical.records.errors import DataError
from veridical.records.types import Example
from veridical_lab.datasets.foreign import among_foreign

if TYPE_CHECKING:
    from veridical.llm.connection import Connection


@dataclass(frozen=True, slots=True)
class BenchSettings:
    """The settings of a benchmark.

    `data` are NAME:PATH specs. If `metrics` is None, all metrics that fit the detector and the data are used. `sample`
    is the number of documents to draw from each data set, and the same seed draws the same documents. `foreign` is the
    number of other documents from the same data set whose sources are mixed with the sources of each case.

    If `fit` is one of `veridical.metrics.thresholding.CRITERIA`, each data set is split by document. Thresholds and
    detectors that learn are fitted on the validation part, and only the test part is measured. With `fit` "none", the
    test part is measured and nothing is fitted.

    `connection` is the connection to a chat model. The run stops when its budget is spent. `remark` is called with each
    line of text about the interpretation of the data.
    """

    detectors: Sequence[str]
    data: Sequence[str]
    metrics: Sequence[str] | None = None
    group_by: Sequence[str] = ()
    split: str | None = None
    sample: int | None = None
    foreign: int = 0
    fit: str | None = None
    threshold: float | Mapping[str, float] | None = None
    skip_bad: bool = False
    resamples: int = 1000
    level: float = 0.95
    seed: int = 0
    command: str = ""
    journal: Path | None = None
    connection: Connection | None = None
    progress: Callable[[str, int, int], None] = field(default=lambda label, done, total: None)
    remark: Callable[[str], None] = field(default=lambda line: None)

    @property
    def fits(self) -> bool:
        """Whether anything is fitted."""
        return self.fit is not None and self.fit != "none"


@dataclass(frozen=True, slots=True)
class Loaded:
    """One data set in memory, with the levels that its labels describe.

    `examples` are measured, and `fitting` is used for fitting. `training` returns further training examples, from other
    documents or from the training split of the data set. `hash` is the hash of all examples as read, before the split,
    with their foreign sources if there are any.
    """

    name: str
    split: str
    examples: list[Example]
    fitting: list[Example]
    hash: str
    levels: tuple[str, ...]
    skipped: int
    training: Callable[[], list[Example]] = list


def load_data(spec: str, settings: BenchSettings) -> Loaded:
    """Load the examples of NAME:PATH.

    Raises:
        DataError: There are too few examples to measure and fit, or two examples share an id.
    """
    bad: list[DataError] = []
    examples = list(
        read(spec, settings.split, on_bad=bad.append if settings.skip_bad else None, remark=settings.remark)
    )
    name, path = name_and_path(spec)
    if not examples:
        raise DataError("no examples in it", path=path, hint=f"{len(bad)} rows were skipped" if bad else None)
    ids = [example.case.id for example in examples]
    if len(set(ids)) < len(ids):
        twice = next(id for id, count in Counter(ids).items() if count > 1)
        raise DataError(f"two cases have the id {twice!r}", path=path)
    if settings.foreign:
        examples = among_foreign(examples, settings.foreign, seed=settings.seed)
    whole = examples
    if settings.sample is not None:
        # use a different hash than the split into parts does, or all of a small sample would fall into one part; with a
        # hash instead of a draw, a larger sample contains the smaller one
        def sample_key(document: str) -> bytes:
            return hashlib.sha256(f"sample\0{settings.seed}\0{document}".encode("utf-8", "surrogatepass")).digest()

        chosen = set(sorted({document_of(example) for example in examples}, key=sample_key)[: settings.sample])
        examples = [example for example in examples if document_of(example) in chosen]
    parts = split_by_document(examples, seed=settings.seed) if settings.fit else {"test": examples, "valid": []}
    fitting = parts["valid"] if settings.fits else []
    if not parts["test"] or (settings.fits and not fitting):
        raise DataError("too few documents to fit on some and measure on others", path=path, hint="leave out --fit")
    sampled = None if settings.sample is None else f"{settings.sample} documents"
    foreign = f"among {settings.foreign} foreign" if settings.foreign else None
    split = ", ".join(filter(None, [settings.split, sampled, "test part" if settings.fit else None, foreign])) or "all"
    info = load_reader(name).INFO
    levels = (*info.levels, "pair") if info.pairs else info.levels
    if name in ("hf", "jsonl", "rows"):  # the name of a format does not identify the data
        name = f"{name}:{path if name == 'hf' else Path(path).name}"
    documents = {document_of(example) for example in (*fitting, *parts["test"])}

    def training() -> list[Example]:
        others = list(whole)
        if "train" in info.splits and settings.split not in (None, "train"):
            with suppress(DataError):  # the data set may have no training part
                others += read(spec, "train", on_bad=lambda error: None)
        return [example for example in others if document_of(example) not in documents]

    return Loaded(name, split, parts["test"], fitting, content_hash(examples), levels, len(bad), training)
