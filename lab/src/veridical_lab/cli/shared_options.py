"""Declare the options that several commands of the laboratory share, and read what they name."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

from typer import Argument, Option

from veridical.cli.options import OUTPUT, write_line

if TYPE_CHECKING:
    from veridical.cli.options import DataOptions
    from veridical.inference.local_model import Kind, LocalModel
    from veridical.records.detector import Detector
    from veridical.records.errors import DataError
    from veridical.records.types import Example
    from veridical_lab.datasets.topics import Topic

S = TypeVar("S")

JsonRows = Annotated[
    bool, Option("--json", help="Print one JSON document per line instead of tables.", rich_help_panel=OUTPUT)
]
LabelledData = Annotated[
    str,
    Argument(
        metavar="SET:PATH",
        help="Labelled data, as the name of a data set and its path. To list the names, run `veridical data list`.",
    ),
]
LabelledSets = Annotated[
    list[str],
    Argument(
        metavar="SET:PATH…",
        help="Labelled data, as the name and the path of each data set. To list the names, run `veridical data list`.",
    ),
]
ValidationSets = Annotated[
    list[str] | None,
    Option(
        "--validation",
        metavar="SET:PATH",
        help="Use these data for early stopping or regularisation, calibration and thresholds, and train on all of the "
        "other data. Repeatable. Default: split the training data by document (70/10/20).",
    ),
]
ModelFolder = Annotated[str, Option(metavar="FOLDER", help="The language model: a local folder, or a hub name.")]
OutJsonl = Annotated[
    Path,
    Option(
        metavar="FILE",
        help="The file to write (JSON Lines). Other commands read it as jsonl:FILE.",
        rich_help_panel=OUTPUT,
    ),
]


def this_command() -> str:
    """Return the command line that is running, quoted for a shell."""
    return shlex.join(["veridical", *sys.argv[1:]])


def settings_of(kind: type[S], *groups: object, **others: Any) -> S:
    """Make settings of the dataclass `kind` from groups of options.

    Each field has the value in `others`, or else that of the option with its name in the last group that has one, or
    else its default.
    """
    options = {f.name: getattr(group, f.name) for group in groups for f in fields(kind) if hasattr(group, f.name)}  # type: ignore[arg-type]
    return kind(**{**options, **others})


def write_folder(out: Path, files: Mapping[str, str]) -> None:
    """Write texts to the files of a folder, which is made if it is not there."""
    from veridical.io.files import write_whole
    from veridical.records.errors import OutputError

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write {out}: {error.strerror or error}", hint="choose another --out") from None
    for name, text in files.items():
        write_whole(out / name, text, follow_link=False)


def write_counts(what: str, counts: Mapping[str, int]) -> None:
    """Write one line per count to standard error."""
    for reason, count in counts.items():
        write_line(f"{what}: {count:>6}  {reason}")


def load_of_kind(text: str, kind: str) -> Detector:
    """Load the detector of the spec `text`, for a command that works with one kind of detector.

    Raises:
        InputError: The detector is not one of `kind`.
    """
    from veridical.detectors import load_detector
    from veridical.records.errors import InputError
    from veridical.records.spec import parse_spec

    spec = parse_spec(text)
    if spec.name != kind:
        raise InputError(f"the detector {text!r} is not {kind}", hint=f"write {kind}:FOLDER, with options after commas")
    return load_detector(spec)


def read_all(options: DataOptions, *specs: str, unlabelled: bool = False) -> list[Example]:
    """Read all examples of the data sets `specs`, as `DataOptions.read` does."""
    examples: list[Example] = []
    for spec in specs:
        with options.read(spec, unlabelled=unlabelled) as of_spec:
            examples += of_spec
    return examples


def topics_of(spec: str, split: str | None = None, *, skip_bad: bool) -> list[Topic]:
    """Read all topics of a data set. With `skip_bad`, rows that cannot be used are left out and counted on stderr."""
    from veridical_lab.datasets.topics import read_topics

    skipped: list[DataError] = []
    topics = list(read_topics(spec, split, on_bad=skipped.append if skip_bad else None))
    if skipped:
        write_line(f"veridical: {len(skipped)} rows were skipped; the first: {skipped[0]}")
    return topics


def texts_of(names: Sequence[str]) -> Iterator[str]:
    """Yield the texts in text files and data sets.

    A name can be a text file, or a data set as SET:PATH. Each text of a data set is yielded only once.
    """
    from veridical.datasets import DATASETS, load_reader, read
    from veridical.io.files import read_text

    for name in names:
        kind, _, path = name.partition(":")
        if path and kind in DATASETS:
            reader = load_reader(kind)
            if hasattr(reader, "read_texts") and Path(path).exists():
                yield from reader.read_texts(Path(path))
            else:
                texts = (t for e in read(name) for t in (e.case.response, *(s.text for s in e.case.sources)))
                yield from dict.fromkeys(texts)
        else:
            yield read_text(Path(name))


@dataclass(frozen=True, kw_only=True)
class LocalModelOptions:
    """The device and the precision of a local model."""

    PANEL: ClassVar[str] = "Local model"

    device: Annotated[str, Option(help="The device that the model runs on: auto, cpu, cuda, cuda:N or mps.")] = "auto"
    dtype: Annotated[str, Option(help="The precision of the model: auto, fp32, bf16 or fp16.")] = "auto"

    def load(self, name: str, kinds: tuple[Kind, ...] = ("causal",)) -> LocalModel:
        """Load the model called `name`: a local folder, or a hub name."""
        from veridical.models.load import load

        return load(name, device=self.device, dtype=self.dtype, kinds=kinds)
