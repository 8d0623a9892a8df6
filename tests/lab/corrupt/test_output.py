"""Corrupted examples as a stream: mixtures of ways, and a file that an interrupted run continues."""

import hashlib
import random
from collections import Counter
from pathlib import Path

import pytest

from veridical.io.serialization import decode, encode
from veridical.records.errors import DataError, InputError, OutputError
from veridical.records.types import Case, Example, Judgement, Source, Span, Verdict
from veridical_lab.corrupt import Attempt, attempts
from veridical_lab.corrupt.mixture import Mixture
from veridical_lab.corrupt.output import CorruptionOutput, CorruptionReport


class Shout:
    """Replaces the first word by a louder one; fails for short responses."""

    def __init__(self, name: str, mark: str) -> None:
        self.name, self.mark = name, mark

    def change(self, example: Example, draw: random.Random) -> Example | str:
        if len(example.case.response) < 8:
            return "too short"
        response = f"{self.mark}{draw.randint(0, 9)}" + example.case.response[2:]
        case = Case(f"{example.case.id}/{self.name}", response, example.case.sources)
        verdict = Verdict(Span(0, 2), 1.0, self.mark, correction=example.case.response[:2])
        gold = Judgement(case.id, f"corrupt:{self.name}", 1.0, verdicts=(verdict,))
        return Example(case, gold, example.document, (("corrupted", self.mark),))


def examples(count: int) -> list[Example]:
    cases = [Case(f"é{i}", "It rains" + "." * (i % 3), (Source("s", "It rains."),)) for i in range(count)]
    return [Example(case, Judgement(case.id, "h", i % 5 and 0.0)) for i, case in enumerate(cases)]


def test_a_mixture_draws_ways_by_their_weights() -> None:
    way = Mixture([(Shout("a", "!"), 3), (Shout("b", "?"), 1)])
    given = [Example(Case(str(i), "It rains."), Judgement(str(i), "h", 0.0)) for i in range(400)]
    made = [a.examples[0] for a in attempts(given, way, share=1.0)]
    counts = Counter(example.gold.by for example in made)
    assert 0.7 < counts["corrupt:a"] / 400 < 0.8
    assert counts.total() == 400
    assert made == [way.change(e, _draw(way, e)) for e in given]
    assert made == [a.examples[0] for a in attempts(given, way, share=1.0, batch_size=7)]


def _draw(way: Mixture, example: Example) -> random.Random:
    draw = random.Random(f"0\0{way.name}\0{example.case.id}")
    draw.random()  # whether it is corrupted at all
    return draw


def test_what_one_way_cannot_change_another_may() -> None:
    class Never(Shout):
        def change(self, example: Example, draw: random.Random) -> Example | str:
            return "never"

    short, long = Example(Case("1", "It."), Judgement("1", "h", 0.0)), examples(2)[1]
    way = Mixture([(Never("n", "-"), 99), (Shout("b", "?"), 1)])
    assert way.change(short, random.Random(0)) == "b: too short; n: never"
    result = way.change(long, random.Random(0))
    assert isinstance(result, Example)
    assert result.gold.by == "corrupt:b"


def test_each_example_is_accounted_for() -> None:
    given = examples(30)
    made = list(attempts(given, Shout("a", "!"), share=0.5, pairs=True))
    assert [attempt.id for attempt in made] == [example.case.id for example in given]
    assert {len(attempt.examples) for attempt in made} == {0, 2}
    assert Counter(a.skipped for a in made)["not labelled as grounded"] == 0
    unlabelled = [Example(Case("u", "It rains."), Judgement("u", "h"))]
    assert [a.skipped for a in attempts(unlabelled, Shout("a", "!"))] == ["not labelled as grounded"]
    for wrong in ({"share": 0.0}, {"batch_size": 0}):
        with pytest.raises(InputError, match=r"the share is 0|the batch size is 0"):
            list(attempts(given, Shout("a", "!"), **wrong))  # type: ignore[arg-type]


def run(path: Path, *, until: int | None = None, name: str = "run") -> CorruptionReport:
    output = CorruptionOutput(path, name, method="a", seed=0)
    given = examples(20)[output.report.inputs :]
    output.check_last(examples(20)[output.report.inputs - 1] if output.report.inputs else None)
    made = list(attempts(given, Shout("a", "!"), share=0.8))
    for at in range(0, len(made), 4):
        if until is not None and at >= until:
            return output.report
        output.add(made[at : at + 4])
    return output.finish()


def test_an_interrupted_run_continues(tmp_path: Path) -> None:
    whole, torn = tmp_path / "whole.jsonl", tmp_path / "torn.jsonl"
    report = run(whole)
    assert list(tmp_path.iterdir()) == [whole]
    assert run(torn, until=8).inputs == 8
    assert not torn.exists()
    with (tmp_path / "torn.jsonl.part").open("a") as file:
        file.write('{"veridical": "exa')  # a line that was not finished
    assert run(torn) == report
    assert torn.read_bytes() == whole.read_bytes()
    assert sorted(tmp_path.iterdir()) == [torn, whole]
    made = [decode(line) for line in whole.read_text("utf-8").splitlines()]
    wrong = [example for example in made if example.gold.hallucination]
    assert (report.inputs, report.written, report.corrupted) == (20, len(made), len(wrong))
    assert report.errors == {"!": len(wrong)}
    assert report.by == {"corrupt:a": len(wrong)}
    assert report.marked_characters == 2 * len(wrong)
    assert report.characters == sum(len(example.case.response) for example in made)
    assert report.sha256 == hashlib.sha256(whole.read_bytes()).hexdigest()
    assert decode(encode(report)) == report


def test_what_is_left_of_another_run_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    run(path, until=8)
    with pytest.raises(InputError, match="belongs to a run with other data, options or models"):
        run(path, name="other")
    output = CorruptionOutput(path, "run", method="a", seed=0)
    with pytest.raises(InputError, match="the data are not those"):
        output.check_last(examples(2)[0])
    (tmp_path / "out.jsonl.part").write_text("")
    with pytest.raises(DataError, match="shorter than what was written"):
        run(path)
    (tmp_path / "out.jsonl.part.json").write_text("{}")
    with pytest.raises(DataError, match="not the state of a run"):
        run(path)


def test_nothing_is_left_where_nothing_was_corrupted(tmp_path: Path) -> None:
    output = CorruptionOutput(tmp_path / "out.jsonl", "run", method="a", seed=0)
    output.add([Attempt("1", skipped="too short")])
    with pytest.raises(InputError, match=r"none of 1 examples could be corrupted by 'a'.*too short"):
        output.finish()
    assert not list(tmp_path.iterdir())
    with pytest.raises(OutputError, match="it is a folder"):
        CorruptionOutput(tmp_path, "run", method="a", seed=0)
