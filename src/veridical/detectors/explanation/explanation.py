"""Explain flagged spans: find the closest source passages, the values that the sources have instead, and a reason.

Explanations can be added to the judgements of any detector, and do not change scores. Numbers, dates and names are
compared by value, and other words by their stems. Fields that such comparisons cannot fill in stay empty.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from veridical.detectors.explanation.contradiction import FlaggedWords, compared, find_contradiction, says_similar
from veridical.detectors.explanation.kinds import ABSENCE, CONTRADICTION, REFERENCE, is_most, kind_of_error
from veridical.detectors.explanation.references import invented_references
from veridical.io.json_positions import path_of
from veridical.records.decide import decide, merge
from veridical.records.edits import apply
from veridical.records.spans import Span, furthest_end, overlapping
from veridical.records.strings import shorten
from veridical.records.types import Case, Edit, Evidence, Judgement, Omission, Thresholds, Verdict
from veridical.text.citations import DANGLING, MISSING, WRONG
from veridical.text.counterparts import MentionComparison, other_answer, replacement, stated
from veridical.text.mentions import Mention, Sentence, SentenceIndex, WeightedWord, index_of
from veridical.text.quantities import in_sentence

__all__ = ["ABSENCE", "CONTRADICTION", "explained", "likely_label"]

MostSimilar = Callable[[str, Sequence[str]], int]
"""A function that takes a text and a list of texts, and returns the index of the one in the list closest in meaning."""
_SURE = 0.85
"""A detector's probability of contradiction becomes a label only if it is at least this, or at most 1 minus this."""
_PLAIN_REASONS = frozenset({"not in any source", "in no source", "not in the response"})  # replaced by our reasons
_ABOUT_CITATIONS = frozenset({DANGLING, MISSING, WRONG})
_CLOSEST = 3  # source sentences to compare flagged words with
_PASSAGES = 2  # most of them to give as evidence
_ADDS = 0.15  # least share of the weight of all words that a second passage must add to the first
_ANSWERS = 0.5  # least proportion of the weight of a question's words, for a sentence that answers it
_NOTHING_NEAR = 1 / 3  # proportion of the weight of flagged words; with no more in common, no passage is near
_FEW = 4  # a text that shares no words with the sources is labelled as absent only if it has more words than this
_LISTED = 4  # most words that a reason lists
_LONGEST_JSON = 200_000  # characters: paths in longer JSON are not looked for
_COMPARED = 64  # most source sentences to compare by meaning, which takes time
_QUOTE = 60  # most characters that a reason quotes


def likely_label(contradicted: float) -> str | None:
    """Convert the probability that the sources contradict an unsupported text into a label.

    The label is `CONTRADICTION` if the probability is high, `ABSENCE` (no source mentions the text) if it is low, and
    None in between.

    >>> [likely_label(probability) for probability in (0.95, 0.5, 0.1)]
    ['contradiction', None, 'absence']
    """
    return CONTRADICTION if contradicted >= _SURE else ABSENCE if contradicted <= 1 - _SURE else None


def explained(
    case: Case,
    judgement: Judgement,
    thresholds: Thresholds | None = None,
    *,
    contradicted: Sequence[tuple[Span, float]] = (),
    most_similar: MostSimilar | None = None,
    done: bool = False,
) -> Judgement:
    """Add explanations to the flagged spans and the omissions of a judgement.

    These fields of each flagged verdict are set:

    - `reason`, with the closest source sentences as `evidence`.
    - `label`, if it is clear whether the sources contradict the words (`CONTRADICTION`) or do not mention them
      (`ABSENCE`).
    - `correction`, if a source clearly has another value or name in the same place, or the opposite word.
    - `kind`, the kind of error in the sentence (`KINDS`, `REFERENCE`), if it is clear.

    Adjacent flagged words share one explanation. An omission gets a reason that quotes the closest sentence of the
    response.

    Fields that the detector has set are kept, and new reasons are appended to its own. A verdict that already has a
    kind is not changed. If the case has no sources, the judgement is returned unchanged.

    Args:
        case: The case that was judged.
        judgement: A detector's judgement of the case.
        thresholds: The thresholds that decide which spans and omissions are flagged (`records.decide`). Default: 0.5.
        contradicted: Spans of the response, such as its sentences, each with the probability in [0, 1] that the sources
            contradict the span, given that it is unsupported. It decides the label if comparing words does not.
        most_similar: A function that finds the source sentence closest in meaning. It is used if no source sentence
            shares words with the sentence of the flagged words.
        done: If true, the detector explains its own findings, and only findings without a reason are explained here.

    >>> from veridical.records.types import Source
    >>> case = Case("1", "The tower was built in 1983.", (Source("a", "It rains. The tower was built in 1893."),))
    >>> judged = Judgement("1", "x", verdicts=(Verdict(Span(23, 27), 0.9),))
    >>> verdict = explained(case, judged).verdicts[0]
    >>> verdict.label, verdict.kind, verdict.correction, verdict.reason, verdict.evidence[0].span
    ('contradiction', 'time', '1893', 'the source has 1893, not 1983', Span(start=10, end=38))
    """
    verdicts, decision = list(judgement.verdicts), decide(case, judgement, thresholds)
    flagged = [
        i
        for i in sorted({*decision.verdicts})
        if len(verdicts[i].span) and verdicts[i].label not in _ABOUT_CITATIONS and verdicts[i].kind is None
        if not (done and verdicts[i].reason)
    ]
    left_out = {i for i in decision.omissions if not (done and judgement.omissions[i].reason)}
    if not flagged and not left_out:
        return judgement
    sources, response = index_of(tuple(source.text for source in case.sources)), index_of((case.response,))
    if not sources.sentences or not response.sentences:
        return judgement
    explainer = _Explainer(case, sources, contradicted, most_similar)
    explanations = explainer.explanations(response, [verdicts[i].span for i in flagged])
    for i, explanation in zip(flagged, explanations, strict=True):
        verdicts[i] = _with(verdicts[i], explanation)
    omissions = tuple(
        replace(omission, reason=_joined(omission.reason, explainer.omitted(response, omission)))
        if i in left_out
        else omission
        for i, omission in enumerate(judgement.omissions)
    )
    return replace(judgement, verdicts=tuple(verdicts), omissions=omissions)


@dataclass(frozen=True, slots=True)
class _Explanation:
    """The explanation of flagged words of the response."""

    evidence: tuple[Evidence, ...] = ()
    label: str | None = None
    reason: str | None = None
    correction: str | None = None
    kind: str | None = None


def _with(verdict: Verdict, explanation: _Explanation) -> Verdict:
    """Fill in the fields that a verdict does not have yet from an explanation, and join their reasons.

    If one piece of evidence contains another, only the longer one is kept.
    """

    def inside(one: Evidence, other: Evidence) -> bool:
        return one.source_id == other.source_id and other.span.contains(one.span)

    passages = [p for p in explanation.evidence if not any(inside(p, o) and p.span != o.span for o in verdict.evidence)]
    others = [piece for piece in verdict.evidence if not any(inside(piece, passage) for passage in passages)]
    return replace(
        verdict,
        evidence=(*passages, *others),
        label=explanation.label if verdict.label is None else verdict.label,
        reason=_joined(verdict.reason, explanation.reason),
        correction=explanation.correction if verdict.correction is None else verdict.correction,
        kind=verdict.kind or explanation.kind,
    )


def _joined(reason: str | None, addition: str | None) -> str | None:
    """Append a reason to the detector's own reason, or replace a plain one ("not in any source")."""
    if not reason or not addition or reason in _PLAIN_REASONS:
        return addition or reason
    return reason if addition in reason else f"{reason}; {addition}"


class _Explainer:
    """Explains flagged words of one response by its sources."""

    def __init__(
        self,
        case: Case,
        sources: SentenceIndex,
        contradicted: Sequence[tuple[Span, float]],
        most_similar: MostSimilar | None,
    ) -> None:
        self.case = case
        self.sources = sources
        self.most_similar = most_similar
        self.contradicted = dict(sorted(contradicted))
        self.parts = list(self.contradicted)

    def explanations(self, response: SentenceIndex, spans: Sequence[Span]) -> list[_Explanation]:
        """Explain each span. Adjacent spans of a sentence share one explanation."""
        starts = [sentence.span.start for sentence in response.sentences]
        parts: defaultdict[int, list[Span]] = defaultdict(list)
        parts_of_spans: list[list[tuple[int, Span]]] = []
        for span in spans:
            parts_of_spans.append([])
            for i in range(max(0, bisect_right(starts, span.start) - 1), bisect_left(starts, span.end)):
                sentence = response.sentences[i].span
                if sentence.overlaps(span):
                    part = Span(max(span.start, sentence.start), min(span.end, sentence.end))
                    parts[i].append(part)
                    parts_of_spans[-1].append((i, part))
        explanation_of: dict[tuple[int, Span], _Explanation] = {}
        for i, inside in parts.items():
            groups = _flagged_words(response.sentences[i], inside, self.sources)
            explained_groups = [(self.explanation(flagged), members) for flagged, members in groups]
            kind = self._kind(response.sentences[i], inside, [explanation for explanation, _ in explained_groups])
            for explanation, members in explained_groups:
                explained_so = replace(explanation, kind=kind if kind == REFERENCE else explanation.kind or kind)
                explanation_of.update(dict.fromkeys(((i, part) for part in members), explained_so))
        return [_combined([explanation_of[part] for part in of_span]) for of_span in parts_of_spans]

    def _kind(self, sentence: Sentence, parts: Sequence[Span], found: Sequence[_Explanation]) -> str | None:
        """Return the kind of error in a sentence, given its flagged parts and their explanations."""
        if any(overlapping(self._invented, part) for part in parts):
            return REFERENCE
        labels = {explanation.label for explanation in found}
        label = CONTRADICTION if CONTRADICTION in labels else ABSENCE if labels == {ABSENCE} else None
        return kind_of_error(self.sources, sentence, parts, label=label)

    def explanation(self, flagged: FlaggedWords) -> _Explanation:
        """Explain flagged words by what the sources say there."""
        inside = flagged.tokens
        around = [word for word in flagged.words if word.token_i not in inside]
        if flagged.whole or not around:
            around = list(flagged.words)
        elif inside:
            edges = Mention("", flagged.span, inside.start, inside.stop - 1, ())
            around = [word.scaled(0.5 + 1 / (1 + edges.distance(word.token_i) / 4)) for word in around]
        closest = [i for i, _ in self.sources.closest(around, _CLOSEST)]
        values = compared(self.sources, flagged)
        named = {i for mention, _ in values for i in range(mention.first, mention.last + 1)}
        correction = None
        if not closest and named and named.issuperset(word.token_i for word in flagged.words):
            around = self._asked  # the answer is only a value or name: look where the sources would have it
            closest = [i for i, _ in self.sources.closest(around, _CLOSEST)]
            correction = self._right_answer(flagged, [mention for mention, _ in values], closest)
        contradiction = find_contradiction(self.sources, flagged, values, closest)
        if contradiction is not None:
            evidence = self._evidence([*contradiction.sentences, *closest], around)
            reason = self._placed(contradiction.reason, evidence)
            return _Explanation(evidence, CONTRADICTION, reason, contradiction.correction, contradiction.kind)
        closest = closest or self._similar(flagged.sentence)
        label, reason = self._missing(flagged, values, closest)
        if label is None and not any(
            says_similar(flagged.sentence.tokens[i], self.sources.sentences[n]) for i in inside for n in closest[:1]
        ):
            label = self._likely_label(flagged.span)
        evidence = self._evidence(closest, around)
        return _Explanation(evidence, label, self._placed(reason, evidence), correction)

    def _right_answer(self, flagged: FlaggedWords, mentions: Sequence[Mention], closest: Sequence[int]) -> str | None:
        """Return the right answer if the flagged answer is a single value or name and has a single alternative.

        The alternative must be in the source sentence closest to the question, and this sentence must have at least
        half of the question's words, by weight. Otherwise, return None.
        """
        if len(mentions) != 1 or not closest or self.sources.proportion(closest[0], self._asked) < _ANSWERS:
            return None
        source = self.sources.sentences[closest[0]]
        asked = [
            mention for sentence in index_of((self.case.question or "",)).sentences for mention in sentence.mentions
        ]
        option = other_answer(mentions[0], source.mentions, asked)
        if option is None:
            return None
        edit = Edit(*replacement(flagged.sentence, mentions[0], source, option), "")
        inside = flagged.span.contains(edit.span)
        shifted = replace(edit, span=edit.span.shift(-flagged.span.start))
        return apply(flagged.span.of(flagged.sentence.text), [shifted]) if inside else None

    @cached_property
    def _asked(self) -> list[WeightedWord]:
        """The words of the question. Empty if the response has several sentences, of which any may be the answer."""
        if len(index_of((self.case.response,)).sentences) > 1:
            return []
        asked = index_of((self.case.question or "",)).sentences
        return [word for sentence in asked for word in self.sources.weighted(sentence)]

    def _placed(self, reason: str | None, evidence: Sequence[Evidence]) -> str | None:
        """Add the path of the record that the reason is about, if the source is JSON ("orders[17]")."""
        if not reason or not evidence:
            return reason
        text = self.case.source(evidence[0].source_id).text
        path = path_of(text, evidence[0].span) if len(text) <= _LONGEST_JSON else None
        return f"{reason} ({path})" if path else reason

    def _similar(self, sentence: Sentence) -> list[int]:
        """Return the source sentence that is closest in meaning, or nothing if this is not known."""
        text, *texts = (each.span.of(each.text) for each in (sentence, *self.sources.sentences[: _COMPARED + 1]))
        if len(texts) == 1:
            return [0]
        return [self.most_similar(text, texts)] if self.most_similar and len(texts) <= _COMPARED else []

    def _likely_label(self, span: Span) -> str | None:
        """Return the detector's label of the first part that overlaps `span`, if the detector is sure."""
        parts = overlapping(self.parts, span)
        return likely_label(self.contradicted[parts[0]]) if parts else None

    def _evidence(self, numbers: Sequence[int], words: Sequence[WeightedWord]) -> tuple[Evidence, ...]:
        """Return the closest sentence as evidence, and perhaps a second one.

        A second sentence is added only if it has enough words that the first lacks.
        """
        evidence: list[Evidence] = []
        uncovered, total = list(words), sum(word.weight for word in words)
        for i in dict.fromkeys(numbers):
            new = sum(word.weight for word in uncovered if word.key in self.sources.keys[i])
            if not evidence or new >= _ADDS * total:
                uncovered = [word for word in uncovered if word.key not in self.sources.keys[i]]
                sentence = self.sources.sentences[i]
                source = self.case.sources[sentence.text_i]
                evidence.append(Evidence(source.id, sentence.span, round(self.sources.closeness(i, words), 4)))
        return tuple(evidence[:_PASSAGES])

    def _missing(
        self, flagged: FlaggedWords, values: Sequence[tuple[Mention, MentionComparison]], closest: Sequence[int]
    ) -> tuple[str | None, str | None]:
        """Find the label and the reason for words that no source contradicts.

        The reason says which of the words the closest passages lack.
        """
        text, inside = flagged.sentence.text, flagged.tokens
        flagged_words = [word for word in flagged.words if word.token_i in inside]
        written = [flagged.sentence.tokens[word.token_i].span.of(text) for word in flagged_words]
        if not flagged_words:
            return None, None
        invented = [reference.of(text) for reference in overlapping(self._invented, flagged.span)]
        if invented:
            return None, f"no source has {_listed(invented)}"
        if not closest:
            label = ABSENCE if len(flagged.words) > _FEW else None
            return label, "nothing in the sources is close to this"
        near = frozenset().union(*(self.sources.keys[i] for i in closest[:_PASSAGES]))
        shared, total = (
            sum(word.weight for word in flagged_words if word.key in near),
            sum(w.weight for w in flagged_words),
        )
        is_one_name = any(mention.last - mention.first + 1 >= len(flagged_words) for mention, _ in values)
        if len(flagged_words) >= 3 and not is_one_name and shared <= _NOTHING_NEAR * total:
            keys = self.sources.keys[closest[0]]
            in_closest = [words for words, word in zip(written, flagged_words, strict=True) if word.key in keys]
            has = f"has only {_listed(in_closest)} of it" if in_closest else "has none of these words"
            return ABSENCE, f"the closest passage {has}"
        for mention, comparison in values:
            if not comparison.supported and not stated(self.sources, flagged.sentence, mention):
                reason = f"no source has {mention.span.of(text)}"
                source = self.sources.sentences[closest[0]]
                others = [
                    in_sentence(m.span.of(source.text))
                    for m in source.mentions
                    if m.kind == mention.kind and not m.is_name
                ]
                return None, f"{reason}; the closest passage has {_listed(others)}" if others else reason
        stated_mentions = [mention for mention, _ in values if stated(self.sources, flagged.sentence, mention)]
        stated_tokens = {i for mention in stated_mentions for i in range(mention.first, mention.last + 1)}
        lacking = [
            words
            for words, word in zip(written, flagged_words, strict=True)
            if word.key not in near
            and (word.key is not None or word.token_i not in stated_tokens)
            and not says_similar(flagged.sentence.tokens[word.token_i], self.sources.sentences[closest[0]])
        ]
        return None, f"the closest passage does not have {_listed(lacking)}" if lacking else None

    def omitted(self, response: SentenceIndex, omission: Omission) -> str | None:
        """Return a reason that quotes the closest sentence of the response, and lists the omitted words that it lacks.

        Return None if the omission has no content words.
        """
        numbers, starts = self._sentences_of[omission.source_id]
        first = max(0, bisect_right(starts, omission.span.start) - 1)
        words: list[WeightedWord] = []
        source_words: list[tuple[str, tuple[str, ...]]] = []
        for n in numbers[first : bisect_left(starts, omission.span.end)]:
            sentence = self.sources.sentences[n]
            words += response.weighted(sentence)
            inside = (sentence.tokens[i] for i in sentence.inside(omission.span))
            source_words += [(token.span.of(sentence.text), token.keys) for token in inside if token.keys]
        closest = response.closest(words, 1)
        if not source_words:
            return None
        if not closest:
            return "no sentence of the response is close to this"
        closest_i = closest[0][0]
        quote = shorten(response.sentences[closest_i].span.of(self.case.response), _QUOTE)
        missing = [written for written, keys in source_words if response.keys[closest_i].isdisjoint(keys)]
        return f"closest in the response: “{quote}”" + (f", without {_listed(missing)}" if missing else "")

    @cached_property
    def _invented(self) -> list[Span]:
        """The references of the response that no source has, sorted and disjoint."""
        return invented_references(self.case)

    @cached_property
    def _sentences_of(self) -> dict[str, tuple[list[int], list[int]]]:
        """The indices and the starts of the sentences of each source."""
        by_source: dict[str, tuple[list[int], list[int]]] = {source.id: ([], []) for source in self.case.sources}
        for n, sentence in enumerate(self.sources.sentences):
            numbers, starts = by_source[self.case.sources[sentence.text_i].id]
            numbers.append(n)
            starts.append(sentence.span.start)
        return by_source


def _flagged_words(
    sentence: Sentence, parts: Sequence[Span], sources: SentenceIndex
) -> Iterator[tuple[FlaggedWords, list[Span]]]:
    """Group the flagged parts of a sentence so that each group gets one explanation.

    A part that is most of the sentence stands alone. Other parts are joined if they are adjacent, or belong to
    one value or name ("3" and "2021" of "3 May 2021").
    """
    words = sources.weighted(sentence)
    size = len(sentence.tokens)
    runs: list[Span] = []
    for part in dict.fromkeys(parts):
        if is_most(len(sentence.inside(part)), size):
            yield FlaggedWords(sentence, part, True, words), [part]
        else:
            runs.append(part)
    joined: list[Span] = []
    mentioned_before = furthest_end(mention.span for mention in sentence.mentions)
    for run in merge(sentence.text, runs):
        if joined and mentioned_before(joined[-1].end) > run.start:
            joined[-1] = Span(joined[-1].start, run.end)
        else:
            joined.append(run)
    members: defaultdict[Span, list[Span]] = defaultdict(list)
    for run in runs:
        members[overlapping(joined, run)[0]].append(run)
    for words_span in joined:
        yield FlaggedWords(sentence, words_span, False, words), members[words_span]


def _combined(explanations: Sequence[_Explanation]) -> _Explanation:
    """Combine the explanations of a span's sentences. A correction is kept only if there is a single explanation."""
    if len(explanations) == 1:
        return explanations[0]
    labels = {explanation.label for explanation in explanations}
    label = CONTRADICTION if CONTRADICTION in labels else labels.pop() if len(labels) == 1 else None
    reasons = dict.fromkeys(e.reason for e in explanations if e.reason and e.label == label)
    evidence = dict.fromkeys(piece for e in explanations for piece in e.evidence)
    kinds = {explanation.kind for explanation in explanations}
    return _Explanation(
        tuple(evidence), label, "; ".join(reasons) or None, kind=kinds.pop() if len(kinds) == 1 else None
    )


def _listed(words: Iterable[str]) -> str:
    """List words in quotation marks, each once, up to a few.

    >>> _listed(["a", "b", "a"]), _listed("abcde")
    ('“a”, “b”', '“a”, “b”, “c”, “d” …')
    """
    different = list(dict.fromkeys(shorten(word, _QUOTE) for word in words))
    return ", ".join(f"“{word}”" for word in different[:_LISTED]) + (" …" if len(different) > _LISTED else "")
