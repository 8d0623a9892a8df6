"""Parse JSON strictly: as UTF-8, without repeated keys, NaN or infinity."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar

from veridical.io.files import read_text
from veridical.records.errors import DataError, WireError

_T = TypeVar("_T")
_BLOCK = 1 << 16
_MOST_DIGITS = 300  # of an integer, so that it fits into a float


def parse(text: str | bytes) -> dict[str, Any]:
    """Parse the JSON object in `text`, which may begin with a byte-order mark.

    Raises:
        WireError: The text is not a JSON object, repeats a key, or contains NaN or infinity.

    >>> parse('{"id": "1"}')
    {'id': '1'}
    """
    if not isinstance(text, str | bytes | bytearray):
        raise WireError(f"found a JSON {named(text)}", hint="a document is a JSON object")
    try:
        plain = text.removeprefix("\ufeff") if isinstance(text, str) else text
        value = json.loads(plain, **STRICT)
    except UnicodeDecodeError as error:
        raise WireError(f"the text is not UTF-8 (byte {error.start})") from None
    except json.JSONDecodeError as error:
        raise WireError(f"not JSON: {error.msg} at line {error.lineno} column {error.colno}") from None
    except RecursionError:
        raise WireError("the JSON is nested too deeply") from None
    if not isinstance(value, dict):
        raise WireError(f"found a JSON {named(value)}", hint="a document is a JSON object")
    return value


def most_values(data: bytes) -> int:
    """Return an upper bound on the number of values in JSON data, without parsing it.

    Call this function before you parse untrusted data, because an object can take 100 times as much memory as its text.

    >>> most_values(b'{"a": [1, "b, [c]"]}')
    4
    """
    plain = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    count, in_text = 1, False
    for start in range(0, len(plain), _BLOCK):
        parts = plain[start : start + _BLOCK].split(b'"')
        outside = b"".join(parts[int(in_text) :: 2])
        count += sum(map(outside.count, (b",", b"[", b"{")))
        in_text ^= len(parts) % 2 == 0
    return count


def read_object(path: Path) -> dict[str, Any]:
    """Load a file that contains one JSON object.

    Raises:
        DataError: The file cannot be read, is not a JSON object, repeats a key, or contains NaN or infinity. The
            message names the file.
    """
    try:
        return parse(read_text(path))
    except WireError as error:
        raise DataError(error.message, path=path) from None


def record_of(cls: type[_T], value: Mapping[str, Any], path: Path, place: str) -> _T:
    """Convert a JSON object that was loaded from the file `path` to the dataclass `cls`.

    `place` is the position of the object in the file, such as "base", for error messages.

    Raises:
        DataError: A field is missing or of the wrong type. The message names the field.
    """
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(cls).validate_json(json.dumps(dict(value)), strict=True)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in (place, *problem["loc"]) if part)
        raise DataError(f"{where}: {problem['msg']}", path=path, hint="copy or train it again") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        repeated = next(name for name, count in counts.items() if count > 1)
        raise WireError(f"the key {quoted(repeated)} stands twice in one object")
    return value


def _no_constant(name: str) -> float:
    raise WireError(f"found {name[:40]}", hint="JSON has no such number")


def _finite(text: str) -> float:
    number = float(text)
    return number if isfinite(number) else _no_constant(text)


def _integer(text: str) -> int:
    if len(text) > _MOST_DIGITS:
        raise WireError("the JSON holds an integer of too many digits")
    return int(text)


STRICT: dict[str, Any] = {
    "object_pairs_hook": _unique,
    "parse_constant": _no_constant,
    "parse_float": _finite,
    "parse_int": _integer,
}
"""Arguments that make Python's JSON decoder strict. It raises `WireError` for a repeated key, for NaN and infinity
(also written as 1e999), and for integers of more than 300 digits, which may not fit into a float.
"""


def named(value: object) -> str:
    """Return the name of a value's JSON type for error messages, such as "array" for a list."""
    names = {dict: "object", list: "array", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")


def quoted(name: object) -> str:
    """Quote a name from an untrusted file for an error message, and shorten it to 60 characters."""
    text = ascii(name) if isinstance(name, str) and not name.isprintable() else repr(name)
    return text if len(text) <= 60 else f"{text[:56]} …{text[0]}"


def json_values(values: Mapping[Any, Any]) -> dict[str, Any]:
    """Convert a mapping of any Python values, such as metadata, to values that JSON can represent.

    NaN and infinity become None, and objects of types that cannot be converted become strings.
    """
    from pydantic_core import from_json, to_json

    return from_json(to_json(dict(values), fallback=str, inf_nan_mode="null"))  # type: ignore[no-any-return]
