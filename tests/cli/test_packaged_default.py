"""The detector that comes with the package, wherever none is named: facts that hold whatever it was trained on."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import veridical
from veridical import Case, Outcome, Source
from veridical.detectors import load_detector
from veridical.detectors.default import detector as default
from veridical.inference.artifact import DETECTOR
from veridical.io.serialization import decode
from veridical.records.errors import DataError
from veridical.records.types import Level
from veridical.text.segment import sentences
from veridical.workflows.checking import DEFAULT_DETECTOR

Command = Callable[..., tuple[int, str, str]]
packaged = pytest.mark.skipif(
    not (default.PACKAGED / DETECTOR).is_file(), reason="the default detector is not in this checkout"
)
DEMO = Path(__file__).parents[2] / "examples" / "demo.jsonl"
ARTICLE = (
    "The bridge over the Elbe was opened in 1893 after two years of work. It is 280 m long and carries two lanes. "
    "Trams crossed it until 1985. The city paid 2.25 million marks for it. It was restored in 2011."
)
WRONG = ARTICLE.replace("280 m", "350 m")


@pytest.fixture
def texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("article.txt").write_text(ARTICLE)
    Path("copy.txt").write_text(ARTICLE)
    Path("wrong.txt").write_text(WRONG)


@packaged
def test_a_changed_number_is_flagged_and_a_copy_is_not() -> None:
    result = veridical.check(WRONG, [ARTICLE])
    assert result.outcome is Outcome.FLAGGED
    (judgement,) = result.judgements
    assert judgement.by == DEFAULT_DETECTOR == "default"
    assert max(judgement.verdicts, key=lambda verdict: verdict.score).span.of(WRONG) == "350"
    assert "350" in [span.of(WRONG) for span in result.flagged]
    (wrong,) = [verdict for verdict in judgement.verdicts if verdict.span.of(WRONG) == "350"]
    assert wrong.correction in ("280", "280 m")  # "m" may be marked, too
    assert wrong.label == "contradiction"
    assert "280 m long" in wrong.evidence[0].span.of(ARTICLE)
    assert veridical.check(ARTICLE, [ARTICLE]).outcome is Outcome.CLEAR


@packaged
def test_a_value_of_another_cell_is_flagged() -> None:
    table = "item | colour | Oslo | Bergen\nhelmet | red | 12 | 40\nhelmet | blue | 9 | 31\nglove | blue | 75 | 60"
    for row, other in (("9 blue", "31"), ("12 red", "40")):
        right = veridical.check(f"There are {row} helmets in Oslo.", [table])
        wrong = veridical.check(f"There are {other} {row.split()[1]} helmets in Oslo.", [table])
        assert [span.text for span in wrong.flagged] == [other]
        assert right.judgements[0].hallucination < wrong.judgements[0].hallucination
    assert right.outcome is Outcome.CLEAR


@packaged
def test_what_was_left_out_scores_higher_than_what_was_not() -> None:
    points = Source("points", "Trams crossed it until 1985. The mayor was born in Vienna.", must_cover=True)
    result = veridical.check("Trams crossed it until 1985.", [ARTICLE, points])
    said, left_out = result.judgements[0].omissions
    assert said.score < left_out.score
    assert result.omitted == {"points": (left_out.span,)}


@packaged
@pytest.mark.parametrize(("options", "name"), [([], "default"), (["-d", "verify"], "verify")])
def test_commands(command: Command, texts: None, options: list[str], name: str) -> None:
    code, out, err = command("check", "wrong.txt", "article.txt", "--json", *options)
    assert (code, err) == (1, "")
    (judgement,) = decode(out).judgements
    assert judgement.by.split(":")[0] == name
    assert "350" in max(judgement.verdicts, key=lambda verdict: verdict.score).span.of(WRONG)
    assert command("check", "copy.txt", "article.txt", *options)[0] == 0


@packaged
def test_verify_flags_the_wrong_claim_alone() -> None:
    result = veridical.check(WRONG, [ARTICLE], detector="verify")
    assert [span.of(WRONG) for span in result.flagged] == ["It is 350 m long and carries two lanes."]
    fitted = load_detector("default").thresholds[Level.RESPONSE]  # type: ignore[attr-defined]
    assert result.decisions[0].thresholds.span == result.decisions[0].thresholds.response == fitted


@packaged
def test_revise_corrects_the_wrong_value(command: Command, texts: None) -> None:
    code, out, _ = command("revise", "wrong.txt", "article.txt", "--text")
    assert (code, out) == (0, ARTICLE)


@packaged
def test_revise_leaves_the_wrong_sentence_out(command: Command, texts: None) -> None:
    code, out, _ = command("revise", "wrong.txt", "article.txt", "--text", "--checker", "default")
    assert code == 0
    kept = [span.of(ARTICLE) for span in sentences(ARTICLE) if "280 m" not in span.of(ARTICLE)]
    assert out == " ".join(kept)


@packaged
def test_the_demo_and_its_page(command: Command, tmp_path: Path) -> None:
    code, out, _ = command("check", str(DEMO), "--html", str(tmp_path / "page.html"))
    assert code == 1
    page = (tmp_path / "page.html").read_text("utf-8")
    assert page.count("<article") == 3
    flagged, _, left_out = out.partition("description of a restaurant")[2].partition("Left out of the response")
    assert "provides [-French-] food" in flagged
    assert "English food" in left_out
    assert "http" not in page.replace("http-equiv", "")


@packaged
def test_it_is_loaded_once() -> None:
    assert load_detector("default") is load_detector("default")
    assert load_detector("default") is not load_detector("default:precision=fp32")


@packaged
def test_it_was_trained_without_text_for_research() -> None:
    files = (default.PACKAGED / DETECTOR, default.PACKAGED / default.ENCODER / DETECTOR)
    trained, encoder = (json.loads(file.read_text("utf-8"))["training"] for file in files)
    assert not {"bump", "xsum_token"} & {*trained["sets"], *encoder["sets"]}


@pytest.mark.parametrize("spec", ["default", "verify"])
def test_a_checkout_without_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, spec: str) -> None:
    monkeypatch.setattr(default, "PACKAGED", tmp_path)
    with pytest.raises(DataError, match=r"not in this installation \(overlap works without it; `veridical train"):
        load_detector(spec)
    with pytest.raises(DataError, match="not in this installation"):
        default.Default().judge([Case("1", "A.", (Source("a", "A."),))])


@packaged
def test_an_earlier_answer_or_a_system_message_is_no_evidence() -> None:
    fresco = "The fresco in Orle chapel was painted in 1744 by an unknown hand."
    chat = [
        {"role": "system", "content": "You work for Orle chapel, whose fresco Luka Maric painted."},
        {"role": "user", "content": "Who painted the fresco in Orle chapel?"},
        {"role": "assistant", "content": "Luka Maric painted it."},
        {"role": "user", "content": "And when?"},
        {"role": "assistant", "content": "Luka Maric painted the fresco in 1744."},
    ]
    first, second = veridical.check_conversation(chat, fresco)
    assert {first.outcome, second.outcome} == {Outcome.FLAGGED}
    alone = replace(second.case, history=())
    assert second.judgements[0].verdicts == next(veridical.check_cases([alone])).judgements[0].verdicts


@packaged
@pytest.mark.parametrize(
    ("question", "response", "passage", "outcome"),
    [
        ("Was the tower opened in 1950?", "Yes, it was opened in 1950.", "The tower was opened in 1889.", "flagged"),
        ("Does it cost 40 euros?", "Yes, the plan costs 40 euros.", "The plan costs 60 euros a month.", "flagged"),
        ("Can 4 people sleep there?", "Yes, 4 people can sleep in the hut.", "The hut sleeps up to 6 people.", "clear"),
    ],
)
def test_a_wrong_premise_of_the_question_is_no_evidence(
    question: str, response: str, passage: str, outcome: str
) -> None:
    assert veridical.check(response, passage, question=question).outcome.value == outcome
