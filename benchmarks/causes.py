"""How often `veridical.workflows.causes` names the right cause: cases of each cause, made from questions over retrieved
passages.

    python benchmarks/causes.py FOLDER [--split dev] [--seed 0] [--questions N] [--model NAME --base-url URL]

FOLDER holds the set `written_rag`; the thresholds of `veridical.workflows.causes` were chosen on its split `train`.
Each question gives cases of known cause: its passages without those that have the answer or with foreign ones in their
place (not retrieved; with the removed ones as a collection: ranked too low), wrong answers as they were written or with
a value of another passage (misread, stitched, added), a passage that says otherwise (conflicting), refusals with and
without the answer in the passages, statements of the passages about something else (not answered), and right answers
(none).

The cause of wrong text can only be named where the detector flags the text, and none only where it does not:
`accuracy` is that of the flagged cases of these causes, of the clear cases without a cause, and of all cases of the
others.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Annotated

from running import benchmark

from veridical.datasets import read
from veridical.datasets.split import content_hash
from veridical.detectors import load_detector
from veridical.llm.connection import Connection
from veridical.metrics.significance import wilson_interval
from veridical.records.detector import digest_of, fingerprint_of
from veridical.records.edits import apply
from veridical.records.types import Case, CauseKind, Edit, Example, Outcome, Source, Verdict
from veridical.text.mentions import index_of
from veridical.text.segment import sentences
from veridical.workflows.causes import with_causes
from veridical.workflows.checking import check_cases

BATCH = 32

_SILENT = re.compile(  # a right answer says that the passages do not have the answer
    r"\b(?:do(?:es)? not|don['’]t) (?:say|mention|give|name|state|answer|tell|contain)\b"
    r"|\b(?:gives?|names?) no\b|\b(?:no|not) (?:\w+ ){0,4}(?:given|named|stated|known|recorded)\b|\bthere is no\b"
)
REFUSALS = (
    "I don't know.",
    "I'm sorry, but I can't answer that based on the documents provided.",
    "The provided context does not contain this information.",
    "There is no information about this in the passages.",
    "The passages do not say {question}.",
    "Unfortunately, the documents do not mention {question}.",
    "I could not find out {question}.",
    "That is not stated in the sources.",
)


@dataclass(frozen=True, slots=True)
class Known:
    """A case with its cause; `collection` holds passages that were not shown."""

    cause: CauseKind
    case: Case
    collection: tuple[Source, ...] = ()


@benchmark("causes.jsonl")
def main(
    data: Path,
    *,
    split: str = "dev",
    seed: int = 0,
    questions: Annotated[int | None, "use the cases of so many questions, the first"] = None,
    model: Annotated[str | None, "a chat model that reads in place of the default detector"] = None,
    base_url: Annotated[str | None, "its server"] = None,
    cache: Annotated[Path | None, "a file that keeps its replies"] = None,
) -> Iterator[dict[str, object]]:
    chat = Connection(model=model, base_url=base_url, timeout=600, cache=cache).chat() if model else None
    examples = list(read(f"written_rag:{data}", split))
    detector = load_detector("default")
    known = known_cases(examples, seed)
    chosen = list(dict.fromkeys(each.case.id.partition("/")[0] for each in known))[:questions]
    known = [each for each in known if each.case.id.partition("/")[0] in chosen]
    named: list[tuple[Known, CauseKind, Outcome]] = []
    for shown in (True, False):  # the cases with a collection apart
        part = [each for each in known if bool(each.collection) is not shown]
        for start in range(0, len(part), BATCH):
            batch = part[start : start + BATCH]
            results = list(check_cases([each.case for each in batch], detector))
            if shown:
                results = list(with_causes(results, detector=detector, model=chat))
            else:
                pairs = zip(results, batch, strict=True)
                results = [
                    next(with_causes([r], collection=k.collection, detector=detector, model=chat)) for r, k in pairs
                ]
            for each, result in zip(batch, results, strict=True):
                assert result.cause is not None
                named.append((each, result.cause.kind, result.outcome))
            print(f"{len(named)} of {len(known)}", flush=True)
    yield {
        "benchmark": "causes",
        "data": "written_rag",
        "split": split,
        "data_hash": content_hash(examples),
        "seed": seed,
        "detector": "default",
        "model": model,
        "fingerprint": digest_of(fingerprint_of(detector)),
        "n": len(named),
        "questions": len({each.case.id.partition("/")[0] for each, _, _ in named}),
        "causes": {
            kind.value: _figures(
                [(named_kind, outcome) for each, named_kind, outcome in named if each.cause is kind], kind
            )
            for kind in CauseKind
            if any(each.cause is kind for each, _, _ in named)
        },
    }


_WRONG = (CauseKind.NOT_RETRIEVED, CauseKind.RANKED_TOO_LOW, CauseKind.MISREAD, CauseKind.ADDED, CauseKind.STITCHED)


def _figures(named: Sequence[tuple[CauseKind, Outcome]], kind: CauseKind) -> dict[str, object]:
    """Return how often `kind` was named, among all its cases and among those that could show it."""
    if kind in _WRONG:
        seen = [cause for cause, outcome in named if outcome is Outcome.FLAGGED]
    else:
        seen = [cause for cause, outcome in named if kind is not CauseKind.NONE or outcome is Outcome.CLEAR]
    right = seen.count(kind)
    accuracy: dict[str, float] | None = None
    if seen:
        low, high = wilson_interval(right, len(seen))
        accuracy = {"value": right / len(seen), "low": low, "high": high}
    return {
        "n": len(named),
        "seen": len(seen),
        "accuracy": accuracy,
        "of_all": sum(cause is kind for cause, _ in named) / len(named),
        "named": dict(Counter(cause.value for cause in seen).most_common()),
    }


def known_cases(examples: Sequence[Example], seed: int) -> list[Known]:
    """Make the cases; those of one question share its id up to the slash."""
    random = Random(seed)
    questions: dict[str, dict[str, Example]] = {}
    for example in examples:
        questions.setdefault(str(example.document), {})[dict(example.group)["form"]] = example
    answered = [id for id, forms in questions.items() if not _is_silent(forms)]
    made: list[Known] = []
    for n, (id, forms) in enumerate(questions.items()):
        foreign = questions[random.choice([other for other in answered if other != id])]
        made += _of_question(n, id, forms, foreign, random)
    return made


def _of_question(
    n: int, id: str, forms: dict[str, Example], foreign: dict[str, Example], random: Random
) -> Iterator[Known]:
    case = forms["close"].case
    answered = not _is_silent(forms)
    others = foreign["close"].case.sources

    def known(cause: CauseKind, response: str, sources: Sequence[Source], collection: Sequence[Source] = ()) -> Known:
        numbered = tuple(Source(str(i), source.text) for i, source in enumerate(sources, 1))
        return Known(cause, Case(f"{id}/{cause.value}", response, numbered, case.question), tuple(collection))

    def refusal() -> str:
        return random.choice(REFUSALS).format(question=f"{case.question[0].lower()}{case.question[1:].rstrip('?')}")

    right = [forms[form].case.response for form in ("close", "free", "short")]
    for form in ("edit", "fresh", "addition") if answered else ():
        error = _one_error(forms[form])
        if error is not None:
            yield known(*error, case.sources)
    if not answered:
        yield known(CauseKind.RIGHT_REFUSAL, right[n % 3], case.sources)
        return
    stitched = _stitched(case, random)
    if stitched is not None:
        yield known(CauseKind.STITCHED, stitched, case.sources)
    yield known(CauseKind.NONE, right[n % 3], case.sources)
    evidence = _evidence(case)
    rest = [source for source in case.sources if source.id not in evidence]
    removed = [replace(source, id=f"collection {source.id}") for source in case.sources if source.id in evidence]
    yield known(CauseKind.WRONG_REFUSAL, refusal(), case.sources)
    exchanged = [*rest, *others[: len(removed)]]
    if rest:
        left = rest if n % 2 else exchanged
        yield known(CauseKind.NOT_RETRIEVED, right[n % 3], left)
        yield known(CauseKind.RIGHT_REFUSAL, refusal(), exchanged if n % 2 else rest)
        yield known(CauseKind.RANKED_TOO_LOW, right[(n + 1) % 3], left, [*removed, *others])
        beside = [s for s in _long_sentences(rest) if len(s) > 40]
        if beside:
            yield known(
                CauseKind.NOT_ANSWERED, " ".join(random.sample(beside, min(len(beside), 1 + n % 2))), case.sources
            )
    yield known(CauseKind.NOT_ANSWERED, foreign["free" if n % 2 else "short"].case.response, [*case.sources, *others])
    response, passage = _conflicting(forms, n)
    sources = list(case.sources)
    sources.insert(random.randrange(len(sources) + 1), Source("new", passage))
    yield known(CauseKind.CONFLICTING, response, sources)


def _is_silent(forms: Mapping[str, Example]) -> bool:
    """Check whether the right answers say that the passages do not answer the question."""
    return _SILENT.search(forms["close"].case.response.partition(". ")[0]) is not None


def _one_error(example: Example) -> tuple[CauseKind, str] | None:
    """Return the cause and the text of a wrong answer with one of its errors; its other errors are corrected."""
    response, verdicts = example.case.response, example.gold.verdicts
    causes = [_cause_of(verdict, example.case) for verdict in verdicts]
    order = [cause for cause in (CauseKind.STITCHED, CauseKind.MISREAD, CauseKind.ADDED) if cause in causes]
    if not order:
        return None
    cause, chosen = order[0], causes.index(order[0])
    others = [v for i, v in enumerate(verdicts) if i != chosen]
    return cause, apply(response, [Edit(v.span, v.correction or "", "") for v in others])


def _cause_of(verdict: Verdict, case: Case) -> CauseKind | None:
    """Return what went wrong at one place of a wrong answer; None if that is not clear."""
    if verdict.correction is None:
        return CauseKind.ADDED
    wrong = verdict.span.of(case.response)
    with_wrong = {s.id for s in case.sources if wrong.lower() in s.text.lower()}
    with_right = {s.id for s in case.sources if verdict.correction.lower() in s.text.lower()}
    if not with_wrong or with_wrong & with_right:
        return CauseKind.MISREAD
    return CauseKind.STITCHED if with_right and re.search(r"\d|[A-Z]", wrong) else None


def _stitched(case: Case, random: Random) -> str | None:
    """Return the response with a value or name that another passage has, of the same kind; None if there is none."""
    index = index_of(tuple(source.text for source in case.sources))
    options = []
    for sentence in index_of((case.response,)).sentences:
        passages = {index.sentences[i].text_i for i, _ in index.closest(index.weighted(sentence), 1)}
        of_passages = [s for s in index.sentences if s.text_i in passages]
        for mention in sentence.mentions:
            for other in (s for s in index.sentences if s.text_i not in passages):
                options += [
                    (mention.span, option.span.of(other.text))
                    for option in other.mentions
                    if option.kind == mention.kind
                    and not any(key in s.positions for s in (*of_passages, sentence) for key in option.keys)
                ]
    if not options:
        return None
    span, words = random.choice(options)
    return apply(case.response, [Edit(span, words, "")])


def _evidence(case: Case) -> set[str]:
    """Return the ids of the passages on which the sentences of the response rest."""
    index = index_of(tuple(source.text for source in case.sources))
    ids = set()
    for sentence in index_of((case.response,)).sentences:
        for i, _ in index.closest(index.weighted(sentence), 1):
            ids.add(case.sources[index.sentences[i].text_i].id)
    return ids


def _long_sentences(sources: Sequence[Source]) -> list[str]:
    return [span.of(source.text) for source in sources for span in sentences(source.text)]


def _conflicting(forms: dict[str, Example], n: int) -> tuple[str, str]:
    """Return an answer and a passage that contradicts the others.

    It is the passage with the answer in another version, with the wrong words of an answer in place of the right ones;
    or else that wrong answer. The answer to check is right, or follows the new passage.
    """
    wrong = forms["edit"]
    verdict = wrong.gold.verdicts[0]
    passage = wrong.case.response
    for source in wrong.case.sources:
        if verdict.correction and source.text.count(verdict.correction) == 1 and len(verdict.correction) > 1:
            passage = source.text.replace(verdict.correction, verdict.span.of(wrong.case.response))
            break
    return forms[("close", "edit")[n % 2]].case.response, passage


if __name__ == "__main__":
    main()
