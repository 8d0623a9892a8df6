"""Plain documents: every layout, the order of files, what is left out, and what cannot be read."""

import gzip
import json
import zipfile
from pathlib import Path

import pytest

from veridical.records.errors import DataError, InputError
from veridical_lab.datasets.plain import read, read_texts


def test_every_layout(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("One.\n\nTwo.", "utf-8")
    (tmp_path / "b.jsonl").write_text('{"text": "Three."}\n\n{"text": "Four."}\n', "utf-8")
    squad = {"data": [{"paragraphs": [{"context": "Five."}, {"context": "Six."}]}]}
    (tmp_path / "c.json.gz").write_bytes(gzip.compress(json.dumps(squad).encode()))
    for name in ("d.zip", "e_tagged.zip"):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("z/2.txt", "Eight.")
            archive.writestr("z/1.txt", "Seven.")
            archive.writestr("z/readme", "no text")
    (tmp_path / "SOURCE.txt").write_text("where from")
    assert list(read_texts(tmp_path)) == ["One.\n\nTwo.", "Three.", "Four.", "Five.", "Six.", "Seven.", "Eight."]
    assert list(read_texts(tmp_path / "b.jsonl")) == ["Three.", "Four."]
    with pytest.raises(InputError, match="no labels"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("name", "data"),
    [("a.jsonl", b'{"txt": 1}'), ("a.json", b"[]"), ("a.zip", b"PK"), ("a.txt.gz", b"no gzip"), ("a.jsonl", b"{")],
)
def test_what_cannot_be_read_names_its_file(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(DataError, match=name):
        list(read_texts(tmp_path))


def test_a_folder_without_documents(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no documents"):
        list(read_texts(tmp_path))
