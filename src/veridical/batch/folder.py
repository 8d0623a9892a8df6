"""The folder of a batch: what a killed run left there is completed, another job's is refused, nothing is half there.

`manifest.json` says what the job is, and is written once. `shards.jsonl` gets a line per finished shard: a shard counts
once its line is complete, which is written when its files and its failed rows are on the disk. What belongs to no such
line was left by a run that was killed, and is removed.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from veridical.batch.inputs import ShardRange
from veridical.batch.records import BatchManifest, JudgedShard
from veridical.batch.worker import ShardTexts
from veridical.core.errors import InputError, OutputError, WireError
from veridical.core.files import read_bytes, write_whole
from veridical.core.serialization import decode, encode

__all__ = ["FAILED", "MANIFEST", "REPORT", "SHARDS", "BatchFolder", "read_manifest", "read_shards"]

MANIFEST = "manifest.json"
SHARDS = "shards.jsonl"
FAILED = "failed.jsonl"
REPORT = "report.json"
_LOCK = ".lock"
# how `core.files.replacing` calls what it writes before it takes the place of one of our files
_TEMPORARY = re.compile(
    r"\.(manifest\.json|shards\.jsonl|report\.json|report\.html|(results|scores)-\d{5,}\.jsonl)\.[0-9a-f]{12}\.part"
)


class BatchFolder:
    """The folder of one job, with the shards that are finished."""

    def __init__(self, path: Path, manifest: BatchManifest) -> None:
        self.path = path
        self.manifest = manifest
        self.shards = read_shards(path)

    @property
    def done(self) -> int:
        """How many rows are in finished shards."""
        return self.shards[-1].first + self.shards[-1].rows if self.shards else 0

    @classmethod
    @contextmanager
    def open(cls, path: Path, job: BatchManifest) -> Iterator[BatchFolder]:
        """The folder at `path` for `job`, held against other processes while the block runs.

        Raises:
            InputError: It holds something else, or the results of another job.
            OutputError: It cannot be used, or another process is at work in it.
        """
        with ExitStack() as stack:
            with _writing(path):
                if path.exists() and not path.is_dir():
                    raise InputError(f"{path} is not a folder", hint="the results go into a folder")
                known = read_manifest(path)
                if known is None and path.is_dir() and not all(_is_ours(file.name) for file in path.iterdir()):
                    raise InputError(f"{path} has no {MANIFEST} and is not empty", hint="give an empty or a new folder")
                if known is not None and (different := _difference(known, job)):
                    raise InputError(
                        f"{path} holds the results of another job: {different}",
                        hint="choose another folder, or repeat the command that began it",
                    )
                path.mkdir(parents=True, exist_ok=True)
                stack.enter_context(_held(path))
                if read_manifest(path) is None:  # read again: another process may just have ended
                    write_whole(path / MANIFEST, encode(job, indent=1) + "\n")
                folder = cls(path, job)
                folder._drop_unfinished()
            yield folder

    def pending(self, shards: list[ShardRange]) -> list[tuple[int, ShardRange]]:
        """(Number, rows) of each shard that is not finished."""
        return list(enumerate(shards))[len(self.shards) :]

    def add(self, shard: ShardRange, texts: ShardTexts) -> None:
        """Write the next shard; it counts once this returns."""
        number = len(self.shards)
        results, scores = f"results-{number:05}.jsonl", f"scores-{number:05}.jsonl"
        write_whole(self.path / results, texts.results)
        write_whole(self.path / scores, texts.scores)
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
        )
        _append(self.path / SHARDS, _line(finished))
        self.shards.append(finished)

    def _drop_unfinished(self) -> None:
        """Keep the shards whose files are as they were written, up to the first that is not, and drop the rest.

        The files of the dropped shards stay until they are written again. Only the temporary files of a killed run are
        deleted.
        """
        failed = self.path / FAILED
        size = failed.stat().st_size if failed.is_file() else 0
        intact: list[JudgedShard] = []
        for shard in self.shards:
            files = ((shard.results, shard.results_sha256), (shard.scores, shard.scores_sha256))
            if shard.failed_bytes > size or any(_hash(self.path / name) != wanted for name, wanted in files):
                break
            intact.append(shard)
        self.shards = intact
        write_whole(self.path / SHARDS, b"".join(map(_line, intact)))
        with failed.open("ab") as file:
            file.truncate(intact[-1].failed_bytes if intact else 0)
        for path in list(self.path.iterdir()):
            if _TEMPORARY.fullmatch(path.name):
                path.unlink()


def _line(shard: JudgedShard) -> bytes:
    return f"{encode(shard)}\n".encode()


def _append(path: Path, data: bytes) -> None:
    """Add to a file; the data is on the disk once this returns."""
    with _writing(path.parent), path.open("ab") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def read_manifest(path: Path) -> BatchManifest | None:
    """The manifest in a folder of results, None where there is none; `InputError` if it is not one of ours."""
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
    """The finished shards of a folder of results; the lines end where a killed run broke one off."""
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


def _is_ours(name: str) -> bool:
    """Whether a run that was killed before it wrote its manifest may have left a file of this name."""
    return name == _LOCK or _TEMPORARY.fullmatch(name) is not None


def _hash(path: Path) -> str | None:
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _difference(known: BatchManifest, job: BatchManifest) -> str | None:
    """In what the job of a folder differs from another, in words; None if it is the same."""
    if [(f.sha256, f.rows) for f in known.inputs] != [(f.sha256, f.rows) for f in job.inputs]:
        names = " ".join(file.path for file in known.inputs[:3])
        return f"its input is another one ({names}), or was changed"
    if known.detectors != job.detectors:
        was, now = (" ".join(detector.name for detector in m.detectors) for m in (known, job))
        return f"its detector is {was}, not {now}" if was != now else f"{now} is another model, or has changed, since"
    for name in ("columns", "thresholds", "shard_rows", "max_bytes", "explain", "encoding"):
        if getattr(known.options, name) != getattr(job.options, name):
            return f"its option {name} is {getattr(known.options, name)}, not {getattr(job.options, name)}"
    if known.versions != job.versions:
        return f"it was begun with Veridical {known.versions.get('veridical')}"
    return None


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(f"cannot use {path}: {error.strerror or error}", hint="choose another place") from None


@contextmanager
def _held(path: Path) -> Iterator[None]:
    """Keep other processes out of the folder; the lock ends with the process, however it ends."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    with (path / _LOCK).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OutputError(f"another process is at work in {path}", hint="wait for it, or end it") from None
        yield
