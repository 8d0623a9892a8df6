"""Each cause is named where it is plain, with its passages, and whatever could not be judged is never without cause."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import veridical
from tests.server.services import client_of
from tests.workflows.conftest import Command
from veridical.detectors import load_detector
from veridical.detectors.default.detector import PACKAGED, Default
from veridical.io.serialization import decode, encode
from veridical.llm.scripted import Scripted
from veridical.records.decide import decide
from veridical.records.errors import InputError
from veridical.records.types import Case, Cause, CauseKind, Checked, Judgement, Level, Source, Span, Verdict
from veridical.report.html import render_html
from veridical.text.segment import sentences
from veridical.workflows.causes import finding, summarise_causes, with_causes
from veridical.workflows.causes.finding import cause_of
from veridical.workflows.causes.word_comparison import CaseWords, refusal_in

RETURNS = "Returns: Plants can be returned within 14 days of delivery. Cut flowers cannot be returned."
COURSE = "The pruning course lasts four hours and costs 35 euros. Ilse Brandt leads it."
UNSHOWN = "The pruning course lasts four hours. It costs 35 euros."
CLUB = "Members of the garden club pay 20 euros a year."
LOG = Path(__file__).parents[3] / "examples" / "log.jsonl"
needs_default = pytest.mark.skipif(not PACKAGED.is_dir(), reason="the default detector is not in this checkout")


def checked(response: str, *passages: str, question: str | None = None, flagged: Sequence[str] = ()) -> Checked:
    """A result in which the given words are flagged, with their sentences."""
    case = Case("1", response, tuple(Source(str(i), text) for i, text in enumerate(passages, 1)), question)
    spans = [Span(response.index(words), response.index(words) + len(words)) for words in flagged]
    whole = [Verdict(span, 0.9 if any(span.overlaps(each) for each in spans) else 0.1) for span in sentences(response)]
    judged = None if passages else ()
    judgement = Judgement(
        "1",
        "x",
        max((each.score for each in whole), default=None) if passages else None,
        verdicts=tuple(Verdict(span, 0.9) for span in spans),
        judged=judged,
        sentences=tuple(whole) if passages else (),
        notes=() if passages else ("no sources",),
    )
    decision = decide(case, judgement)
    return Checked(case, (judgement,), (decision,), decision.outcome)


class Words(Default):
    """A default detector without its model: it compares words, and says how sure it is as it is told."""

    def __init__(self, contradicted: float = 0.9) -> None:
        super().__init__(name="words")
        self.sure = contradicted

    @property
    def thresholds(self) -> dict[Level, float]:
        return {}

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        return load_detector("overlap").judge(cases)

    def contradicted(self, cases: Sequence[Case]) -> list[list[tuple[Span, float]]]:
        return [[(Span(0, len(case.response)), self.sure)] for case in cases]


def test_a_value_of_a_passage_that_says_otherwise_is_misread() -> None:
    result = checked("Plants can be returned within 40 days of delivery.", RETURNS, CLUB, flagged=["40"])
    cause = cause_of(result, 0.9, 0.9)
    assert cause.kind is CauseKind.MISREAD
    assert "“40”" in cause.reason
    (evidence,) = cause.evidence
    assert evidence.span.of(result.case.source(evidence.source_id).text).endswith("within 14 days of delivery.")


def test_words_that_no_passage_has_are_added_if_the_rest_is_supported() -> None:
    response = "The course lasts four hours. Tea and cake are served."
    result = checked(response, COURSE, flagged=["Tea and cake are served"])
    assert cause_of(result, 0.9, 0.2).kind is CauseKind.ADDED


def test_an_answer_without_any_passage_was_not_retrieved() -> None:
    response = "Water it twice a week. It needs a bright room."
    flagged = ["Water it twice a week", "It needs a bright room"]
    assert cause_of(checked(response, COURSE, CLUB, flagged=flagged), 0.9, 0.9).kind is CauseKind.NOT_RETRIEVED
    assert cause_of(checked("It lasts four hours. Tea is free.", CLUB, flagged=["Tea is free"]), 0.1, 0.2).kind is (
        CauseKind.NOT_RETRIEVED
    )
    assert cause_of(checked("It lasts four hours.")).kind is CauseKind.NOT_RETRIEVED


def test_a_value_of_another_passage_is_stitched_in() -> None:
    result = checked("The pruning course costs 20 euros.", CLUB, COURSE, flagged=["20 euros"])
    cause = cause_of(replace_rest(result), 0.9, 0.9)
    assert cause.kind is CauseKind.STITCHED
    assert [piece.source_id for piece in cause.evidence] == ["2", "1"]


def replace_rest(result: Checked) -> Checked:
    """The same result with a supported sentence before the flagged one."""
    flagged = [span.text for span in result.flagged]
    texts = [source.text for source in result.case.sources]
    return checked(f"Ilse Brandt leads it. {result.case.response}", *texts, flagged=flagged)


def test_two_versions_of_a_passage_conflict() -> None:
    other = RETURNS.replace("14", "30")
    cause = cause_of(checked("Plants can be returned within 14 days of delivery.", RETURNS, other), 0.9)
    assert cause.kind is CauseKind.CONFLICTING
    assert {piece.source_id for piece in cause.evidence} == {"1", "2"}
    assert "14 days" in cause.reason
    assert "30 days" in cause.reason


def test_passages_about_different_things_do_not_conflict() -> None:
    words = CaseWords(checked("The pruning course of Ilse Brandt costs 35 euros.", COURSE, CLUB, RETURNS).case)
    assert words.conflict() is None


@pytest.mark.parametrize(
    ("response", "answerability", "kind"),
    [
        ("I don't know.", 0.9, CauseKind.WRONG_REFUSAL),
        ("I don't know.", 0.2, CauseKind.RIGHT_REFUSAL),
        ("The passages do not say how long the course lasts.", 0.9, CauseKind.WRONG_REFUSAL),
        ("There is no mention of a price. The course lasts four hours.", 0.2, CauseKind.RIGHT_REFUSAL),
    ],
)
def test_refusals(response: str, answerability: float, kind: CauseKind) -> None:
    assert cause_of(checked(response, COURSE, question="How long is it?"), answerability).kind is kind


def test_a_refusal_without_passages_is_right() -> None:
    assert cause_of(checked("I don't know.", question="How long is it?")).kind is CauseKind.RIGHT_REFUSAL


def test_a_supported_answer_beside_the_question() -> None:
    question = "How long does the pruning course last?"
    beside = checked("Members of the garden club pay 20 euros a year.", COURSE, CLUB, question=question)
    answer = checked("It lasts four hours.", COURSE, CLUB, question=question)
    assert cause_of(beside, 0.9).kind is CauseKind.NOT_ANSWERED
    assert cause_of(answer, 0.9).kind is CauseKind.NONE


@pytest.mark.parametrize("flagged", [[], ["20"]])
@pytest.mark.parametrize("others", [(), ("",)])
def test_no_other_passage_fits_better_where_there_is_none(flagged: list[str], others: tuple[str, ...]) -> None:
    question = "How long does the pruning course last?"
    for response in ("Members pay 20 euros a year.", "Yes, 20."):
        cause = cause_of(checked(response, CLUB, *others, question=question, flagged=flagged))
        assert "another passage" not in cause.reason


def test_a_flagged_answer_from_passages_about_something_else_is_beside_the_question() -> None:
    question = "How long does the pruning course last?"
    response = "Members of the garden club pay 25 euros a year."
    result = checked(response, COURSE, CLUB, question=question, flagged=["25"])
    assert cause_of(result, 0.9, 0.9).kind is CauseKind.NOT_ANSWERED


def test_what_could_not_be_judged_is_never_without_a_cause() -> None:
    assert cause_of(checked("", COURSE)).kind is CauseKind.NOT_JUDGED
    case = Case("1", "It lasts four hours.", (Source("1", COURSE),))
    for judgement, kind, reason in (
        (Judgement("1", "x", judged=(), notes=("the model was away",)), CauseKind.NOT_JUDGED, "the model was away"),
        (Judgement("1", "x", judged=(), no_claim=True), CauseKind.NONE, "the response makes no claim"),
    ):
        decision = decide(case, judgement)
        cause = cause_of(Checked(case, (judgement,), (decision,), decision.outcome))
        assert (cause.kind, cause.reason) == (kind, reason)


@given(st.text(max_size=80), st.lists(st.text(max_size=80), max_size=3), st.none() | st.text(max_size=40))
def test_any_text_has_a_cause_with_evidence_in_its_sources(
    response: str, passages: list[str], question: str | None
) -> None:
    result = checked(response, *passages, question=question)
    cause = cause_of(result, 0.5)
    for piece in cause.evidence:
        piece.span.check(result.case.source(piece.source_id).text)
    refusal = refusal_in(result.case)
    assert refusal is None or refusal.of(response).strip()


def test_a_passage_of_the_collection_was_ranked_too_low() -> None:
    result = checked(UNSHOWN, CLUB, flagged=["The pruning course lasts four hours", "It costs 35 euros"])
    refused = checked("I don't know.", CLUB, question="How long does the pruning course last?")
    collection = [Source("club", CLUB), Source("course", COURSE), Source("returns", RETURNS)]
    low, unsure = Words(0.9), Words(0.0)
    found = list(with_causes([result, refused], collection=collection, detector=low))
    assert kinds(found) == [CauseKind.RANKED_TOO_LOW, CauseKind.RANKED_TOO_LOW]
    assert all(each.cause and each.cause.evidence[0].source_id == "course" for each in found)
    none = list(with_causes([result], collection=[Source("club", CLUB)], detector=low))
    assert kinds(none) == [CauseKind.NOT_RETRIEVED]
    kept = list(with_causes([refused], collection=[Source("returns", RETURNS)], detector=unsure))
    assert kinds(kept) == [CauseKind.RIGHT_REFUSAL]


def kinds(results: Sequence[Checked]) -> list[CauseKind | None]:
    return [result.cause and result.cause.kind for result in results]


def test_only_the_default_detector_reads_causes() -> None:
    with pytest.raises(InputError, match="causes need the detector default, not overlap"):
        with_causes([checked("It rains.", "It rains.")], detector=load_detector("overlap"))


def test_a_cause_survives_json_and_is_shown() -> None:
    (result,) = with_causes([checked("I don't know.", COURSE, question="How long?")], detector=Words(0.0))
    assert decode(encode(result)) == result
    assert "Cause: right refusal  no passage answers the question" in str(result)
    assert "right refusal" in render_html([result])


def test_shares_of_a_run() -> None:
    kinds = [CauseKind.NOT_RETRIEVED] * 3 + [CauseKind.RIGHT_REFUSAL] + [CauseKind.NONE] * 16
    report = summarise_causes([Cause(kind, "") for kind in kinds], failed=2)
    retriever = report.to_mend[0]
    assert (retriever.cases, retriever.share.value) == (4, 0.2)
    assert (retriever.share.low or 1) < 0.2 < (retriever.share.high or 0)
    assert [share.causes[0] for share in report.causes] == [kinds[0], kinds[3], kinds[4]]
    assert decode(encode(report)) == report


def test_the_command(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "load_detector", lambda name: Words(0.9))
    results = [
        checked(UNSHOWN, CLUB, flagged=["The pruning course lasts four hours", "It costs 35 euros"]),
        checked("The course lasts four hours.", COURSE, question="How long does the course last?"),
    ]
    run, out, passages = tmp_path / "run.jsonl", tmp_path / "out.jsonl", tmp_path / "passages.jsonl"
    run.write_text("".join(encode(result) + "\n" for result in results), "utf-8")
    code, text, _ = command("causes", str(run))
    assert code == 0
    assert "not retrieved" in text
    assert "50 %" in text
    passages.write_text(json.dumps({"id": "c", "text": COURSE}) + "\n" + json.dumps(CLUB) + "\n", "utf-8")
    code, text, _ = command("causes", str(run), "--collection", str(passages), "--json", "--results", str(out))
    report = decode(text)
    assert (code, report.cases, report.causes[0].causes) == (0, 2, (CauseKind.RANKED_TOO_LOW,))
    written = [decode(line) for line in out.read_text("utf-8").splitlines()]
    assert kinds(written) == [CauseKind.RANKED_TOO_LOW, CauseKind.NONE]
    document = tmp_path / "guide.txt"
    document.write_text(f"{CLUB}\n\n{COURSE}\n", "utf-8")
    assert "ranked too low" in command("causes", str(run), "--collection", str(document))[1]


def test_the_command_with_a_chat_model(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "load_detector", lambda name: Words(0.0))
    run, model = tmp_path / "run.jsonl", tmp_path / "model.json"
    wrong = [
        checked("Members pay 25 euros a year. They meet on Mondays.", CLUB, flagged=["25"]),
        checked("The course costs 40 euros. It is fun.", COURSE, flagged=["40"]),
    ]
    run.write_text("".join(encode(result) + "\n" for result in wrong), "utf-8")
    model.write_text(json.dumps({"Members pay 25": "Yes"}), "utf-8")
    code, text, errors = command("causes", str(run), "--model", f"scripted:{model}", "--json")
    assert code == 0
    assert {group.causes: group.cases for group in decode(text).causes if group.cases} == {
        (CauseKind.MISREAD,): 1,
        (CauseKind.ADDED,): 1,
    }
    assert "no answer from the model on 1 of 2 cases" in errors
    out = tmp_path / "out.jsonl"
    code, text, _ = command("causes", str(run), "--model", "any", "--dry-run", "--results", str(out))
    assert code == 0
    assert "2 calls (cause 2)" in text
    assert not out.exists(), "a dry run has no causes to write"
    code, _, errors = command("causes", str(run), "--max-calls", "3")
    assert code == 2
    assert "no language model is named" in errors


def test_the_command_refuses_what_is_no_run(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "load_detector", lambda name: Words())
    empty, other, run = tmp_path / "empty.jsonl", tmp_path / "other.jsonl", tmp_path / "run.jsonl"
    empty.write_text("", "utf-8")
    other.write_text('{"text": "x"}\n', "utf-8")
    run.write_text(encode(checked("", COURSE)) + "\n", "utf-8")
    for path, words in ((empty, "no results"), (other, "other.jsonl:1"), (tmp_path, "a folder without results")):
        code, _, errors = command("causes", str(path))
        assert code == 2
        assert words in errors
    assert command("causes", str(run))[0] == 3


def test_a_server_without_the_default_detector_finds_no_causes() -> None:
    with client_of("overlap") as client:
        refused = client.post("/v1/check", json={"cases": [{"response": "It rains."}], "causes": True})
        assert refused.status_code == 422
        assert "cannot find causes" in refused.json()["error"]


@needs_default
def test_http_and_python_say_the_same() -> None:
    case = {"response": "I don't know.", "sources": [COURSE], "question": "How long does the pruning course last?"}
    result = veridical.check(case["response"], COURSE, question=case["question"], causes=True)  # type: ignore[arg-type]
    assert result.cause is not None
    assert result.cause.kind is CauseKind.WRONG_REFUSAL
    with client_of("default") as client:
        answer = client.post("/v1/check", json={"cases": [case], "causes": True, "offsets": "utf-16"}).json()
    assert answer["results"][0]["cause"]["kind"] == "wrong refusal"


@needs_default
def test_the_example_log_has_the_causes_it_was_made_with() -> None:
    rows = [json.loads(line) for line in LOG.read_text("utf-8").splitlines()]
    cases = [
        Case(row["id"], row["answer"], tuple(Source(str(i), p) for i, p in enumerate(row["passages"])), row["question"])
        for row in rows
    ]
    made = [*["none"] * 10, *["misread"] * 3, *["added"] * 2, *["not retrieved"] * 4, *["right refusal"] * 2]
    made += [*["wrong refusal"] * 3, *["question not answered"] * 2, *["conflicting sources"] * 2, "stitched"]
    made += ["not judged"]
    named = [result.cause.kind.value for result in veridical.check_cases(cases, causes=True) if result.cause]
    assert sum(a == b for a, b in zip(made, named, strict=True)) >= 24, list(zip(made, named, strict=True))


def test_a_chat_model_reads_in_place_of_the_detector() -> None:
    refused = checked("I don't know.", COURSE, question="How long does the course last?")
    wrong = checked("Members pay 25 euros a year. They meet on Mondays.", CLUB, flagged=["25"])
    model = Scripted({"How long does": "Yes", "Members pay 25": "Yes"})
    causes = [each.cause for each in with_causes([refused, wrong], detector=Words(0.0), model=model)]
    assert [cause and cause.kind for cause in causes] == [CauseKind.WRONG_REFUSAL, CauseKind.MISREAD]
    model = Scripted({"How long does": "No", "Members pay 25": "No"})
    causes = [each.cause for each in with_causes([refused, wrong], detector=Words(1.0), model=model)]
    assert [cause and cause.kind for cause in causes] == [CauseKind.RIGHT_REFUSAL, CauseKind.ADDED]


def test_a_chat_model_is_asked_only_where_the_cause_depends_on_it() -> None:
    clear = checked("It costs 35 euros.", COURSE, question="What does the course cost?")
    model = Scripted({})
    (result,) = with_causes([clear], detector=Words(), model=model)
    assert result.cause is not None
    assert result.cause.kind is CauseKind.NONE
    assert not model.requests


def test_a_chat_model_is_not_asked_about_no_passages() -> None:
    case = Case("1", "It costs 25 euros.", question="What does it cost?")
    judgement = Judgement("1", "x", 0.9, verdicts=(Verdict(Span(9, 11), 0.9),))
    decision = decide(case, judgement)
    model = Scripted({})
    (result,) = with_causes([Checked(case, (judgement,), (decision,), decision.outcome)], detector=Words(), model=model)
    assert result.cause == Cause(CauseKind.NOT_RETRIEVED, "no passage was retrieved")
    assert not model.requests


@pytest.mark.parametrize("reply", ["", "Perhaps.", "Yes or no", "<think>Yes"])
def test_without_a_plain_answer_the_detector_reads_and_the_reason_says_so(reply: str) -> None:
    wrong = checked("Members pay 25 euros a year. They meet on Mondays.", CLUB, flagged=["25"])
    (result,) = with_causes([wrong], detector=Words(0.9), model=Scripted({"Members pay 25": reply}))
    assert result.cause is not None
    assert result.cause.kind is CauseKind.MISREAD
    assert finding.READ_OFFLINE in result.cause.reason
