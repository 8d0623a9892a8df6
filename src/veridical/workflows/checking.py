"""Check cases: run detectors on them, apply thresholds and return the results.

Python, the command line and the service all use these functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from itertools import islice
from typing import TYPE_CHECKING, Any

from veridical.io.sources import Sources, as_sources, listed_sources
from veridical.records.decide import decide, overall
from veridical.records.detector import Detector, Detectors, takes_detector
from veridical.records.errors import InputError
from veridical.records.judging import JudgementWithMap, judge_with_maps, thresholds_in_force
from veridical.records.strings import unique_names
from veridical.records.types import Case, Checked

if TYPE_CHECKING:
    from veridical.records.salience_map import SalienceMap

DEFAULT_DETECTOR = "default"
BATCH = 64

Maps = tuple["SalienceMap | None", ...]
"""For each judgement of a case, its salience map (how strongly each source word influences each response word).

An item is None if its detector makes no maps.
"""


@takes_detector
def check(
    response: str | None,
    sources: Sources = (),
    *,
    question: str | None = None,
    must_cover: Sources = (),
    perspectives: Mapping[str, Sources] | None = None,
    detector: Detectors = DEFAULT_DETECTOR,
    threshold: float | Mapping[str, float] | None = None,
    flag_over: float | None = None,
    explain: bool = False,
    causes: bool = False,
) -> Checked:
    """Find the unsupported parts of a response, and the source passages that the response should cover but leaves out.

    Args:
        response: The text to check, exactly as it was generated. If it is empty or None, the outcome is "unjudged",
            unless omissions are flagged.
        sources: The texts that the response may rest on, as one source or a list. Each source can be a text, a
            `Source`, the `Path` of a document, a dict with the key `text`, or a LangChain, LlamaIndex or Haystack
            document. If all sources are empty, a detector that needs sources gives the outcome "unjudged".
        question: The question that the response answers.
        must_cover: Further sources, which the response has to cover.
        perspectives: Further sources, which the response has to cover, grouped by point of view: a dict from the name
            of a perspective to its sources.
        detector: A detector, or several detectors. Each can be a spec such as "overlap" or "verify:overlap", or an
            object with `name` and `judge`. Default: the detector that comes with the package
            (docs/detectors/default.md).
        threshold: The score in [0, 1] from which a finding is flagged. Pass one number, or a dict with a number for
            "response" (the whole response), "span" (spans of it), "coverage" (all that the response should cover) or
            "source" (spans of the sources to cover). Default: the detector's own thresholds, or 0.5.
        flag_over: A number in [0, 1). If you set it, the thresholds do not decide the outcome. It is "flagged" only if
            the hallucination or omission score of the whole response is above this number.
        explain: Add to each flagged finding the closest passages of the sources, and what these passages say instead
            (`veridical.detectors.explanation`).
        causes: Add the cause if the case failed (`veridical.workflows.causes`). This needs the detector that comes with
            the package.

    Returns:
        The judgement of each detector (its scores), the decision on each judgement (the scores that are flagged), and
        the outcome. `flagged` are the flagged spans of the response, and `omitted` the flagged spans of the sources.

    Raises:
        InputError: A detector is unknown, a threshold is out of range, or a source has an unsupported type.

    >>> result = check("The tower is 300 m tall.", ["The tower is 330 m tall."], detector="overlap")
    >>> result.outcome.value, [span.text for span in result.flagged]
    ('flagged', ['300'])
    """
    case = make_case(response, sources, question=question, must_cover=must_cover, perspectives=perspectives)
    results = check_cases([case], detector, threshold=threshold, flag_over=flag_over, explain=explain, causes=causes)
    return next(results)


@wraps(check, assigned=())
async def acheck(*args: Any, **kwargs: Any) -> Checked:
    """Run `check` with the same arguments in a thread, so that the event loop can run other tasks meanwhile."""
    import asyncio

    return await asyncio.to_thread(check, *args, **kwargs)


@takes_detector
def check_conversation(
    messages: Iterable[Any],
    sources: Sources = (),
    *,
    system: str = "none",
    assistant: bool = False,
    only_last: bool = False,
    detector: Detectors = DEFAULT_DETECTOR,
    threshold: float | Mapping[str, float] | None = None,
    explain: bool = False,
) -> list[Checked]:
    """Check each assistant turn of a conversation against the sources that were available before that turn.

    The sources of a turn are `sources`, tool results, and the user's statements in earlier turns.

    Args:
        messages: The conversation, as message objects or dictionaries of OpenAI, Anthropic, Gemini, LangChain,
            LlamaIndex or the AI SDK, or as pairs of role and text.
        sources: The passages that every turn may rest on, as texts, `Source` objects or other forms (see `check`).
        system: How much of the system message is a source: "none", "all", or the part inside a tag, by the tag's name.
        assistant: Whether earlier assistant turns are sources, too.
        only_last: Whether to check only the last assistant turn.
        detector: A detector or several, each as a spec such as "overlap", or as an object with `name` and `judge`.
        threshold: The score in [0, 1] from which a finding is flagged, as one number or as a dict (see `check`).
            Default: the detector's own thresholds, or 0.5.
        explain: Whether to add to each flagged finding the closest passages of the sources, and what they say instead.

    Returns:
        One result for each checked turn, in order.

    >>> chat = [("user", "How tall is it?"), ("tool", "height: 330 m"), ("assistant", "It is 300 m tall.")]
    >>> [result.outcome.value for result in check_conversation(chat, detector="overlap")]
    ['flagged']
    """
    from veridical.io.conversations import read_conversation

    shared = as_sources(sources)
    cases = read_conversation(messages, sources=shared, system=system, assistant=assistant, only_last=only_last)
    return list(check_cases(cases, detector, threshold=threshold, explain=explain))


def make_case(
    response: str | None,
    sources: Sources = (),
    *,
    question: str | None = None,
    must_cover: Sources = (),
    perspectives: Mapping[str, Sources] | None = None,
    id: str = "1",
) -> Case:
    """Build a `Case` from a response and its sources.

    A source without an id gets a number as its id. The ids of the sources in `perspectives` are made from the names of
    their perspectives.

    Args:
        response: The text to check. None counts as an empty text.
        sources: The texts that the response may rest on, in any of the forms that `check` takes.
        question: The question that the response answers.
        must_cover: Further sources, which the response has to cover.
        perspectives: Further sources to cover, as a dict from the name of a perspective to its sources.
        id: The id of the case.

    Raises:
        InputError: An argument or a source has an unsupported type.
    """
    for name, text in (("response", response), ("question", question)):
        if not isinstance(text, str | None):
            raise InputError(f"the {name} is of the type {type(text).__name__}", hint="give its text, or None")
    if not isinstance(perspectives, Mapping | None):
        hint = "a dict from names to sources, such as {'pro': ['It is cheap.']}"
        raise InputError(f"the perspectives are of the type {type(perspectives).__name__}", hint=hint)
    passages, to_cover = listed_sources(sources), listed_sources(must_cover)
    pairs = [(name, each) for name, items in (perspectives or {}).items() for each in as_sources(items)]
    ids = unique_names(name for name, _ in pairs)
    of_perspectives = [replace(each, id=id, perspective=name) for id, (name, each) in zip(ids, pairs, strict=True)]
    all_sources = as_sources([*passages, *to_cover, *of_perspectives])
    all_sources[len(passages) :] = [replace(each, must_cover=True) for each in all_sources[len(passages) :]]
    return Case(id, response or "", tuple(all_sources), question)


@takes_detector
def check_cases(
    cases: Iterable[Case],
    detector: Detectors = DEFAULT_DETECTOR,
    *,
    threshold: float | Mapping[str, float] | None = None,
    flag_over: float | None = None,
    explain: bool = False,
    causes: bool = False,
    maps: list[Maps] | None = None,
) -> Iterator[Checked]:
    """Check any number of cases, and yield their results one by one, in the same order.

    The cases are read lazily, in small batches. A wrong argument raises an error at once, before the first case is
    read.

    Args:
        cases: The cases. To make them from texts, use `make_case`.
        detector: A detector or several, each as a spec such as "overlap", or as an object with `name` and `judge`.
        threshold: The score in [0, 1] from which a finding is flagged, as one number or as a dict (see `check`).
            Default: the detector's own thresholds, or 0.5.
        flag_over: If set, a case is flagged only if its hallucination or omission score is above this number.
        explain: Whether to add to each flagged finding the closest passages of the sources, and what they say instead.
        causes: Whether to add the cause if a case failed.
        maps: A list to which the salience maps of each case are added. A salience map shows how strongly each source
            word influences each response word.

    Raises:
        InputError: A detector is unknown, a threshold is out of range, or a case is not a `Case`.
    """
    from veridical.detectors import load_detector, load_each

    detectors = load_each(detector)
    reader = load_detector("default") if causes else None
    check_thresholds(threshold, flag_over)
    if hasattr(cases, "iterrows"):  # it would yield the names of its columns
        hint = "use veridical.workflows.batch.check_dataframe"
        raise InputError(f"the cases are of the type {type(cases).__name__}", hint=hint)
    if not isinstance(cases, Iterable):
        raise InputError(f"the cases are of the type {type(cases).__name__}", hint="give a list of Case objects")

    def results() -> Iterator[Checked]:
        remaining = iter(cases)
        while batch := list(islice(remaining, BATCH)):
            for each in batch:
                if not isinstance(each, Case):
                    hint = "make it as Case(id, response, sources), or read a file with veridical.io.rows.read_cases"
                    raise InputError(f"a case is of the type {type(each).__name__}", hint=hint)
            columns = [judge_with_maps(each, batch) for each in detectors]
            decided = decide_batch(batch, detectors, columns, threshold=threshold, flag_over=flag_over, explain=explain)
            if maps is not None:
                maps.extend(case_maps for _, case_maps in decided)
            checked = [each for each, _ in decided]
            if reader is not None:
                from veridical.workflows.causes import with_causes

                checked = list(with_causes(checked, detector=reader))
            yield from checked

    return results()


def check_thresholds(threshold: float | Mapping[str, float] | None, flag_over: float | None) -> None:
    """Validate the arguments `threshold` and `flag_over` of `check` before any case is judged.

    Raises:
        InputError: A threshold lies outside [0, 1], or is for something else than "response", "span", "coverage" or
            "source". Or `flag_over` lies outside [0, 1).
    """
    thresholds_in_force(None, threshold)
    if flag_over is not None and not 0.0 <= flag_over < 1.0:
        raise InputError(f"flag_over is {flag_over}", hint="it lies from 0 to below 1")


def decide_batch(
    cases: Sequence[Case],
    detectors: Sequence[Detector],
    columns: Sequence[Sequence[JudgementWithMap]],
    *,
    threshold: float | Mapping[str, float] | None = None,
    flag_over: float | None = None,
    explain: bool = False,
) -> list[tuple[Checked, Maps]]:
    """Apply the thresholds to judged cases. Return, for each case, its result and its salience maps.

    A salience map shows how strongly each source word influences each response word.

    Args:
        cases: The cases that were judged.
        detectors: The detectors that judged the cases.
        columns: One list for each detector, with a pair (judgement, salience map or None) for each case.
        threshold: The score in [0, 1] from which a finding is flagged, as one number or as a dict (see `check`).
            Default: the detectors' own thresholds, or 0.5.
        flag_over: If set, a case is flagged only if its hallucination or omission score is above this number.
        explain: Whether to add to each flagged finding the closest passages of the sources, and what they say instead.
    """
    thresholds = [thresholds_in_force(detector, threshold) for detector in detectors]
    results: list[tuple[Checked, Maps]] = []
    for case, pairs in zip(cases, zip(*columns, strict=True), strict=True):
        judgements, maps = zip(*pairs, strict=True)
        if explain:
            from veridical.detectors.explanation import explained

            done = (getattr(each, "explains", False) for each in detectors)
            wanted = zip(judgements, thresholds, done, strict=True)
            judgements = tuple(explained(case, judgement, levels, done=own) for judgement, levels, own in wanted)
        decisions = tuple(decide(case, *pair) for pair in zip(judgements, thresholds, strict=True))
        outcome = overall(case, judgements, decisions, flag_over)
        results.append((Checked(case, judgements, decisions, outcome), maps))
    return results
