"""Find sentences that name another speaker than the source: "Ben said …" where Ana said it.

Speakers are found in turns (`Ana: …`, JSON, e-mail headers) and in quotations with "said". A sentence is reported only
if another speaker said nearly all of its words and the named speaker did not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from veridical.detectors.discrepancies.discrepancy import Discrepancy, passage
from veridical.records.spans import Span
from veridical.records.types import Case
from veridical.text.quantities import fold, keys
from veridical.text.segment import sentences, word_forms

_NAME = r"[A-Z][\w'’-]{1,30}(?: [A-Z](?:\.|[\w'’-]{1,30})){0,3}"
_ROLES = r"(?:user|assistant|customer|client|agent|support|caller|patient|doctor|nurse|host|guest|teacher|student|bot)"
_TURN = re.compile(
    r"^[ \t>*_•-]{0,9}(?:\[?\(?\d{1,2}:\d{2}(?::\d{2})?(?: ?[AaPp][Mm])?\]?\)?[ \t–-]{0,3})?[*_]{0,2}"
    rf"(?P<name>{_NAME}|{_ROLES})[*_]{{0,2}}(?: \([^()\n]{{1,40}}\))?[*_]{{0,2}}:[*_]{{0,2}}[ \t]++"
    r"(?P<text>\S[^\n]*)$",
    re.MULTILINE,
)
_SAID = (
    r"(?:said|says|say|told|tells|added|adds|stated|states|explained|explains|asked|asks|argued|argues|claimed|claims|"
    r"replied|replies|wrote|writes|noted|notes|announced|reported|reports|confirmed|confirms|complained|suggested|"
    r"suggests|mentioned|mentions|thinks|thought|believes|promised|warned|insisted|answered|commented|agreed|disagreed|"
    r"disagrees|countered|responded|stressed|remarked|declared|concluded|admitted|recalled)"
)
_QUOTED = re.compile(
    rf"[\"“](?P<text>[^\"”\n]{{5,400}})[\"”],? {{0,2}}"
    rf"(?:{_SAID} (?:the )?(?P<name>{_NAME})|(?P<before>{_NAME}) {_SAID})"
    rf"|(?<!of )(?<!of the )(?P<first>{_NAME}) {_SAID}(?: that|:|,)? [\"“]?(?P<then>[^\"”.\n]{{5,300}})"
)
_MAIL = re.compile(r"^From:[ \t]*+\"?(?P<name>[^<\n\"\s][^<\n\"]{1,59}?)\"?[ \t]*+(?:<[^>\n]*+>)?$", re.MULTILINE)
_HEADER = re.compile(r"^[A-Z][A-Za-z-]{1,20}:[^\n]*\n?", re.MULTILINE)
_WHO = ("speaker", "role", "from", "name", "author", "sender", "user", "agent", "by")
_WHAT = ("text", "content", "message", "body", "value", "utterance", "transcript")
_FIRST_PERSON = re.compile(r"\b(?:I|we|We|my|My|our|Our|me|us|mine|ours)\b")
_SECOND_PERSON = re.compile(r"\byou(?:r|rs)?\b", re.IGNORECASE)
_ATTRIBUTES = re.compile(rf"\b{_SAID}\b|\baccording to\b", re.IGNORECASE)
_SPEECH = frozenset(key for word in re.findall("[a-z]+", _SAID) for key in keys(word)) | set(keys("according"))
_OPENS = 2  # most words of a sentence before the speaker's name
_SHARE, _MARGIN = 0.75, 0.3  # least share of the words that the other speaker said, and by how much it is higher
_LONGEST = 200_000  # characters of a source
_MOST = 2000  # turns of a source
_SPEAKERS = 50  # speakers of a source


@dataclass(frozen=True, slots=True)
class _Turn:
    """A sentence that somebody said, with its stems and the position in the source where the speaker's turn begins."""

    speaker: str
    text: str
    stems: frozenset[str]
    start: int


def speaker_discrepancies(case: Case) -> Iterator[Discrepancy]:
    r"""Yield the names of speakers to whom the response attributes a sentence that another speaker of a source said.

    Most content words of the sentence must occur in one sentence of the other speaker, and clearly fewer in each
    sentence of the named speaker. The name of the other speaker becomes the correction.

    >>> from veridical.records.types import Source
    >>> case = Case("1", "Ben said they need staff.", (Source("s", "Ana: We need staff.\nBen: I am off."),))
    >>> [(each.span.of(case.response), each.reason) for each in speaker_discrepancies(case)]
    [('Ben', 'Ana said this, not Ben')]
    """
    for source in case.sources:
        turns = _turns(source.text)
        names = {turn.speaker for turn in turns}
        for span in sentences(case.response) if 1 < len(names) <= _SPEAKERS else ():
            text = span.of(case.response)
            named = sorted((found, name) for name in names if (found := _find(text, name)) is not None)
            if not named or len(word_forms(text[: named[0][0].start])) > _OPENS:
                continue
            place, name = named[0]
            words = {key for word in word_forms(text) for key in keys(fold(word))[:1]}
            words -= {key for word in word_forms(f"{name} {place.of(text)}") for key in keys(fold(word))}
            words = words - _SPEECH if len(words - _SPEECH) > 1 else words
            shares = [len(words & turn.stems) / max(1, len(words)) for turn in turns]
            own = max((share for share, turn in zip(shares, turns, strict=True) if turn.speaker == name), default=0.0)
            best = max(range(len(turns)), key=lambda i: shares[i])
            turn = turns[best]
            if len(words) < 2 or shares[best] < _SHARE or shares[best] - own < _MARGIN:
                continue
            by_self = _FIRST_PERSON.search(turn.text) and not _SECOND_PERSON.search(turn.text)
            if any(other == turn.speaker for _, other in named) or not (_ATTRIBUTES.search(text) or by_self):
                continue
            written = place.of(text)
            new = turn.speaker.lower() if written.islower() else turn.speaker
            evidence = passage(source, Span(turn.start, turn.start))
            yield Discrepancy(place.shift(span.start), "name", f"{new} said this, not {written}", new, evidence)


def _find(text: str, name: str) -> Span | None:
    """Find where a sentence names a speaker by the whole name, or by its first or last word.

    The name may also be in lower case.
    """
    words = name.split()
    for form in dict.fromkeys((name, words[0], words[-1])):
        match = re.search(rf"(?<!\w)(?:{re.escape(form)}|{re.escape(form.lower())})(?!\w)", text)
        if match is not None:
            return Span(*match.span())
    return None


@lru_cache(maxsize=64)
def _turns(text: str) -> tuple[_Turn, ...]:
    """Find the sentences that the speakers in a source said.

    Return no sentences if the source names no speakers, or if it is too long.
    """
    if len(text) > _LONGEST:
        return ()
    said = list(_in_json(text)) or list(_in_mails(text))
    if not said:
        said = [(match["name"], match["text"], match.start()) for match in _TURN.finditer(text)]
    for match in _QUOTED.finditer(text):
        name = match["name"] or match["before"] or match["first"]
        said.append((name, match["text"] or match["then"], match.start()))
    return tuple(
        _Turn(name.strip(), part, frozenset(key for word in word_forms(part) for key in keys(fold(word))), start)
        for name, words, start in said[:_MOST]
        for part in (span.of(words) for span in sentences(words))
    )


def _in_mails(text: str) -> Iterator[tuple[str, str, int]]:
    heads = list(_MAIL.finditer(text))
    for i, head in enumerate(heads):
        end = heads[i + 1].start() if i + 1 < len(heads) else len(text)
        yield head["name"], _HEADER.sub("", text[head.end() : end]), head.start()


def _in_json(text: str) -> Iterator[tuple[str, str, int]]:
    if not text.lstrip().startswith(("[", "{")):
        return
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return
    for name, words in _spoken(value):
        yield name, words, max(0, text.find(words[:40]))


def _spoken(value: Any, depth: int = 0) -> Iterator[tuple[str, str]]:
    if isinstance(value, list) and depth < 9:
        for inner in value:
            yield from _spoken(inner, depth + 1)
    elif isinstance(value, dict) and depth < 9:
        who = next((value[name] for name in _WHO if isinstance(value.get(name), str)), None)
        what = next((value[name] for name in _WHAT if isinstance(value.get(name), str)), None)
        if who and what and who != what:
            yield who, what
        for inner in value.values():
            yield from _spoken(inner, depth + 1)
