"""The folder of a batch: what a killed run left there is completed, another job's is refused, nothing is half there.

A shard counts once the manifest names it, and it is named when its files and its failed rows are on the disk. What
follows the last named shard was left by a run that was killed, and is removed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from veridical.batch.inputs import ShardRange
from veridical.batch.records import BatchManifest, JudgedShard
from veridical.batch.worker import ShardTexts
from veridical.core.errors import InputError, OutputError, WireError
from veridical.core.files import read_bytes, write_whole
from veridical.core.serialization import decode, encode

__all__ = ["FAILED", "MANIFEST", "REPORT", "BatchFolder"]

MANIFEST = "manifest.json"
FAILED = "failed.jsonl"
REPORT = "report.json"
_LOCK = ".lock"


class BatchFolder:
    """The folder of one job, with what is finished of it."""

    def __init__(self, path: Path, manifest: BatchManifest) -> None:
        self.path = path
        self.manifest = manifest

    @classmethod
    @contextmanager
    def open(cls, path: Path, job: BatchManifest) -> Iterator[BatchFolder]:
        """The folder at `path` for `job` (without shards), held against other processes while the block runs.

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
                folder = cls(path, read_manifest(path) or job)  # read again: another process may just have ended
                folder._drop_unfinished()
            yield folder

    def pending(self, shards: list[ShardRange]) -> list[tuple[int, ShardRange]]:
        """(Number, rows) of each shard that is not finished."""
        return list(enumerate(shards))[len(self.manifest.shards) :]

    def add(self, shard: ShardRange, texts: ShardTexts) -> None:
        """Write the next shard; it counts once this returns."""
        number = len(self.manifest.shards)
        results, scores = f"results-{number:05}.jsonl", f"scores-{number:05}.jsonl"
        write_whole(self.path / results, texts.results)
        write_whole(self.path / scores, texts.scores)
        before = self.manifest.shards[-1].failed_bytes if self.manifest.shards else 0
        with _writing(self.path), (self.path / FAILED).open("ab") as file:
            file.write(texts.failed)
            file.flush()
            os.fsync(file.fileno())
        finished = JudgedShard(
            results=results,
            results_sha256=hashlib.sha256(texts.results).hexdigest(),
            scores=scores,
            scores_sha256=hashlib.sha256(texts.scores).hexdigest(),
            first=shard.first,
            rows=shard.rows,
            failed=texts.failures,
            failed_bytes=before + len(texts.failed),
        )
        self._write(replace(self.manifest, shards=(*self.manifest.shards, finished)))

    def _write(self, manifest: BatchManifest) -> None:
        write_whole(self.path / MANIFEST, encode(manifest, indent=1) + "\n")
        self.manifest = manifest

    def _drop_unfinished(self) -> None:
        """Keep the shards whose files are as they were written, up to the first that is not; remove all else."""
        failed = self.path / FAILED
        size = failed.stat().st_size if failed.is_file() else 0
        intact: list[JudgedShard] = []
        for shard in self.manifest.shards:
            files = ((shard.results, shard.results_sha256), (shard.scores, shard.scores_sha256))
            if shard.failed_bytes > size or any(_hash(self.path / name) != wanted for name, wanted in files):
                break
            intact.append(shard)
        kept = {_LOCK, MANIFEST, FAILED} | {name for s in intact for name in (s.results, s.scores)}
        self._write(replace(self.manifest, shards=tuple(intact)))
        with failed.open("ab") as file:
            file.truncate(intact[-1].failed_bytes if intact else 0)
        for path in list(self.path.iterdir()):
            if path.name not in kept and (path.name.startswith(("results-", "scores-")) or path.suffix == ".part"):
                path.unlink()


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


def _is_ours(name: str) -> bool:
    """Whether a run that was killed before it wrote its manifest may have left a file of this name."""
    return name == _LOCK or (name.startswith(f".{MANIFEST}.") and name.endswith(".part"))


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
