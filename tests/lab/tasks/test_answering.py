"""The generator: its format, its prompt, replies that cannot be read, and a guarded local model."""

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from veridical.llm.protocol import Failure, Reply, Request
from veridical.llm.scripted import Scripted
from veridical.records.errors import CannotJudgeError, InputError
from veridical.records.types import Case, Judgement, Omission, Source, Span
from veridical.workflows.revise import Delete
from veridical_lab.tasks.perspectives.answering import (
    answer_cases,
    answer_request,
    answer_tokens,
    guarded_passages,
    revise_answer,
)
from veridical_lab.tasks.perspectives.task_format import VALUE_ENDS, Passages, read_target, task_input, task_target

SOURCES = (
    Source("pro-1", 'Cars "stink".', "pro", must_cover=True),
    Source("pro-2", "Streets get safer.", "pro", must_cover=True),
    Source("con-1", "Shops lose customers.", "con", must_cover=True),
)
CASE = Case("1/0", "", SOURCES, question="Ban cars?")
WRITTEN = Passages("People disagree.", {"pro": "Cars stink, and streets get safer.", "con": "Shops lose customers."})


def test_the_format_both_ways() -> None:
    given = json.loads(task_input(CASE))
    assert list(given.items()) == [
        ("question", "Ban cars?"),
        ("pro", ['Cars "stink".', "Streets get safer."]),
        ("con", ["Shops lose customers."]),
    ]
    assert read_target(task_target(WRITTEN), ["pro", "con"]) == WRITTEN
    assert json.loads(task_input(replace(CASE, response="Yes.")))["response"] == "Yes."


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("Cars stink.", "not one JSON object"),
        ('{"introduction": "I", "pro": "P"', "not one JSON object"),
        ('{"pro": "P", "con": "C"}', "no introduction"),
        ('{"introduction": "I", "pro": "P", "con": " "}', "no passage for 'con'"),
        ('{"introduction": "I", "pro": "P", "con": 3}', "no passage for 'con'"),
        (
            '{"introduction": "I", "pro": "P", "con": "C", "neutral": "N"}',
            "a passage for 'neutral', which was not given",
        ),
    ],
)
def test_what_cannot_be_read_is_never_guessed(text: str, why: str) -> None:
    assert read_target(text, ["pro", "con"]) == why


def test_keys_in_another_case_and_lists_are_read() -> None:
    text = 'Sure:\n```json\n{"Introduction": "I", "Pro": ["One.", "Two."], "CON": "C"}\n```'
    assert read_target(text, ["pro", "con"]) == Passages("I", {"pro": "One. Two.", "con": "C"})


def test_an_answer_becomes_a_case() -> None:
    model = Scripted([task_target(WRITTEN)])
    ((passages, case),) = answer_cases(model, [CASE], temperature=0.7, seed=3)  # type: ignore[misc]
    assert passages == WRITTEN
    assert case.response == "Cars stink, and streets get safer.\n\nShops lose customers."
    (request,) = model.requests
    assert case.prompt == request.messages[-1].content
    assert (request.temperature, request.seed, request.stage) == (0.7, 3, "answer")
    assert task_input(CASE) in request.messages[-1].content
    assert '"pro", "con"' in request.messages[-1].content


def test_the_length_follows_from_the_arguments() -> None:
    assert answer_request(CASE).max_tokens == answer_tokens(CASE) == 96 + 4 * 8
    assert answer_request(CASE, max_tokens=7).max_tokens == 7
    long = replace(CASE, sources=tuple(replace(source, text="word " * 500) for source in SOURCES))
    assert answer_tokens(long) == 1024


class _LeavesOut:
    """Finds an argument left out unless the response has its words."""

    name = "leaves out"

    def judge(self, cases: Sequence[Case]) -> list[Judgement]:
        return [self._judge(case) for case in cases]

    def _judge(self, case: Case) -> Judgement:
        omissions = tuple(
            Omission(source.id, Span(0, len(source.text)), float(source.text[1:-1] not in case.response))
            for source in case.sources
        )
        return Judgement(case.id, self.name, 0.0, max(o.score for o in omissions), (), omissions)


@pytest.mark.parametrize("passages", [("Shops suffer.", "Cars suffer."), ("Cars.", "Cars, streets and cars.")])
def test_what_is_left_out_lands_in_its_perspective(passages: tuple[str, str]) -> None:
    """The passage about a perspective is known, whatever words it shares with arguments of another one."""
    sources = (
        Source("pro-1", "The streets will be safer.", "pro", must_cover=True),
        Source("con-1", "Many shops will lose customers.", "con", must_cover=True),
    )
    written = Passages("Views differ.", dict(zip(("pro", "con"), passages, strict=True)))
    case = Case("1", written.response, sources, question="Ban cars?")
    _, revised = revise_answer(written, case, _LeavesOut(), Delete())
    assert revised.revision.text == (
        f"{passages[0]} It is also said that the streets will be safer.\n\n"
        f"{passages[1]} It is also said that many shops will lose customers."
    )


def test_no_answer_is_a_value() -> None:
    whole = task_target(WRITTEN)
    model = Scripted([Failure("slow", "timeout", True), Reply(whole, finish="length"), "no", whole])
    results = answer_cases(model, [CASE] * 4)
    reasons = [result.reason if isinstance(result, Failure) else "read" for result in results]
    unread = [f"the answer cannot be read: {why}" for why in ("it breaks off after 128 tokens", "not one JSON object")]
    assert reasons == ["slow", *unread, "read"]


def test_what_cannot_be_read_is_written_again_passage_by_passage() -> None:
    """The keys are given, and the model writes the values; what it has written is part of what it goes on from."""
    values = {"introduction": "Views differ.", "pro": 'Cars \\"stink\\".', "con": "Shops lose customers."}

    def script(request: Request) -> str | Reply:
        if not request.prefill:
            return Reply("no", finish="length")
        name = next(name for name in reversed(values) if request.prefill.endswith(f'"{name}": "'))
        return values[name]

    model = Scripted(script)
    ((passages, case),) = answer_cases(model, [CASE])  # type: ignore[misc]
    assert passages == Passages("Views differ.", {"pro": 'Cars "stink".', "con": "Shops lose customers."})
    assert case.response == passages.response
    assert [request.prefill for request in model.requests] == [
        "",
        '{"introduction": "',
        '{"introduction": "Views differ.", "pro": "',
        '{"introduction": "Views differ.", "pro": "Cars \\"stink\\".", "con": "',
    ]
    assert all(request.stop == VALUE_ENDS for request in model.requests[1:])


def test_the_first_sentence_of_an_endless_introduction_counts() -> None:
    endless = Reply("Views differ. " * 50, finish="length")
    model = Scripted(lambda r: "Cars." if "differ." in r.prefill else endless if r.prefill else "no")
    ((passages, _),) = answer_cases(model, [CASE])  # type: ignore[misc]
    assert passages == Passages("Views differ.", {"pro": "Cars.", "con": "Cars."})
    cut = Reply("Views on this question", finish="length")
    (failed,) = answer_cases(Scripted(lambda request: cut if request.prefill else "no"), [CASE])
    assert isinstance(failed, Failure)


@pytest.mark.parametrize(
    "value",
    [
        Failure("slow", "timeout", True),
        Reply("It is fa", finish="length"),
        " ",
        task_target(WRITTEN),  # a model that does not go on from the text, but begins again
    ],
)
def test_a_passage_that_cannot_be_read_is_no_answer(value: Reply | Failure | str) -> None:
    model = Scripted(lambda request: value if request.prefill.endswith('"pro": "') else "Views differ.")
    one, two = answer_cases(model, [CASE, CASE])
    assert isinstance(one, Failure)
    assert one.reason == "the answer cannot be read: not one JSON object"
    assert one == two


def test_cases_without_perspectives_are_refused() -> None:
    with pytest.raises(InputError, match="1 perspective"):
        answer_request(replace(CASE, sources=SOURCES[:2]))
    with pytest.raises(InputError, match="'x' has the perspective None"):
        answer_request(replace(CASE, sources=(*SOURCES, Source("x", "X"))))
    with pytest.raises(InputError, match="the perspective 'introduction'"):
        answer_request(replace(CASE, sources=(*SOURCES, Source("x", "X", "introduction"))))


class _Guard:
    """Stands for a guard of a model without a chat template; it repeats what it is given."""

    model = type("Model", (), {"tokenizer": None})

    def __init__(self, text: str | None = None) -> None:
        self.text = text
        self.cases: list[Case] = []

    def generate(self, case: Case) -> Case:
        self.cases.append(case)
        text = "  ".join(source.text for source in case.sources) if self.text is None else self.text
        return type("Guarded", (), {"text": text})  # type: ignore[return-value]


def test_a_guarded_model_writes_passage_by_passage() -> None:
    guard = _Guard()
    passages = guarded_passages(CASE, guard)  # type: ignore[arg-type]
    assert passages.response == 'Cars "stink". Streets get safer.\n\nShops lose customers.'
    assert "Ban cars?" in passages.introduction
    assert [case.sources for case in guard.cases] == [SOURCES[:2], SOURCES[2:]]
    assert all(source.text in (case.prompt or "") for case in guard.cases for source in case.sources)
    with pytest.raises(CannotJudgeError, match="no passage for 'pro'"):
        guarded_passages(CASE, _Guard(" "))  # type: ignore[arg-type]
