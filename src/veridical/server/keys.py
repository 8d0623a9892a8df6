"""API keys: a client needs one to use the service, and the server stores only their hashes.

A key file has one line per key: the SHA-256 of the key in hexadecimal digits, and a name. A key has 256 random bits, so
a plain hash is enough. A presented key is compared with every stored hash, each time in constant time.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from veridical.core.errors import DataError, InputError, OutputError
from veridical.core.files import read_text, write_whole

__all__ = ["Key", "find_key", "make_key", "read_keys"]

_LINE = re.compile(r"([0-9a-f]{64})\s+([\w.-]{1,64})")


@dataclass(frozen=True, slots=True)
class Key:
    """A key's name, and the SHA-256 of the key in hexadecimal digits."""

    name: str
    sha256: str


def read_keys(path: Path) -> tuple[Key, ...]:
    """Return the keys in a file; skip empty lines and lines that begin with #.

    Raises `DataError`, with the number of the line, for any other line, and for a file without keys.
    """
    keys: list[Key] = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line.strip())
        if match is None:
            hint = "a line is SHA256 NAME; `veridical serve --api-keys FILE --new-key NAME` adds one"
            raise DataError("not a key", path=path, line=number, hint=hint)
        if match[2] in (key.name for key in keys):
            raise DataError(f"the name {match[2]} occurs twice", path=path, line=number, hint="remove one of the lines")
        keys.append(Key(match[2], match[1]))
    if not keys:
        raise DataError("no keys in it", path=path, hint=f"veridical serve --api-keys {path} --new-key NAME")
    return tuple(keys)


def make_key(path: Path, name: str) -> str:
    """Return a new key and add its hash to the file; the key itself is stored nowhere.

    A new file is readable by its owner only. Raises `InputError` for a name that exists already, or with characters
    other than letters, digits and `._-`.
    """
    if not re.fullmatch(r"[\w.-]{1,64}", name):
        raise InputError(f"{name!r} is not a name of a key", hint="up to 64 letters, digits, dots, dashes")
    before = read_text(path) if path.exists() else ""
    if before and name in (key.name for key in read_keys(path)):
        raise InputError(f"{path} has a key called {name}", hint="remove its line, or choose another name")
    key = f"vk-{secrets.token_urlsafe(32)}"
    try:
        if not path.exists():
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}", hint="choose another place") from None
    separator = "" if not before or before.endswith("\n") else "\n"
    write_whole(path, f"{before}{separator}{hashlib.sha256(key.encode()).hexdigest()} {name}\n")
    return key


def find_key(keys: Sequence[Key], presented: str) -> Key | None:
    """Return the key that `presented` matches, None if there is none, in a time that does not depend on which.

    >>> find_key([Key("a", hashlib.sha256(b"secret").hexdigest())], "secret").name
    'a'
    """
    digest = hashlib.sha256(presented.encode("utf-8", "surrogatepass")).hexdigest()
    matches = [key for key in keys if hmac.compare_digest(key.sha256, digest)]
    return matches[0] if matches else None
