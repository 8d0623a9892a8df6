"""Score word overlap: ROUGE-1 precision and recall of a response against its sources, with a verdict for each word.

The scores follow Chang et al. 2024, §3.1 (for responses) and §5.3 (for words). The detector needs no model and takes
microseconds per pair. It compares words, not meanings. See docs/detectors/overlap.md for what this means in practice.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from itertools import accumulate

from veridical.detectors.discrepancies.discrepancy import with_verdicts
from veridical.detectors.discrepancies.finding import MISSING_VALUES, discrepancies
from veridical.detectors.discrepancies.references import known_in_other_forms
from veridical.detectors.discrepancies.values import ambiguous_dates
from veridical.detectors.overlap.counting import clipped_overlap
from veridical.records.detector import DetectorContext, DetectorInfo
from veridical.records.errors import UnknownNameError
from veridical.records.perspectives import by_perspective
from veridical.records.spans import Span
from veridical.records.spec import Spec
from veridical.records.types import Case, Evidence, Judgement, Omission, Source, SourceSpan, Verdict
from veridical.text.framing import without_citations
from veridical.text.markup import blanked
from veridical.text.matching import WORDS, CompoundMatches, Profile, compiled
from veridical.text.segment import has_words

__all__ = ["WORDS", "Overlap", "precision_recall"]

_CACHED_CHARACTERS = 20_000_000  # most characters of sources whose profiles one call of `judge` keeps, about 100 MB


class Overlap:
    """Finds words of the response that no source has, and words of the sources that the response lacks (ROUGE-1).

    `hallucination` is 1 minus the precision, the proportion of the response's words that the sources together have.
    `omission` is 1 minus the recall, the proportion of the words in sources with `must_cover` that the response has.
    These sources are grouped by `Source.perspective`, and the group with the lowest recall counts. A source without a
    perspective is a group of its own.

    Each content word of the response has a verdict, with the score 0 if a source has the word and 1 otherwise. Each run
    of source words that the response omits has an omission with the score 1.

    The option `words` determines which words are treated as equal:

    * "content" compares Porter stems and ignores stop words, as the paper does.
    * "values" also treats numbers, dates, quantities and spellings as equal if they mean the same.
    * "rouge" and "rouge-plain" use the words of the rouge-score package, with and without its stemmer. They include
      stop words.

    Symbols, identifiers and other words that clearly differ from the sources by fixed rules (`discrepancies`) also
    score 1, except with "rouge" and "rouge-plain".
    """

    info = DetectorInfo()

    def __init__(self, *, words: str = "content") -> None:
        if words not in WORDS:
            raise UnknownNameError("option of overlap", words, WORDS)
        self.words = words
        self.name = "overlap" if words == "content" else f"overlap:{words}"

    @classmethod
    def from_spec(cls, spec: Spec, context: DetectorContext) -> Overlap:
        """Make the detector for `overlap[:WORDS]`.

        WORDS is the option `words`, the rule for treating words as equal. The default is "content".
        """
        return cls(words=spec.accept(values=1).value or "content")

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        """Judge each case. A source that several cases share is analysed only once."""
        normalization = WORDS[self.words]
        cached: dict[str, Profile] = {}
        cached_characters = 0
        judgements = []
        for case in cases:
            profiles = []
            for source in case.sources:
                profile = cached.get(source.text)
                if profile is None:
                    profile = cached[source.text] = Profile(source.text, normalization)
                    cached_characters += len(source.text)
                profiles.append(profile)
            response = case.response
            if normalization.signs:
                response = without_citations(response, case.sources, only_known=True)
                others = blanked(response, known_in_other_forms(case))  # without other forms of what the sources have
                response = others if has_words(others) else response
            judgements.append(_judge(case, self.name, Profile(response, normalization), profiles))
            if cached_characters > _CACHED_CHARACTERS:
                cached.clear()
                cached_characters = 0
        return judgements


def precision_recall(response: str, sources: Sequence[str], *, words: str = "content") -> tuple[float, float]:
    """Compute ROUGE-1 precision and recall of a response against all of its sources together.

    Args:
        response: The response, whose words are counted for precision.
        sources: The texts of the sources, whose words are counted for recall.
        words: The rule for treating words as equal: "content", "values", "rouge" or "rouge-plain" (see `Overlap`).

    Returns:
        The proportion of the response's words that the sources have, and the proportion of the sources' words that the
        response has. Both lie in [0, 1], use clipped counts, and are 0 if there are no words.

    >>> precision_recall("A cat sat there.", ["The cats sleep."])
    (0.5, 0.5)
    """
    profile = Profile(response, WORDS[words])
    profiles = [Profile(text, WORDS[words]) for text in sources]
    compounds = [CompoundMatches(profile, source) for source in profiles]
    precision = clipped_overlap([profile], profiles, [match.response_forms for match in compounds])
    return precision, clipped_overlap(profiles, [profile], [match.source_forms for match in compounds])


def _judge(case: Case, by: str, response: Profile, profiles: Sequence[Profile]) -> Judgement:
    """Compare the response with all sources together, and the sources to cover with the response."""
    compounds = [CompoundMatches(response, profile) for profile in profiles]
    to_cover: list[tuple[Source, int]] = []
    omissions: list[Omission] = []
    notes = []
    for i, source in enumerate(case.sources):
        if source.must_cover and profiles[i].total:
            to_cover.append((source, i))
            omissions += _omissions(source.id, profiles[i], response, compounds[i].source_forms)
        elif source.must_cover:
            notes.append(f"source {source.id!r} has no content words; its coverage was not judged")
    judged_sources = tuple(SourceSpan(s.id, Span(0, len(s.text))) for s, _ in to_cover) if notes else None
    recalls = [
        clipped_overlap([profiles[i] for i in group], [response], [compounds[i].source_forms for i in group])
        for group in by_perspective(to_cover)
    ]
    hallucination: float | None = None
    verdicts: list[Verdict] = []
    if not profiles:
        notes.insert(0, "no sources to compare with")
    elif not response.total:
        notes.insert(0, "the response has no content words")
    elif not any(profile.total for profile in profiles):
        notes.insert(0, "the sources have no content words")
    else:
        hallucination = 1.0 - clipped_overlap([response], profiles, [match.response_forms for match in compounds])
        evidence = _evidence(response, case.sources, profiles, compounds)
        for match in compiled(response.pattern).finditer(response.text):
            support = evidence.get(match[0])
            if support:
                verdicts.append(Verdict(Span(*match.span()), 0.0, evidence=support))
            elif support is not None:
                verdicts.append(Verdict(Span(*match.span()), 1.0, reason="not in any source"))
        if response.normalization.signs:
            verdicts = list(with_verdicts(case.response, discrepancies(case, MISSING_VALUES), verdicts)[0])
            notes += ambiguous_dates(case)
    return Judgement(
        case.id,
        by,
        hallucination,
        1.0 - min(recalls) if recalls else None,
        tuple(verdicts),
        tuple(omissions),
        () if hallucination is None else None,
        tuple(notes),
        judged_sources=judged_sources,
    )


def _evidence(
    response: Profile, sources: Sequence[Source], profiles: Sequence[Profile], compounds: Sequence[CompoundMatches]
) -> dict[str, tuple[Evidence, ...]]:
    """Find the first source span that supports each form (a word as written) of the response.

    The same form in any source is preferred to another form of the word, which is preferred to another spelling.
    """
    keys_of = {form: response.normalization.keys(form) for form in response.types}
    keys = dict.fromkeys(key for form_keys in keys_of.values() for key in form_keys)
    with_form: dict[str, int] = {}
    with_key: dict[str, int] = {}
    spelled: dict[str, Evidence] = {}
    for i, (source, profile, match) in enumerate(zip(sources, profiles, compounds, strict=True)):
        for form in response.types.keys() & profile.types.keys():
            with_form.setdefault(form, i)
        for key in keys.keys() & profile.counts.keys():
            with_key.setdefault(key, i)
        for form, span in match.split_spans.items():
            spelled.setdefault(form, Evidence(source.id, span))
        for form, joined in match.joined_forms.items():
            if form not in spelled:
                spelled[form] = Evidence(source.id, profile.first_span(joined))
    evidence: dict[str, tuple[Evidence, ...]] = {}
    for form in response.types:
        i = with_form.get(form, min((with_key[key] for key in keys_of[form] if key in with_key), default=-1))
        if i >= 0:
            profile = profiles[i]
            source_form = form if form in with_form else profile.first_form(str(profile.matching_key(form)))
            evidence[form] = (Evidence(sources[i].id, profile.first_span(source_form)),)
        else:
            evidence[form] = (spelled[form],) if form in spelled else ()
    return evidence


def _omissions(source_id: str, source: Profile, response: Profile, matched: set[str]) -> list[Omission]:
    """Find the runs of source words that the response lacks.

    A run may include stop words, but it ends with the sentence or line. Each word and each gap between words becomes
    one letter, so that a run is a match of `_RUN`, which is fast even for sources of a million words.
    """
    covered, keys = response.counts, source.normalization.keys
    missing = {form for form in source.types if covered.keys().isdisjoint(keys(form))} - matched
    if not missing:
        return []
    pieces = compiled(f"({source.pattern})").split(source.text)  # gap, word, gap, word … gap
    words = {form: ord("m" if form in missing else "c" if form in source.types else "s") for form in set(pieces[1::2])}
    gaps = {gap: ord("." if _SENTENCE_BREAK.search(gap) else " ") for gap in set(pieces[::2])}
    letters = bytearray(len(pieces))
    letters[::2] = bytes(map(gaps.__getitem__, pieces[::2]))
    letters[1::2] = bytes(map(words.__getitem__, pieces[1::2]))
    ends = array("q", accumulate(map(len, pieces)))
    spans = (Span(ends[m.start() - 1], ends[m.end() - 1]) for m in _RUN.finditer(letters))
    return [Omission(source_id, span, 1.0, "not in the response") for span in spans]


_RUN = re.compile(rb"m(?:(?: s)* m)*")  # m: missing, s: a stop word, c: covered; gaps are a blank or a full stop
# a full stop ends a sentence only if no word follows at once, unlike in "3.5" and "U.S.A"
_SENTENCE_BREAK = re.compile(r"[.!?](?!\w)(?=.)|[;\n。！？]", re.DOTALL)
