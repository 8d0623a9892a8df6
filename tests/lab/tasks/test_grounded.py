from dataclasses import replace
from pathlib import Path

import pytest

from veridical.inference.local_model import LocalModel
from veridical.inference.template import get_template, render
from veridical.io.serialization import encode as to_json
from veridical.models.load import load
from veridical.records.errors import InputError, UnknownNameError
from veridical.records.types import Case, Example, Judgement, Source, Span, Thresholds, Turn, Verdict
from veridical_lab.models.encode import encode
from veridical_lab.models.testing import tiny
from veridical_lab.tasks.grounded import TASKS, UNLABELLED, Writing, find_task, inputs_of, label_responses, write
from veridical_lab.tasks.responses import append_responses, kept_responses


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LocalModel:
    folder = tiny("llama", tmp_path_factory.mktemp("llama"), max_position_embeddings=2048)
    return load(folder, dtype="fp32", device="cpu")


def example(i: int, response: str = "It is grey.") -> Example:
    sources = (Source("a", f"The tower number {i} is grey."), Source("b", "It is tall."))
    history = (Turn("A", "Which colour is it?"),)
    gold = Judgement(f"c{i}", "human:a", 0.0)
    return Example(Case(f"c{i}", response, sources, history=history), gold, f"d{i}", (("system", "x"),))


def examples(count: int) -> list[Example]:
    return [example(i) for i in range(count)]


def test_every_task_has_a_template_that_a_probe_can_be_trained_with() -> None:
    for name, task in TASKS.items():
        assert task.name == name
        assert get_template(task.template).name == task.template
    with pytest.raises(UnknownNameError, match="did you mean summarise"):
        find_task("summarize")


@pytest.mark.parametrize(
    ("task", "text", "response", "ends"),
    [
        ("dialogue", "It is grey.\nA: Oh", "It is grey.", True),
        ("dialogue", "It is grey", "It is grey", False),
        ("dialogue", "\nIt is grey", "", True),
        ("data-to-text", "The Eagle, £20.\n\nAttributes:", "The Eagle, £20.", True),
        ("summarise", "One is. Two is. Three is. Four", "One is. Two is. Three is.", True),
        ("summarise", "One is.\n\nTwo is. ", "One is.\n\nTwo is.", False),
        ("summarise", "  ", "", False),
    ],
)
def test_where_a_response_ends(task: str, text: str, response: str, ends: bool) -> None:
    assert (TASKS[task].cut(text), TASKS[task].ends(text)) == (response, ends)


def test_inputs_are_the_different_prompts_without_what_was_said_of_the_old_response() -> None:
    twin = Example(replace(example(0).case, id="twin", response="It is tall."), Judgement("twin", "human:a", 0.0))
    found = inputs_of([example(0), twin, example(1)], "dialogue-bare")
    assert [e.case.id for e in found] == ["c0", "c1"]
    for i, e in enumerate(found):
        assert (e.case.response, e.gold.by, e.gold.judged, e.group, e.document) == ("", UNLABELLED, (), (), f"d{i}")
        assert e.case.prompt == render(e.case, "dialogue-bare").text


def test_a_sample_is_drawn_by_the_seed() -> None:
    found = [inputs_of(examples(30), "tldr", sample=5, seed=s) for s in (1, 1, 2)]
    assert found[0] == found[1] != found[2]
    assert [len(f) for f in found] == [5, 5, 5]
    assert len(inputs_of(examples(3), "tldr", sample=5)) == 3
    ids = [int(e.case.id[1:]) for e in found[0]]
    assert ids == sorted(ids)


def test_inputs_that_cannot_be() -> None:
    with pytest.raises(InputError, match="sample is 0"):
        inputs_of(examples(3), "tldr", sample=0)
    with pytest.raises(InputError, match="'raw'"):
        inputs_of(examples(3), "raw")
    with pytest.raises(InputError, match="no example has a source"):
        inputs_of([Example(Case("1", "x"), Judgement("1", "h", 0.0))], "tldr")
    with pytest.raises(UnknownNameError, match="template"):
        inputs_of(examples(3), "nothing")


@pytest.mark.parametrize("task", TASKS)
def test_the_case_is_read_again_in_the_very_prompt_that_made_it(model: LocalModel, task: str) -> None:
    writing = Writing(TASKS[task], max_tokens=20)
    given = inputs_of(examples(4), writing.prompt)
    made = [m for m in write(model, given, writing, name="tiny") if isinstance(m, Example)]
    assert made
    for e in made:
        assert render(e.case, writing.prompt).text == e.case.prompt + e.case.response
        (as_trained,) = encode(model, e.case, writing.prompt)
        (as_made,) = encode(model, e.case, "raw")
        assert as_trained.ids == as_made.ids
        assert (e.gold.by, e.gold.judged, e.gold.hallucination) == (UNLABELLED, (), None)
        assert e.case.response == e.case.response.strip() != ""
        assert dict(e.group) == {"task": task, "model": "tiny", "prompt": writing.prompt, "drawn": "k=2, temperature=1"}


def test_batches_do_not_matter_and_seeds_do(model: LocalModel) -> None:
    writing = Writing(TASKS["dialogue"], template="dialogue-bare", max_tokens=12)
    given = inputs_of(examples(6), writing.prompt)
    whole = write(model, given, writing)
    assert whole == [m for some in (given[:1], given[1:3], given[3:]) for m in write(model, some, writing)]
    other = write(model, given, replace(writing, seed=1))
    assert [getattr(m, "case", m) for m in other] != [getattr(m, "case", m) for m in whole]


def test_a_response_that_breaks_off_says_so(model: LocalModel) -> None:
    made = write(model, inputs_of(examples(3), "tldr"), Writing(TASKS["summarise"], max_tokens=3))
    notes = [note for m in made if isinstance(m, Example) for note in m.gold.notes]
    assert any("breaks off after 3 tokens" in note for note in notes)


def long_example() -> Example:
    text = "The tower is grey. " * 200
    return Example(Case("long", "x", (Source("a", text), Source("b", "Unseen."))), Judgement("long", "h", 0.0))


def test_a_source_that_does_not_fit_is_passed_over_or_shortened_in_the_case_too(model: LocalModel) -> None:
    writing = Writing(TASKS["summarise"], max_tokens=8, max_prompt=60)
    given = inputs_of([long_example(), example(1)], writing.prompt)
    assert write(model, given, writing)[0] == "the prompt does not fit into the model"
    made, fits = write(model, given, replace(writing, shorten=True))
    assert isinstance(made, Example)
    assert isinstance(fits, Example)
    assert [s.id for s in made.case.sources] == ["a"]
    assert long_example().case.sources[0].text.startswith(made.case.sources[0].text)
    assert 50 < len(made.case.sources[0].text) < 400
    assert made.case.prompt == f"{made.case.sources[0].text}\nTL;DR: "
    assert [s.text for s in fits.case.sources] == [s.text for s in example(1).case.sources]


class Fixed:
    """A detector that marks the first word, with a score of 0.6, and gives a weak one on the second."""

    name = "fixed"

    def judge(self, cases: list[Case]) -> list[Judgement]:
        return [
            Judgement(c.id, "fixed", 0.6, verdicts=(Verdict(Span(0, 2), 0.6), Verdict(Span(3, 5), 0.2)), notes=("n",))
            for c in cases
        ]


def test_labels_are_the_detectors_and_say_so() -> None:
    (made,) = label_responses([example(1)], Fixed(), Thresholds.same(0.5))  # type: ignore[arg-type]
    assert (made.gold.by, made.gold.hallucination) == ("fixed", 1.0)
    assert [(v.span, v.score) for v in made.gold.verdicts] == [(Span(0, 2), 1.0)]
    assert made.gold.notes == ("n", "labelled by a detector at 0.5, not by people")
    (clean,) = label_responses([example(1)], Fixed(), Thresholds.same(0.7))  # type: ignore[arg-type]
    assert (clean.gold.hallucination, clean.gold.verdicts) == (0.0, ())


GROUP = {"task": "t"}


def kept(i: int, *, by: str = UNLABELLED) -> Example:
    e = example(i)
    return replace(e, gold=Judgement(e.case.id, by, judged=()), group=(("task", "t"),))


def test_the_file_of_another_run_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    append_responses(path, [kept(1)])
    with pytest.raises(InputError, match=r"r\.jsonl:1: 'c1' is not a response of this run"):
        kept_responses(path, {"c2"}, GROUP, labelled=False)
    with pytest.raises(InputError, match="task is 't', not 'u'"):
        kept_responses(path, {"c1"}, {"task": "u"}, labelled=False)
    with pytest.raises(InputError, match="the response is not labelled"):
        kept_responses(path, {"c1"}, GROUP, labelled=True)
    path.write_text(to_json(kept(1, by="overlap")) + "\nnonsense\n")
    with pytest.raises(InputError, match="the response is labelled"):
        kept_responses(path, {"c1"}, GROUP, labelled=False)
    with pytest.raises(InputError, match=r"r\.jsonl:2: not JSON"):
        kept_responses(path, {"c1"}, GROUP, labelled=True)
