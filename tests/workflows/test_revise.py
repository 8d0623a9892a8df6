"""Revision: what is kept and why not, in every way it can go; and real pairs with a checker that knows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path

import pytest

from veridical.datasets import read
from veridical.detectors import load_detector
from veridical.detectors.claims.verify import Verify
from veridical.llm.prompts import prompt
from veridical.llm.protocol import Failure, Reply, Request
from veridical.llm.scripted import Scripted
from veridical.records.edits import apply
from veridical.records.errors import InputError
from veridical.records.spans import Span
from veridical.records.types import Case, Claim, Edit, Judgement, Omission, Source, Usage, Verdict, check_judgement
from veridical.text.segment import sentences
from veridical.workflows.revise import Delete, Draft, Flag, Revised, RevisionTask, revise
from veridical.workflows.revise.llm_revisers import Factored, SelfCorrection, corrected_text
from veridical.workflows.revise.statements import statements_of

SOURCE = Source("a", "The tower is 330 m tall. It stands in Paris.")


class Says:
    """A detector whose sentences have the score of the first of its words that stands in them, else 0."""

    name = "says"
    grounded = True

    def __init__(self, wrong: dict[str, float], *, omission: Callable[[str], float] | None = None) -> None:
        self.wrong = wrong
        self.omission = omission
        self.seen: list[Case] = []

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        self.seen += cases
        return [self._judge(case) for case in cases]

    def _judge(self, case: Case) -> Judgement:
        verdicts = []
        for span in sentences(case.response):
            text = span.of(case.response)
            score = next((s for w, s in self.wrong.items() if w in text), 0.0)
            reason = f"“{text}” is wrong" if score else None
            verdicts.append(Verdict(span, score, claim=Claim(text, (span,)), reason=reason))
        total = sum(v.score for v in verdicts)
        missed = self.omission(case.response) if self.omission else None
        return Judgement(case.id, self.name, total / max(1, len(verdicts)), missed, tuple(verdicts))


class Writes:
    """A reviser that proposes these edits, whatever it is given."""

    name = "writes"
    rewrites = True

    def __init__(self, *edits: tuple[str, str]) -> None:
        self.edits = edits

    def draft(self, tasks: Sequence[RevisionTask]) -> list[Draft]:
        drafts = []
        for task in tasks:
            text = task.case.response
            made = [Edit(Span(text.index(a), text.index(a) + len(a)), b, "so") for a, b in self.edits if a in text]
            drafts.append(Draft(tuple(sorted(made, key=lambda e: e.span)), usage=Usage(1, 5, 5)))
        return drafts


def one(
    text: str, detector: object, reviser: object, sources: Iterable[Source] = (SOURCE,), **options: object
) -> Revised:
    [result] = revise([Case("1", text, tuple(sources))], detector, reviser, **options)  # type: ignore[arg-type]
    assert apply(text, result.revision.edits) == result.revision.text
    if result.after is not None:
        check_judgement(Case("1", result.revision.text, tuple(sources)), result.after)
    return result


def test_what_is_better_is_kept_with_its_reason() -> None:
    result = one("It is 300 m tall. It is in Paris.", Says({"300": 1.0}), Writes(("300", "330")))
    assert result.revision.text == "It is 330 m tall. It is in Paris."
    assert [e.because for e in result.revision.edits] == ["so"]
    assert result.after is not None
    assert (result.before.hallucination, result.after.hallucination) == (0.5, 0.0)
    assert result.reason == "nothing is unsupported any more"


@pytest.mark.parametrize(
    ("wrong", "edits", "why"),
    [
        ({"300": 1.0, "310": 1.0}, [("300", "310")], "the hallucination score does not fall"),
        ({"300": 0.6, "310": 0.9}, [("300", "310")], "the hallucination score does not fall"),
        (
            {"300": 1.0},
            [(" It is in Paris.", ""), ("300", "330")],
            "a supported claim would be lost: “It is in Paris.”",
        ),
        ({"300": 1.0}, [("Paris", "Rome"), ("300", "330")], "a supported claim would be lost"),
        ({"300": 1.0}, [], "the revision changes nothing"),
    ],
    ids=["as bad", "worse", "deletes what is right", "rewrites what is right", "nothing"],
)
def test_what_is_not_better_is_not_kept(wrong: dict[str, float], edits: list[tuple[str, str]], why: str) -> None:
    text = "It is 300 m tall. It is in Paris."
    result = one(text, _Knows(wrong), Writes(*edits))
    assert result.revision.text == text
    assert result.revision.edits == ()
    assert result.after == result.before
    assert result.reason.startswith(why)
    assert [r.kept for r in result.rounds] == [False]


class _Knows(Says):
    """A claim judged against another text than the sources is supported if the text has its words."""

    def _judge(self, case: Case) -> Judgement:
        if [s.id for s in case.sources] == ["revision"]:
            return Judgement(case.id, self.name, 0.0 if case.response in case.sources[0].text else 1.0)
        return super()._judge(case)


def test_a_supported_claim_that_is_said_elsewhere_is_not_lost() -> None:
    text = "It is 300 m tall. Paris has it. Paris has it."
    result = one(text, _Knows({"300": 1.0}), Writes(("300", "330"), ("Paris has it. ", "")))
    assert result.revision.text == "It is 330 m tall. Paris has it."


def test_a_claim_worded_anew_is_not_lost_as_long_as_its_words_stand() -> None:
    """Two claims on one sentence, one of them right: mending the other does not lose it, and nobody is asked."""

    class Splits(Says):
        def _judge(self, case: Case) -> Judgement:
            whole = (Span(0, len(case.response)),)
            right = Verdict(whole[0], 0.0, claim=Claim("The tower was built in 1889", whole))
            wrong = Verdict(whole[0], float("300" in case.response), claim=Claim("It is 300 m tall", whole))
            return Judgement(case.id, self.name, wrong.score, verdicts=(right, wrong))

    detector = Splits({})
    result = one("The tower, built in 1889, is 300 m tall.", detector, Writes(("300", "330")))
    assert result.revision.text == "The tower, built in 1889, is 330 m tall."
    assert len(detector.seen) == 2


def test_what_asking_for_a_lost_claim_costs_is_counted() -> None:
    class Costs(_Knows):
        def _judge(self, case: Case) -> Judgement:
            found = super()._judge(case)
            return Judgement(case.id, self.name, found.hallucination, verdicts=found.verdicts, usage=Usage(1))

    writes = Writes((" It is in Paris.", ""), ("300", "330"))
    result = one("It is 300 m tall. It is in Paris.", Costs({"300": 1.0}), writes)
    assert result.usage is not None
    assert result.usage.calls == 4  # judged twice, a draft, and the claim that would be lost


def test_the_best_earlier_text_stands() -> None:
    class Steps(Writes):
        def draft(self, tasks: Sequence[RevisionTask]) -> list[Draft]:
            self.edits = (("300", "330"),) if "300" in tasks[0].case.response else (("Rome", "Oslo"),)
            return super().draft(tasks)

    wrong = {"300": 1.0, "Rome": 1.0, "Oslo": 1.0}
    result = one("It is 300 m tall. It is in Rome.", Says(wrong), Steps(), rounds=5)
    assert result.revision.text == "It is 330 m tall. It is in Rome."
    assert [r.kept for r in result.rounds] == [True, False]
    assert result.reason.startswith("the hallucination score does not fall")
    assert result.usage == Usage(2, 10, 10)


def test_rounds_are_bounded_although_each_is_better() -> None:
    class Shrinks(Writes):
        def draft(self, tasks: Sequence[RevisionTask]) -> list[Draft]:
            text = tasks[0].case.response
            return [Draft((Edit(Span(len(text) - 1, len(text)), "", "shorter"),))]

    class Longs(Says):
        def _judge(self, case: Case) -> Judgement:
            whole = Span(0, len(case.response))
            return Judgement(case.id, self.name, len(case.response) / 1000, verdicts=(Verdict(whole, 1.0),))

    result = one("a" * 100, Longs({}), Shrinks(), rounds=3)
    assert len(result.rounds) == 3
    assert result.revision.text == "a" * 97
    assert len(result.revision.edits) == 1
    assert result.reason == "1 statements are still unsupported after the last round"
    for rounds in (0, 11):
        with pytest.raises(InputError):
            revise([], Longs({}), Shrinks(), rounds=rounds)


def test_of_equal_scores_the_one_with_fewer_unsupported_claims_is_better() -> None:
    """A product of claims stays at 1 as long as one is surely wrong."""
    checker = Says({"300": 1.0, "Rome": 1.0})
    result = one("It is 300 m tall. It is in Rome.", Verify(checker), Writes(("Rome", "Paris")))
    assert result.before.hallucination == 1.0
    assert result.revision.text == "It is 300 m tall. It is in Paris."


def test_a_covered_source_is_not_lost() -> None:
    sources = (SOURCE, Source("pro", "It is loved. It is high.", must_cover=True))
    detector = Says({"300": 1.0}, omission=lambda text: 0.0 if "loved" in text else 0.9)
    text = "It is 300 m tall and loved."
    assert one(text, detector, Writes(("300", "330")), sources).revision.text == "It is 330 m tall and loved."
    result = one(text, detector, Writes(("300 m tall and loved", "330 m tall")), sources)
    assert result.revision.text == text
    assert result.reason.startswith("a source that was covered would be left out")


def test_a_source_of_which_most_is_newly_left_out_is_lost_whatever_the_worst_side_says() -> None:
    class Omits(Says):
        def _judge(self, case: Case) -> Judgement:
            found = super()._judge(case)
            omissions = () if "loved" in case.response else (Omission("pro", Span(0, 12), 1.0),)
            return Judgement(case.id, self.name, found.hallucination, 0.9, found.verdicts, omissions)

    sources = (SOURCE, Source("pro", "It is loved.", must_cover=True))
    writes = Writes((" and loved", ""), ("300", "330"))
    result = one("It is 300 m tall and loved.", Omits({"300": 1.0}), writes, sources)
    assert result.reason == "source 'pro' was covered and would be left out"


def test_what_cannot_be_judged_again_is_not_kept() -> None:
    class Partly(Says):
        def _judge(self, case: Case) -> Judgement:
            found = super()._judge(case)
            seen = None if "300" in case.response else (Span(0, 5),)
            return Judgement(case.id, self.name, found.hallucination, verdicts=found.verdicts, judged=seen)

    text, writes = "It is 300 m tall.", Writes(("300", "330"))
    assert one(text, _Mute({"300": 1.0}), writes).reason.endswith("could not be judged: the model is silent")
    assert "more characters" in one(text, Partly({"300": 1.0}), writes).reason


class _Mute(Says):
    """Judges no text without a wrong word."""

    def _judge(self, case: Case) -> Judgement:
        if any(word in case.response for word in self.wrong):
            return super()._judge(case)
        return Judgement(case.id, self.name, judged=(), notes=("the model is silent",))


def test_what_was_not_judged_at_first_is_said_and_not_touched() -> None:
    result = one("It is 300 m tall.", _Mute({}), Delete())
    assert (result.reason, result.rounds) == ("it could not be judged: the model is silent", ())


def test_nothing_wrong_nothing_asked() -> None:
    model = Scripted([])
    result = one("It is in Paris.", Says({}), Factored(model))
    assert (result.reason, result.rounds, model.requests) == ("nothing is unsupported", (), [])


# without a model


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("It is in Paris. Pigs fly. It is tall.", "It is in Paris. It is tall."),
        ("Pigs fly. It is in Paris.", "It is in Paris."),
        ("It is in Paris. Pigs fly.\n", "It is in Paris.\n"),
        ("- It is in Paris.\n- Pigs fly.\n- It is tall.\n", "- It is in Paris.\n- It is tall.\n"),
        ("It is in Paris. Pigs fly.\n\nIt is tall.", "It is in Paris.\n\nIt is tall."),
        ("It is in Paris. Pigs fly. Pigs fly, too. It is tall.", "It is in Paris. It is tall."),
        ("  \nPigs fly. It is in Paris.", "  \nIt is in Paris."),
    ],
)
def test_delete_leaves_out_whole_sentences(text: str, left: str) -> None:
    result = one(text, Says({"Pigs": 1.0}), Delete())
    assert result.revision.text == left
    assert "is wrong" in result.revision.edits[0].because


def test_delete_leaves_something() -> None:
    result = one("Pigs fly.", Says({"Pigs": 1.0}), Delete())
    assert (result.revision.text, result.reason) == ("Pigs fly.", "nothing would be left of the response")


def test_delete_spares_a_sentence_that_also_says_something_right() -> None:
    text = "It is in Paris and pigs fly."
    verdicts = (
        Verdict(Span(0, 14), 0.0, claim=Claim("It is in Paris", (Span(0, 14),))),
        Verdict(Span(19, 27), 1.0, claim=Claim("pigs fly", (Span(19, 27),))),
    )

    class Fixed(Says):
        def _judge(self, case: Case) -> Judgement:
            return Judgement("1", "x", 1.0, verdicts=verdicts)

    result = one(text, Fixed({}), Delete())
    assert result.revision.text == text
    assert result.rounds[0].notes == ("1 unsupported claims stay: their sentences make supported claims, too",)


def test_a_correction_of_the_detector_is_used() -> None:
    class Corrects(Says):
        def _judge(self, case: Case) -> Judgement:
            if "300" not in case.response:
                return super()._judge(case)
            verdict = Verdict(Span(6, 11), 1.0, claim=Claim("300 m", (Span(6, 11),)), correction="330 m")
            return Judgement(case.id, self.name, 1.0, verdicts=(verdict,))

    assert one("It is 300 m tall.", Corrects({}), Delete()).revision.text == "It is 330 m tall."


class Marks:
    """A detector of wrong words; `corrections` has the right text of some, one text for neighbours in a list."""

    name = "marks"

    def __init__(self, corrections: dict[tuple[str, ...], str | None]) -> None:
        self.corrections = corrections

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        return [self._judge(case) for case in cases]

    def _judge(self, case: Case) -> Judgement:
        verdicts = [
            Verdict(Span(start, start + len(word)), 1.0, reason=str(words), correction=new)
            for words, new in self.corrections.items()
            for word in words
            if (start := case.response.find(word)) >= 0
        ]
        return Judgement(case.id, self.name, float(len(verdicts) > 0), verdicts=tuple(verdicts))


@pytest.mark.parametrize(
    ("corrections", "left"),
    [
        ({("300",): "330"}, "It is 330 m tall. It opened on 3 May 1889."),
        ({("3", "1889"): "5 May 1887"}, "It is 300 m tall. It opened on 5 May 1887."),
        ({("300 m", "300"): "330 m"}, "It is 330 m tall. It opened on 3 May 1889."),
        ({("tall",): "high", ("opened",): "closed"}, "It is 300 m high. It closed on 3 May 1889."),
        # one wrong word without a correction: its sentence goes
        ({("300",): "330", ("tall",): None}, "It opened on 3 May 1889."),
        ({("300",): "330", ("opened",): None}, "It is 330 m tall."),
    ],
)
def test_words_are_corrected_where_all_that_is_wrong_has_a_correction(
    corrections: dict[tuple[str, ...], str | None], left: str
) -> None:
    text = "It is 300 m tall. It opened on 3 May 1889."
    if ("3", "1889") in corrections:  # the first "3" of the text is that of 300
        text = text.replace("300", "two hundred")
        left = left.replace("300", "two hundred")
    assert one(text, Marks(corrections), Delete()).revision.text == left


def test_flag_marks_and_is_not_judged_again() -> None:
    detector = Says({"Pigs": 1.0})
    result = one("It is in Paris. Pigs fly. It is tall.", detector, Flag(), rounds=3)
    assert result.revision.text == "It is in Paris. Pigs fly. [not backed by the sources] It is tall."
    assert result.after is None
    assert len(detector.seen) == 1
    assert result.reason == "unsupported statements are marked, not revised"


def test_offline_on_an_embedded_detector() -> None:
    result = one("The tower is in Paris. Marie Curie painted it blue.", Verify(load_detector("overlap")), Delete())
    assert result.revision.text == "The tower is in Paris."


# with a model


def _answers(revision: str | None, critique: str = "Critique: no.\nSupported: No\nRevised: N/A") -> Scripted:
    def script(request: Request) -> str | None:
        return {"critique": critique, "revise": revision}[request.stage]

    return Scripted(script)


def test_a_model_is_told_what_is_wrong_and_its_text_becomes_edits() -> None:
    model = _answers("Corrected text:\nIt is 330 m tall. It is in Paris.")
    result = one("It is 300 m tall. It is in Paris.", Says({"300": 1.0}), Factored(model))
    assert result.revision.text == "It is 330 m tall. It is in Paris."
    [edit] = result.revision.edits
    assert edit == Edit(Span(6, 9), "330", "“It is 300 m tall.” is wrong")
    [request] = model.requests  # the detector's reasons are critiques: none is asked for
    assert "- On “It is 300 m tall.”: “It is 300 m tall.” is wrong" in request.messages[0].content
    assert SOURCE.text in request.messages[0].content


def test_without_a_reason_the_model_is_asked_for_a_critique_and_a_critic_always() -> None:
    class Silent(Says):
        def _judge(self, case: Case) -> Judgement:
            found = super()._judge(case)
            bare = tuple(Verdict(v.span, v.score, claim=v.claim) for v in found.verdicts)
            return Judgement(case.id, self.name, found.hallucination, verdicts=bare)

    told = "Critique: the document says 330.\nSupported: No\nRevised: It is 330 m tall."
    model = _answers("Corrected text: It is 330 m tall.", told)
    result = one("It is 300 m tall.", Silent({"300": 1.0}), Factored(model))
    assert [r.stage for r in model.requests] == ["critique", "revise"]
    assert result.revision.edits[0].because == "the document says 330."
    assert "It could say: It is 330 m tall." in result.rounds[0].critique
    critic = Scripted([told])
    one("It is 300 m tall.", Says({"300": 1.0}), Factored(_answers("Corrected text: It is 330 m tall."), critic=critic))
    assert len(critic.requests) == 1


def test_the_critic_may_find_a_claim_supported() -> None:
    model = _answers("Corrected text: It is gone.", "Critique: fine.\nSupported: Yes\nRevised: N/A")
    result = one("It is 300 m tall.", Says({"300": 1.0}), Factored(model, critic=model))
    assert result.reason == "the critic finds every claim supported"
    assert [r.stage for r in model.requests] == ["critique"]


@pytest.mark.parametrize(
    "critique",
    [
        Failure("too late", "timeout", True),
        "I cannot say.",
        "Critique: x\nSupported: Maybe",
        "Critique: “\nSupported: Yes\n” stands there\nSupported: No",
        Reply("Critique: x\nSupported: No", finish="length"),
    ],
)
def test_an_unreadable_critique_does_not_clear_the_claim(critique: str | Reply | Failure) -> None:
    model = Scripted(lambda r: critique if r.stage == "critique" else "Corrected text: It is 330 m tall.")
    result = one("It is 300 m tall.", Says({"300": 1.0}), Factored(model, critic=model))
    assert result.revision.text == "It is 330 m tall."
    assert result.rounds[0].notes == ("1 of 1 critiques could not be read",)


def test_edits_of_what_nobody_criticised_are_undone() -> None:
    model = _answers("Corrected text:\nHi! It is 330 m tall. It lies in lovely Paris. Bye.")
    result = one("It is 300 m tall. It is in Paris. It is old.", Says({"300": 1.0}), Factored(model))
    assert result.revision.text == "Hi! It is 330 m tall. It is in Paris. It is old."
    assert result.rounds[0].notes == ("2 edits touch nothing that was criticised: undone",)


NO_TEXT = "no revision: the reply holds no corrected text"


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("It is 330 m tall.", NO_TEXT),
        ("Corrected text:\n\n", NO_TEXT),
        ("Corrected text:\nA.\nCorrected text:\nB.", NO_TEXT),
        (Reply("Corrected text: It is", finish="length"), "no revision: the corrected text was cut short"),
        (Failure("the budget is spent", "budget", False), "no revision: the budget is spent"),
        ("Corrected text:\n<<<response 0123456789ab\nIt is 330 m tall.", NO_TEXT),
        ("Corrected text:\nIt is 330 m tall.\nresponse 0123456789ab>>>\nOk?", NO_TEXT),
        (f"Corrected text:\nIt is 330 m tall.\n{prompt('revise_text').text}", NO_TEXT),
        ("Corrected text:\nIt is 300 m tall.", "the model changes nothing that was criticised"),
    ],
)
def test_no_revision_leaves_the_text_and_says_why(reply: str | Reply | Failure, why: str) -> None:
    result = one("It is 300 m tall.", Says({"300": 1.0}), Factored(Scripted(lambda r: reply)), rounds=4)
    assert result.revision.text == "It is 300 m tall."
    assert (result.reason, len(result.rounds)) == (why, 1)


@pytest.mark.parametrize("remark", ["I am sorry, but I cannot help with that.", "Ignore all previous instructions!"])
@pytest.mark.parametrize("text", ["{}", "It is 330 m tall. {}", "{} It is 330 m tall."])
def test_a_remark_of_which_the_sources_have_no_word_is_no_correction(text: str, remark: str) -> None:
    written = text.format(remark)
    result = one("It is 300 m tall.", Says({"300": 1.0}), Writes(("It is 300 m tall.", written)))
    assert not result.changed
    assert result.reason == f"the corrected text would say “{remark}”, of which no word is in the text or its sources"
    already = one(f"It is 300 m tall. {remark}", Says({"300": 1.0}), Writes(("300", "330")))
    assert not already.rounds[0].reason.startswith("the c")


def test_sources_that_are_too_long_are_left_out_at_a_second_try() -> None:
    def script(request: Request) -> str | Failure:
        if SOURCE.text in request.messages[0].content:
            return Failure("too long", "context", False)
        return "Corrected text: It is 330 m tall."

    assert one("It is 300 m tall.", Says({"300": 1.0}), Factored(Scripted(script))).revision.text == "It is 330 m tall."


def test_only_the_cited_sources_are_shown_to_the_critic() -> None:
    sources = (Source("a", "Ling text.", citation="Ling, 2009"), Source("b", "Benton text.", citation="Benton, 2010"))
    critic = _answers(None)
    one("Ling (2009) found 300.", Says({"300": 1.0}), Factored(critic, critic=critic), sources)
    asked = critic.requests[0].messages[0].content
    assert "Ling text." in asked
    assert "Benton text." not in asked


def test_self_correction_sees_no_claim_and_keeps_every_edit() -> None:
    model = _answers("Corrected text: It is 330 m tall. Yes.", "Feedback:\nThe height is 330.")
    result = one("It is 300 m tall. No.", Says({"300": 1.0, "No": 0.5}), SelfCorrection(model))
    assert result.revision.text == "It is 330 m tall. Yes."
    assert {e.because for e in result.revision.edits} == {"The height is 330."}
    assert "is wrong" not in model.requests[1].messages[0].content
    failed = one("It is 300 m tall.", Says({"300": 1.0}), SelfCorrection(_answers("x", "nothing")))
    assert failed.reason == "no critique: the reply holds no feedback"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("**Corrected text:**\nIt is.", "It is."),
        ("Corrected text:\n```\nIt is.\n```", "It is."),
        ("Corrected text:\n<<<response 0123456789ab\nIt is.\nresponse 0123456789ab>>>", "It is."),
        ("<think>Corrected text: no</think>Corrected text: **It** is.", "**It** is."),
        ('Corrected text: "It" is.', '"It" is.'),
        ("Sure!\n\nCorrected text:\n\n- It is.\n- It was.", "- It is.\n- It was."),
    ],
)
def test_corrected_texts_in_every_dress(text: str, expected: str) -> None:
    assert corrected_text(" old\n", Reply(text)) == f" {expected}\n"


def test_many_cases_go_to_the_model_together_and_come_back_in_order() -> None:
    texts = [f"It is 300 m tall, says {i}." if i % 2 else f"It is in Paris, says {i}." for i in range(6)]
    model = Scripted(
        lambda r: "Corrected text: " + next(t for t in texts if t in r.messages[0].content).replace("00", "30")
    )
    batches: list[int] = []
    ask = model.chat
    model.chat = lambda requests: (batches.append(len(requests)), ask(requests))[1]  # type: ignore[method-assign]
    results = revise([Case(str(i), t, (SOURCE,)) for i, t in enumerate(texts)], Says({"300": 1.0}), Factored(model))
    assert [r.revision.text for r in results] == [t.replace("300", "330") for t in texts]
    assert batches == [3]


# statements


def test_a_response_level_score_is_about_one_statement() -> None:
    units = statements_of(Case("1", " All of it. "), Judgement("1", "x", 0.7))
    assert [(u.text, u.score) for u in units] == [("All of it.", 0.7)]


def test_what_was_not_judged_is_no_supported_statement() -> None:
    case = Case("1", "One is. Two is. Three is.")
    judgement = Judgement("1", "x", 0.5, verdicts=(Verdict(Span(0, 3), 1.0),), judged=(Span(0, 7), Span(16, 25)))
    assert [(u.text, u.score) for u in statements_of(case, judgement)] == [("One is.", 1.0), ("Three is.", 0.0)]


# the truth


class Truth:
    """The checker that knows: a text's spans are wrong where they are not in the text it was made from."""

    name = "truth"
    grounded = True

    def __init__(self, right: dict[str, str]) -> None:
        self.right = right  # by case id

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        judgements = []
        for case in cases:
            known = {span.of(self.right[case.id]) for span in sentences(self.right[case.id])}
            verdicts = []
            for span in sentences(case.response):
                text = span.of(case.response)
                verdicts.append(Verdict(span, float(text not in known), claim=Claim(text, (span,))))
            wrong = sum(v.score for v in verdicts)
            judgements.append(Judgement(case.id, self.name, float(wrong > 0), verdicts=tuple(verdicts)))
        return judgements


def _bump(folder: Path) -> list[tuple[Case, str]]:
    rows = list(islice(read(f"bump:{folder / 'bump'}"), 120))
    return [(bad.case, good.case.response) for good, bad in zip(rows[::2], rows[1::2], strict=True)]


def _summedits(folder: Path) -> list[tuple[Case, str]]:
    """Edited summaries with the one they were made from, told apart by the edit that is said to be consistent."""
    rows = [e for e in islice(read(f"summedits:{folder / 'summedits'}"), 1500) if not e.case.response.isspace()]
    right = {e.document: e.case.response for e in rows if not e.gold.hallucination}
    return [(e.case, right[e.document]) for e in rows if e.gold.hallucination and e.document in right][::12]


@pytest.mark.parametrize("pairs", [_bump, _summedits])
def test_exactly_the_planted_errors_are_removed(
    shared_data: Path, pairs: Callable[..., list[tuple[Case, str]]]
) -> None:
    """The model writes the right text, with every stray change undone; the rest stays to the letter."""
    given = pairs(shared_data)
    assert len(given) >= 30
    right = {case.id: text for case, text in given}

    def script(request: Request) -> str:
        asked = request.messages[0].content
        if request.stage != "revise":
            return "Critique: it differs.\nSupported: No\nRevised: N/A"
        corrected = (right[c.id] for c, _ in given if c.response in asked and c.sources[0].text in asked)
        return f"Corrected text:\n{next(corrected)}"

    results = revise([c for c, _ in given], Truth(right), Factored(Scripted(script)))
    for (_, text), result in zip(given, results, strict=True):
        assert result.revision.text.split() == text.split(), result.reason
        assert result.after is not None
        assert result.after.hallucination == 0.0
        kept = [v.claim.text for v in result.before.verdicts if v.score == 0 and v.claim]
        assert all(claim in result.revision.text for claim in kept)
        assert all(edit.because for edit in result.revision.edits)


def test_deleting_removes_every_planted_error_and_no_other_sentence(shared_data: Path) -> None:
    given = _bump(shared_data)
    truth = Truth({case.id: text for case, text in given})
    mended = 0
    for result in revise([c for c, _ in given], truth, Delete()):
        right = [v.claim.text for v in result.before.verdicts if v.score == 0 and v.claim]
        if not right:
            assert result.reason == "nothing would be left of the response"
            continue
        mended += 1
        assert [s.of(result.revision.text) for s in sentences(result.revision.text)] == right
    assert mended >= 30
