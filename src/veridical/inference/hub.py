"""List the files of a model on a Hugging Face hub or a mirror, and download them. Interrupted downloads can be resumed.

This module uses only the standard library, because huggingface_hub does not check hashes and discards the downloads of
interrupted processes. You can set `HF_ENDPOINT` to a mirror and `HF_TOKEN` to a key for gated models. Proxies come from
the usual variables, such as `HTTPS_PROXY`.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

from veridical.records.errors import InputError, OutputError

HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")

_BLOCK = 1 << 20
_NO_NETWORK = (
    "with a proxy, set HTTPS_PROXY; with a mirror, HF_ENDPOINT; else run this where there is a network, and copy the "
    "folder"
)


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file of a repository on the hub, with its size in bytes and its hash.

    For a large file (Git LFS), the hub lists the SHA-256 hash, `sha256`. For any other file, it lists the Git hash,
    `blob`. The other field is None.
    """

    path: str
    size: int
    sha256: str | None = None
    blob: str | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """The files of a repository at one commit, and its licence as the hub names it (None if the hub names none)."""

    commit: str
    licence: str | None
    files: tuple[HubFile, ...]


@dataclass(frozen=True)
class Hub:
    """A client of a Hugging Face hub that lists and downloads files.

    Attributes:
        endpoint: The address of the hub.
        token: An access token for gated and private models.
        timeout: How many seconds to wait for the next bytes.
        attempts: The number of attempts without any new data after which a request fails.
        pause: The number of seconds to wait before the second attempt. It doubles with each further attempt.
    """

    endpoint: str = field(default_factory=lambda: os.environ.get("HF_ENDPOINT") or "https://huggingface.co")
    token: str | None = field(default_factory=lambda: os.environ.get("HF_TOKEN") or None, repr=False)
    timeout: float = 30.0
    attempts: int = 5
    pause: float = 1.0

    def listing(self, repository: str, revision: str = "main") -> Listing:
        """List the files of a repository at a commit, branch or tag.

        Raises:
            InputError: The hub has no such repository or revision.
        """
        url = f"{self.endpoint.rstrip('/')}/api/models/{quote(repository)}/revision/{quote(revision, safe='')}"
        found = bytearray()
        self._read(f"{url}?blobs=true", repository, found.extend, restart=found.clear)
        try:
            document = json.loads(found)
            files = tuple(map(_file, document["siblings"]))
            licence = (document.get("cardData") or {}).get("license")
            return Listing(str(document["sha"]), None if licence is None else str(licence), files)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise InputError(
                f"{self.endpoint} does not answer as a Hugging Face hub does", hint="check HF_ENDPOINT"
            ) from None

    def download(
        self, repository: str, commit: str, file: HubFile, target: Path, progress: Callable[[int], None]
    ) -> str:
        """Download a file to `target`, check its hash, and return its SHA-256. An interrupted download is resumed.

        Args:
            repository: The repository, "owner/model".
            commit: The commit.
            file: The file to download, as `listing` returned it.
            target: The path to write.
            progress: A function that receives the number of bytes downloaded so far.

        Raises:
            InputError: The file cannot be downloaded, or its size or hash differs from the hub's listing.
        """
        part = target.with_name(f"{target.name}.part")
        url = f"{self.endpoint.rstrip('/')}/{quote(repository)}/resolve/{commit}/{quote(file.path)}"
        target.parent.mkdir(parents=True, exist_ok=True)
        if part.exists() and part.stat().st_size > file.size:
            part.unlink()
        with part.open("ab") as out:

            def write(block: bytes) -> None:
                out.write(block)
                progress(out.tell())

            def restart() -> None:
                out.truncate(0)

            if out.tell() < file.size:
                self._read(url, repository, write, restart, start=out.tell)
        digest = digest_of_file(part)
        if part.stat().st_size != file.size or not _is(file, part, digest):
            part.unlink()
            raise InputError(
                f"{file.path} of {repository} is not the file that {self.endpoint} lists: its hash differs",
                hint="it was removed; try again, and if it stays so, the mirror or a proxy changes files",
            )
        part.replace(target)
        return digest

    def _read(
        self,
        url: str,
        repository: str,
        write: Callable[[bytes], Any],
        restart: Callable[[], Any],
        *,
        start: Callable[[], int] = lambda: 0,
    ) -> None:
        """Pass the body of `url` to `write`, from the byte `start()` on. Retry after temporary failures."""
        failures = 0
        while True:
            before = start()
            try:
                self._request(url, write, restart, before)
                return
            except HTTPError as error:
                if error.code not in (408, 425, 429) and error.code < 500:
                    raise self._refusal(error, repository) from None
                reason: object = f"HTTP {error.code}"
            except (URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
                reason = getattr(error, "reason", error) or type(error).__name__
            failures = 1 if start() > before else failures + 1
            if failures >= self.attempts:
                raise InputError(
                    f"{self.endpoint} cannot be reached: {reason}",
                    hint=f"{_NO_NETWORK}; the same command goes on where it stopped",
                )
            time.sleep(self.pause * 2 ** (failures - 1))

    def _request(self, url: str, write: Callable[[bytes], Any], restart: Callable[[], Any], start: int) -> None:
        request = Request(url, headers={"User-Agent": "veridical", "Accept-Encoding": "identity"})
        if self.token:
            request.add_unredirected_header("Authorization", f"Bearer {self.token}")  # not to where files are stored
        if start:
            request.add_header("Range", f"bytes={start}-")
        with urlopen(request, timeout=self.timeout) as response:
            if not start or response.status != 206:
                restart()
            while block := response.read1(_BLOCK):
                try:
                    write(block)
                except OSError as error:
                    raise OutputError(f"cannot write the download: {error.strerror or error}") from None
            if response.length:
                raise http.client.IncompleteRead(b"", response.length)

    def _refusal(self, error: HTTPError, repository: str) -> InputError:
        """Build the error for an answer that another attempt would not change."""
        page = f"{self.endpoint.rstrip('/')}/{repository}"
        code = error.headers.get("X-Error-Code", "")
        if code == "GatedRepo" or error.code == 403:
            return InputError(
                f"{repository} is gated: its publisher asks you to accept terms",
                hint=f"accept them on {page}, and set HF_TOKEN to a token of your account",
            )
        if code == "RevisionNotFound":
            return InputError(f"{repository} has no such revision", hint=f"see {page}/commits/main")
        if error.code in (401, 404):
            return InputError(
                f"{self.endpoint} has no model {repository!r}, or it is private",
                hint="check the name, owner/model; for a private model set HF_TOKEN",
            )
        return InputError(f"{self.endpoint} answers with HTTP {error.code}", hint="check HF_ENDPOINT and HF_TOKEN")


def _file(entry: dict[str, Any]) -> HubFile:
    large = entry.get("lfs") or {}
    size = int((large or entry)["size"])
    return HubFile(str(entry["rfilename"]), size, large.get("sha256"), None if large else entry.get("blobId"))


def _is(file: HubFile, path: Path, digest: str) -> bool:
    """Check whether the file at `path`, with the SHA-256 `digest`, is the one that the hub lists."""
    if file.sha256 is not None:
        return file.sha256 == digest
    if file.blob is None:
        return True
    data = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest() == file.blob


def digest_of_file(path: Path) -> str:
    """Return the SHA-256 of a file, as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
