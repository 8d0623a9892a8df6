"""Find identifiers of a response (addresses, versions, flags …) that neither its sources nor the user mention."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from heapq import nlargest

from rapidfuzz import fuzz

from veridical.detectors.discrepancies.discrepancy import Discrepancy, passage
from veridical.detectors.explanation.kinds import REFERENCE
from veridical.records.spans import Span
from veridical.records.types import Case, Source
from veridical.text.identifiers import Identifier, identifiers, known_identifiers

_CLOSE = 80  # similarity in [0, 100] of an identifier that the response may have got wrong
_IN_CODE = frozenset({"code", "name", "function", "pair", "item"})  # a block of code may have names of its own
_BLOCK = re.compile(r"^[ \t]*(?:```|~~~)[^\n]*\n.*?(?:^[ \t]*(?:```|~~~)|\Z)", re.MULTILINE | re.DOTALL)
_OWN_MACHINE = re.compile(  # no source needs to have it
    r".*\blocalhost\b.*|(?:.*\D)?(?:127\.0\.0\.1|0\.0\.0\.0)\b.*", re.IGNORECASE | re.DOTALL
)
_COMMON = frozenset(  # words in backticks that are no names
    "true false none null yes no on off pip npm git python bash json yaml html css sql http https get post".split()  # noqa: SIM905
)


def identifier_discrepancies(case: Case) -> Iterator[Discrepancy]:
    """Yield the identifiers of the response, such as versions, that neither the sources nor the user mention.

    The ids, citations and metadata of the sources are searched, too. If one identifier of the sources is clearly the
    most similar, it becomes the correction.

    >>> case = Case("1", "It is for version 1.12.3.", (Source("s", "It needs version 1.12.2."),))
    >>> [(each.span.of(case.response), each.reason) for each in identifier_discrepancies(case)]
    [('version 1.12.3', 'the source has version 1.12.2, not version 1.12.3')]
    """
    found = [each for each in identifiers(case.response) if not _OWN_MACHINE.fullmatch(each.name)]
    if not found:
        return
    known = known_identifiers(case)
    stated = {other.name: (source, other) for source in case.sources for other in identifiers(source.text)}
    blocks = [match.span() for match in _BLOCK.finditer(case.response)]
    for each in found:
        in_block = any(start <= each.span.start < end for start, end in blocks)
        if (in_block and each.kind in _IN_CODE) or not _is_certain(each) or each in known:
            continue
        written = each.span.of(case.response)
        closest = _closest(each, list(stated.values()))
        if closest is None:
            yield Discrepancy(each.span, REFERENCE, f"no source has {written}")
        else:
            source, other = closest
            new = other.span.of(source.text)
            yield Discrepancy(
                each.span, REFERENCE, f"the source has {new}, not {written}", new, passage(source, other.span)
            )


def known_in_other_forms(case: Case) -> Iterator[Span]:
    """Yield the identifiers of the response that its sources or the user write in another form.

    >>> case = Case("1", "It follows RFC 2616.", (Source("s", "See RFC2616."),))
    >>> [span.of(case.response) for span in known_in_other_forms(case)]
    ['RFC 2616']
    """
    found = [each for each in identifiers(case.response) if not any(_is_in(each.name, s.text) for s in case.sources)]
    known = known_identifiers(case) if found else ()
    yield from (each.span for each in found if each in known)


def _is_in(name: str, text: str) -> bool:
    """Check whether a text has a name exactly as written, and not as part of a longer name."""
    return name in text and re.search(rf"(?<!\w){re.escape(name)}(?!\w|\.\w)", text) is not None


def _is_certain(identifier: Identifier) -> bool:
    """Check that what looks like an identifier is not just emphasis, a list number or a plain word."""
    name = identifier.name
    if identifier.kind == "code":
        return re.fullmatch(r"[\w.$:/@<>#+-]{3,80}", name) is not None and not name.isdigit() and name not in _COMMON
    if identifier.kind == "name":
        return (not (name.startswith("_") and name.endswith("_")) and "_" in name.strip("_")) or name.isalnum()
    return identifier.kind not in ("number", "section") or len(name) > 2


def _closest(identifier: Identifier, stated: Sequence[tuple[Source, Identifier]]) -> tuple[Source, Identifier] | None:
    """Find the source identifier that is most similar to `identifier`, if one is clearly closest."""
    options = [
        (fuzz.ratio(identifier.name, other.name), source, other)
        for source, other in stated
        if other.kind == identifier.kind or "code" in (other.kind, identifier.kind)
    ]
    ranked = nlargest(2, options, key=lambda option: option[0])
    if not ranked or ranked[0][0] < _CLOSE or (len(ranked) > 1 and ranked[1][0] == ranked[0][0]):
        return None
    return ranked[0][1:]
