"""Manage the checkpoints that `veridical models get` has downloaded. Each has its own folder with a record.

The record (`veridical.json`) contains the repository, the commit, the licence, and the hash of every file. `verify`
compares the files with the record. To load a model from its folder, you need neither the record nor the network.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from glob import escape
from pathlib import Path, PurePosixPath

from veridical.inference.catalogue import Part, catalogue, repository_of
from veridical.inference.hub import HUB_NAME, Hub, HubFile, Listing, digest_of_file
from veridical.inference.onnx_runtime import PUBLISHED
from veridical.io.files import expanded, write_whole
from veridical.io.strict_json import read_object
from veridical.records.errors import DataError, InputError, OutputError, UnknownNameError

RECORD = "veridical.json"
FILES = ("*.json", "*.safetensors", "*.txt", "*.model")
"""Patterns for the files of a checkpoint that are read. They match neither pickles nor code."""
_ONNX = (PUBLISHED, f"{PUBLISHED}_data")
_SPARE = 50_000_000  # bytes of the disk that stay free


def models_folder() -> Path:
    """Return the folder of downloaded models.

    This is `$VERIDICAL_HOME/models`, or `veridical/models` in the user's folder for data if the variable is not set.
    """
    home = os.environ.get("VERIDICAL_HOME")
    if home:
        return expanded(home) / "models"
    if sys.platform == "win32":
        data = expanded(os.environ.get("LOCALAPPDATA") or "~/AppData/Local")
    elif sys.platform == "darwin":
        data = expanded("~/Library/Application Support")
    else:
        data = expanded(os.environ.get("XDG_DATA_HOME") or "~/.local/share")
    if data.parts[0] == "~":
        raise InputError("this user has no home folder for models", hint="name a folder in VERIDICAL_HOME")
    return data / "veridical" / "models"


@dataclass(frozen=True, slots=True)
class Fetched:
    """A model that `veridical models get` has downloaded.

    Attributes:
        folder: The folder with its files.
        repository: The repository on the hub, "owner/model".
        revision: The commit that was downloaded.
        asked: The commit, branch or tag that was requested.
        licence: The licence, as the hub names it.
        files: The SHA-256 hash of each file, by its path in the folder.
    """

    folder: Path
    repository: str
    revision: str
    asked: str
    licence: str | None
    files: Mapping[str, str]

    @property
    def name(self) -> str:
        """The model's name in `veridical models list`, or the name of its repository if it is not listed there."""
        names = [name for name, entry in catalogue().items() if entry.part.repository == self.repository]
        return names[0] if names else self.repository

    @property
    def is_onnx(self) -> bool:
        """True if the publisher's ONNX file was downloaded instead of weights in safetensors."""
        return PUBLISHED in self.files

    @property
    def bytes(self) -> int:
        """The total size in bytes of the model's files that exist."""
        return sum(path.stat().st_size for name in self.files if (path := self.folder / name).is_file())


def fetched() -> Iterator[Fetched]:
    """Yield the downloaded models, sorted by the names of their folders."""
    for path in sorted(models_folder().glob(f"*/{RECORD}")):
        yield _read(path)


def find_fetched(name: str) -> Fetched | None:
    """Find a downloaded model by its name in `veridical models list` or by its repository ("owner/model").

    Return None if it was not downloaded.
    """
    path = _folder(repository_of(name)) / RECORD
    return _read(path) if path.is_file() else None


def _folder(repository: str) -> Path:
    return models_folder() / repository.replace("/", "--")


def _read(path: Path) -> Fetched:
    record = read_object(path)
    try:
        return Fetched(path.parent, **record)
    except TypeError:
        raise DataError(
            "not the record of a fetched model", path=path, hint="remove its folder, and get it again"
        ) from None


def remove(name: str) -> list[Path]:
    """Delete a downloaded model and the files of its interrupted downloads, and return the deleted folders.

    Raises:
        UnknownNameError: No model of this name was downloaded.
        OutputError: A folder cannot be deleted.
    """
    target = _folder(repository_of(name))
    folders = [folder for folder in (target, *_parts(target)) if folder.is_dir()]
    if not folders:
        raise UnknownNameError("fetched model", name, [model.name for model in fetched()])
    for folder in folders:
        try:
            shutil.rmtree(folder)
        except OSError as error:
            raise OutputError(f"cannot remove {folder}: {error.strerror or error}") from None
    return folders


def _parts(target: Path) -> list[Path]:
    """Find the folders of unfinished downloads of the model with the folder `target`."""
    return sorted(target.parent.glob(f".{escape(target.name)}.*.part"))


def verify(model: Fetched) -> list[str]:
    """Compare the files of a downloaded model with their recorded hashes, and return one line of text per problem.

    A problem is a missing or a changed file. The result is empty if there is none.
    """
    problems = []
    for name, sha256 in model.files.items():
        path = model.folder / name
        if not path.is_file():
            problems.append(f"{path} is missing")
        elif digest_of_file(path) != sha256:
            problems.append(f"{path} has changed since it was downloaded")
    return problems


@dataclass(frozen=True, slots=True)
class Plan:
    """The files of a model that `fetch` will download.

    Attributes:
        repository: The repository of the model, "owner/model".
        listing: The files of this repository at the commit to download.
        asked: The commit, branch or tag that was requested.
        files: Maps each path in the model's folder to the repository, the commit and the file to download.
    """

    repository: str
    listing: Listing
    asked: str
    files: Mapping[str, tuple[str, str, HubFile]]

    @property
    def bytes(self) -> int:
        """The size of the files together, in bytes."""
        return sum(file.size for _, _, file in self.files.values())


def plan(name: str, revision: str | None = None, *, hub: Hub, onnx: bool = False) -> Plan:
    """Ask the hub which files a model has, and choose the files to download.

    Args:
        name: A name in the catalogue, or a repository ("owner/model").
        revision: A commit, branch or tag. Default: the commit in the catalogue, or the newest commit.
        hub: The hub to ask.
        onnx: If true, choose the publisher's ONNX file instead of weights in safetensors.

    Raises:
        UnknownNameError: The name is neither in the catalogue nor the name of a repository.
        InputError: The hub cannot be reached or has no such model, the model has no safetensors (or no ONNX file), or
            the hub lists another hash for a file than the catalogue.
    """
    repository = repository_of(name)
    if not HUB_NAME.fullmatch(repository):
        raise UnknownNameError("model", name, catalogue())
    entries = [entry for entry in catalogue().values() if entry.part.repository == repository]
    part = entries[0].part if entries else Part(repository)
    asked = revision or part.revision or "main"
    listing = hub.listing(repository, asked)
    known = part.sha256 if asked == part.revision else {}
    files = {
        file.path: (repository, listing.commit, _pinned(file, known, repository))
        for file in listing.files
        if _is_wanted(file.path, onnx)
    }
    if onnx and PUBLISHED not in files:
        raise InputError(f"{repository} has no {PUBLISHED} at {asked}", hint="leave out --onnx; torch runs its weights")
    if not (onnx or any(path.endswith(".safetensors") for path in files)):
        raise InputError(
            f"{repository} has no weights in safetensors at {asked}",
            hint="try --revision refs/pr/1, where the hub puts what it converted, or convert them where you trust "
            "them (docs/detectors/entailment.md)",
        )
    inside = entries[0].inside if entries else None
    if inside is not None:
        below = hub.listing(inside.repository, inside.revision or "main")
        folder = PurePosixPath(inside.repository).name
        for file in below.files:
            if file.path in inside.sha256:
                pinned = _pinned(file, inside.sha256, inside.repository)
                files[f"{folder}/{file.path}"] = (inside.repository, below.commit, pinned)
    return Plan(repository, listing, asked, files)


def _is_wanted(path: str, onnx: bool) -> bool:
    """Check whether to download the file at `path` of a repository."""
    if path in _ONNX:
        return onnx
    if path == RECORD or re.search(r"[/\\]", path) or (onnx and path.endswith(".safetensors")):
        return False
    return any(fnmatchcase(path, pattern) for pattern in FILES)


def _pinned(file: HubFile, known: Mapping[str, str], repository: str) -> HubFile:
    """Give `file` the hash in the catalogue, or raise `InputError` if the hub lists another hash."""
    sha256 = known.get(file.path)
    if sha256 is None:
        return file
    if file.sha256 not in (None, sha256):
        raise InputError(
            f"the hub lists another {file.path} of {repository} than the one that Veridical recommends",
            hint="the mirror may have changed it: check HF_ENDPOINT",
        )
    return HubFile(file.path, file.size, sha256)


def fetch(plan: Plan, *, hub: Hub, progress: Callable[[int, int], None] = lambda done, total: None) -> Fetched:
    """Download a model to its folder, and return the record of what was downloaded.

    If an earlier call was interrupted, the download continues where it stopped.

    Args:
        plan: The files to download, as chosen by the function `plan`.
        hub: The hub to download from.
        progress: A function that receives the number of bytes downloaded so far, and their total.

    Raises:
        InputError: A file cannot be downloaded, or is not the file that the hub lists.
        OutputError: The folder cannot be written, or the disk is too small.
    """
    target = _folder(plan.repository)
    part = target.with_name(f".{target.name}.{plan.listing.commit[:12]}.part")
    digests: dict[str, str] = {}
    try:
        part.mkdir(parents=True, exist_ok=True)
        there = sum(path.stat().st_size for path in part.rglob("*") if path.is_file())
        if shutil.disk_usage(part).free < plan.bytes - there + _SPARE:
            raise OutputError(
                f"{plan.repository} needs {plan.bytes / 1e6:,.0f} MB, which are not free in {part.parent}",
                hint="name another folder in VERIDICAL_HOME",
            )
        done = 0
        for name, (repository, commit, file) in plan.files.items():
            path = part / name
            if path.is_file():  # only whole files get this name
                digests[name] = digest_of_file(path)
            else:

                def received(there: int, before: int = done) -> None:
                    progress(before + there, plan.bytes)

                digests[name] = hub.download(repository, commit, file, path, received)
            done += file.size
            progress(done, plan.bytes)
        model = Fetched(target, plan.repository, plan.listing.commit, plan.asked, plan.listing.licence, digests)
        record = {name: value for name, value in asdict(model).items() if name != "folder"}
        write_whole(part / RECORD, json.dumps(record, indent=1) + "\n", follow_link=False)
        part.replace(target)
        for other in _parts(target):
            shutil.rmtree(other)
    except OSError as error:
        raise OutputError(f"cannot write {error.filename or part}: {error.strerror or error}") from None
    return model
