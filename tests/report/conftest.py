"""One case of each kind that a report has to show, built by hand so that no detector is needed."""

from __future__ import annotations

import numpy as np
import pytest

from tests.example_records import checked_at
from veridical.records.salience_map import MapWord, SalienceMap
from veridical.records.types import Case, Checked, Claim, Evidence, Judgement, Omission, Outcome, Source, Span, Verdict
from veridical.text.segment import words

HOSTILE = (
    "[red]bold[/red] <script>document.title='owned'</script> <img src=x onerror=document.title='owned'> "
    "</style>\"' a\x1b[2Jb \x1b]0;owned\x07 \u202egnp.exe\x9b31m \ud800 {{ 7 * 7 }} :smile:"
)


def span_of(text: str, words: str) -> Span:
    """Where `words` first stand in `text`."""
    start = text.index(words)
    return Span(start, start + len(words))


def tower() -> Checked:
    """Two detectors that disagree, overlapping verdicts and evidence, omissions on two sides, a part not judged."""
    response = "The tower is 300 m tall and was built in 1889. Many visit it, they say."
    facts = "The tower is 330 m tall. It was built in 1889 by Eiffel."
    words = [span_of(response, w) for w in ("300", "tall", "Many", "visit")]
    overlap = Judgement(
        "tower",
        "overlap",
        hallucination=0.4,
        omission=0.75,
        verdicts=(
            Verdict(words[0], 1.0),
            Verdict(words[1], 0.0, evidence=(Evidence("facts", span_of(facts, "tall")),)),
            Verdict(words[2], 0.9),
            Verdict(words[3], 0.8),
        ),
        omissions=(Omission("con", Span(0, 18), 0.75, reason="Nothing on cost."), Omission("pro", Span(0, 17), 0.2)),
    )
    claims = Judgement(
        "tower",
        "verify",
        hallucination=0.7,
        verdicts=(
            Verdict(
                span_of(response, "The tower is 300 m tall"),
                0.93,
                label="intrinsic",
                claim=Claim("The tower's height is 300 m."),
                evidence=(Evidence("facts", span_of(facts, "The tower is 330 m tall.")),),
                reason="The source says 330 m.",
                correction="The tower is 330 m tall",
            ),
            Verdict(
                span_of(response, "tower is 300 m tall and was built in 1889"),
                0.1,
                evidence=(Evidence("facts", span_of(facts, "built in 1889"), 0.6),),
            ),
        ),
        judged=(Span(0, response.index(", they say")),),
        notes=("One reply could not be read.",),
    )
    sources = (
        Source("facts", facts),
        Source("pro", "It draws tourists.", perspective="for", must_cover=True),
        Source("con", "It costs too much. It rusts.", perspective="against", must_cover=True),
    )
    case = Case("tower", response, sources, question="How tall is it?")
    return checked_at(case, (overlap, claims), (0.5, 0.5), Outcome.FLAGGED)


def hostile() -> Checked:
    """A case in which every text of a stranger tries to be more than text."""
    case = Case(HOSTILE, HOSTILE, (Source(HOSTILE, HOSTILE, HOSTILE, True, HOSTILE),), question=HOSTILE)
    verdict = Verdict(Span(0, 10), 0.9, HOSTILE, Claim(HOSTILE), (Evidence(HOSTILE, Span(5, 40)),), HOSTILE, HOSTILE)
    judgement = Judgement(
        HOSTILE, HOSTILE, 0.9, 0.9, (verdict,), (Omission(HOSTILE, Span(3, 20), 0.9, HOSTILE),), notes=(HOSTILE,)
    )
    return checked_at(case, (judgement,), (0.5,), Outcome.FLAGGED)


def silent() -> Checked:
    """A case that a detector could say nothing about."""
    case = Case("silent", "Nobody knows.", (Source("a", "Nothing.", must_cover=True),))
    return checked_at(case, (Judgement("silent", "probe", judged=()),), (0.5,), Outcome.UNJUDGED)


def clear() -> Checked:
    """A case with nothing to say against it."""
    case = Case("clear", "It is red.", (Source("a", "It is red."),))
    return checked_at(case, (Judgement("clear", "overlap", hallucination=0.0),), (0.5,), Outcome.CLEAR)


def map_of(case: Case, seed: int = 0) -> SalienceMap:
    """A salience map of random values."""
    rows = tuple(MapWord(s.of(x.text), s, x.id) for x in case.sources for s in words(x.text))
    columns = tuple(MapWord(s.of(case.response), s) for s in words(case.response))
    values = np.random.RandomState(seed).dirichlet(np.ones(len(rows) + 1), len(columns)).T[:-1]
    return SalienceMap(rows, columns, values, values.max(axis=1), values.max(axis=0, initial=0.0))


@pytest.fixture
def cases() -> list[Checked]:
    return [tower(), hostile(), silent(), clear()]
