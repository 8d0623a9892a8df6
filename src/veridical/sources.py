"""Sources as people have them: texts, files, JSON objects, and documents of frameworks, which are not imported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeAlias

from veridical.core.errors import InputError, UnknownNameError
from veridical.core.strict_json import json_values
from veridical.core.text import unique_names
from veridical.core.types import Source

__all__ = ["Sources", "as_sources"]

Sources: TypeAlias = Any
"""A source, several ones, or None for none. A source is a text, a `Source`, the `Path` of a document, a mapping with
`text` and other fields of `Source`, a document of LangChain, LlamaIndex or Haystack, or None for an empty text."""

_KINDS = "a text, a Source, a Path, a dict with 'text', or a document of LangChain, LlamaIndex or Haystack"
_OTHER_NAMES = {"page_content": "text", "content": "text", "meta": "metadata"}


def as_sources(items: Sources, *, first: int = 1, must_cover: bool = False) -> list[Source]:
    """Return the sources in `items`; those without an id are numbered from `first`.

    Documents keep their id and metadata; one without an id is named after the `source` in its metadata, a file after
    its name. Such names get a number where they are repeated. With `must_cover`, all have to be covered.

    >>> [source.id for source in as_sources(["It is red.", {"text": "It is tall.", "id": "a"}])]
    ['1', 'a']

    Raises:
        InputError: An item is none of these.
        DataError: A file cannot be read.
    """
    if _is_one(items) or not isinstance(items, Iterable):
        items = [] if items is None else [items]
    listed = list(items)
    sources = [_source(item, str(i)) for i, item in enumerate(listed, first)]
    named = [i for i, item in enumerate(listed) if not isinstance(item, Source | Mapping)]
    names = unique_names([sources[i].id for i in named])
    for i, name in zip(named, names, strict=True):
        sources[i] = replace(sources[i], id=name)
    return [replace(source, must_cover=True) for source in sources] if must_cover else sources


def _is_one(items: Any) -> bool:
    return isinstance(items, str | bytes | Source | Path | Mapping) or _document_text(items) is not None


def _document_text(item: Any) -> str | None:
    """Return the text of a document of LangChain, Haystack or LlamaIndex ("" for none); None for other objects."""
    for name in ("page_content", "content"):
        if hasattr(item, name) and (hasattr(item, "metadata") or hasattr(item, "meta")):
            return getattr(item, name) or ""
    node = getattr(item, "node", item)
    if not hasattr(node, "get_content") or not hasattr(node, "metadata"):
        return None
    return str(node.get_content())


def _source(item: Any, number: str) -> Source:
    if isinstance(item, Source):
        return item
    if item is None or isinstance(item, str):
        return Source(number, item or "")
    if isinstance(item, Path):
        from veridical.documents import load_document

        document = load_document(item)
        return Source(item.name, document.text, pages=document.pages)
    if isinstance(item, Mapping):
        return _from_mapping(item, number)
    text = _document_text(item)
    if text is None:
        raise InputError(f"a source is of the type {type(item).__name__}", hint=f"give {_KINDS}")
    node = getattr(item, "node", item)
    metadata = getattr(node, "metadata", None) or getattr(node, "meta", None)
    id = getattr(node, "node_id", None) or getattr(node, "id", None) or (metadata or {}).get("source") or number
    return Source(str(id), text, metadata=metadata and json_values(metadata))


def _from_mapping(item: Mapping[Any, Any], number: str) -> Source:
    values = {_OTHER_NAMES.get(name, name): value for name, value in item.items()}
    names = [field.name for field in fields(Source)]
    for name in values:
        if name not in names:
            error = UnknownNameError("field of a source", str(name), names)
            raise InputError(error.message, hint=f"{error.hint}; put your own fields into 'metadata'")
    text = values.get("text")
    if "text" not in values or not isinstance(text, str | None):
        raise InputError(
            f"a source has {'no text' if text is None else f'the text {text!r:.60}'}", hint=f"give {_KINDS}"
        )
    metadata = values.get("metadata")
    id = number if values.get("id") is None else str(values["id"])
    return Source(**{**values, "id": id, "text": text or "", "metadata": metadata and json_values(metadata)})
