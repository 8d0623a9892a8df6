"""Check cases: run detectors on them, apply thresholds and return the results.

Python, the command line and the service all use these functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from itertools import islice
from typing import TYPE_CHECKING, Any

from veridical.core.decide import decide, overall
from veridical.core.detector import Detector, Detectors, takes_detector
from veridical.core.errors import InputError
from veridical.core.judging import JudgementWithMap, judge_with_maps, thresholds_in_force
from veridical.core.types import Case, Checked
from veridical.sources import Sources, as_sources

if TYPE_CHECKING:
    from veridical.core.salience_map import SalienceMap

__all__ = [
    "DEFAULT_DETECTOR",
    "acheck",
    "check",
    "check_cases",
    "check_conversation",
    "check_thresholds",
    "decide_batch",
    "make_case",
]

DEFAULT_DETECTOR = "default"
BATCH = 64

Maps = tuple["SalienceMap | None", ...]
"""The salience maps of a case's judgements; None for a detector that makes none."""


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
    """Find unsupported spans in `response`, and the parts of `must_cover` and `perspectives` that it leaves out.

    Args:
        response: The text to check, as it was generated. The outcome for an empty text or None is "unjudged".
        sources: What the response may rest on; a single one is one source. A source is a text, a `Source`, the `Path`
            of a document, a dict with `text`, or a document of LangChain, LlamaIndex or Haystack. If all are empty, the
            outcome is "unjudged" for every detector that needs sources.
        question: The question that the response answers.
        must_cover: Further sources that the response has to cover.
        perspectives: Further sources that it has to cover, by the name of their perspective.
        detector: A spec such as "overlap" or "verify:overlap", an object with `name` and `judge`, or several of them.
            Default: the detector that comes with the package (docs/detectors/default.md).
        threshold: The lowest score that is flagged, in [0, 1], for all levels or per level ("response", "span",
            "coverage", "source"). Default: the detector's own, else 0.5.
        flag_over: Make the outcome "flagged" only if a response-level score is above this number.
        explain: Add the closest passages of the sources, and what they say instead, to the flagged findings
            (`veridical.detectors.explanation`).
        causes: Add why the case failed (`veridical.causes`); this needs the detector in the package.

    Returns:
        The judgements, the decision on each, and the outcome; `flagged` and `omitted` are the flagged spans.

    Raises:
        InputError: A detector is unknown, a threshold is out of range, or a source is none of these.

    >>> result = check("The tower is 300 m tall.", ["The tower is 330 m tall."], detector="overlap")
    >>> result.outcome.value, [span.text for span in result.flagged]
    ('flagged', ['300'])
    """
    case = make_case(response, sources, question=question, must_cover=must_cover, perspectives=perspectives)
    results = check_cases([case], detector, threshold=threshold, flag_over=flag_over, explain=explain, causes=causes)
    return next(results)


@wraps(check, assigned=())
async def acheck(*args: Any, **kwargs: Any) -> Checked:
    """Check a response as `check` does, in a thread, so that other tasks of the event loop go on."""
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
    """Check each turn of the assistant in a conversation, against what was there before it.

    Sources of a turn are `sources`, results of tools, and what the user stated in earlier turns.

    Args:
        messages: In the form of OpenAI, Anthropic, Gemini, LangChain, LlamaIndex or the AI SDK, as objects or
            dictionaries, or pairs of a role and a text.
        sources: Passages that every turn may rest on, as in `check`.
        system: How much of the system message is a source: "none", "all", or the name of a tag around it.
        assistant: Whether what the assistant said before is a source.
        only_last: Whether to check the last turn of the assistant only.
        detector: As in `check`.
        threshold: As in `check`.
        explain: As in `check`.

    >>> chat = [("user", "How tall is it?"), ("tool", "height: 330 m"), ("assistant", "It is 300 m tall.")]
    >>> [result.outcome.value for result in check_conversation(chat, detector="overlap")]
    ['flagged']
    """
    from veridical.core.messages import read_conversation

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
    """Make a case from the arguments of `check`: sources without an id are numbered, perspectives have their names."""
    for name, text in (("response", response), ("question", question)):
        if not isinstance(text, str | None):
            raise InputError(f"the {name} is of the type {type(text).__name__}", hint="give its text, or None")
    all_sources = as_sources(sources)
    all_sources += as_sources(must_cover, first=len(all_sources) + 1, must_cover=True)
    for name, text in (perspectives or {}).items():
        all_sources += [replace(each, id=name, perspective=name) for each in as_sources([text], must_cover=True)]
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
    """Check any number of cases, lazily and in order, in small batches; arguments and errors are those of `check`.

    A wrong argument raises at once, not at the first case. `maps`, if given, receives the salience maps of each case's
    judgements.
    """
    from veridical.detectors import load_detector, load_each

    detectors = load_each(detector)
    reader = load_detector("default") if causes else None
    check_thresholds(threshold, flag_over)

    def results() -> Iterator[Checked]:
        remaining = iter(cases)
        while batch := list(islice(remaining, BATCH)):
            columns = [judge_with_maps(each, batch) for each in detectors]
            decided = decide_batch(batch, detectors, columns, threshold=threshold, flag_over=flag_over, explain=explain)
            if maps is not None:
                maps.extend(case_maps for _, case_maps in decided)
            checked = [each for each, _ in decided]
            if reader is not None:
                from veridical.causes import with_causes

                checked = list(with_causes(checked, detector=reader))
            yield from checked

    return results()


def check_thresholds(threshold: float | Mapping[str, float] | None, flag_over: float | None) -> None:
    """Raise `InputError` if a threshold lies outside [0, 1] or names no level, or `flag_over` lies outside [0, 1)."""
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
    """Decide on the judgements of each case; return its result, and its judgements' salience maps.

    Args:
        cases: The cases.
        detectors: The detectors.
        columns: For each detector, its judgement of each case with the salience map.
        threshold: As in `check`.
        flag_over: As in `check`.
        explain: As in `check`.
    """
    thresholds = [thresholds_in_force(detector, threshold) for detector in detectors]
    results: list[tuple[Checked, Maps]] = []
    for case, pairs in zip(cases, zip(*columns, strict=True), strict=True):
        judgements, maps = zip(*pairs, strict=True)
        if explain:
            from veridical.detectors.explanation import explained

            judgements = tuple(explained(case, *pair) for pair in zip(judgements, thresholds, strict=True))
        decisions = tuple(decide(case, *pair) for pair in zip(judgements, thresholds, strict=True))
        outcome = overall(case, judgements, decisions, flag_over)
        results.append((Checked(case, judgements, decisions, outcome), maps))
    return results
