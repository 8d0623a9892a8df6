"""Convert offsets from code points to UTF-16 code units, which JavaScript, Java and C# use."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import accumulate
from typing import Any, Literal

from veridical.io.serialization import encode
from veridical.records.types import Case, Checked

Offsets = Literal["code-points", "utf-16"]


def check_json(checked: Checked, offsets: Offsets, *, sources: bool) -> str:
    """Convert the result of a check to JSON, with the requested unit of offsets, and with or without the sources.

    The unit is "code-points" or "utf-16" (UTF-16 code units). With UTF-16 offsets, the document has an extra field
    `offsets`, and `veridical.decode` rejects it.
    """
    text = encode(checked, sources=sources)
    if offsets == "code-points":
        return text
    document = json.loads(text)
    for name in ("judgements", "cause"):
        if name in document:
            document[name] = with_offsets(document[name], checked.case, offsets)
    for source in document["case"].get("sources", ()):
        if "pages" in source:
            offset_of = _utf16(source["text"])
            source["pages"] = [offset_of[start] for start in source["pages"]]
    return json.dumps({**document, "offsets": offsets}, ensure_ascii=False)


def with_offsets(document: Any, case: Case, offsets: Offsets) -> Any:
    r"""Convert all spans in a JSON value from code points to the unit `offsets` ("utf-16": UTF-16 code units).

    A span in an object with a `source_id` is a span of this source. Any other span is a span of the response.

    >>> with_offsets({"span": {"start": 1, "end": 2}}, Case("1", "\N{SLICE OF PIZZA}b"), "utf-16")
    {'span': {'start': 2, 'end': 3}}
    """
    if offsets == "code-points":
        return document
    of_sources: dict[str | None, list[int]] = {source.id: _utf16(source.text) for source in case.sources}
    return _converted(document, of_sources, _utf16(case.response))


def _utf16(text: str) -> list[int]:
    """Compute the UTF-16 offset of each code point of `text`, and of the end of `text`."""
    return list(accumulate((1 + (character > "\uffff") for character in text), initial=0))


def _converted(value: Any, of_sources: Mapping[str | None, list[int]], current: list[int]) -> Any:
    if isinstance(value, list):
        return [_converted(each, of_sources, current) for each in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"start", "end"}:
        return {name: current[place] for name, place in value.items()}
    current = of_sources.get(value.get("source_id"), current)
    return {name: _converted(each, of_sources, current) for name, each in value.items()}
