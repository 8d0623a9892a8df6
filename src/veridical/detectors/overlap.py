"""Word overlap: ROUGE-1 precision and recall of a response against its sources, and the words that make them.

After Chang et al. 2024 (NPOV coverage), section 3.1 (scores of a response) and 5.3 (scores of a word). No model, no
download: microseconds a pair. It sees words, not meaning; what that costs is in docs/detectors/overlap.md.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from veridical.core.errors import InputError, UnknownNameError
from veridical.core.segment import _UNSPACED, marks
from veridical.core.spans import Span
from veridical.core.types import Case, Evidence, Judgement, Omission, Source, Verdict
from veridical.detectors import values
from veridical.detectors.stem import stem
from veridical.detectors.stopwords import STOP_WORDS

__all__ = ["WORDS", "Overlap", "precision_recall"]

_CACHED_CHARACTERS = 20_000_000  # source text whose profiles one call of `judge` holds at most, about 100 MB
_CACHED_WORDS = 1 << 17  # forms whose keys are kept, about 20 MB


class Overlap:
    """Words of the response that are in no source, and words of the sources that the response left out (ROUGE-1).

    `words` says what counts as the same word: "content" (the paper: stop words dropped, Porter stems), "values" (also
    numbers, dates, quantities and spellings that mean the same), "rouge" and "rouge-plain" (the words of the
    rouge-score package with and without its stemmer, stop words kept).

    `hallucination` is 1 - precision over all sources together; `omission` is 1 - the least recall of a perspective
    among the sources with `must_cover` (one without a perspective stands for itself). Each content word of the
    response gets a verdict, 0 where a source has it and 1 otherwise; each run of left-out words gets an omission of 1.
    """

    levels = ("response", "span", "coverage")
    grounded = True

    def __init__(self, *, words: str = "content") -> None:
        if words not in WORDS:
            raise UnknownNameError("option of overlap", words, WORDS)
        self.words = words
        self.name = "overlap" if words == "content" else f"overlap:{words}"

    @classmethod
    def from_spec(cls, argument: str | None) -> Overlap:
        """The detector for what stands behind "overlap:"; options are parted by commas."""
        options = sorted({option.strip() for option in (argument or "content").split(",")})
        for option in options:
            if option not in WORDS:
                raise UnknownNameError("option of overlap", option, WORDS)
        if len(options) > 1:
            raise InputError(f"overlap cannot be {' and '.join(options)} at once", hint="name one of them")
        return cls(words=options[0])

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        """One judgement a case; sources that cases share are read once."""
        reading = WORDS[self.words]
        cached: dict[str, _Profile] = {}
        held = 0
        judgements = []
        for case in cases:
            profiles = []
            for source in case.sources:
                profile = cached.get(source.text)
                if profile is None:
                    profile = cached[source.text] = _Profile(source.text, reading)
                    held += len(source.text)
                profiles.append(profile)
            judgements.append(_judge(case, self.name, _Profile(case.response, reading), profiles))
            if held > _CACHED_CHARACTERS:
                cached.clear()
                held = 0
        return judgements


def precision_recall(response: str, sources: Sequence[str], *, words: str = "content") -> tuple[float, float]:
    """ROUGE-1 precision and recall, each in [0, 1], of `response` against all `sources` together.

    The share of the response's words that the sources have, and the other way round, both with clipped counts; 0 where
    there are no words. `words` is the option of `Overlap`.

    >>> precision_recall("A cat sat there.", ["The cats sleep."])
    (0.5, 0.5)
    """
    read = _Profile(response, WORDS[words])
    pool = [_Profile(text, WORDS[words]) for text in sources]
    kin = [_Kin(read, profile) for profile in pool]
    return _share([read], pool, [k.ours for k in kin]), _share(pool, [read], [k.theirs for k in kin])


# ------------------------------------------------------------------ what counts as a word, and as the same word


@dataclass(frozen=True, slots=True)
class _Reading:
    """How a text is cut and compared. `fold` keeps offsets; `keys` of a word is () where it does not count.

    A word is supported by a text if any of its `keys` is among what the words of that text imply.
    """

    fold: Callable[[str], str]
    pattern: Callable[[str], str]
    keys: Callable[[str], tuple[str, ...]]
    implies: Callable[[str], tuple[str, ...]]
    exact: bool = True  # a word implies its one key and no more; else also "co-operate" is "cooperate"


def _fold(text: str) -> str:
    """`text` in lower case with every character at its place ("İ" alone would become two)."""
    lowered = text.lower()
    return lowered if len(lowered) == len(text) else text.replace("İ", "i").lower()


def _fold_rouge(text: str) -> str:
    """The same, with "İ" left alone: rouge-score reads it as "i" and a break."""
    return "İ".join(part.lower() for part in text.split("İ"))


_ASCII = "[a-z0-9]+"
_QUICK = r"[a-z0-9]++(?![^\x00-\x7f])"  # most words, at half the time; nothing that a letter or mark could lengthen
_LETTERS = rf"{_QUICK}|[^\W_]+"


@cache
def _rare() -> re.Pattern[str]:
    return re.compile(f"[{_UNSPACED}{marks()}\u200c\u200d]")


def _content_pattern(folded: str) -> str:
    """Runs of letters and digits with their combining marks; one character of a script without spaces.

    The plain patterns find the same in texts that hold none of the rare characters, several times faster.
    """
    if folded.isascii():
        return _ASCII
    if not _rare().search(folded):
        return _LETTERS
    mark = rf"[{marks()}\u200c\u200d]"
    return rf"{_QUICK}|[^\W_{_UNSPACED}](?:[^\W_{_UNSPACED}]|{mark})*|(?![\W_])[{_UNSPACED}]{mark}*"


def _values_pattern(folded: str) -> str:
    return f"{values.PATTERN}|{_content_pattern(folded)}"


def _rouge_pattern(folded: str) -> str:
    return "[a-z0-9]*İ|[a-z0-9]+" if "İ" in folded else _ASCII


@lru_cache(maxsize=_CACHED_WORDS)
def _content_keys(word: str) -> tuple[str, ...]:
    return () if word in STOP_WORDS else (stem(word),)


@lru_cache(maxsize=_CACHED_WORDS)
def _rouge_keys(word: str) -> tuple[str, ...]:
    word = word.replace("İ", "i")
    return (stem(word) if len(word) > 3 else word,)


@lru_cache(maxsize=_CACHED_WORDS)
def _rouge_plain_keys(word: str) -> tuple[str, ...]:
    return (word.replace("İ", "i"),)


WORDS = {
    "content": _Reading(_fold, _content_pattern, _content_keys, _content_keys),
    "values": _Reading(_fold, _values_pattern, values.keys, values.implies, exact=False),
    "rouge": _Reading(_fold_rouge, _rouge_pattern, _rouge_keys, _rouge_keys),
    "rouge-plain": _Reading(_fold_rouge, _rouge_pattern, _rouge_plain_keys, _rouge_plain_keys),
}


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


# -------------------------------------------------------------------------------------- a text, read once


class _Profile:
    """The words of one text, counted by form and by what they imply.

    `types` counts the forms that count as words, in order of first occurrence.
    """

    __slots__ = ("_places", "counts", "pattern", "reading", "text", "total", "types")

    def __init__(self, text: str, reading: _Reading) -> None:
        self.reading = reading
        self.text = reading.fold(text)
        self.pattern = reading.pattern(self.text)
        self.types: dict[str, int] = {}
        self.counts: dict[str, int] = {}
        self._places: dict[str, int] | None = None
        implies, types, counts = reading.implies, self.types, self.counts
        for form, count in Counter(_compiled(self.pattern).findall(self.text)).items():
            implied = implies(form)
            if implied:
                types[form] = count
                for key in implied:
                    counts[key] = counts.get(key, 0) + count
        self.total = sum(types.values())

    def first(self, key: str) -> str:
        """The form that is the first to imply `key`, which some form must."""
        implies = self.reading.implies
        return next(form for form in self.types if key in implies(form))

    def place(self, form: str) -> Span:
        """Where the word `form` first stands."""
        at = self._quick_place(form)
        if at < 0:
            if self._places is None:
                self._places = {}
                for match in _compiled(self.pattern).finditer(self.text):
                    self._places.setdefault(match[0], match.start())
            at = self._places[form]
        return Span(at, at + len(form))

    def _quick_place(self, form: str) -> int:
        """The same by plain search, for words whose neighbours show where they end; -1 where they do not."""
        text = self.text
        if not self.reading.exact or not (text.isascii() or (self.reading.fold is _fold and form.isalnum())):
            return -1
        rare = None if self.pattern in (_ASCII, _LETTERS) else _rare()
        at = text.find(form)
        while at >= 0:
            around = text[at - 1 : at] + text[at + len(form) : at + len(form) + 1]
            if rare and rare.search(form + around):
                return -1
            if not any(map(str.isalnum, around)):
                break
            at = text.find(form, at + 1)
        return at

    def supported(self, form: str) -> str | None:
        """The key by which this text has the word `form` of another text, or None."""
        for key in self.reading.keys(form):
            if key in self.counts:
                return key
        return None


class _Kin:
    """Words of a response and of a source that differ only by a hyphen or a space: forms of ours and of theirs.

    `parts` has, for a word of ours that stands parted in the source, the place of its parts.
    """

    __slots__ = ("ours", "parts", "theirs", "wholes")

    def __init__(self, response: _Profile, source: _Profile) -> None:
        self.ours: set[str] = set()
        self.theirs: set[str] = set()
        self.parts: dict[str, Span] = {}
        self.wholes: dict[str, str] = {}
        if response.reading.exact:
            return
        for a, b in values.neighbours(response.text, response.types):
            whole = source.supported(a + b)
            if whole is not None:
                form = source.first(whole)
                self.ours |= {a, b}
                self.theirs.add(form)
                self.wholes.update({a: form, b: form})
        for form in response.types:
            if source.supported(form) is not None:
                continue
            for a, b, at in values.parted(form, source.text, source.types):
                self.ours.add(form)
                self.theirs |= {a, b}
                self.parts[form] = Span(at, at + len(a) + 1 + len(b))


def _share(ours: Sequence[_Profile], theirs: Sequence[_Profile], kin: Iterable[set[str]]) -> float:
    """The share of the words of `ours` that `theirs` have, with clipped counts; 0 if there are none."""
    total = sum(profile.total for profile in ours)
    if not total:
        return 0.0
    if ours[0].reading.exact:
        return _same_keys(ours, theirs) / total
    same = set().union(*kin)
    wanted: dict[str, int] = {}
    have: dict[str, int] = {}
    matched = 0
    keys = ours[0].reading.keys
    counts = [profile.counts for profile in theirs]
    for profile in ours:
        for form, count in profile.types.items():
            for key in keys(form):
                there = sum([c[key] for c in counts if key in c])
                if there:
                    have[key] = there
                    wanted[key] = wanted.get(key, 0) + count
                    break
            else:
                matched += count if form in same else 0
    return (matched + sum(min(count, have[key]) for key, count in wanted.items())) / total


def _same_keys(ours: Sequence[_Profile], theirs: Sequence[_Profile]) -> int:
    """The clipped count of keys that both have."""
    a, b = _pooled(ours), _pooled(theirs)
    if len(a) > len(b):
        a, b = b, a
    return sum([count if count < b[key] else b[key] for key, count in a.items() if key in b])


def _pooled(profiles: Sequence[_Profile]) -> dict[str, int]:
    if len(profiles) == 1:
        return profiles[0].counts
    pool: Counter[str] = Counter()
    for profile in profiles:
        pool.update(profile.counts)
    return pool


# ------------------------------------------------------------------------------------------ the judgement


def _judge(case: Case, by: str, response: _Profile, profiles: Sequence[_Profile]) -> Judgement:
    kin = [_Kin(response, profile) for profile in profiles]
    notes: list[str] = []
    omission, omissions = _coverage(case.sources, response, profiles, kin, notes)
    if not profiles or not response.total:
        what = "no sources to compare with" if not profiles else "the response has no content words"
        return Judgement(case.id, by, None, omission, (), omissions, (), (what, *notes))
    share = _share([response], profiles, [k.ours for k in kin])
    verdicts = _verdicts(case.sources, response, profiles, kin)
    return Judgement(case.id, by, 1.0 - share, omission, verdicts, omissions, notes=tuple(notes))


def _verdicts(
    sources: Sequence[Source], response: _Profile, profiles: Sequence[_Profile], kin: Sequence[_Kin]
) -> tuple[Verdict, ...]:
    """One verdict for each word of the response that counts, in order."""
    found: dict[str, tuple[Evidence, ...]] = {}
    for form in response.types:
        found[form] = _evidence(form, sources, profiles, kin)
    verdicts = []
    for match in _compiled(response.pattern).finditer(response.text):
        evidence = found.get(match[0])
        if evidence is None:
            continue
        span = Span(*match.span())
        verdicts.append(
            Verdict(span, 0.0, evidence=evidence) if evidence else Verdict(span, 1.0, reason="not in any source")
        )
    return tuple(verdicts)


def _evidence(
    form: str, sources: Sequence[Source], profiles: Sequence[_Profile], kin: Sequence[_Kin]
) -> tuple[Evidence, ...]:
    """The first place that supports `form`: the same form in any source, else another form, else another spelling."""
    for source, profile in zip(sources, profiles, strict=True):
        if form in profile.types:
            return (Evidence(source.id, profile.place(form)),)
    for source, profile in zip(sources, profiles, strict=True):
        key = profile.supported(form)
        if key is not None:
            return (Evidence(source.id, profile.place(profile.first(key))),)
    for source, profile, near in zip(sources, profiles, kin, strict=True):
        if form in near.parts:
            return (Evidence(source.id, near.parts[form]),)
        if form in near.wholes:
            return (Evidence(source.id, profile.place(near.wholes[form])),)
    return ()


def _coverage(
    sources: Sequence[Source],
    response: _Profile,
    profiles: Sequence[_Profile],
    kin: Sequence[_Kin],
    notes: list[str],
) -> tuple[float | None, tuple[Omission, ...]]:
    """1 - the least recall of a perspective, and what was left out; adds to `notes` what could not be judged."""
    groups: dict[tuple[str, str], list[int]] = {}
    omissions: list[Omission] = []
    for i, source in enumerate(sources):
        if not source.must_cover:
            continue
        if not profiles[i].total:
            notes.append(f"source {source.id!r} has no content words; its coverage was not judged")
            continue
        side = ("source", source.id) if source.perspective is None else ("perspective", source.perspective)
        groups.setdefault(side, []).append(i)
        omissions += _left_out(source.id, profiles[i], response, kin[i].theirs)
    if not groups:
        return None, ()
    recalls = [_share([profiles[i] for i in g], [response], [kin[i].theirs for i in g]) for g in groups.values()]
    return 1.0 - min(recalls), tuple(omissions)


def _left_out(source_id: str, source: _Profile, response: _Profile, same: set[str]) -> list[Omission]:
    """The runs of words that the response lacks; a run spans stop words but no end of a sentence or line."""
    covered, keys = response.counts, source.reading.keys
    missing = {form for form in source.types if covered.keys().isdisjoint(keys(form))} - same
    spans: list[Span] = []
    types = source.types
    # a stop ends a sentence only where no word follows at once ("3.5", "U.S.A" do not)
    first = last = None
    for match in _compiled(rf"{source.pattern}|[.!?](?!\w)|[;\n。！？]").finditer(source.text):
        form = match[0]
        if form in missing:
            first = first or match
            last = match
        elif first and last and (form in types or not form[0].isalnum()):
            spans.append(Span(first.start(), last.end()))
            first = None
    if first and last:
        spans.append(Span(first.start(), last.end()))
    return [Omission(source_id, span, 1.0, "not in the response") for span in spans]
