"""Short answers and their rivals: which wrong answer is chosen, the statements, and documents over all languages."""

import gzip
import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from tests.lab.datasets.samples import put
from tests.lab.datasets.test_every_reader import check_variants
from veridical.datasets import read
from veridical.datasets.split import document_of
from veridical.io.serialization import decode, encode
from veridical.records.errors import DataError
from veridical.records.spans import Span
from veridical_lab.datasets.answer_statements import statement
from veridical_lab.datasets.rivals import frequent_words, kind_of, rival

PASSAGE = (
    "The library was built in 1931. Its predecessor opened in 1913 and had 40 rooms. Ann Bell led it, later Jo Ray."
)


def squad(*paragraphs: tuple[str, list[tuple[str, str, str]]], title: str = "T") -> dict:
    """One article in SQuAD's layout: passages with (id, question, answer)."""
    made = []
    for passage, asked in paragraphs:
        questions = [
            {"id": id, "question": question, "answers": [{"text": answer, "answer_start": passage.find(answer)}]}
            for id, question, answer in asked
        ]
        made.append({"context": passage, "qas": questions})
    return {"data": [{"title": title, "paragraphs": made}]}


def chosen(question: str, answer: str, *others: str, passage: str = PASSAGE) -> tuple[str, str] | None:
    start = passage.index(answer)
    made = rival(
        passage, question, Span(start, start + len(answer)), others, frequent_words(["the its in and"]), Random(1)
    )
    return made and (made.text, made.origin)


def test_a_rival_is_another_answer_of_the_same_kind_before_a_stretch_of_the_same_shape() -> None:
    when = "When was the library built?"
    assert chosen(when, "1931", "Ann Bell", "1913") == ("1913", "answer")
    assert chosen(when, "1931", "Ann Bell", "40 rooms") == ("1913", "stretch")  # a count is no year
    assert chosen("Who led it first?", "Ann Bell") == ("Jo Ray", "stretch")
    assert chosen("How many rooms?", "40") is None  # years are no counts
    assert chosen("Who followed Jo Ray?", "Ann Bell") is None  # in the question
    assert chosen("Who led it?", "Ann Bell", "Ann", "ann bell") == ("Jo Ray", "stretch")  # the same answer, shorter


def test_stretches_are_whole_phrases_without_function_words_at_their_edges() -> None:
    passage = "He saw the old red mill. Then Sir John Paul Smith met Ada King near the long blue canal."
    assert chosen("Who came?", "Ada King", passage=passage) is None  # not a part of a longer name
    text, origin = chosen("What did he see?", "red mill", passage=passage) or ("", "")
    assert (text in ("long blue", "blue canal"), origin) == (True, "stretch")


def test_scripts_without_blanks_take_clauses_and_values() -> None:
    passage = "图书馆建于1931年，前身建于1913年，现任馆长是王小明，副馆长是李大中。"
    assert chosen("什么时候建的？", "1931年", passage=passage) == ("1913年", "stretch")
    assert chosen("谁？", "现任馆长是王小明", passage=passage) == ("副馆长是李大中", "stretch")


@pytest.mark.parametrize(
    ("question", "answer", "says"),
    [
        ("who wrote the plan ?", "Mary Bell", "Mary Bell wrote the plan."),
        ("Who was the first mayor?", "a baker", "A baker was the first mayor."),
        ("When was the bridge first opened?", "May 3, 1920", "The bridge was first opened on May 3, 1920."),
        ("What year did the war end?", "1945", "The war ended in 1945."),
        ("When did Bell join the firm?", "1990", "Bell joined the firm in 1990."),
        ("Where was Bell born?", "Oslo", "Bell was born in Oslo."),
        ("How many people live in Oslo?", "about 700,000", "About 700,000 people live in Oslo."),
        ("What is the capital of Peru?", "Lima", "The capital of Peru is Lima."),
        ("Which team won the cup?", "Ajax", "Ajax won the cup."),
        ("What did Bell invent?", "a phone", None),
        ("What is the village known for?", "cheese", None),
        ("When was the bridge opened?", "by a duke", None),
        ("How many goals did Bell score?", "3", None),
        ("What prize has Bell won?", "a medal", None),
        ("Who wrote it?", "one two three four five six seven eight nine", None),
    ],
)
def test_statements(question: str, answer: str, says: str | None) -> None:
    made = statement(question, answer)
    assert (made and made[0]) == says
    if made:
        assert made[1].of(made[0]).lower() == answer.lower()


def folder(path: Path) -> Path:
    asked = [("q1", "When was the library built?", "1931."), ("q2", "When did its predecessor open?", "1913")]
    put(path / "xquad.en.json", squad((PASSAGE, asked), title="Library"))
    german = "Die Bibliothek wurde 1931 gebaut, ihr Vorgänger 1913."
    both = [("q1", "Wann?", "1931"), ("q2", "Wann der Vorgänger?", "1913")]
    put(path / "xquad.de.json", squad((german, both), title="Library"))
    put(path / "mlqa_dev.en.json", squad((PASSAGE, [("m1", "When was it built?", "1931")])))
    put(path / "mlqa_dev.de.json", squad((german, [("m1", "Wann wurde sie gebaut?", "1931")])))
    put(path / "tydi_dev.fi.json", squad((PASSAGE, [("0", "Milloin?", "")])))
    put(path / "SOURCE.json", "no data")
    return path


def test_a_right_answer_and_its_rival(tmp_path: Path) -> None:
    right, wrong, *_ = read(f"short_answers:{folder(tmp_path)}", "de")
    assert (right.case.question, right.case.response, wrong.case.response) == ("Wann wurde sie gebaut?", "1931", "1913")
    assert (right.gold.hallucination, right.gold.verdicts, wrong.gold.hallucination) == (0.0, (), 1.0)
    (verdict,) = wrong.gold.verdicts
    assert (verdict.span, verdict.label, verdict.correction) == (Span(0, 4), "contradiction", "1931")
    assert [dict(e.group)["version"] for e in (right, wrong)] == ["right", "wrong"]
    assert right.case.id.rpartition("/")[0] == wrong.case.id.rpartition("/")[0]
    everything = list(read(f"short_answers:{tmp_path}"))
    assert Counter(dict(e.group)["language"] for e in everything) == {"de": 6, "en": 6}  # no answer in Finnish
    assert next(e for e in everything if e.case.question == "When was the library built?").case.response == "1931"


def test_statements_of_english_answers(tmp_path: Path) -> None:
    right, wrong = list(read(f"short_answer_statements:{folder(tmp_path)}"))[-2:]
    assert [e.case.response for e in (right, wrong)] == [f"Its predecessor opened in {year}." for year in (1913, 1931)]
    assert right.case.question == "When did its predecessor open?"
    assert [v.span.of(wrong.case.response) for v in wrong.gold.verdicts] == ["1931"]


def test_what_is_parallel_is_one_document(tmp_path: Path) -> None:
    of_set: dict[str, set[str]] = {}
    for example in read(f"short_answers:{folder(tmp_path)}"):
        of_set.setdefault(dict(example.group)["set"], set()).add(document_of(example))
    assert {name: len(documents) for name, documents in of_set.items()} == {"mlqa": 1, "xquad": 1}
    german = {document_of(e) for e in read(f"short_answers:{tmp_path}", "de") if dict(e.group)["set"] == "mlqa"}
    assert german == of_set["mlqa"]  # also if one language is read


def test_errors_name_the_file(tmp_path: Path) -> None:
    path = put(tmp_path / "xquad.en.json", squad((PASSAGE, [("1", "When?", "1931")])))
    text = path.read_text("utf-8")
    path.write_text(text.replace('"answer_start": 25', '"answer_start": 26'), "utf-8")
    with pytest.raises(DataError, match=r"xquad.en.json:3: .*the answer '1931' is not at character 26"):
        list(read(f"short_answers:{path}"))
    check_variants(path, text, "", lambda: read(f"short_answers:{path}"), tmp_path)


def test_the_whole_set(shared_data: Path) -> None:
    files = shared_data / "languages"
    if not files.is_dir():
        pytest.skip("the folder ../shared/data/languages is not beside this checkout")
    examples = list(read(f"short_answers:{files}", "de")) + list(read(f"short_answers:{files}", "zh"))
    assert len(examples) == len({e.case.id for e in examples}) == 4316
    assert all(decode(encode(e)) == e for e in examples[::97])
    for right, wrong in pairwise(examples):
        if dict(right.group)["version"] == "right":
            passage = right.case.sources[0].text
            assert right.case.response in passage
            assert kind_of(wrong.case.response) == kind_of(right.case.response) == dict(right.group)["kind"]
    titles = [json.loads(gzip.decompress(f.read_bytes()))["data"] for f in sorted(files.glob("xquad.*.json.gz"))]
    assert {tuple(a["title"] for a in articles) for articles in titles} == {tuple(a["title"] for a in titles[0])}


def test_lengths_do_not_tell_right_from_wrong(shared_data: Path) -> None:
    if not (shared_data / "languages").is_dir():
        pytest.skip("the folder ../shared/data/languages is not beside this checkout")
    lengths = [len(e.case.response) for e in read(f"short_answers:{shared_data / 'languages'}", "en")]
    pairs = list(zip(lengths[::2], lengths[1::2], strict=True))
    assert 0.4 < sum((b > a) + (a == b) / 2 for a, b in pairs) / len(pairs) < 0.6
