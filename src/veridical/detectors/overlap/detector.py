"""Word overlap: ROUGE-1 precision and recall of a response against its sources, and the words that make them.

After Chang et al. 2024 (NPOV coverage), section 3.1 (scores of a response) and 5.3 (scores of a word). No model, no
download: microseconds a pair. It sees words, not meaning; what that costs is in docs/detectors/overlap.md.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from itertools import accumulate

from veridical.core.detector import DetectorContext, DetectorInfo
from veridical.core.errors import UnknownNameError
from veridical.core.spans import Span
from veridical.core.spec import Spec
from veridical.core.types import Case, Evidence, Judgement, Omission, Source, SourceSpan, Verdict
from veridical.detectors.overlap.matching import WORDS, Kin, Profile, compiled, share

__all__ = ["WORDS", "Overlap", "precision_recall"]

_CACHED_CHARACTERS = 20_000_000  # source text whose profiles one call of `judge` holds at most, about 100 MB


class Overlap:
    """Words of the response that are in no source, and words of the sources that the response left out (ROUGE-1).

    `words` says what counts as the same word: "content" (the paper: stop words dropped, Porter stems), "values" (also
    numbers, dates, quantities and spellings that mean the same), "rouge" and "rouge-plain" (the words of the
    rouge-score package with and without its stemmer, stop words kept).

    `hallucination` is 1 - precision over all sources together; `omission` is 1 - the least recall of a perspective
    among the sources with `must_cover` (one without a perspective stands for itself). Each content word of the
    response gets a verdict, 0 where a source has it and 1 otherwise; each run of left-out words gets an omission of 1.
    """

    info = DetectorInfo(needs_sources=True)

    def __init__(self, *, words: str = "content") -> None:
        if words not in WORDS:
            raise UnknownNameError("option of overlap", words, WORDS)
        self.words = words
        self.name = "overlap" if words == "content" else f"overlap:{words}"

    @classmethod
    def from_spec(cls, spec: Spec, context: DetectorContext) -> Overlap:
        """The detector for `overlap[:WORDS]`."""
        return cls(words=spec.accept(values=1).value or "content")

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        """One judgement a case; sources that cases share are read once."""
        reading = WORDS[self.words]
        cached: dict[str, Profile] = {}
        held = 0
        judgements = []
        for case in cases:
            profiles = []
            for source in case.sources:
                profile = cached.get(source.text)
                if profile is None:
                    profile = cached[source.text] = Profile(source.text, reading)
                    held += len(source.text)
                profiles.append(profile)
            judgements.append(_judge(case, self.name, Profile(case.response, reading), profiles))
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
    read = Profile(response, WORDS[words])
    pool = [Profile(text, WORDS[words]) for text in sources]
    kin = [Kin(read, profile) for profile in pool]
    return share([read], pool, [k.ours for k in kin]), share(pool, [read], [k.theirs for k in kin])


def _judge(case: Case, by: str, response: Profile, profiles: Sequence[Profile]) -> Judgement:
    kin = [Kin(response, profile) for profile in profiles]
    notes: list[str] = []
    omission, omissions = _coverage(case.sources, response, profiles, kin, notes)
    judged_sources = None
    if notes:  # a source without content words was not judged
        required = [s for s, profile in zip(case.sources, profiles, strict=True) if s.must_cover and profile.total]
        judged_sources = tuple(SourceSpan(source.id, Span(0, len(source.text))) for source in required)
    if not profiles or not response.total:
        what = "no sources to compare with" if not profiles else "the response has no content words"
        note = (what, *notes)
        return Judgement(case.id, by, None, omission, (), omissions, (), note, judged_sources=judged_sources)
    precision = share([response], profiles, [k.ours for k in kin])
    verdicts = _verdicts(case.sources, response, profiles, kin)
    return Judgement(
        *(case.id, by, 1.0 - precision, omission, verdicts, omissions),
        notes=tuple(notes),
        judged_sources=judged_sources,
    )


def _verdicts(
    sources: Sequence[Source], response: Profile, profiles: Sequence[Profile], kin: Sequence[Kin]
) -> tuple[Verdict, ...]:
    """One verdict for each word of the response that counts, in order."""
    found: dict[str, tuple[Evidence, ...]] = {}
    for form in response.types:
        found[form] = _evidence(form, sources, profiles, kin)
    verdicts = []
    for match in compiled(response.pattern).finditer(response.text):
        evidence = found.get(match[0])
        if evidence is None:
            continue
        span = Span(*match.span())
        verdicts.append(
            Verdict(span, 0.0, evidence=evidence) if evidence else Verdict(span, 1.0, reason="not in any source")
        )
    return tuple(verdicts)


def _evidence(
    form: str, sources: Sequence[Source], profiles: Sequence[Profile], kin: Sequence[Kin]
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
    response: Profile,
    profiles: Sequence[Profile],
    kin: Sequence[Kin],
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
    recalls = [share([profiles[i] for i in g], [response], [kin[i].theirs for i in g]) for g in groups.values()]
    return 1.0 - min(recalls), tuple(omissions)


def _left_out(source_id: str, source: Profile, response: Profile, same: set[str]) -> list[Omission]:
    """The runs of words that the response lacks; a run spans stop words but no end of a sentence or line.

    Words and what parts them become one letter each, so that a run is a match of `_RUN` (a source may have a million
    words, and most of them need no look).
    """
    covered, keys = response.counts, source.reading.keys
    missing = {form for form in source.types if covered.keys().isdisjoint(keys(form))} - same
    if not missing:
        return []
    parts = compiled(f"({source.pattern})").split(source.text)  # gap, word, gap, word … gap
    forms = {form: ord("m" if form in missing else "c" if form in source.types else "s") for form in set(parts[1::2])}
    gaps = {gap: ord("." if _PARTING.search(gap) else " ") for gap in set(parts[::2])}
    letters = bytearray(len(parts))
    letters[::2] = bytes(map(gaps.__getitem__, parts[::2]))
    letters[1::2] = bytes(map(forms.__getitem__, parts[1::2]))
    ends = array("q", accumulate(map(len, parts)))
    spans = (Span(ends[m.start() - 1], ends[m.end() - 1]) for m in _RUN.finditer(letters))
    return [Omission(source_id, span, 1.0, "not in the response") for span in spans]


_RUN = re.compile(rb"m(?:(?: s)* m)*")  # m: missing, s: a stop word, c: covered, a blank or a full stop between them
# a stop ends a sentence only where no word follows at once ("3.5", "U.S.A" do not)
_PARTING = re.compile(r"[.!?](?!\w)(?=.)|[;\n。！？]", re.DOTALL)
