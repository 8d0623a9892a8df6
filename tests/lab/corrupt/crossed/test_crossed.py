"""Crossed examples: right labels and marks for every kind, nothing to learn from words alone, other cases per seed."""

import random
import re
from collections import defaultdict
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupKFold, cross_val_predict

from tests.lab.corrupt.crossed.texts import PARSES, TEXTS
from veridical.records.errors import InputError
from veridical.records.types import Example
from veridical_lab.corrupt.crossed import KINDS, relation_examples
from veridical_lab.corrupt.crossed.crossing import Crossing, examples_of, is_balanced
from veridical_lab.corrupt.crossed.parsing import TextDocument, parse, read_parsed
from veridical_lab.corrupt.crossed.scenes import Scene
from veridical_lab.corrupt.crossed.trees import Tree, opened
from veridical_lab.detectors.spacy_pipeline import load_pipeline

SEEDS = range(8)


@pytest.fixture(scope="module")
def scenes() -> dict[str, Scene]:
    return {d.id: Scene(d) for part in ("train", "valid") for d in read_parsed(PARSES, part)}


@pytest.fixture(scope="module")
def examples() -> list[Example]:
    return [e for seed in SEEDS for part in ("train", "valid") for e in relation_examples(PARSES, seed=seed, part=part)]


def crossings_of(scene: Scene, i: int, kind: str) -> Iterator[Crossing]:
    """Yield the crossings of one kind for one sentence, with many draws."""
    for seed in range(200):
        for rule in KINDS[kind]:
            yield from rule(scene, i, random.Random(seed))


# sentence (its text begins so) | kind | a statement that is right for the text | one that is right for the changed text
MADE = """
Anna Berg defeated | roles | ‹Anna Berg› defeated ‹Eva Holm›. | ‹Eva Holm› defeated ‹Anna Berg›.
Anna Berg defeated | voice | ‹Eva Holm› was defeated by ‹Anna Berg›. | ‹Anna Berg› was defeated by ‹Eva Holm›.
Anna Berg defeated | converse | ‹Eva Holm› lost to ‹Anna Berg›. | ‹Anna Berg› lost to ‹Eva Holm›.
Paul Moore was hired | voice | ‹The Acme Company› hired ‹Paul Moore›. | ‹Paul Moore› hired ‹the Acme Company›.
The guide had warned | voice | ‹The climbers› had been warned by ‹the guide›.
| ‹The guide› had been warned by ‹the climbers›.
He criticised | roles | ‹Mark Stone› criticised ‹Peter Long›. | ‹Peter Long› criticised ‹Mark Stone›.
Helen Ward bought | converse | ‹Simon Fox› sold the painting to ‹Helen Ward›.
| ‹Helen Ward› sold the painting to ‹Simon Fox›.
The match was | cause | ‹The reason why› the match was cancelled ‹is that› the field was wet.
| The match was cancelled, ‹and this is why› the field was wet.
The match was | cause | ‹The field was wet›, and this is why ‹the match was cancelled›.
| ‹The match was cancelled›, and this is why ‹the field was wet›.
As a result, the drivers | cause | The bridge was closed, ‹and this is why› the drivers took the ferry.
| ‹The reason why› the bridge was closed ‹is that› the drivers took the ferry.
Late payment | cause | ‹A check› is the result of ‹late payment›. | ‹Late payment› is the result of ‹a check›.
The flight was | cause | A storm was ‹the reason why› the flight was delayed.
| A storm was ‹the result of the fact that› the flight was delayed.
Peter Long sold | order | Peter Long sold the farm, ‹and then› the war began.
| Peter Long sold the farm, ‹but even earlier› the war began.
After leaving | order | Mark Stone ‹left the army› and then ‹opened a bakery›.
| Mark Stone ‹opened a bakery› and then ‹left the army›.
The factory opened | order | ‹The factory opened› before ‹the owner closed the factory›.
| ‹The owner closed the factory› before ‹the factory opened›.
The museum owns | certainty | The museum ‹owns› a copy of the letter.
| ‹It is not certain whether› the museum owns a copy of the letter.
The painter may | certainty | ‹It is not certain whether› the painter visited Paris in 1889.
| The painter ‹visited› Paris in 1889.
The company plans | certainty | The company ‹may or may not have› opened a shop in Rome.
| The company ‹has› opened a shop in Rome.
The minister said | certainty | ‹According to› the minister, the tax was too high.
| According to the minister, ‹it is not true that› the tax was too high.
The critic believed | certainty | ‹It is merely claimed by› the critic ‹that› the poem was a joke.
| The poem ‹was a joke›.
Anna Berg won | stitched | ‹Anna Berg› won the first prize for a novel. | ‹Eva Holm› won the first prize for a novel.
The tower was built | stitched | The tower was built in ‹1820›. | The tower was built in ‹1954›.
The workers left | scope | ‹A majority of› the workers left the village in spring.
| ‹A minority of› the workers left the village in spring.
Most birds | scope | ‹A majority of› birds leave the island in autumn. | ‹Zero› birds leave the island in autumn.
Paul Moore and | scope | Paul Moore ‹signed the contract›.
| Paul Moore ‹did nothing of the kind: of the two it was just› Helen Ward ‹that signed the contract›.
The club has | scope | The club has ‹over› 500 members. | The club has ‹under› 500 members.
The hall was | negation | The hall ‹was not› painted in white. | The hall ‹was› painted in white.
The team failed | negation | The team ‹did not reach› the summit. | The team ‹reached› the summit.
Sara Lind left | negation | Sara Lind ‹did not pay› the bill. | Sara Lind ‹paid› the bill.
The singer never | negation | ‹At no time did› the singer ‹return› to the city.
| ‹There was a time when› the singer ‹returned› to the city.
The mine no longer | negation | The mine ‹has stopped› employing miners. | The mine ‹keeps on› employing miners.
The festival attracts | negation | The festival attracts tourists ‹as well as› artists.
| The festival attracts artists ‹rather than› tourists.
The kit contains | count | The kit contains ‹three› things. | The kit contains ‹two› things.
The tower is taller | comparison | ‹The church› is shorter than ‹the tower›.
| ‹The tower› is shorter than ‹the church›.
Lake Vesper | comparison | ‹No other› lake in the region is deeper than Lake Vesper.
| ‹Another› lake in the region is deeper than Lake Vesper.
Eva Holm scored | comparison | Eva Holm scored more ‹goals› than ‹assists›.
| Eva Holm scored more ‹assists› than ‹goals›.
"""


def statements_of(scenes: dict[str, Scene], opening: str, kind: str) -> set[tuple[str, str]]:
    places = ((scene, i) for scene in scenes.values() for i in scene.trees)
    ((scene, i),) = [(scene, i) for scene, i in places if scene.text.sentences[i].startswith(opening)]
    pairs = (crossing.statements for crossing in crossings_of(scene, i, kind))
    return {(opened(right), opened(wrong)) for right, wrong in pairs}


@pytest.mark.parametrize("row", re.split(r"\n(?!\|)", MADE.strip()))
def test_statements(scenes: dict[str, Scene], row: str) -> None:
    opening, kind, right, wrong = re.split(r"\s+\|\s+", row)
    assert (right, wrong) in statements_of(scenes, opening, kind)


def test_sides_that_share_a_word_do_not_change_places(scenes: dict[str, Scene]) -> None:
    assert not statements_of(scenes, "Oskar Lind was the father of Sara Lind.", "converse")


def test_the_changed_source_supports_the_other_statement(scenes: dict[str, Scene]) -> None:
    (crossing, *_) = crossings_of(scenes["mine/4"], 1, "roles")
    assert crossing.versions == ({}, {1: "Peter Long criticised him in a speech."})  # "him" is Mark Stone
    assert crossing.touched == (0, 1)
    (crossing, *_) = crossings_of(scenes["mine/14"], 0, "order")
    assert crossing.versions[1] == {0: "The factory opened in 1934.", 2: "The owner closed the factory in 1911."}


def test_four_cases_cross_two_sources_and_two_statements(examples: list[Example]) -> None:
    pairs = defaultdict(list)
    for number, example in enumerate(examples):
        pairs[number // 4, dict(example.group)["pair"]].append(example)
    assert len(pairs) * 4 == len(examples)
    assert {dict(e.group)["relation"] for e in examples} == set(KINDS)
    for four in pairs.values():
        first, second = four[0].case.sources[0].text, four[2].case.sources[0].text
        one, other = four[0].case.response, four[1].case.response
        assert [(e.case.sources[0].text, e.case.response) for e in four] == [
            (first, one), (first, other), (second, one), (second, other),
        ]  # fmt: skip
        assert [e.gold.hallucination for e in four] == [0.0, 1.0, 1.0, 0.0]
        assert first != second
        assert one != other
        assert is_balanced([first, second], [one, other])
        assert len({e.case.id for e in four}) == 4


def test_wrong_words_are_marked_and_corrected(examples: list[Example]) -> None:
    for example in examples:
        wrong = example.gold.hallucination == 1.0
        assert bool(example.gold.verdicts) == wrong
        assert dict(example.group)["corrupted"] == (dict(example.group)["relation"] if wrong else "no")
        for verdict in example.gold.verdicts:
            marked = verdict.span.of(example.case.response)
            assert marked == marked.strip()
            assert marked != verdict.correction
        assert "‹" not in example.case.response
    (names,) = {
        tuple((v.span.of(e.case.response), v.correction) for v in e.gold.verdicts)
        for e in examples
        if e.case.response == "Anna Berg was defeated by Eva Holm." and e.gold.verdicts
    }
    assert names == (("Anna Berg", "Eva Holm"), ("Eva Holm", "Anna Berg"))


def test_sources_are_passages_of_the_text(examples: list[Example]) -> None:
    whole = {f"mine/{i}": text for i, text in enumerate(TEXTS)}
    unchanged = [e for e in examples if e.case.sources[0].text in whole[str(e.document)]]
    assert len(unchanged) > len(examples) / 3  # the first source of most relations
    assert {e.case.sources[0].text.count(".") for e in unchanged} >= {1, 3}


def test_seed_and_part(examples: list[Example]) -> None:
    train = list(relation_examples(PARSES, seed=1))
    assert train == list(relation_examples(PARSES, seed=1, part="train"))
    other = list(relation_examples(PARSES, seed=2))
    assert [e.document for e in train] != [e.document for e in other]
    statements = [{e.case.response for e in made} for made in (train, other)]
    assert len(statements[0] & statements[1]) < len(statements[0]) * 0.7
    valid = list(relation_examples(PARSES, seed=1, part="valid"))
    assert valid
    assert not {e.document for e in train} & {e.document for e in valid}
    some = relation_examples(PARSES, kinds=["count", "roles"])
    assert {dict(e.group)["relation"] for e in some} == {"count", "roles"}


def test_no_kind_is_refused() -> None:
    with pytest.raises(InputError, match="no kind"):
        list(relation_examples(PARSES, kinds=[]))


def test_words_alone_tell_nothing(examples: list[Example]) -> None:
    """Fit a bag of words, with and without the overlap with the source, on four fifths of the documents."""
    statements = [example.case.response for example in examples]
    said = [set(statement.lower().strip(".").split()) for statement in statements]
    known = [set(example.case.sources[0].text.lower().replace(".", "").split()) for example in examples]
    missing = np.array([[len(a - b), len(a - b) / len(a), len(b)] for a, b in zip(said, known, strict=True)])
    words = CountVectorizer(binary=True, token_pattern=r"\w+").fit_transform(statements).toarray()
    labels = [int(example.gold.hallucination == 1.0) for example in examples]
    documents = [example.document for example in examples]
    assert len(labels) > 1500
    for features in (words, np.hstack([words, missing / missing.max(axis=0)])):
        model, folds = LogisticRegression(max_iter=300, C=0.1), GroupKFold(5)
        scores = cross_val_predict(model, features, labels, groups=documents, cv=folds, method="predict_proba")
        assert 0.44 < roc_auc_score(labels, scores[:, 1]) < 0.56


def test_what_words_would_tell_is_left_out(scenes: dict[str, Scene]) -> None:
    scene = scenes["mine/24"]
    versions = {0: "All workers left."}, {0: "Some workers left."}
    told = Crossing("scope", "all", versions, ("‹All› workers left.", "‹Some› workers left."), (0,))
    assert not list(examples_of(told, scene.text, "1", "d", random.Random(0)))


def test_other_sentences_that_could_decide_are_left_out(scenes: dict[str, Scene]) -> None:
    scene = scenes["mine/1"]  # a later sentence names the company again
    versions = ({}, {0: "The Acme Company was hired by Paul Moore in May."})
    statements = ("‹Paul Moore› worked for ‹the Acme Company›.", "‹The Acme Company› worked for ‹Paul Moore›.")
    for apart, most in ((frozenset({"company", "chairs"}), 1), (frozenset({"company", "moore"}), 3)):
        crossing = Crossing("roles", "x", versions, statements, (0,), apart)
        made = [e for seed in SEEDS for e in examples_of(crossing, scene.text, "1", "d", random.Random(seed))]
        assert max(e.case.sources[0].text.count(".") for e in made) == most


def test_sentences_that_are_no_plain_statements_have_no_tree(scenes: dict[str, Scene]) -> None:
    parsed = scenes["mine/0"].trees[0]
    assert parsed is not None
    for text in ("Did Anna Berg win?", "Anna Berg: the winner of 2011.", "“Anna Berg defeated Eva Holm” is a film."):
        changed = type(parsed.parsed)(text, *(getattr(parsed.parsed, f) for f in parsed.parsed.__slots__[1:]))
        assert Tree.of(changed) is None


def test_real_pipeline(tmp_path: Path) -> None:
    """Parse and make examples with the pipeline, where it is installed."""
    if find_spec("en_core_web_sm") is None:
        pytest.skip("en_core_web_sm is not installed")
    pipeline = load_pipeline("en_core_web_sm", exclude=(), needs=("parser",), what="parser")
    parse((TextDocument(f"mine/{i}", "train", text) for i, text in enumerate(TEXTS)), pipeline, tmp_path)
    assert {dict(e.group)["relation"] for e in relation_examples(tmp_path)} == set(KINDS)
