"""Judge the rows of any number of files in portions (shards), and write the results to a folder.

If a run is killed, the next run continues after the last finished shard.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from veridical.io.files import MAX_BYTES, check_encoding, write_whole
from veridical.io.rows import Columns, RowForm
from veridical.io.serialization import encode
from veridical.records.detector import Detector, digest_of, fingerprint_of, info_of
from veridical.records.errors import CannotJudgeError, InputError, UnknownNameError
from veridical.records.judging import judge, thresholds_in_force
from veridical.records.types import Case, Source
from veridical.workflows.batch.folder import REPORT, BatchFolder
from veridical.workflows.batch.inputs import ShardRange, Unchanged, input_paths, plan
from veridical.workflows.batch.processes import in_processes
from veridical.workflows.batch.records import BatchManifest, BatchOptions, UsedDetector
from veridical.workflows.batch.summary import BatchReport, summarise
from veridical.workflows.batch.worker import ShardTexts, WorkerSettings, shard_texts
from veridical.workflows.checking import DEFAULT_DETECTOR

if TYPE_CHECKING:
    from veridical.llm.connection import Connection

ENGINES = ("local", "ray")
SHARD_ROWS = 2000


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """The settings of a batch: its input, output, detectors and engine.

    Attributes:
        inputs: The files of rows, or folders of such files.
        out: The folder for the results.
        detectors: The detectors, each as a spec such as "overlap", or as an object if one process does all the work.
        columns: The columns to read from each row.
        threshold: The score in [0, 1] from which a finding is flagged, as one number or as a dict (see
            `veridical.check`). Default: the detectors' own thresholds, or 0.5.
        explain: Whether to add to each flagged finding the closest passages of the sources, and what they say instead.
        encoding: The encoding of text files without a byte-order mark.
        delimiter: The delimiter of text tables. Default: it is detected.
        shard_rows: The largest number of rows in a shard, which is judged and stored as a unit. A run with one worker
            loses at most one shard if it is killed.
        max_bytes: The largest number of characters in a JSON line or a cell. A row that exceeds this limit fails.
        workers: How many processes judge in parallel, each with its own copy of the detectors.
        engine: "local", or "ray" for Ray Data.
        address: The Ray cluster, as "auto" or HOST:PORT. Default: $RAY_ADDRESS, or a cluster on this machine.
        connection: How detectors reach their chat model. Only for a single process.
        progress: Called with the number of finished rows and the number of all rows.
        remark: Called with each remark about columns that were recognised, or about content that is ignored.
    """

    inputs: Sequence[Path]
    out: Path
    detectors: Sequence[str | Detector] = (DEFAULT_DETECTOR,)
    columns: Columns = field(default_factory=Columns)
    threshold: float | Mapping[str, float] | None = None
    explain: bool = False
    encoding: str = "utf-8"
    delimiter: str | None = None
    shard_rows: int = SHARD_ROWS
    max_bytes: int = MAX_BYTES
    workers: int = 1
    engine: str = "local"
    address: str | None = None
    connection: Connection | None = None
    progress: Callable[[int, int], None] = field(default=lambda done, total: None)
    remark: Callable[[str], None] = field(default=lambda line: None)

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise UnknownNameError("engine", self.engine, ENGINES)
        for name in ("shard_rows", "workers"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}", hint="1 or more")
        if self.address is not None and self.engine != "ray":
            raise InputError("the address of a cluster is given, but the engine is local", hint="add --engine ray")
        if not self.detectors:
            raise InputError("no detector is named", hint=f"the default is {DEFAULT_DETECTOR!r}")
        if self.threshold is not None:
            thresholds_in_force(None, self.threshold)
        check_encoding(self.encoding)

    @property
    def in_process(self) -> bool:
        """True if the rows are judged in the calling process: by the engine "local" with one worker."""
        return self.engine == "local" and self.workers == 1


def run_batch(settings: BatchSettings) -> BatchReport:
    """Run a batch job: judge the rows that are not yet in the folder of results, and complete the folder.

    For the same input, options and detectors, the files are identical byte for byte. This holds for every engine, and
    even if the run was killed and continued.

    Returns:
        The summary of all rows, which is also written to `report.json`.

    Raises:
        DataError: An input is missing or changed during the run, or a table lacks a named column.
        InputError: The folder contains another job or other files.
        OutputError: The folder cannot be written.
        CannotJudgeError: A worker was killed, or the budget of a chat model is spent. To continue, call the function
            again.
    """
    detectors = load_detectors(settings)
    paths = input_paths(settings.inputs)
    unchanged = Unchanged(paths)
    work, shards = _plan(settings, paths)
    unchanged.check()
    with BatchFolder.open(settings.out, _job(settings, detectors, work)) as folder:

        def progress(more: int = 0) -> None:
            settings.progress(folder.done + more, folder.manifest.rows)

        progress()
        pending = shards[len(folder.shards) :]
        try:
            for shard, texts in zip(pending, _judged(settings, detectors, work, pending, progress), strict=True):
                unchanged.check()
                folder.add(shard, texts)
                progress()
        except Exception:
            unchanged.check()  # a changed file may be the cause
            raise
        report = summarise(folder.path, folder.manifest, folder.shards)
        write_whole(folder.path / REPORT, encode(report, indent=1) + "\n", follow_link=False)
        return report


def dry_run(settings: BatchSettings) -> Iterator[ShardTexts]:
    """Judge the rows of a batch job without writing anything, usually to count the calls to a chat model.

    With a connection in dry-run mode, calls are only counted, and nothing is sent. The calls are counted while you
    consume the returned iterator, which yields what would be written for each shard.
    """
    detectors = load_detectors(settings)
    work, shards = _plan(settings, input_paths(settings.inputs))
    reader = work.reader()
    return (shard_texts(reader, shard, detectors, work) for shard in shards)


def _plan(settings: BatchSettings, paths: Sequence[Path]) -> tuple[WorkerSettings, list[ShardRange]]:
    """Read the input once. Return the settings of the workers, and the shards."""
    form = RowForm(settings.columns, settings.encoding, settings.delimiter, settings.max_bytes)
    files, shards = plan(paths, form, settings.shard_rows, settings.remark)
    work = WorkerSettings(
        files=tuple(files),
        form=form,
        detectors=tuple(str(spec) for spec in settings.detectors),
        threshold=settings.threshold,
        explain=settings.explain,
    )
    return work, shards


def load_detectors(settings: BatchSettings) -> list[Detector]:
    """Load the detectors of a batch job, and judge a tiny case with each, so that errors appear before the job begins.

    Detectors that need a chat model do not judge this case, because calls may cost money.

    Raises:
        InputError: Several processes are to judge, but a detector is an object or needs a chat model.
    """
    from veridical.detectors import load_detector

    if not settings.in_process and any(not isinstance(spec, str) for spec in settings.detectors):
        raise InputError("a detector is an object, which several processes cannot share", hint="name it by its spec")
    loaded = [load_detector(d, settings.connection) if isinstance(d, str) else d for d in settings.detectors]
    if settings.connection is not None:
        settings.connection.check_model_used([str(spec) for spec in settings.detectors if isinstance(spec, str)])
    for detector in loaded:
        if not info_of(detector).needs_chat_model:
            judge(detector, [Case("1", "One word.", (Source("1", "One word."),))])
        elif not settings.in_process:
            raise InputError(
                f"{detector.name} asks a chat model, which several processes cannot share",
                hint="use one process: only so is the budget kept",
            )
    return loaded


def _job(settings: BatchSettings, detectors: Sequence[Detector], work: WorkerSettings) -> BatchManifest:
    """Make the manifest of a new job."""
    from veridical import __version__

    threshold = settings.threshold
    thresholds = (
        dict(threshold) if isinstance(threshold, Mapping) else None if threshold is None else {"all": threshold}
    )
    return BatchManifest(
        work.files,
        BatchOptions(
            settings.columns,
            settings.shard_rows,
            settings.max_bytes,
            thresholds,
            settings.explain,
            codecs.lookup(settings.encoding).name,
            settings.delimiter,
        ),
        tuple(UsedDetector(detector.name, digest_of(fingerprint_of(detector))) for detector in detectors),
        {"veridical": __version__},
        sum(file.rows for file in work.files),
    )


def _judged(
    settings: BatchSettings,
    detectors: Sequence[Detector],
    work: WorkerSettings,
    shards: Sequence[ShardRange],
    progress: Callable[[int], None],
) -> Iterator[ShardTexts]:
    """Judge shards on the chosen engine, and yield the lines to write for each, in order.

    `progress` is called with the number of finished rows of the current shard, if this process judges it.
    """
    if settings.engine == "ray":
        from veridical.workflows.batch.ray_engine import on_ray

        yield from on_ray(shards, work, settings.workers, settings.address)
    elif not settings.in_process:
        yield from in_processes(shards, work, settings.workers)
    else:
        reader = work.reader()
        for shard in shards:
            texts = shard_texts(reader, shard, detectors, work, progress)
            if settings.connection is not None and settings.connection.refused_requests:
                # drop the shard in which the budget ran out; a cache still holds its replies
                raise CannotJudgeError(
                    "the budget is spent", hint="repeat the command with a larger budget to continue"
                )
            yield texts
