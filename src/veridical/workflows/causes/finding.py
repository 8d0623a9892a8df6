"""Find out why each checked case failed, by rules on words and with the default detector or a chat model.

A model decides whether passages answer a question and whether they contradict a sentence (`passage_checks`). Rules on
words decide everything else. The thresholds were tuned on questions that the figures in the docs do not use.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from veridical.detectors import load_detector
from veridical.detectors.default.detector import Default
from veridical.llm.protocol import ChatModel
from veridical.records.decide import decide, merge
from veridical.records.detector import Detector
from veridical.records.errors import InputError
from veridical.records.judging import NO_CLAIM, judge, thresholds_in_force
from veridical.records.spans import Span, overlapping
from veridical.records.strings import shorten
from veridical.records.types import Case, Cause, CauseKind, Checked, Evidence, Outcome, Source
from veridical.text.mentions import SentenceIndex, index_of
from veridical.text.segment import has_words, sentences
from veridical.workflows.causes.passage_checks import ChatReader, DetectorReader, Reader, Reading
from veridical.workflows.causes.word_comparison import CaseWords, refusal_in

READ_OFFLINE = "the model gave no answer: "
"""Starts the remark, in the reason of a cause, that the chat model gave no answer and the default detector decided."""

_BATCH = 64  # cases that the detector reads together
_ANSWERED = 0.7  # least answerability of passages that answer a question
_LITTLE = 0.5  # if the answerability is lower, flagged text counts as not retrieved
_RELEVANT = 0.8  # if the relevance is lower, an unflagged response does not answer the question
_BESIDE = 0.5  # if the relevance is lower, a flagged response does not answer the question
_CONTRADICTED = 0.69  # least probability that the passages contradict a flagged sentence, for "misread"
_MOST, _PART = 0.5, 0.15  # if more of the sentences and characters are flagged, nothing suitable was retrieved
_CANDIDATES = 3  # passages of the collection to read for a case
_RANKED = 50  # best-matching sentences of the collection, from which the candidates come
_QUOTE = 80  # most characters that a reason quotes


def with_causes(
    results: Iterable[Checked],
    *,
    collection: Sequence[Source] = (),
    detector: Detector | None = None,
    model: ChatModel | None = None,
) -> Iterator[Checked]:
    """Add the cause of failure to each result of a check.

    The results are read lazily and keep their order.

    Args:
        results: The results of any detector, with the sources of their cases.
        collection: Further passages, which the retriever could have found but which the model was not shown.
        detector: A `default` detector, which decides whether passages answer a question and whether they contradict a
            flagged sentence. Default: the detector that comes with the package.
        model: A chat model to ask instead of the detector. If the model does not answer, the detector decides, and the
            reason of the cause says so.

    Raises:
        InputError: `detector` is not a `default` detector.

    >>> from veridical.workflows.checking import check
    >>> passage = "The Eiffel Tower in Paris was opened in 1889 and is 330 m tall."
    >>> result = check("I don't know.", passage, question="When was the Eiffel Tower opened?")
    >>> next(with_causes([result])).cause.kind.value
    'wrong refusal'
    """
    detector = load_detector("default") if detector is None else detector
    if not isinstance(detector, Default):
        raise InputError(f"causes need the detector default, not {detector.name}", hint="it comes with the package")
    offline = DetectorReader(detector)
    reader = offline if model is None else ChatReader(model, offline)
    index = index_of(tuple(source.text for source in collection))

    def caused() -> Iterator[Checked]:
        remaining = iter(results)
        while batch := list(islice(remaining, _BATCH)):
            causes = [_cause(result, *readings) for result, readings in zip(batch, _read(batch, reader), strict=True)]
            if collection:
                causes = _ranked_too_low(batch, causes, collection, index, reader, detector)
            yield from (replace(result, cause=cause) for result, cause in zip(batch, causes, strict=True))

    return caused()


def _read(results: Sequence[Checked], reader: Reader) -> list[tuple[Reading | None, Reading]]:
    """Estimate whether the passages of each case answer its question, and whether they contradict a flagged sentence.

    The first reading is None if it is not needed: there is no question, there are no passages, or the response is
    neither flagged nor a refusal to answer. The second reading is about the flagged sentence that the passages
    contradict most clearly.
    """
    cases = [result.case for result in results]
    with_passages = [any(has_words(source.text) for source in case.sources) for case in cases]
    to_ask = [
        i
        for i, case in enumerate(cases)
        if case.question
        and with_passages[i]
        and (results[i].outcome is Outcome.FLAGGED or refusal_in(case) is not None)
    ]
    answered = dict(zip(to_ask, reader.answered([cases[i] for i in to_ask]), strict=True))
    flagged = [
        (i, Case(str(i), span.of(result.case.response), result.case.sources))
        for i, result in enumerate(results)
        if with_passages[i]
        for span in _flagged_sentences(result)
    ]
    contradicted: dict[int, Reading] = {}
    for (i, _), reading in zip(flagged, reader.contradicted([case for _, case in flagged]), strict=True):
        if i not in contradicted or reading.probability > contradicted[i].probability:
            contradicted[i] = reading
    return [(answered.get(i), contradicted.get(i, Reading(0.0))) for i in range(len(results))]


def _cause(checked: Checked, answered: Reading | None, contradicted: Reading) -> Cause:
    cause = cause_of(checked, None if answered is None else answered.probability, contradicted.probability)
    problem = (answered and answered.problem) or contradicted.problem
    return _read_offline(cause, problem)


def _read_offline(cause: Cause, problem: str | None) -> Cause:
    """If the chat model gave no answer, say so in the reason of the cause."""
    return replace(cause, reason=f"{cause.reason} ({READ_OFFLINE}{shorten(problem, _QUOTE)})") if problem else cause


def cause_of(checked: Checked, answerability: float | None = None, contradicted: float = 0.0) -> Cause:
    """Find out why a case failed, from the passages that were shown to the model.

    Args:
        checked: The result of a check.
        answerability: The probability that the passages answer the question, in [0, 1]. None if it was not estimated,
            for example because there is no question.
        contradicted: The highest probability that the passages contradict a flagged sentence, in [0, 1].

    Returns:
        The kind of the cause, the reason in one line, and the passages on which it is based. If nothing failed, the
        kind is `CauseKind.NONE`.
    """
    case = checked.case
    no_passages = not any(has_words(source.text) for source in case.sources)
    if not has_words(case.response):
        return Cause(CauseKind.NOT_JUDGED, "the response is empty")
    refusal = refusal_in(case)
    marked = _flagged_sentences(checked)
    if no_passages:
        kind = CauseKind.NOT_RETRIEVED if refusal is None else CauseKind.RIGHT_REFUSAL
        return Cause(kind, "no passage was retrieved")
    words = CaseWords(case)
    if refusal is not None and all(span.overlaps(refusal) for span in marked):
        answered = bool(marked) or (answerability is not None and answerability >= _ANSWERED)
        about = case.question or refusal.of(case.response)
        if answered:
            return Cause(CauseKind.WRONG_REFUSAL, "a passage has the answer", words.closest(about))
        return Cause(CauseKind.RIGHT_REFUSAL, "no passage answers the question", words.closest(about))
    if checked.outcome is Outcome.UNJUDGED:
        notes = [note for judgement in checked.judgements for note in judgement.notes]
        return Cause(CauseKind.NOT_JUDGED, shorten(notes[0], _QUOTE) if notes else "not all of it was judged")
    if checked.outcome is Outcome.NO_CLAIM:
        return Cause(CauseKind.NONE, NO_CLAIM)
    conflict = words.conflict()
    if conflict is not None:
        quotes = " against ".join(f"“{_quote(case, piece)}”" for piece in conflict)
        return Cause(CauseKind.CONFLICTING, f"two passages contradict each other: {quotes}", conflict)
    is_flagged = checked.outcome is Outcome.FLAGGED and (bool(marked) or not checked.omitted)
    cause = _cause_of_flagged(checked, words, marked, answerability, contradicted) if is_flagged else None
    is_beside = bool(case.question) and words.relevance < (_BESIDE if is_flagged else _RELEVANT)
    if is_beside and (cause is None or cause.kind is not CauseKind.NOT_RETRIEVED):
        evidence = words.closest(case.question or "")
        return Cause(CauseKind.NOT_ANSWERED, "another passage fits the question better", evidence)
    left_out = ", but it leaves out what it has to cover" if checked.omitted else ""
    return cause or Cause(CauseKind.NONE, f"the passages support the response{left_out}")


def _cause_of_flagged(
    checked: Checked, words: CaseWords, marked: Sequence[Span], answerability: float | None, contradicted: float
) -> Cause:
    response = checked.case.response
    spans = checked.flagged
    parts = [span for span in sentences(response) if has_words(span.of(response))]
    proportion = sum(len(span) for span in spans) / max(1, len(response))
    evidence = words.closest(" ".join(span.of(response) for span in marked) or response)
    denied = contradicted >= _CONTRADICTED
    mostly = len(marked) > _MOST * len(parts) and proportion >= _PART and not (denied and len(marked) == 1)
    if mostly or not marked or (answerability is not None and answerability < _LITTLE):
        return Cause(CauseKind.NOT_RETRIEVED, "no passage has what the response says", evidence)
    longest = max(merge(response, spans), key=len)
    quoted = f"“{shorten(longest.of(response), _QUOTE)}”"
    stitched = words.stitched(spans)
    if stitched is not None:
        return Cause(CauseKind.STITCHED, f"{quoted} is from another passage than the rest", stitched)
    if denied:
        return Cause(CauseKind.MISREAD, f"a passage says otherwise than {quoted}", evidence)
    return Cause(CauseKind.ADDED, f"no passage says {quoted}", evidence)


def _flagged_sentences(checked: Checked) -> list[Span]:
    """Find the sentences of the response that contain flagged text, in order."""
    flagged = checked.flagged
    return [sentence for sentence in sentences(checked.case.response) if overlapping(flagged, sentence)]


def _quote(case: Case, evidence: Evidence) -> str:
    return shorten(evidence.span.of(case.source(evidence.source_id).text), _QUOTE)


def _ranked_too_low(
    results: Sequence[Checked],
    causes: Sequence[Cause],
    collection: Sequence[Source],
    index: SentenceIndex,
    reader: Reader,
    detector: Default,
) -> list[Cause]:
    """Change a cause to `RANKED_TOO_LOW` if other passages of the collection have what the shown passages lack."""
    found = list(causes)
    unsaid: list[tuple[int, tuple[Source, ...]]] = []
    unanswered: list[tuple[int, tuple[Source, ...]]] = []
    for i, (result, cause) in enumerate(zip(results, causes, strict=True)):
        refused = cause.kind is CauseKind.RIGHT_REFUSAL and bool(result.case.question)
        if refused or cause.kind is CauseKind.NOT_RETRIEVED:
            text = "" if refused else result.case.response
            if candidates := _candidates(result.case, text, collection, index):
                (unanswered if refused else unsaid).append((i, candidates))
    together = [replace(results[i].case, sources=_joined(results[i].case.sources, more)) for i, more in unsaid]
    thresholds = thresholds_in_force(detector)
    for (i, more), case, judgement in zip(unsaid, together, judge(detector, together), strict=True):
        decision = decide(case, judgement, thresholds)
        left = _flagged_sentences(Checked(case, (judgement,), (decision,), decision.outcome))
        before = _flagged_sentences(results[i]) or sentences(case.response)
        if decision.outcome is not Outcome.UNJUDGED and len(left) <= len(before) / 2:
            found[i] = _not_shown("has what the response says", case.response, more)
    asked = [replace(results[i].case, sources=more) for i, more in unanswered]
    for (i, more), case, answered in zip(unanswered, asked, reader.answered(asked), strict=True):
        if answered.probability >= _ANSWERED:
            cause = _not_shown("answers the question", case.question or "", more)
            found[i] = _read_offline(cause, answered.problem)
    return found


def _candidates(case: Case, text: str, collection: Sequence[Source], index: SentenceIndex) -> tuple[Source, ...]:
    """Find the passages closest to the question and `text` among those in the collection that were not shown."""
    shown = {source.text for source in case.sources}
    words = [w for s in index_of((f"{case.question or ''}\n{text}",)).sentences for w in index.weighted(s)]
    numbers = dict.fromkeys(index.sentences[i].text_i for i, _ in index.closest(words, _RANKED))
    return tuple(collection[n] for n in numbers if collection[n].text not in shown)[:_CANDIDATES]


def _joined(sources: Sequence[Source], more: Sequence[Source]) -> tuple[Source, ...]:
    """Join two lists of sources and number them anew, because the same id may occur in both lists."""
    return tuple(replace(source, id=str(i), must_cover=False) for i, source in enumerate((*sources, *more), 1))


def _not_shown(what: str, text: str, passages: tuple[Source, ...]) -> Cause:
    case = Case("", text, passages)
    evidence = CaseWords(case).closest(text)
    name, quote = (evidence[0].source_id, f": “{_quote(case, evidence[0])}”") if evidence else (passages[0].id, "")
    return Cause(CauseKind.RANKED_TOO_LOW, f"{name}, which was not shown, {what}{quote}", evidence)
