"""Read JSON strictly: UTF-8, no repeated key, no NaN or infinity."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Any

from veridical.core.errors import DataError, WireError
from veridical.core.files import read_text

__all__ = ["STRICT", "json_values", "named", "parse", "quoted", "read_object"]


def parse(text: str | bytes) -> dict[str, Any]:
    """Parse the JSON object in `text`, which may begin with a byte-order mark.

    Raises `WireError` for anything else, including a repeated key, NaN and infinity.

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
    except WireError:
        raise
    except ValueError:  # Python's limit on the digits of an integer
        raise WireError("the JSON holds an integer of too many digits") from None
    if not isinstance(value, dict):
        raise WireError(f"found a JSON {named(value)}", hint="a document is a JSON object")
    return value


def read_object(path: Path) -> dict[str, Any]:
    """Read the JSON object in a file as `parse` does; raise `DataError`, naming the file, if that fails."""
    try:
        return parse(read_text(path))
    except WireError as error:
        raise DataError(error.message, path=path) from None


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


STRICT: dict[str, Any] = {"object_pairs_hook": _unique, "parse_constant": _no_constant, "parse_float": _finite}
"""Arguments of Python's JSON decoder that refuse a repeated key, NaN and infinity, also as 1e999, with `WireError`."""


def named(value: object) -> str:
    """Return the name of the JSON type of a value."""
    names = {dict: "object", list: "array", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")


def quoted(name: object) -> str:
    """Quote a name from a document and shorten it to 60 characters, for a message."""
    text = ascii(name) if isinstance(name, str) and not name.isprintable() else repr(name)
    return text if len(text) <= 60 else f"{text[:56]} …{text[0]}"


def json_values(values: Mapping[Any, Any]) -> dict[str, Any]:
    """Return `values` as JSON can hold them; anything that it cannot becomes its text."""
    from pydantic_core import from_json, to_json

    return from_json(to_json(dict(values), fallback=str, inf_nan_mode="null"))  # type: ignore[no-any-return]
