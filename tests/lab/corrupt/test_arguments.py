"""Composed answers and errors made by removing and adding arguments: the gold is exact, and nothing crosses a split."""

import random
import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from veridical.datasets.split import split_by_document
from veridical.records.errors import InputError, UnknownNameError
from veridical.records.types import Case, Example, Judgement, Source
from veridical_lab.bench.perspectives import error_sets, training_sets
from veridical_lab.corrupt import corrupt
from veridical_lab.corrupt.argument_responses import clause_of, composed
from veridical_lab.corrupt.arguments import AMBIGUOUS, FULL, Arguments, each_error
from veridical_lab.datasets.topics import Topic, make_topic, normal_form

NOUNS = "trains rivers gardens bridges lamps towers boats clouds stones mirrors kettles violins".split()  # noqa: SIM905


def topic(number: int, *, paraphrases: bool = True) -> Topic:
    """Arguments that have hardly a word in common, each with a second wording that shares none with the first."""
    sides: dict[str, list[list[str]]] = {"pro": [], "con": []}
    for i, noun in enumerate(NOUNS[:8]):
        first = f"{noun.capitalize()}{number} are k{i}x{number} because m{i}x{number} is n{i}x{number}."
        second = f"Everyone{i}x{number} has p{i}x{number} what {noun}y{number} is."
        sides["pro" if i % 2 else "con"].append([first, second] if paraphrases else [first])
    return make_topic(f"t{number}", f"Topic {number}", sides)


TOPICS = [topic(i) for i in range(12)]


def errors(types: Sequence[str]) -> dict[str, list[Example]]:
    made: dict[str, list[Example]] = {}
    for example in each_error(composed(TOPICS, per_topic=3), types, topics=TOPICS):
        made.setdefault(dict(example.group)["corrupted"], []).append(example)
    return made


def marked(example: Example) -> list[str]:
    return [v.span.of(example.case.response) for v in example.gold.verdicts if v.score == 1.0]


def left_out(example: Example) -> list[str]:
    return [o.span.of(example.case.source(o.source_id).text) for o in example.gold.omissions if o.score == 1.0]


@pytest.mark.parametrize(
    ("text", "clause"),
    [
        ("The rich are taxed twice.", "the rich are taxed twice"),
        ("Paris is full of cars: ", "Paris is full of cars"),
        ("Homework doesn't help students.", "homework doesn't help students"),
        ("I think that it helps", "I think that it helps"),
        ("Why schooling harms society", None),
        ("Avoids the costs of elections", None),
        ("Is it fair to tax them?", None),
        ("To be fair is to tax", None),
        ("National Security Is A Duty", None),
        ("It works", None),
        ("It is good. It is cheap.", None),
        ("A heading without any verb", None),
    ],
)
def test_what_can_be_said_after_that(text: str, clause: str | None) -> None:
    assert clause_of(text) == clause


def test_responses_say_exactly_what_is_given() -> None:
    examples = list(composed(TOPICS, per_topic=3))
    assert len(examples) == 2 * 3 * len(TOPICS)
    for example in examples:
        case, gold = example.case, example.gold
        assert (gold.hallucination, gold.omission) == (0.0, 0.0)
        assert [e.source_id for v in gold.verdicts for e in v.evidence] == [s.id for s in case.sources]
        assert len({s.id for s in case.sources}) == len(case.sources)
        sides = [s.perspective for s in case.sources]
        assert sides.count("pro") == sides.count("con") in (1, 2, 3)
        assert case.response.count("\n\n") == 1
        said = [normal_form(v.span.of(case.response)) for v in gold.verdicts]
        given = [normal_form(s.text) for s in case.sources]
        assert (said == given) == (dict(example.group)["wording"] == "same")
        assert re.fullmatch(r"(?:[A-Z][^.\n]* (?:that|is that) [^.\n]+\.[ \n]*)+", case.response)
    by_id = {example.case.id: example for example in composed(reversed(TOPICS), per_topic=3)}
    assert all(by_id[example.case.id] == example for example in examples)  # the order of the topics does not matter


def test_the_same_response_for_both_wordings() -> None:
    examples = list(composed(TOPICS, per_topic=2))
    for same, other in zip(examples[::2], examples[1::2], strict=True):
        assert same.case.response == other.case.response
        assert [s.id for s in same.case.sources] == [s.id for s in other.case.sources]
        assert not {s.text for s in same.case.sources} & {s.text for s in other.case.sources}


def test_topics_that_cannot_be_used() -> None:
    with pytest.raises(InputError, match=r"no response can be composed .* choose the wording 'same'"):
        list(composed([topic(1, paraphrases=False)]))
    assert list(composed([topic(1, paraphrases=False)], wording="same"))
    one_sided = make_topic("x", "X", {"pro": [["It has long been so."], ["It will be so."]]})
    with pytest.raises(InputError, match="no response can be composed"):
        list(composed([one_sided], wording="same"))
    with pytest.raises(UnknownNameError, match="unknown wording"):
        list(composed(TOPICS, wording="loud"))


def test_full_errors() -> None:
    made = errors(FULL)
    assert all(len(made[kind]) > 40 for kind in ("no", *FULL))
    originals = {example.case.id: example for example in made["no"]}
    for kind in FULL:
        for example in made[kind]:
            old = originals[example.case.id.rpartition("/")[0]]
            assert example.case.response == old.case.response
            assert example.document == old.document
            gone = [s for s in old.case.sources if s not in example.case.sources]
            new = [s for s in example.case.sources if s not in old.case.sources]
            assert (len(gone), len(new)) == {"removed": (1, 0), "added": (0, 1), "both": (1, 1)}[kind]
            spans = [v.span for v in old.gold.verdicts for e in v.evidence if e.source_id in {s.id for s in gone}]
            assert marked(example) == [span.of(old.case.response) for span in spans]
            assert left_out(example) == [s.text for s in new]
            assert example.gold.hallucination == float(bool(gone))
            assert example.gold.omission == float(bool(new))
            assert not {s.id for s in new} & {s.id for s in old.case.sources}
            assert {o.source_id for o in example.gold.omissions} == {s.id for s in example.case.sources}


def test_an_added_argument_is_worded_like_the_others() -> None:
    for example in errors(["added"])["added"]:
        style = {"Everyone" in source.text for source in example.case.sources}
        assert len(style) == 1  # the last wording is said, and given where the words are the same


def test_ambiguous_errors() -> None:
    made = errors(AMBIGUOUS)
    originals = {example.case.id: example for example in made["no"]}
    for example in made["repeated"]:
        (again,) = marked(example)
        assert example.case.response.count(again) == 2
        assert left_out(example) == []
    for example in made["swapped"]:
        old = originals[example.case.id.rpartition("/")[0]]
        assert sorted(example.case.response.split()) == sorted(old.case.response.split()) or len(marked(example)) == 2
        here = {v.evidence[0].source_id: v.span.of(example.case.response) for v in example.gold.verdicts}
        assert here == {v.evidence[0].source_id: v.span.of(old.case.response) for v in old.gold.verdicts}
        ids = {v.evidence[0].source_id for v in example.gold.verdicts if v.score == 1.0}
        assert len(ids) == 2
        passages = example.case.response.split("\n\n")
        wrong = [s for s in example.case.sources if s.id in ids]
        order = list(dict.fromkeys(s.perspective for s in example.case.sources))
        assert all(here[s.id] not in passages[order.index(s.perspective)] for s in wrong)
    assert "partly-given" not in made  # what is said has no second part


def test_the_meaning_of_an_argument_is_changed_slightly() -> None:
    sides = {"pro": [["The trains may help the poor."]], "con": [["The boats are loud and slow."]]}
    given = next(composed([make_topic("t", "T", sides)], wording="same"))
    changed = Arguments([given], types=["meaning"]).change(given, random.Random(0))
    assert isinstance(changed, Example)
    (word,) = marked(changed)
    (wrong,) = [v for v in changed.gold.verdicts if v.score == 1.0]
    assert (word, wrong.correction) in {("will", "may"), ("cause", "help")}
    response = changed.case.response
    assert response[: wrong.span.start] + str(wrong.correction) + response[wrong.span.end :] == given.case.response
    assert (changed.gold.hallucination, left_out(changed), changed.case.sources) == (1.0, [], given.case.sources)
    spans = [v.span for v in changed.gold.verdicts]
    assert not any(a.overlaps(b) for a in spans for b in spans if a is not b)
    assert "".join(s.of(response) for s in spans[:3]).count(word) == 1
    plain = next(composed([topic(1)], wording="same"))
    assert Arguments([plain], types=["meaning"]).change(plain, random.Random(0)) == (
        "no argument has a word that can be made stronger or weaker"
    )


def test_cut_arguments() -> None:
    trains, boats = "The trains are old because nobody pays them.", "The boats are new, and everybody is happy."
    given = list(composed([make_topic("t", "T", {"pro": [[trains]], "con": [[boats]]})], wording="same"))
    for kind in ("partly-given", "partly-said"):
        way = Arguments(given, types=[kind])
        seen = set()
        for seed in range(8):
            example = way.change(given[0], random.Random(seed))
            assert isinstance(example, Example)
            seen |= {*marked(example), *left_out(example)}
            changed = example.case.sources if kind == "partly-given" else [Source("", example.case.response)]
            whole = [s.text for s in given[0].case.sources]
            assert sum(any(text.rstrip(".")[4:] in s.text for s in changed) for text in whole) == 1
        ends = ("because nobody pays them", "and everybody is happy")
        assert seen == set(ends) if kind == "partly-given" else {f" {ends[0]}.", f", {ends[1]}."} == seen


def test_what_may_be_the_same_is_neither_removed_nor_added() -> None:
    pro = [["Fast trains are good for towns."], ["Good fast trains are needed by towns."]]
    alike = make_topic("t", "T", {"pro": pro, "con": [["Nobody there has any money."]]})
    for example in composed([alike], wording="same"):
        made = Arguments([example], types=["added"], topics=[alike]).change(example, random.Random(0))
        assert made == "its topic has no argument that is not used"


def test_people_s_examples_without_marks() -> None:
    sources = [Source(f"{p}-1", f"{p} text is {i}", p, True) for i, p in enumerate(("pro", "con"))]
    case = Case("c", "All of it is said here.", tuple(sources))
    example = Example(case, Judgement("c", "human:me", 0.0, 0.0), "t")
    other = replace(case, id="d", sources=(Source("pro-1", "Kettles boil", "pro", True),))
    way = Arguments([example, Example(other, Judgement("d", "human:me", 0.0, 0.0), "t")], types=FULL)
    removed = way.make("removed", example, random.Random(0))
    assert isinstance(removed, str) or (removed.gold.hallucination == 1.0 and removed.gold.verdicts == ())
    added = way.make("added", example, random.Random(0))
    assert isinstance(added, Example)
    assert left_out(added) == ["Kettles boil"]
    assert {source.id for source in added.case.sources} == {"pro-1", "con-1", "pro-1+1"}
    assert way.make("repeated", example, random.Random(0)) == "where its arguments are said is not marked"
    assert way.make("added", replace(example, case=Case("c", "x")), random.Random(0)).startswith("no argument")  # type: ignore[union-attr]


def test_by_name_and_by_seed() -> None:
    examples = list(composed(TOPICS, per_topic=2))
    made = corrupt(examples, "arguments", share=0.5, seed=3)
    assert 0 < made.changed < len(examples)
    assert made.examples == corrupt(examples, "arguments", share=0.5, seed=3).examples
    kinds = {dict(example.group)["corrupted"] for example in made.examples}
    assert kinds == {"no", *FULL}
    with pytest.raises(UnknownNameError, match="error type of arguments"):
        corrupt(examples, "arguments", types=["number"])


def test_no_topic_and_no_argument_crosses_a_split() -> None:
    shared = make_topic("u", "Another", {p: [list(a.wordings) for a in g] for p, g in TOPICS[0].perspectives.items()})
    parts = split_by_document(composed([*TOPICS, shared], per_topic=2), {"train": 0.4, "valid": 0.3, "test": 0.3})
    texts = [{normal_form(s.text) for e in part for s in e.case.sources} for part in parts.values()]
    assert all(len(part) > 5 for part in texts)
    assert not texts[0] & texts[1] and not texts[0] & texts[2] and not texts[1] & texts[2]  # noqa: PT018


def test_training_data_grow_and_leave_the_test_part_alone() -> None:
    topics = [topic(i) for i in range(40)]
    sets = {name: training_sets(topics, name, per_topic=2) for name in ("synth", "para", "dev")}
    ids = {name: {example.case.id for example in parts["train"]} for name, parts in sets.items()}
    assert ids["synth"] < ids["para"] < ids["dev"]
    assert {dict(e.group)["wording"] for e in sets["synth"]["train"]} == {"same"}
    assert {dict(e.group)["wording"] for e in sets["para"]["train"]} == {"same", "other"}
    assert sets["synth"]["valid"] == sets["dev"]["valid"]
    free = training_sets(topics, "free", per_topic=2)["train"]
    assert {example.case.id for example in free} == {i for i in ids["dev"] if i.split("/")[2] == "same"}
    parts = [sets["dev"]["train"], sets["dev"]["valid"], *error_sets(topics, per_topic=2).values()]
    of_part = [{example.document for example in part} for part in parts]
    assert not of_part[0] & of_part[1]
    assert all(not (of_part[0] | of_part[1]) & tested for tested in of_part[2:])
    for part in parts[:2]:
        assert {dict(e.group).get("corrupted") for e in part} == {"no", *FULL}
    with pytest.raises(UnknownNameError, match="training data"):
        training_sets(topics, "paraphrases")
