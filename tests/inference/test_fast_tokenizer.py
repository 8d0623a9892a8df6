"""A tokenizer.json without transformers: the same ids, characters and segment ids as the Hugging Face class gives."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.processes import without_torch
from veridical.inference.chat_template import render_chat
from veridical.inference.fast_tokenizer import TOKENIZER, FastTokenizer
from veridical.inference.local_model import LocalModel
from veridical.inference.pairs import PairEncoder, PairEncoding, PairForm, PairSettings
from veridical.inference.tokenization import tokenize, tokenize_texts
from veridical.models.load import load
from veridical.records.errors import DataError
from veridical.records.spans import Span
from veridical.records.types import Case, Source
from veridical_lab.models.testing import TOKENIZERS, tiny, tiny_tokenizer

TEXTS = [
    "",
    " ",
    "The committee met on Monday.",
    "Two lines.\r\nOne\tmore.  ",
    "naïve Café e\u0301clairs İstanbul ﬁne ß",
    "👩‍👩‍👧 loves 🇫🇷 and 🙂",
    "你好世界 नमस्ते مرحبا",
    "</s> is <s> four <pad> characters",
    "x" * 300,
    "a\x00b\u2028c\ufffd",
]
PIECES = ["the", "river", " ", "\r\n", "é", "e\u0301", "İ", "👩‍👧", "🇫🇷", "</s>", "<s>", "7", "1,200", "你好", "\u200d"]
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.lists(st.sampled_from(PIECES)).map("".join)


@pytest.fixture(scope="module", params=TOKENIZERS)
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, FastTokenizer]:
    """The Hugging Face class and ours, of a folder whose file has truncation and padding switched on."""
    from transformers import AutoTokenizer

    folder = tmp_path_factory.mktemp(request.param)
    tokenizer = tiny_tokenizer(request.param)
    tokenizer(["a b c", "a"], truncation=True, max_length=2, padding=True)
    tokenizer.save_pretrained(folder)
    saved = json.loads((folder / TOKENIZER).read_text("utf-8"))
    assert saved["truncation"] is not None
    assert saved["padding"] is not None
    return AutoTokenizer.from_pretrained(folder, local_files_only=True), FastTokenizer(folder)


def test_special_tokens_take_a_backend_of_their_own_only_where_they_are_written(tmp_path: Path) -> None:
    tiny_tokenizer("bytes").save_pretrained(tmp_path)
    tokenizer = FastTokenizer(tmp_path)
    assert tokenizer("The river", "a < b")["input_ids"]
    assert "_markup_backend" not in vars(tokenizer)
    assert len(tokenizer("</S>", add_special_tokens=False)["input_ids"]) > 1
    assert "_markup_backend" in vars(tokenizer)
    assert len(tokenizer("</s>", add_special_tokens=False)["input_ids"]) == 1
    assert len(tokenizer(["a", "</s>"], add_special_tokens=False, split_special_tokens=True)["input_ids"][1]) > 1


def assert_same(both: tuple[Any, FastTokenizer], text: str) -> None:
    theirs, ours = both
    for markup in (False, True):
        assert tokenize(ours, text, markup=markup) == tokenize(theirs, text, markup=markup)
    for pair in (None, "The river."):
        for around in (False, True):
            a, b = (t(text, pair, add_special_tokens=around, return_token_type_ids=True) for t in both)
            assert (b["input_ids"], b["token_type_ids"]) == (a["input_ids"], a["token_type_ids"])


@pytest.mark.parametrize("text", TEXTS)
def test_texts_are_tokenised_alike(both: tuple[Any, FastTokenizer], text: str) -> None:
    assert_same(both, text)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=TEXT)
def test_any_text_is_tokenised_alike(both: tuple[Any, FastTokenizer], text: str) -> None:
    assert_same(both, text)


def test_many_texts_and_stretches_of_plain_characters(both: tuple[Any, FastTokenizer]) -> None:
    theirs, ours = both
    assert tokenize_texts(ours, TEXTS) == tokenize_texts(theirs, TEXTS)
    assert tokenize_texts(ours, ["half \ud800 of a pair"]) == tokenize_texts(theirs, ["half \ud800 of a pair"])
    text = "<s>the </s> river</s>"
    literal = [Span(3, 17)]
    assert tokenize(ours, text, markup=True, literal=literal) == tokenize(theirs, text, markup=True, literal=literal)
    if "unigram" not in ours.folder.name:  # whose vocabulary has "</s>" as a piece
        assert tokenize(ours, text, markup=True, literal=literal) != tokenize(ours, text, markup=True)


def test_roles_of_tokens(both: tuple[Any, FastTokenizer]) -> None:
    theirs, ours = both
    names = ("pad_token_id", "bos_token_id", "eos_token_id", "sep_token_id", "model_max_length")
    assert [getattr(ours, name) for name in names] == [getattr(theirs, name) for name in names]
    assert {i: token.content for i, token in ours.added_tokens_decoder.items() if token.special} == {
        i: token.content for i, token in theirs.added_tokens_decoder.items() if token.special
    }
    assert ours.matches(theirs)


def test_another_tokenizer_does_not_match(both: tuple[Any, FastTokenizer], tmp_path: Path) -> None:
    _, ours = both
    kind = next(kind for kind in TOKENIZERS if kind != ours.folder.name.rstrip("0123456789"))
    assert not ours.matches(tiny_tokenizer(kind))
    other = tiny_tokenizer(ours.folder.name.rstrip("0123456789"))
    assert ours.matches(other)
    other.pad_token = "<s>"
    assert not ours.matches(other)


@pytest.mark.parametrize(("architecture", "kind"), [("bert", "wordpiece"), ("roberta", "bytes"), ("llama", "unigram")])
def test_cases_become_the_same_windows(tmp_path: Path, architecture: str, kind: Any) -> None:
    model = load(tiny(architecture, tmp_path, tokenizer=kind), dtype="fp32", kinds=("causal", "encoder"))
    plain = replace(model, tokenizer=FastTokenizer(tmp_path))
    assert PairForm.of(plain) == PairForm.of(model)
    sources = (Source("a", "The river was cleaned.\r\nNobody came. " * 30), Source("b", "👩‍👩‍👧 Café"))
    cases = [Case(str(i), f"{text} The river.", sources, question="Who?") for i, text in enumerate(TEXTS)]
    for form in (PairSettings(), PairSettings(evidence="all", by_sentence=True, max_tokens=64)):
        for a, b in zip(_encoded(plain, form, cases), _encoded(model, form, cases), strict=True):
            assert a.spans == b.spans
            assert [window.ids.tolist() for window in a.windows] == [window.ids.tolist() for window in b.windows]
            assert [window.types.tolist() for window in a.windows] == [window.types.tolist() for window in b.windows]


def _encoded(model: LocalModel, form: PairSettings, cases: list[Case]) -> list[PairEncoding]:
    encodings = PairEncoder(model, form).encode(cases)
    assert all(isinstance(encoding, PairEncoding) for encoding in encodings)
    return [encoding for encoding in encodings if isinstance(encoding, PairEncoding)]


def test_a_chat_template_is_rendered_by_transformers(tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = "{% for m in messages %}<s>{{ m['role'] }}: {{ m['content'] | trim }}</s>{% endfor %}"
    tokenizer.save_pretrained(tmp_path)
    assert FastTokenizer(tmp_path).chat_template == tokenizer.chat_template
    messages = [("user", " Is it so? ")]
    assert render_chat(FastTokenizer(tmp_path), messages) == render_chat(tokenizer, messages)


def test_special_tokens_of_an_older_folder(tmp_path: Path) -> None:
    tiny_tokenizer("wordpiece").save_pretrained(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"model_max_length": 77, "eos_token": null}')
    roles = {"pad_token": {"content": "<pad>", "lstrip": False}, "sep_token": "</s>"}
    (tmp_path / "special_tokens_map.json").write_text(json.dumps(roles))
    tokenizer = FastTokenizer(tmp_path)
    assert (tokenizer.pad_token_id, tokenizer.sep_token_id, tokenizer.eos_token_id) == (0, 2, None)
    assert tokenizer.model_max_length == 77


@pytest.mark.parametrize("content", [None, "{", '{"version": "1.0"}'])
def test_a_missing_or_damaged_file_is_named(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / TOKENIZER).write_text(content)
    with pytest.raises(DataError) as raised:
        FastTokenizer(tmp_path)
    assert TOKENIZER in str(raised.value)


@pytest.mark.parametrize("text", ["a", "b"])
def test_an_id_that_no_model_has_is_one_line(tmp_path: Path, text: str) -> None:
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel({"b": 0}, unk_token="b"))
    made.post_processor = tokenizers.processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 2**31)])
    saved = json.loads(made.to_str())
    saved["model"]["vocab"]["a"] = 2**32 - 1
    (tmp_path / TOKENIZER).write_text(json.dumps(saved))
    tokenizer = FastTokenizer(tmp_path)
    assert tokenizer("b", add_special_tokens=False)["input_ids"] == [0]
    with pytest.raises(DataError, match=rf"{TOKENIZER}: a token has the id {2**32 - 1 if text == 'a' else 2**31}"):
        tokenizer(text)


def test_a_text_without_a_token_is_one_line(tmp_path: Path) -> None:
    tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0}, unk_token="?")).save(str(tmp_path / TOKENIZER))
    with pytest.raises(DataError, match=rf"{TOKENIZER}: cannot read a text: .*UNK"):
        FastTokenizer(tmp_path)("b")


def test_it_takes_neither_torch_nor_transformers(tmp_path: Path) -> None:
    tiny_tokenizer("wordpiece").save_pretrained(tmp_path)
    said = without_torch(f"""
from veridical.inference.fast_tokenizer import FastTokenizer
print(FastTokenizer({str(tmp_path)!r})("The river")["offset_mapping"])
""")
    assert said.strip() == str(FastTokenizer(tmp_path)("The river")["offset_mapping"])
