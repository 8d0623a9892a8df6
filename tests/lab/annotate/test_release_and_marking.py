"""The terminal, released data sets, and the whole loop."""

import json
from pathlib import Path

import pytest

from tests.lab.annotate.test_consensus import voted
from veridical.datasets import read
from veridical.metrics import UndefinedMetricError
from veridical.records.errors import InputError, OutputError
from veridical.records.types import Case, Example, Judgement, Source, Span
from veridical_lab.annotate import scorer
from veridical_lab.annotate.consensus import agree
from veridical_lab.annotate.marking import mark_examples, typed_spans
from veridical_lab.annotate.release import describe_release, write_release
from veridical_lab.annotate.rounds import loop_rows
from veridical_lab.annotate.scorer import Scorer, score_pool
from veridical_lab.annotate.select import SelectOptions, select
from veridical_lab.annotate.simulate import make_pool, simulate, team
from veridical_lab.report.annotation import loop_plot, loop_tables, release_card


def test_typed_spans() -> None:
    line = "It was, it was opened in 1889.\r\n"
    assert typed_spans(line, "  ") == []
    assert typed_spans(line, "<was> <was>") == [Span(3, 6), Span(11, 14)]
    assert typed_spans(line, "It was, it was <opened> in <1889>.") == [Span(15, 21), Span(25, 29)]
    for bad, message in (("<closed>", "is not in the line"), ("It <was>", "copy ends"), ("It war", "differs")):
        with pytest.raises(InputError, match=message):
            typed_spans(line, bad)


def asked(examples: list[Example], typed: list[str]) -> tuple[list[Judgement], str]:
    lines, shown = iter(typed), []

    def ask(prompt: str) -> str:
        shown.append(prompt)
        line = next(lines, None)
        if line is None:
            raise EOFError
        return line

    return list(mark_examples(examples, "ann", shown.append, ask)), "\n".join(shown)


def test_marking_in_a_terminal() -> None:
    text = "The tower\x1b[2J is purple.\n\nIt is tall."
    sources = (Source("s", "It is grey."),)
    examples = [Example(Case(str(i), text, sources, "Which colour?"), Judgement(str(i), "none")) for i in range(4)]
    said, shown = asked(examples, ["<purple", "<purple>", "", "s", "", "<tall>", "q"])
    assert [(j.case_id, [v.span.of(text) for v in j.verdicts]) for j in said] == [("0", ["purple"]), ("2", ["tall"])]
    assert (said[0].by, said[0].hallucination) == ("human:ann", 1.0)
    assert "differs from the response" in shown  # what cannot be read is asked again
    assert "question: Which colour?\nsource: It is grey." in shown
    assert "\x1b" not in shown
    items = [voted(str(i), "") for i in range(3)]
    said, shown = asked(items, ["maybe", "n", "y"])
    assert [j.hallucination for j in said] == [1.0, 0.0]
    assert "<small>" in shown


def agreed_items() -> list[Example]:
    return list(agree(voted(str(i), "hhhh" if i % 2 else "nnnh") for i in range(60)).examples)


def test_a_release_is_read_back_and_described(tmp_path: Path) -> None:
    release = describe_release(agreed_items(), "Small changes", "CC-BY-SA-4.0", text_licence="CC0")
    card = release_card(release)
    hashes = write_release(release, tmp_path / "set", card)
    back = list(read(f"jsonl:{tmp_path / 'set'}"))
    assert sorted(e.case.id for e in back) == sorted(e.case.id for e in agreed_items())
    assert not any(e.annotations for e in back)
    about = json.loads((tmp_path / "set" / "release.json").read_text())
    assert about["sha256"] == hashes
    assert sum(part["examples"] for part in about["parts"].values()) == 60
    assert about["agreement"]["alpha"] == pytest.approx(release.agreement.alpha if release.agreement else None)
    text = (tmp_path / "set" / "README.md").read_text()
    for wanted in ("Licence: CC-BY-SA-4.0. Texts: CC0.", "60 examples, 50.0% hallucinated", "| ADJ | 60 | 50.0% |"):
        assert wanted in text
    assert "| rule | 60 | 50.0% | large → small |" in text
    assert all(digest in text for digest in hashes.values())
    documents = [{e.document for e in part} for part in release.parts.values()]
    assert sum(map(len, documents)) == len(set().union(*documents))
    with pytest.raises(OutputError, match="not empty"):
        write_release(release, tmp_path / "set", card)
    write_release(release, tmp_path / "full", card, annotators=True)
    assert len(next(read(f"jsonl:{tmp_path / 'full'}")).annotations) == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["full", "set"]  # nothing half-written


def test_bad_releases_are_refused() -> None:
    items = agreed_items()
    for examples, name, licence, message in (
        ([], "x", "y", "nothing to release"),
        (items, "x", " ", "name and a licence"),
        ([items[0], items[0]], "x", "y", "more than once"),
        ([Example(Case("1", "a"), Judgement("1", "none"))], "x", "y", "have no label"),
    ):
        with pytest.raises(InputError, match=message):
            describe_release(examples, name, licence)


ARTICLES = [
    f"The {colour} bridge in the town was opened in {1800 + i}. It was built by the large council near the old market. "
    f"The first tower has {i + 3} windows and a long wall. People begin to visit it in the early morning. "
    f"The road to the north is narrow and was closed after the war. Many shops often sell cheap things there. "
    f"The council said that the bridge was strong and the river was deep. It helped the town to grow after {1850 + i}."
    for i, colour in enumerate(["red", "blue", "green", "white", "black"] * 18)
]


def test_the_loop_runs_from_texts_to_agreed_labels() -> None:
    pool = make_pool(ARTICLES[:90], 90, consistent=0.3, seed=3)
    assert 0.25 < sum(item.gold.hallucination == 0.0 for item in pool) / len(pool) < 0.35
    again = make_pool(ARTICLES[:90], 20, consistent=0.3, seed=3)
    assert [item.case for item in again] == [item.case for item in pool[:20]]
    people = team(seed=1)
    loop = simulate(pool, people, (50, 15))
    assert loop.blocked == ("human:spammer-1",)
    assert not any(j.by == "human:spammer-1" for e in loop.examples for j in e.annotations)
    assert loop.right > 0.9
    assert loop.rounds[0].selection.counts is None
    assert loop.rounds[1].selection.subsampling is not None
    assert loop.rounds[1].total == len(loop.examples)
    rows = loop_rows(loop, len(pool), "rules", 0.3)
    assert [row["what"] for row in rows] == ["round"] * 2 + ["annotator"] * 9 + ["loop"]
    rounds, annotators = loop_tables(rows)
    assert len(rounds.lines) == 2
    repeated = loop_tables([*rows, {**rows[-1], "what": "repetition", "seed": 1, "cumulative": [0.7, 0.5]}])[2]
    assert repeated.lines[0][:4] == ["1", str(len(loop.examples)), "70.0%", "50.0%"]
    assert annotators.lines[-1][-1] == "always the same label"
    assert loop_plot(rows).startswith("<svg")
    with pytest.raises(InputError, match="5 annotators"):
        simulate(pool, people[:5], (10,))
    few = [*[item for item in pool if item.gold.hallucination], *[i for i in pool if not i.gold.hallucination][:3]]
    with pytest.raises(InputError, match=r"the rounds need 20 consistent items, and the pool of \d+ has 3") as error:
        simulate(few, people, (50, 15))
    assert "items or more" in (error.value.hint or "")


def test_a_classifier_that_knows_nothing_makes_a_random_round(monkeypatch: pytest.MonkeyPatch) -> None:
    def fit(*_: object) -> None:
        raise UndefinedMetricError("higher scores do not go with the labels")

    monkeypatch.setattr(scorer, "fit_scale", fit)
    pool = make_pool(ARTICLES[:60], 60, consistent=0.4, seed=3)
    scores = score_pool(Scorer(pool), pool[:40], pool[40:])
    assert set(scores.pool.tolist()) == set(scores.annotated.scores) == {0.5}
    chosen = select(pool[40:], SelectOptions(count=5), scores=scores.pool.tolist(), annotated=scores.annotated)
    assert len(chosen.items) == 5
