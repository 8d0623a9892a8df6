"""Write the results of a batch job to a folder, and resume a job whose process was killed.

A job is a set of input files with the detectors and options to judge them. `manifest.json` describes the job. It is
written once, and a folder with the manifest of another job is rejected. Rows are judged in portions, called shards.
`shards.jsonl` gets one line for each shard, as soon as all files and failed rows of the shard are on disk. Results
without such a line come from a killed process, so their shard is judged again.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import fields
from pathlib import Path

from veridical.io.columns import Columns
from veridical.io.files import open_no_link, read_bytes, write_whole
from veridical.io.serialization import decode, encode
from veridical.records.errors import InputError, OutputError, WireError
from veridical.workflows.batch.inputs import ShardRange
from veridical.workflows.batch.records import BatchManifest, JudgedShard
from veridical.workflows.batch.worker import ShardTexts

MANIFEST = "manifest.json"
SHARDS = "shards.jsonl"
FAILED = "failed.jsonl"
REPORT = "report.json"
_LOCK = ".lock"
# the names that `io.files.replacing` gives to a file until it is complete
_TEMPORARY = re.compile(
    r"\.(manifest\.json|shards\.jsonl|report\.json|report\.html|(results|scores)-\d{5,}\.jsonl)\.[0-9a-f]{12}\.part"
)


class BatchFolder:
    """Writes the results of a batch job to its folder, shard by shard. A shard is a portion of the input rows.

    Use `open`, which locks the folder.

    Attributes:
        path: The folder.
        manifest: The description of the job: input, options, detectors and version.
        shards: The finished shards, in order.
    """

    def __init__(self, path: Path, manifest: BatchManifest) -> None:
        self.path = path
        self.manifest = manifest
        self.shards = read_shards(path)

    @property
    def done(self) -> int:
        """The number of rows in the finished shards."""
        return self.shards[-1].first + self.shards[-1].rows if self.shards else 0

    @classmethod
    @contextmanager
    def open(cls, path: Path, job: BatchManifest) -> Iterator[BatchFolder]:
        """Open the folder at `path` for a job, as a context manager that locks it against other processes.

        If an earlier process was killed in the middle of the same job, its finished shards are kept, and the remains of
        an unfinished shard are removed.

        Raises:
            InputError: `path` is not a folder, or the folder contains other files, a symbolic link, or the results of
                another job.
            OutputError: The folder cannot be used, or another process is working in it.
        """
        with ExitStack() as stack:
            with _writing(path):
                if path.exists() and not path.is_dir():
                    raise InputError(f"{path} is not a folder", hint="the results go into a folder")
                earlier_job = _earlier_job(path, job)
                others = path.iterdir() if earlier_job is None and path.is_dir() else ()
                # a run that was killed before it wrote its manifest may have left files of its own
                if any(file.name != _LOCK and not _TEMPORARY.fullmatch(file.name) for file in others):
                    raise InputError(f"{path} has no {MANIFEST} and is not empty", hint="give an empty or a new folder")
                path.mkdir(parents=True, exist_ok=True)
                if links := [file.name for file in path.iterdir() if file.is_symlink()]:
                    raise InputError(
                        f"{path} holds a symbolic link: {min(links)}",
                        hint="name a folder without; links are not followed",
                    )
                stack.enter_context(_held(path))
                if _earlier_job(path, job) != job:  # read again under the lock: another process may have written one
                    write_whole(path / MANIFEST, encode(job, indent=1) + "\n", follow_link=False)
                folder = cls(path, job)
                folder._drop_unfinished()
            yield folder

    def add(self, shard: ShardRange, texts: ShardTexts) -> None:
        """Write the results `texts` of the next shard (a portion of the rows), and mark the shard as finished.

        All files are on disk when this function returns.
        """
        number = len(self.shards)
        results, scores = f"results-{number:05}.jsonl", f"scores-{number:05}.jsonl"
        write_whole(self.path / results, texts.results, follow_link=False)
        write_whole(self.path / scores, texts.scores, follow_link=False)
        _append(self.path / FAILED, texts.failed)
        finished = JudgedShard(
            results=results,
            results_sha256=hashlib.sha256(texts.results).hexdigest(),
            scores=scores,
            scores_sha256=hashlib.sha256(texts.scores).hexdigest(),
            first=shard.first,
            rows=shard.rows,
            failed=texts.failures,
            failed_bytes=(self.shards[-1].failed_bytes if self.shards else 0) + len(texts.failed),
            failed_sha256=hashlib.sha256(texts.failed).hexdigest(),
        )
        _append(self.path / SHARDS, _line(finished))
        self.shards.append(finished)

    def _drop_unfinished(self) -> None:
        """Drop the first shard whose files have changed since they were written, and all shards after it.

        The result files of dropped shards stay until they are overwritten, but their failed rows are cut off. The
        temporary files of a killed run are deleted.
        """
        intact: list[JudgedShard] = []
        with open(self.path / FAILED, "a+b", opener=open_no_link) as failed:
            failed.seek(0)
            for number, shard in enumerate(self.shards):
                start = intact[-1].failed_bytes if intact else 0
                if not self._is_intact(shard, number, failed.read(max(0, shard.failed_bytes - start))):
                    break
                intact.append(shard)
            failed.truncate(intact[-1].failed_bytes if intact else 0)
        self.shards = intact
        write_whole(self.path / SHARDS, b"".join(map(_line, intact)), follow_link=False)
        for path in list(self.path.iterdir()):
            if _TEMPORARY.fullmatch(path.name):
                path.unlink()

    def _is_intact(self, shard: JudgedShard, number: int, failed: bytes) -> bool:
        """Tell whether the line, the files and the failed rows of a shard are still as they were written."""
        judged = shard.rows - shard.failed
        files = ((shard.results, "results", shard.results_sha256), (shard.scores, "scores", shard.scores_sha256))
        return (
            hashlib.sha256(failed).hexdigest() == shard.failed_sha256
            and failed.count(b"\n") == shard.failed
            and all(
                name == f"{kind}-{number:05}.jsonl" and _hash(self.path / name, judged) == sha256
                for name, kind, sha256 in files
            )
        )


def _line(shard: JudgedShard) -> bytes:
    return f"{encode(shard)}\n".encode()


def _append(path: Path, data: bytes) -> None:
    """Append to a file, and return when the data are on disk."""
    with _writing(path.parent), open(path, "ab", opener=open_no_link) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _earlier_job(path: Path, job: BatchManifest) -> BatchManifest | None:
    """Read which job a folder belongs to, if any. Raise `InputError` if that job differs from `job`."""
    earlier = read_manifest(path)
    if earlier is not None and (difference := _difference(earlier, job)):
        raise InputError(
            f"{path} holds the results of another job: {difference}",
            hint="choose another folder, or repeat the command that began it",
        )
    return earlier


def read_manifest(path: Path) -> BatchManifest | None:
    """Load the manifest (the description of the batch job) from a folder of results. Return None if there is none.

    Raises:
        InputError: The file `manifest.json` is not the manifest of a batch.
    """
    file = path / MANIFEST
    if not file.is_file():
        return None
    try:
        manifest: BatchManifest = decode(read_bytes(file), "batch")
    except WireError as error:
        raise InputError(
            f"{file}: {error.message}", hint="not the manifest of a batch; choose another folder"
        ) from None
    return manifest


def read_shards(path: Path) -> list[JudgedShard]:
    """Load the list of finished shards (portions of the rows) from a folder of results.

    The list ends before the first line of `shards.jsonl` that is incomplete or not valid, as a killed process may leave
    one.
    """
    file = path / SHARDS
    shards: list[JudgedShard] = []
    for line in read_bytes(file).splitlines(keepends=True) if file.is_file() else ():
        try:
            shard: JudgedShard = decode(line, "batch_shard")
        except WireError:
            break
        if not line.endswith(b"\n") or shard.first != (shards[-1].first + shards[-1].rows if shards else 0):
            break
        shards.append(shard)
    return shards


def _hash(path: Path, lines: int) -> str | None:
    """Hash a file that should have `lines` lines. Return None if it has more or fewer, or is missing."""
    if not path.is_file():
        return None
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for line in file:
            lines -= 1
            digest.update(line)
    return None if lines else digest.hexdigest()


def _difference(earlier: BatchManifest, job: BatchManifest) -> str | None:
    """Say in words how the `earlier` job of a folder differs from `job`. Return None if they are the same."""
    if [(f.sha256, f.rows) for f in earlier.inputs] != [(f.sha256, f.rows) for f in job.inputs]:
        names = " ".join(file.path for file in earlier.inputs[:3])
        return f"its input is another one ({names}), or was changed"
    if earlier.detectors != job.detectors:
        was, now = (" ".join(detector.name for detector in m.detectors) for m in (earlier, job))
        return f"its detector is {was}, not {now}" if was != now else f"{now} is another model, or has changed, since"
    for name in (field.name for field in fields(Columns)):
        was, now = (getattr(m.options.columns, name) for m in (earlier, job))
        if was != now:
            return f"its {name} column is {was!r}, not {now!r}"
    for name in ("thresholds", "shard_rows", "max_bytes", "explain", "encoding", "delimiter"):
        if getattr(earlier.options, name) != getattr(job.options, name):
            return f"its option {name} is {getattr(earlier.options, name)}, not {getattr(job.options, name)}"
    if earlier.versions != job.versions:
        return f"it was begun with Veridical {earlier.versions.get('veridical')}"
    return None


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Turn an `OSError` in the block into an `OutputError` that names `path`."""
    try:
        yield
    except OSError as error:
        raise OutputError(f"cannot use {path}: {error.strerror or error}", hint="choose another place") from None


@contextmanager
def _held(path: Path) -> Iterator[None]:
    """Lock the folder against other processes. When this process ends, the operating system frees the lock."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    with open(path / _LOCK, "a", opener=open_no_link) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OutputError(f"another process is at work in {path}", hint="wait for it, or end it") from None
        yield
