"""The knowledge base and retrieval from it: what is found, what is refused, and that nothing half-written stays."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from veridical.records.errors import DataError, InputError, OutputError
from veridical.records.types import Case
from veridical_lab.datasets.topics import Topic, make_topic
from veridical_lab.tasks.perspectives.knowledge_base import KnowledgeBase, Size
from veridical_lab.tasks.perspectives.refusal import KINDS, Question, measure_refusals, read_questions
from veridical_lab.tasks.perspectives.retrieval import retrieve

CARS = make_topic(
    "1",
    "Should cars be banned from city centres?",
    {
        "pro": [["Cars pollute the air.", "Vehicles make the air dirty."], ["Streets get safer for children."]],
        "con": [["Shops lose customers."], ["Disabled people depend on vehicles."]],
    },
)
DOGS = make_topic("2", "Dogs must be kept on a lead", {"pro": [["Dogs frighten children."]], "con": [["Dogs run."]]})
ALONE = make_topic("3", "Cats are bad for birds", {"pro": [["Cats hunt birds."]]})


@pytest.fixture
def base(tmp_path: Path) -> Iterator[KnowledgeBase]:
    with KnowledgeBase.build(tmp_path / "a.kb", [CARS, DOGS, ALONE]) as built:
        yield built


def test_everything_comes_back(base: KnowledgeBase) -> None:
    assert base.size() == Size(topics=3, arguments=7, perspectives=2, one_sided=1)
    assert list(base.topics()) == [CARS, DOGS, ALONE]


@pytest.mark.parametrize(
    ("query", "topic"),
    [
        ("1", CARS),
        ("dogs must be kept on a LEAD!", DOGS),
        ("Is it right to ban cars from the city?", CARS),
        ("Should a dog be kept on a leash?", DOGS),
        ("disabled people", CARS),
        ("hunting cats", ALONE),
        ('cats "AND" birds*', ALONE),
    ],
)
def test_the_topic_of_a_question(base: KnowledgeBase, query: str, topic: Topic) -> None:
    assert base.topic(query) == topic


@pytest.mark.parametrize("query", ["Should nuclear plants close?", "Are zebra dogs striped quadrupeds?", "?", "", '"'])
def test_an_unknown_topic_is_refused(base: KnowledgeBase, query: str) -> None:
    with pytest.raises(InputError, match="no topic"):
        base.topic(query)


def test_the_nearest_topic_is_offered(base: KnowledgeBase) -> None:
    with pytest.raises(InputError, match=r"did you mean 'Dogs must be kept on a lead'"):
        base.topic("Dgs kpt on leed")


def test_search(base: KnowledgeBase) -> None:
    found = base.search("frightening children")
    assert [(each.topic_id, each.argument.id) for each in found] == [("2", "pro-1"), ("1", "pro-2")]
    assert [each.argument.text for each in base.search("children", limit=1)] == ["Dogs frighten children."]
    assert base.search("submarine") == base.search("?!") == []


def test_retrieval_is_balanced_and_repeatable(base: KnowledgeBase) -> None:
    case = retrieve(base, "ban cars", arguments=2, seed=5)
    assert case.question == "ban cars"
    assert [source.perspective for source in case.sources] == ["pro", "pro", "con", "con"]
    assert all(source.must_cover for source in case.sources)
    assert case == retrieve(base, "ban cars", arguments=2, seed=5)
    orders = {tuple(source.id for source in retrieve(base, "1", arguments=1, seed=seed).sources) for seed in range(30)}
    assert len(orders) == 4


def test_any_store_will_do() -> None:
    class Mine:
        def topic(self, query: str) -> Topic:
            return DOGS

    assert retrieve(Mine(), "Dogs?", arguments=1) == Case(
        "2/0", "", tuple(argument.source() for argument in DOGS.arguments), question="Dogs?"
    )


def test_another_database_is_no_knowledge_base(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "other.kb").execute("CREATE TABLE t (x)").connection.close()
    with pytest.raises(DataError, match="not a knowledge base"):
        KnowledgeBase(tmp_path / "other.kb")


def test_a_failed_build_leaves_what_was_there(tmp_path: Path) -> None:
    def broken() -> Iterator[Topic]:
        yield DOGS
        raise DataError("bad row", path="x", line=2)

    path = tmp_path / "a.kb"
    KnowledgeBase.build(path, [CARS]).close()
    for topics, error, message in (
        (broken(), DataError, "bad row"),
        ([CARS, CARS], InputError, "two topics have the id '1'"),
        ([], InputError, "no topic to keep"),
    ):
        with pytest.raises(error, match=message):
            KnowledgeBase.build(path, topics)
    assert list(KnowledgeBase(path).topics()) == [CARS]
    assert [file.name for file in tmp_path.iterdir()] == ["a.kb"]
    with pytest.raises(OutputError, match="cannot write"):
        KnowledgeBase.build(tmp_path / "gone" / "a.kb", [CARS])


def test_questions_that_only_share_a_word_with_an_argument_are_refused(tmp_path: Path) -> None:
    systems = make_topic(
        "29",
        "Capitalism is better than socialism",
        {"pro": [["France grew under free markets."]], "con": [["Workers lose."]]},
    )
    mali = make_topic("8", "Intervention in Mali was right", {"pro": [["France is an ally."]], "con": [["It failed."]]})
    with KnowledgeBase.build(tmp_path / "a.kb", [systems, mali, CARS]) as base:
        for query in ("What is the capital of France?", "Should social housing in France be painted?"):
            with pytest.raises(InputError, match="no topic"):
                base.topic(query)
        assert base.topic("Is capitalism better?") == systems
        assert base.topic("Is capitalism better than socialism?") == systems
        assert base.match("zebra") == (None, 0.0)
        assert base.match("8") == (mali, 1.0)


def test_refusals_are_measured_on_other_questions_than_the_threshold_is_chosen_on(tmp_path: Path) -> None:
    questions = [
        *(Question("on", "1", "ban cars in the city") for _ in range(4)),
        Question("on", "2", "dogs kept on leads"),
        Question("on", "2", "Should parrots fly?"),
        *(Question("off", "", "Should parrots fly?") for _ in range(2)),
        *(Question("lacking", "", "Should dogs be kept?") for _ in range(2)),
    ]
    with KnowledgeBase.build(tmp_path / "a.kb", [CARS, DOGS, ALONE]) as base:
        measured = measure_refusals(base, questions)
        with pytest.raises(DataError, match="too few questions"):
            measure_refusals(base, questions[:3])
    assert measured.counts == {"on": 3, "off": 1, "lacking": 1}
    assert measured.matched[0] == measured.right[0] == pytest.approx(2 / 3)
    assert measured.false_matches[0] == 0.5


def test_the_labs_questions() -> None:
    questions = read_questions()
    counts = {kind: sum(question.kind == kind for question in questions) for kind in KINDS}
    assert counts["off"] == counts["lacking"] == 100
    assert counts["on"] >= 100
    assert len({question.text for question in questions}) == len(questions)


def test_a_file_of_questions_is_checked(tmp_path: Path) -> None:
    path = tmp_path / "questions.csv"
    path.write_text("kind,topic,question\non,,Which topic?\n")
    with pytest.raises(DataError, match="not a question"):
        read_questions(path)
    with pytest.raises(DataError, match="cannot be read"):
        read_questions(tmp_path / "none.csv")
