"""The written statements, pairs and answers: texts and spans to the character, labels, groups."""

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

from tests.lab.datasets import samples
from veridical.datasets import read
from veridical.io.serialization import decode, encode
from veridical.records.errors import DataError
from veridical.records.types import Example
from veridical.text.languages import language_of
from veridical_lab.training import default_data

SIZES = {"written": 23_749, "written_pairs": 6_480, "written_answers": 2_159, "written_rag": 1_860}


def marked(example: Example) -> list[tuple[str, str | None, str | None]]:
    return [(v.span.of(example.case.response), v.label, v.correction) for v in example.gold.verdicts]


def groups(example: Example) -> dict[str, str]:
    return dict(example.group)


def test_statements(tmp_path: Path) -> None:
    path = samples.written(tmp_path)
    right, contradicted, absent = read(f"written:{path}", "dev")
    assert [e.case.id for e in (right, contradicted, absent)] == ["x1/1", "x1/2", "x1/3"]
    assert [s.text for s in right.case.sources] == ["Boat times\nThe boat leaves at 9.", "It is full."]
    assert right.case.question == "When does it leave?"
    assert contradicted.case.response == " The boat 🚢 leaves at 10,\nempty."
    assert [marked(e) for e in (right, contradicted, absent)] == [
        [],
        [("10", "contradiction", "9"), ("empty", "contradiction", "full")],
        [("because of the tide", "absence", None)],
    ]
    assert [e.gold.hallucination for e in (right, contradicted, absent)] == [0.0, 1.0, 1.0]
    assert [groups(e)["label"] for e in (right, contradicted, absent)] == ["entailment", "contradiction", "neutral"]
    assert groups(absent) == {"kind": "auth", "label": "neutral", "tag": "cause"}
    untitled = next(read(f"written:{path}", "train"))
    assert untitled.case.sources[0].text == "The boat leaves at 9."
    assert (untitled.case.question, untitled.document) == (None, "x2")


def test_pairs(tmp_path: Path) -> None:
    examples = list(read(f"written_pairs:{samples.written_pairs(tmp_path)}", "dev"))
    assert [e.case.id for e in examples] == ["x1/0/right", "x1/0/wrong", "x1/1/right", "x1/1/wrong"]
    assert groups(examples[1]) == {"label": "contradiction", "pair": "x1/0", "tag": "negation", "version": "wrong"}
    assert {e.document for e in examples} == {"x1"}


def test_answers(tmp_path: Path) -> None:
    (answer,) = read(f"written_answers:{samples.written_answers(tmp_path / 'a')}", "dev")
    assert marked(answer) == [("10", "contradiction", "9"), ("2", "absence", None)]
    assert groups(answer) == {"answer": "wrong", "kind": "auth", "label": "not entailed"}
    answers = list(read(f"written_rag:{samples.written_rag(tmp_path / 'b')}", "dev"))
    assert [groups(e)["form"] for e in answers] == ["close", "free", "short", "edit", "fresh", "addition"]
    assert [groups(e)["answer"] for e in answers] == ["right"] * 3 + ["wrong"] * 3
    assert [groups(e)["label"] for e in answers[3:]] == ["contradiction", "contradiction", "neutral"]


def test_marks_that_do_not_go_with_the_label_are_refused(tmp_path: Path) -> None:
    file = samples.written(tmp_path) / "dev.jsonl"
    file.write_text(file.read_text("utf-8").replace('"label": "C"', '"label": "S"'), "utf-8")
    with pytest.raises(DataError, match=r"dev.jsonl:1: statements 2: 2 spans are marked in a text labelled"):
        list(read(f"written:{tmp_path}", "dev"))


@pytest.mark.parametrize("name", SIZES)
def test_the_whole_set_is_read_to_the_character(name: str, shared_data: Path) -> None:
    folder = shared_data / "written"
    if not folder.is_dir():
        pytest.skip("the folder ../shared/data/written is not beside this checkout")
    examples = [e for split in ("train", "dev") for e in read(f"{name}:{folder}", split)]
    assert len(examples) == len({e.case.id for e in examples}) == SIZES[name]
    assert all(decode(encode(e)) == e for e in examples[::97])
    prefix = {"written_pairs": "pairs_", "written_rag": "rag_"}.get(name, "")
    key = "statements" if name in ("written", "written_pairs") else "answers"
    at = iter(examples)
    for split in ("train", "dev"):
        for line in gzip.decompress((folder / f"{prefix}{split}.jsonl.gz").read_bytes()).decode().splitlines():
            passage = json.loads(line)
            head = f"{passage['title']}\n" if passage["title"] else ""
            for item in passage[key]:
                example, text = next(at), item["text"]
                assert example.document == passage["id"]
                assert example.case.response == text
                assert "\0".join(s.text for s in example.case.sources) == head + "\0".join(passage["sources"])
                assert [(q, c) for q, _, c in marked(example)] == [
                    (text[s["start"] : s["end"]], s["correction"])
                    for s in sorted(item["spans"], key=lambda s: s["start"])
                ]
                wrong = item["label"] != "S" if key == "statements" else not item["right"]
                assert example.gold.hallucination == float(wrong)
    if name == "written_pairs":
        assert Counter(Counter(groups(e)["pair"] for e in examples).values()) == {2: SIZES[name] // 2}
        assert len({groups(e)["tag"] for e in examples}) == 20


@pytest.mark.parametrize("name", ["written", "written_answers"])
def test_texts_in_other_languages(name: str) -> None:
    """The passages that come with the package: both parts have each language and about as many errors."""
    folder = Path(default_data.__file__).parent / "written_in_languages"
    parts = {split: list(read(f"{name}:{folder}", split)) for split in ("train", "dev")}
    assert {e.document for e in parts["train"]}.isdisjoint({e.document for e in parts["dev"]})
    for examples in parts.values():
        by_language: dict[str, list[Example]] = {}
        for example in examples:
            by_language.setdefault(groups(example)["language"], []).append(example)
        assert len(by_language) >= 15
        for language, members in by_language.items():
            wrong = sum(bool(e.gold.verdicts) for e in members)
            assert 0.45 <= wrong / len(members) <= 0.65, language
            assert "en" not in {language, *(language_of(e.case.sources[0].text) for e in members)}
            assert len({e.case.response for e in members}) == len(members)
