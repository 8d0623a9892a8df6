"""Convert texts, files, JSON objects and documents of frameworks such as LangChain to `Source` objects.

This module does not import the frameworks.
"""

from __future__ import annotations

import os.path
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeAlias

from veridical.io.strict_json import json_values
from veridical.records.errors import InputError, UnknownNameError
from veridical.records.strings import unique_names
from veridical.records.types import Source

Sources: TypeAlias = Any
"""One source, several sources, or None for no sources. A source is a text, a `Source`, the `Path` of a document, a
mapping with `text` and other fields of `Source`, or a document of LangChain, LlamaIndex or Haystack. In a list, None is
an empty text.
"""

_KINDS = "a text, a Source, a Path, a dict with 'text', or a document of LangChain, LlamaIndex or Haystack"
_OTHER_NAMES = {"page_content": "text", "content": "text", "meta": "metadata"}


def as_sources(items: Sources) -> list[Source]:
    """Convert whatever a user passes as sources (texts, paths, dictionaries, framework documents) to `Source` objects.

    A document of a framework such as LangChain keeps its id and metadata. If it has no id, the entry `source` of its
    metadata becomes the id. The id of a file is the file name, and any other source is numbered by its position in the
    list. If an id is already taken, a number is added.

    >>> [source.id for source in as_sources(["It is red.", {"text": "It is tall.", "id": "a"}])]
    ['1', 'a']

    Raises:
        InputError: An item has an unsupported type, or is the name of a file in a string.
        DataError: A file cannot be read.
    """
    listed = listed_sources(items)
    sources = [_source(item, str(i)) for i, item in enumerate(listed, 1)]
    given = [isinstance(item, Source) or (isinstance(item, Mapping) and item.get("id") is not None) for item in listed]
    taken = {source.id for source, is_given in zip(sources, given, strict=True) if is_given}
    automatic = [source.id for source, is_given in zip(sources, given, strict=True) if not is_given]
    names = iter(unique_names(automatic, taken))
    return [s if is_given else replace(s, id=next(names)) for s, is_given in zip(sources, given, strict=True)]


def listed_sources(items: Sources) -> list[Any]:
    """Return the given sources as a list. A single source becomes a list with one item, and None an empty list.

    Raises:
        InputError: The sources are a table such as a pandas data frame, not one of its columns.
    """
    if hasattr(items, "iterrows"):  # it would yield the names of its columns
        raise InputError(f"the sources are of the type {type(items).__name__}", hint="give one of its columns")
    is_one = isinstance(items, str | bytes | Source | Path | Mapping) or _document_text(items) is not None
    if is_one or not isinstance(items, Iterable):
        return [] if items is None else [items]
    return list(items)


def _document_text(item: Any) -> str | None:
    """Return the text of a document of LangChain, Haystack or LlamaIndex (maybe ""), or None for other objects."""
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
        if item and os.path.isfile(item):  # `Path.is_file` would raise an error for a text too long to be a name
            raise InputError(f"the source {item!r} is the name of a file, not its text", hint=f"give Path({item!r})")
        return Source(number, item or "")
    if isinstance(item, Path):
        from veridical.io.documents import load_document

        document = load_document(item)
        for note in document.notes:
            warnings.warn(note, stacklevel=2)
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
    if not any(isinstance(item.get(name), str) and item[name] for name in ("text", "page_content", "content")):
        from veridical.io.columns import source_fields

        of_tool = source_fields(item)
        item = of_tool if "text" in of_tool else item
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
