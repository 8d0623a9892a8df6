"""Make, read and check API keys, which clients need to use the service. The server stores only hashes of keys.

A key file has one line per key: the SHA-256 hash of the key in hexadecimal digits, a name and a role. A key has 256
random bits, so a plain hash is enough. A client's key is compared with every stored hash, in constant time.
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

from veridical.io.files import read_text, write_whole
from veridical.records.errors import DataError, InputError, OutputError, UnknownNameError

ROLES = ("check", "review", "admin")
"""What a key may do.

With "check", it may check cases. With "review", it may also see the history and decide. With "admin", it may also
delete, and read the audit log.
"""

_LINE = re.compile(r"([0-9a-f]{64})\s+([\w.-]{1,64})(?:\s+(\w{1,64}))?")


@dataclass(frozen=True, slots=True)
class Key:
    """An API key as the server stores it, without the key itself.

    Attributes:
        name: The name of the key, which appears in the log and the history.
        sha256: The SHA-256 hash of the key, in hexadecimal digits.
        role: What the key may do: one of `ROLES`.
    """

    name: str
    sha256: str
    role: str = "check"


def read_keys(path: Path) -> tuple[Key, ...]:
    """Read the hashes, names and roles of the API keys in a key file.

    Empty lines and lines that begin with # are ignored. A line without a role gets the role "check".

    Raises:
        DataError: A line is not a key, or the file contains no keys. The error gives the number of the line.
    """
    keys: list[Key] = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line.strip())
        if match is None:
            hint = "a line is SHA256 NAME ROLE; `veridical serve --api-keys FILE --new-key NAME` adds one"
            raise DataError("not a key", path=path, line=number, hint=hint)
        if match[2] in (key.name for key in keys):
            raise DataError(f"the name {match[2]} occurs twice", path=path, line=number, hint="remove one of the lines")
        if match[3] is not None and match[3] not in ROLES:
            raise DataError(f"unknown role {match[3]!r}", path=path, line=number, hint=f"one of {', '.join(ROLES)}")
        keys.append(Key(match[2], match[1], match[3] or "check"))
    if not keys:
        raise DataError("no keys in it", path=path, hint=f"veridical serve --api-keys {path} --new-key NAME")
    return tuple(keys)


def make_key(path: Path, name: str, role: str = "check") -> str:
    """Make a new API key, add its hash to a key file, and return the key, which is not stored anywhere.

    If the file is new, only its owner can read it.

    Args:
        path: The key file.
        name: The name of the key, which appears in the log and the history.
        role: What the key may do: one of `ROLES`.

    Raises:
        InputError: The name already exists, or has characters other than letters, digits and `._-`.
        UnknownNameError: The role is not one of `ROLES`.
    """
    if role not in ROLES:
        raise UnknownNameError("role", role, ROLES)
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
    write_whole(path, f"{before}{separator}{hashlib.sha256(key.encode()).hexdigest()} {name} {role}\n")
    return key


def find_key(keys: Sequence[Key], presented: str) -> Key | None:
    """Find the stored key that the key of a client matches. Return None if there is none.

    The time that this takes does not depend on which key matches.

    >>> find_key([Key("a", hashlib.sha256(b"secret").hexdigest())], "secret").name
    'a'
    """
    digest = hashlib.sha256(presented.encode("utf-8", "surrogatepass")).hexdigest()
    matches = [key for key in keys if hmac.compare_digest(key.sha256, digest)]
    return matches[0] if matches else None
