"""One contract over every registered reader, and what the table in the docs says of it."""

import inspect
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from tests.lab.datasets import samples
from tests.lab.datasets.samples import put
from veridical.datasets import DATASETS, Info, load_reader, read, table
from veridical.io.serialization import encode
from veridical.records.errors import DataError, InputError, UnknownNameError
from veridical.records.types import Example, Level

NAMES = sorted(DATASETS)
LABELLED = [name for name in NAMES if load_reader(name).INFO.levels]
OWN = [name for name in NAMES if hasattr(samples, name)]


@pytest.mark.parametrize("name", NAMES)
def test_info_is_whole(name: str) -> None:
    info = load_reader(name).INFO
    assert isinstance(info, Info)
    assert info.name == name
    assert info.title
    assert info.licence
    assert info.document
    assert info.notes
    assert all(isinstance(level, Level) for level in info.levels)
    assert info.unit is None or Level.SPAN in info.levels
    more = ["unlabelled", "remark"] if getattr(load_reader(name), "OWN", False) else []
    assert list(inspect.signature(load_reader(name).read).parameters) == ["path", "split", "on_bad", *more]


@pytest.mark.parametrize("name", [n for n in LABELLED if n != "hf"])
def test_wrong_places_and_formats_are_said_clearly(name: str, tmp_path: Path) -> None:
    reader = load_reader(name)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(DataError, match=str(empty)):
        list(reader.read(empty))
    with pytest.raises(DataError):
        list(reader.read(tmp_path / "gone"))
    with pytest.raises(DataError, match="no such file or folder"):
        read(f"{name}:{tmp_path / 'gone'}")
    for text in ("", "[1]\n", '[{"q": 1}]', '{"q": 1}', "a,b\n1,2\n", "\0"):
        with pytest.raises(DataError, match=str(tmp_path)):
            list(reader.read(put(tmp_path / "other.format", text)))
    if name not in ("jsonl", "rows"):
        with pytest.raises(UnknownNameError, match="known: "):
            list(reader.read(empty, "no-such-split"))


@pytest.mark.parametrize("name", OWN)
def test_a_repeated_or_broken_row_is_named_or_counted(name: str, tmp_path: Path) -> None:
    path: Path = getattr(samples, name)(tmp_path)
    whole = len(list(read(f"{name}:{path}")))
    for file in [f for f in tmp_path.rglob("*") if f.suffix in (".jsonl", ".txt") and "source_info" not in f.name]:
        before = file.read_text("utf-8")
        file.write_text(before + '{"id": \n', "utf-8")
        line = before.count("\n") + 1
        with pytest.raises(DataError, match=f":{line}: not JSON"):
            list(read(f"{name}:{path}"))
        seen: list[DataError] = []
        assert len(list(read(f"{name}:{path}", on_bad=seen.append))) == whole
        assert [(e.line, e.path) for e in seen] == [(line, file)]
        file.write_text(before, "utf-8")


@pytest.mark.parametrize("name", ["chevrons", "ragtruth", "procon", "jsonl"])
def test_an_id_twice_is_refused(name: str, tmp_path: Path) -> None:
    path: Path = getattr(samples, name)(tmp_path)
    file = {"ragtruth": tmp_path / "response.jsonl", "jsonl": tmp_path / "train.jsonl"}.get(name, path)
    text = file.read_text("utf-8")
    file.write_text(text + text.split("\n")[0] + "\n", "utf-8")
    with pytest.raises(DataError, match="was on line 1 already"):
        list(read(f"{name}:{path}"))


@pytest.mark.parametrize("name", OWN)
def test_a_label_that_is_none_is_refused(name: str, tmp_path: Path) -> None:
    """Each word that is a label in the sample, changed to another one, stops the reader with the file's name."""
    path: Path = getattr(samples, name)(tmp_path)
    labels = {
        "aggrefact": ('"label": 0', '"label": 2'),
        "begin": ("Generic", "Vague"),
        "chevrons": ("<fun>.", "<fun."),
        "faithbench": ('"Benign"', '"Fine"'),
        "frank": ('"Ten people left ."\n', '"Ten men left ."\n'),
        "hades": ('"hallucination": 1', '"hallucination": 5'),
        "halueval": ('"yes"', '"maybe"'),
        "jsonl": ('"score": 1.0', '"score": 1.5'),
        "procon": ('["Trees grow."]', '["Trees shrink."]'),
        "ragtruth": ('"text": "in 1901"', '"text": "in 1902"'),
        "tofueval": (",no,", ",nay,"),
        "written": ('"label": "N"', '"label": "M"'),
        "written_answers": ('"right": false', '"right": "no"'),
        "written_pairs": ('"label": "C"', '"label": "M"'),
        "written_rag": ('"right": false', '"right": "no"'),
    }
    old, new = labels[name]
    changed = 0
    for file in [f for f in tmp_path.rglob("*") if f.is_file()]:
        text = file.read_text("utf-8")
        changed += old in text
        file.write_text(text.replace(old, new), "utf-8")
    assert changed
    with pytest.raises(DataError, match=str(tmp_path)):
        list(read(f"{name}:{path}"))


def test_line_aligned_files_must_agree(tmp_path: Path) -> None:
    parts = {"docid": "1\n2\n", "source": "s\nt\n", "target": "a b\nc\\'s\n", "label": "0 1\n1\n"}

    def system(**changed: str) -> Path:
        for part, text in {**parts, **changed}.items():
            put(tmp_path / "Sys" / f"Sys.{part}", text)
        return tmp_path

    made = list(read(f"xsum_token:{system()}"))
    assert [(e.case.id, e.case.response) for e in made] == [("Sys/1", "a b"), ("Sys/2", "c's")]
    assert list(read(f"xsum_token:{tmp_path / 'Sys'}")) == made
    for changed, says in (
        ({"label": "0 1\n1 1\n"}, "Sys.label:2: 2 labels for the 1 tokens"),
        ({"label": "0 2\n1\n"}, "Sys.label:1: a label is '2'"),
        ({"label": "0 1\n"}, "Sys.label: 1 lines, where Sys.target has 2"),
        ({"docid": "1\n1\n"}, "Sys.label:2: the id 'Sys/1' was on line 1"),
        ({"source": "s\n\n"}, "Sys.label:2: 'source' is empty"),
        ({"docid": ""}, "Sys.docid: the file is empty"),
    ):
        with pytest.raises(DataError, match=says):
            list(read(f"xsum_token:{system(**changed)}"))
    seen: list[DataError] = []
    path = system(label="0 1\n1 1\n")
    assert len(list(read(f"xsum_token:{path}", on_bad=seen.append))) == len(seen) == 1


def test_an_edit_must_change_something(tmp_path: Path) -> None:
    row = {"id": 1, "article_id": 2, "article": "a", "reference_summary": "x y", "error_type": "E"}
    path = put(tmp_path / "task1_dataset.json", [{**row, "edited_summary": "x  y"}], lines=False)
    with pytest.raises(DataError, match=r"task1_dataset.json:2: the edited summary is the reference"):
        list(read(f"bump:{path}"))


def test_a_spec_names_a_set_and_a_path() -> None:
    with pytest.raises(InputError, match="names no path"):
        read("bump")
    with pytest.raises(UnknownNameError, match="did you mean bump"):
        read("bumb:x")


def test_the_table_has_a_row_a_set() -> None:
    rows = table().split("\n")
    assert [row.split("`")[1] for row in rows[2:]] == sorted(DATASETS)
    assert {row.count(" | ") for row in [rows[0], *rows[2:]]} == {6}
    page = (Path(__file__).parents[3] / "docs" / "datasets.md").read_text("utf-8")
    assert f"\n{table()}\n" in page, "docs/datasets.md is not in step with the table: run make docs"


def variants(value: object) -> Iterator[object]:
    """`value` with each part of it, at any depth, replaced by another kind of JSON."""
    for other in (None, 3, -1, 0.5, True, "x", "", [], {}, [3], ["x"], [{}], {"a": 3}, "\ud800"):
        if other != value:
            yield other
    if isinstance(value, dict):
        for key in value:
            yield {k: v for k, v in value.items() if k != key}
            yield from ({**value, key: new} for new in variants(value[key]))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from ([*value[:i], new, *value[i + 1 :]] for new in variants(item))


def check_variants(file: Path, first: str, rest: str, examples: Callable[[], Iterable[Example]], folder: Path) -> None:
    """Whatever the first JSON text of a file holds, it is read, or the error is ours and names the folder."""
    text = file.read_text("utf-8")
    for changed in variants(json.loads(first)):
        file.write_text(json.dumps(changed) + "\n" + rest, "utf-8")
        try:
            made = list(examples())
        except DataError as error:
            if str(folder) not in str(error):
                raise
        else:
            assert all(encode(example) for example in made)
    file.write_text(text, "utf-8")


@pytest.mark.parametrize("name", OWN)
def test_whatever_the_json_holds_the_error_is_ours_and_names_the_file(name: str, tmp_path: Path) -> None:
    path: Path = getattr(samples, name)(tmp_path)
    reader = load_reader(name)
    for file in [f for f in tmp_path.rglob("*") if f.suffix in (".json", ".jsonl", ".txt")]:
        text = file.read_text("utf-8")
        try:
            json.loads(text)
            first, rest = text, ""
        except json.JSONDecodeError:  # JSON Lines
            first, _, rest = text.partition("\n")
        check_variants(file, first, rest, lambda: reader.read(path), tmp_path)
