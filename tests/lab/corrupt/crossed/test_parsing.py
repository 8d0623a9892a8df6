"""Parsing: documents of both parts, kept as they are made, continued after an interruption, read in any order."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.lab.corrupt.crossed.texts import PARSES, TEXTS
from veridical.cli import main
from veridical.datasets import read
from veridical.datasets.split import split_by_document
from veridical.records.errors import DataError, InputError
from veridical_lab.corrupt.crossed.parsing import TextDocument, documents_of, parse, read_parsed
from veridical_lab.corrupt.rules import text_examples


@dataclass
class Token:
    """A token that hangs on the first one."""

    text: str
    idx: int
    head: Token | None = None
    i: int = 0
    tag_: str = "NN"
    dep_: str = ""
    lemma_: str = ""
    ent_type_: str = ""

    def __post_init__(self) -> None:
        self.head = self.head or self
        self.lower_ = self.text.lower()

    def __len__(self) -> int:
        return len(self.text)


class Pipeline:
    """Gives every sentence one token per word."""

    def __init__(self, version: str = "1") -> None:
        self.meta = {"lang": "en", "name": "mine", "version": version}
        self.parsed: list[str] = []

    def pipe(self, texts: Sequence[str], batch_size: int) -> Iterator[list[Token]]:
        for text in texts:
            self.parsed.append(text)
            at, tokens = 0, list[Token]()
            for i, word in enumerate(text.split(" ")):
                tokens.append(Token(word, at, tokens[0] if tokens else None, i))
                at += len(word) + 1
            yield tokens


DOCUMENTS = [TextDocument(f"mine/{i}", "valid" if i == 3 else "train", text) for i, text in enumerate(TEXTS[:8])]


def test_parse_and_read(tmp_path: Path) -> None:
    pipeline = Pipeline()
    assert parse(DOCUMENTS, pipeline, tmp_path / "new" / "parsed") == 24
    train = list(read_parsed(tmp_path / "new" / "parsed"))
    assert {d.id for d in train} == {f"mine/{i}" for i in range(8) if i != 3}
    assert [d.id for d in read_parsed(tmp_path / "new" / "parsed", "valid")] == ["mine/3"]
    (sentences,) = next(d for d in train if d.id == "mine/0").paragraphs
    assert [s.text for s in sentences] == ["Anna Berg defeated Eva Holm in the final of 2011.", *pipeline.parsed[1:3]]
    assert [sentences[0].text[a:b] for a, b in zip(sentences[0].starts, sentences[0].ends, strict=True)] == (
        sentences[0].text.split(" ")
    )
    assert sentences[0].lemmas[:2] == ["anna", "berg"]
    orders = {tuple(d.id for d in read_parsed(tmp_path / "new" / "parsed", seed=seed)) for seed in range(5)}
    assert len(orders) > 1


def test_texts_are_cleaned_and_long_sentences_are_kept_without_a_parse(tmp_path: Path) -> None:
    text = f"It was built in 1911.[8]:1  It 's old.\n\nA second paragraph. {'Very ' * 61}long."
    parse([TextDocument("mine/0", "train", text)], Pipeline(), tmp_path)
    ((first, second),) = [document.paragraphs for document in read_parsed(tmp_path)]
    assert [s.text for s in first] == ["It was built in 1911.", "It's old."]
    assert [len(s.deps) for s in second] == [3, 0]


def test_an_interrupted_run_continues(tmp_path: Path) -> None:
    assert parse(DOCUMENTS, Pipeline(), tmp_path, most=1) == 24  # whole batches
    whole = (tmp_path / "mine.train.jsonl").read_bytes()
    (tmp_path / "mine.train.jsonl").write_bytes(whole[:-40])  # cut while the last line was written
    again = Pipeline()
    assert parse(DOCUMENTS, again, tmp_path) == 24
    assert again.parsed == [s + "." for s in TEXTS[7].removesuffix(".").split(". ")]
    assert (tmp_path / "mine.train.jsonl").read_bytes() == whole
    assert parse(DOCUMENTS, again, tmp_path, most=10) == 24
    with pytest.raises(InputError, match="has parses by spacy:en_mine-1, not spacy:en_mine-2"):
        parse(DOCUMENTS, Pipeline("2"), tmp_path)


@pytest.mark.parametrize("line", ["{}", "not JSON", '{"id": "mine/0", "sentences": 1, "paragraphs": [[["A.", [0]]]]}'])
def test_damaged_files_are_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "mine.train.jsonl").write_text(line + "\n")
    with pytest.raises(DataError, match="not a parsed document"):
        list(read_parsed(tmp_path))


def test_documents_have_the_parts_and_names_of_training(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    made = list(documents_of(f"plain:{folder}"))
    parts = split_by_document(text_examples(TEXTS, "mine"))
    for part in ("train", "valid"):
        assert [d.id for d in made if d.part == part] == [e.case.id for e in parts[part]] != []
    assert all(TEXTS[int(d.id.partition("/")[2])] == d.text for d in made)
    with pytest.raises(InputError, match="'bump' has neither plain texts nor the splits"):
        list(documents_of(f"bump:{folder}"))


def test_relations_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "relations.jsonl"
    command = ["data", "relations", str(PARSES), "--kinds", "roles,cause", "--seed", "3", "--out", str(out)]
    assert main(command) == 0
    made = list(read(f"jsonl:{out}"))
    told = capsys.readouterr().err
    assert f"wrote {len(made)} examples" in told
    assert "roles" in told
    assert {dict(e.group)["relation"] for e in made} == {"roles", "cause"}
    assert main([*command, "--first", "5"]) == 0
    assert [e.case.id for e in read(f"jsonl:{out}")] == [e.case.id for e in made][:8]  # whole relations
    before = out.read_bytes()
    for wrong, says in ((["--kinds", "rolls"], "kind of relation 'rolls'"), (["--part", "test"], "no part 'test'")):
        assert main(["data", "relations", str(PARSES), "--out", str(out), *wrong]) == 2
        assert says in capsys.readouterr().err
    assert main(["data", "relations", str(tmp_path / "none"), "--out", str(out)]) == 2
    assert "no parsed documents" in capsys.readouterr().err
    assert out.read_bytes() == before


def test_parse_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    pipeline = Pipeline()
    monkeypatch.setattr("veridical_lab.detectors.spacy_pipeline.load_pipeline", lambda name, **options: pipeline)
    command = ["data", "parse", f"plain:{tmp_path / 'texts.jsonl'}", "--pipeline", "mine", "--out", str(tmp_path / "p")]
    assert main(command) == 0
    assert f"has {len(pipeline.parsed)} parsed sentences" in capsys.readouterr().err
    assert len(list(read_parsed(tmp_path / "p"))) > 10
    assert main(["data", "parse", "bump:x", "--pipeline", "mine", "--out", str(tmp_path / "p")]) == 2
    assert "neither plain texts nor" in capsys.readouterr().err
