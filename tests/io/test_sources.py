"""Whatever people pass as sources becomes sources, or one line that names what can be passed."""

from __future__ import annotations

import json
import math
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import veridical
from veridical import InputError, Source
from veridical.io.rows import Columns, RowForm, read_cases
from veridical.io.serialization import decode_case
from veridical.io.sources import as_sources
from veridical.server.requests import read_cases_of
from veridical.server.settings import Limits
from veridical.workflows.checking import make_case


def langchain(text: str, metadata: dict[str, Any] | None = None, id: str | None = None) -> SimpleNamespace:
    return SimpleNamespace(page_content=text, metadata=metadata or {}, id=id)


def haystack(id: str, content: str | None, meta: dict[str, Any]) -> SimpleNamespace:
    return SimpleNamespace(id=id, content=content, meta=meta)


def node(id: str, text: str, metadata: dict[str, Any]) -> SimpleNamespace:
    """A node of LlamaIndex."""
    return SimpleNamespace(node_id=id, text=text, metadata=metadata, get_content=lambda: text)


def retrieved(of: SimpleNamespace) -> SimpleNamespace:
    """A node of LlamaIndex with its score."""
    return SimpleNamespace(node=of, score=0.5, metadata=of.metadata, get_content=of.get_content)


@pytest.mark.parametrize(
    ("item", "source"),
    [
        ("It is red.", Source("1", "It is red.")),
        (None, Source("1", "")),
        (Source("mine", "It is red."), Source("mine", "It is red.")),
        ({"text": "It is red."}, Source("1", "It is red.")),
        ({"id": 7, "content": None, "meta": {"page": 3}}, Source("7", "", metadata={"page": 3})),
        ({"text": "a", "must_cover": True, "perspective": "pro"}, Source("1", "a", "pro", must_cover=True)),
        (langchain("a"), Source("1", "a")),
        (langchain("a", {"source": "b.pdf", "x": 2}), Source("b.pdf", "a", metadata={"source": "b.pdf", "x": 2})),
        (langchain("a", {"source": "b.pdf"}, "c"), Source("c", "a", metadata={"source": "b.pdf"})),
        (haystack("c", None, {"day": date(2026, 1, 2)}), Source("c", "", metadata={"day": "2026-01-02"})),
        (node("n", "a", {"score": math.nan}), Source("n", "a", metadata={"score": None})),
        (retrieved(node("n", "a", {"page": 1})), Source("n", "a", metadata={"page": 1})),
    ],
)
def test_one_item_is_a_source_alone_and_in_a_list(item: object, source: Source) -> None:
    assert as_sources([item]) == [source]
    assert as_sources(item) == ([] if item is None else [source])


def test_files_are_read(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "page.txt").write_text(folder)
    sources = as_sources([tmp_path / "a" / "page.txt", tmp_path / "b" / "page.txt"])
    assert sources == [Source("page.txt", "a"), Source("page.txt (2)", "b")]
    with pytest.raises(InputError, match=r"missing\.txt"):
        as_sources(tmp_path / "missing.txt")


def test_the_name_of_a_file_is_not_its_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert as_sources("Article.TXT")[0].text == "Article.TXT", "there is no such file"
    (tmp_path / "Article.TXT").write_text("It is red.", "utf-8")
    with pytest.raises(InputError, match=r"'Article\.TXT' is the name of a file, not its text") as caught:
        as_sources(["It is tall.", "Article.TXT"])
    assert caught.value.hint == "give Path('Article.TXT')"
    for text in ("It is in Article.TXT", "见" * 200 + ".txt", "a\0.txt"):
        assert as_sources(text)[0].text == text


def test_chunks_of_one_file_have_names_of_their_own_and_numbers_go_on() -> None:
    chunks = (langchain(text, {"source": "a.pdf"}) for text in "xy")
    assert [source.id for source in as_sources(chunks)] == ["a.pdf", "a.pdf (2)"]
    assert [source.id for source in make_case("", "a", must_cover=("b", "c")).sources] == ["1", "2", "3"]


OF_TOOLS = {
    "LangChain.js": ({"pageContent": "It is red.", "metadata": {"page": 3}}, "1", {"page": 3}),
    "body": ({"body": "It is red.", "id": "a"}, "a", None),
    "passage": ({"passage": "It is red."}, "1", None),
    "Qdrant": ({"id": "q", "score": 0.5, "payload": {"text": "It is red.", "page": 3}}, "q", {"page": 3}),
    "Elasticsearch": ({"_id": "e", "_score": 2.5, "_source": {"body": "It is red."}}, "e", None),
    "an empty text": ({"text": "", "content": "It is red."}, "1", None),
}


@pytest.mark.parametrize("tool", OF_TOOLS)
def test_passages_of_other_tools_are_read_at_every_door(tool: str, tmp_path: Path) -> None:
    item, id, metadata = OF_TOOLS[tool]
    expected = Source(id, "It is red.", metadata=metadata)
    assert as_sources([item]) == [expected]
    row = {"response": "It is red.", "sources": [item]}
    (read_cases_of_request,) = read_cases_of([row], Limits())
    assert read_cases_of_request.sources == (expected,)
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row) + "\n" + json.dumps({"answer": "It is red.", "contexts": [item]}))
    own, other = read_cases(path)
    assert own.sources == (expected,)
    assert [(source.text, source.metadata) for source in other.sources] == [("It is red.", metadata)]


def test_a_path_leads_through_lists(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"answer": "a", "contexts": [{"body": "b", "x": 1}, {"body": "c"}]}))
    (case,) = read_cases(path, RowForm(Columns("answer", ("contexts.body",))))
    assert [source.text for source in case.sources] == ["b", "c"]


@pytest.mark.parametrize(
    ("sources", "ids"),
    [
        (["b", {"text": "a", "id": "1"}], ["1 (2)", "1"]),
        (["b", {"text": "a", "id": 1}], ["1 (2)", "1"]),
        ([{"text": "c", "id": "1 (2)"}, "a", "d", {"text": "b", "id": "2"}], ["1 (2)", "2 (2)", "3", "2"]),
    ],
)
def test_automatic_ids_avoid_given_ones(sources: list[Any], ids: list[str]) -> None:
    assert [source.id for source in as_sources(sources)] == ids
    assert [source.id for source in decode_case({"response": "a", "sources": sources}, default_id="1").sources] == ids


def test_automatic_ids_avoid_those_of_what_has_to_be_covered() -> None:
    case = make_case("a", ["b", "c"], must_cover=Source("1", "d"), perspectives={"2": "e"})
    assert [source.id for source in case.sources] == ["1 (2)", "2 (2)", "1", "2"]


def test_a_perspective_has_one_or_several_sources() -> None:
    case = make_case("a", perspectives={"pro": ["b", {"text": "c"}], "con": Source("x", "d")})
    assert case.sources == (
        Source("pro", "b", "pro", must_cover=True),
        Source("pro (2)", "c", "pro", must_cover=True),
        Source("con", "d", "con", must_cover=True),
    )


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ([{"txt": "a"}], "unknown field of a source 'txt' .did you mean text"),
        ({"a.txt": "a"}, "put your own fields into 'metadata'"),
        ([{"id": "a"}], "a source has no text"),
        ([{"text": 3}], "a source has the text 3"),
        (5, "a source is of the type int .give a text, a Source, a Path"),
        (b"abc", "of the type bytes"),
        ([["a"]], "of the type list"),
    ],
)
def test_anything_else_is_one_line(sources: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        veridical.check("a", sources, detector="overlap")


def test_a_response_is_a_text() -> None:
    with pytest.raises(InputError, match="the response is of the type dict"):
        veridical.check({"response": "a"}, "a")  # type: ignore[arg-type]
