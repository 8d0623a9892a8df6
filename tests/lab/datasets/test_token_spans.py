"""The tokens of Mu-SHROOM's language models and the characters of their answers."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veridical.records.errors import DataError
from veridical.records.spans import Span
from veridical_lab.datasets import mu_shroom
from veridical_lab.datasets.mu_shroom import byte_letters, token_spans


def byte_level(text: str, cuts: list[int]) -> list[str]:
    """The text as tokens of a byte-level tokenizer, cut at these bytes."""
    letters = {byte: letter for letter, byte in byte_letters().items()}
    spelled = "".join(letters[byte] for byte in text.encode())
    edges = sorted({0, len(spelled), *(cut % (len(spelled) + 1) for cut in cuts)})
    return [spelled[a:b] for a, b in pairwise(edges)]


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30), st.lists(st.integers(0, 100), max_size=8))
def test_byte_level_tokens_cover_the_text(middle: str, cuts: list[int]) -> None:
    """Every character is in a token, in order, and a token that begins inside a character has all of it."""
    text = f"x Ċé {middle} x"
    tokens = byte_level(text, cuts)
    spans = token_spans(tokens, text)
    assert spans is not None
    covered = [span for span in spans if span is not None]
    assert covered[0].start == 0
    assert covered[-1].end == len(text)
    assert all(a.end == b.start or a.end == b.start + 1 for a, b in pairwise(covered))
    for token, span in zip(tokens, spans, strict=True):
        piece = bytes(byte_letters()[letter] for letter in token)
        assert piece in text[span.start : span.end].encode()


def test_what_stands_around_the_answer_is_left_out() -> None:
    spans = token_spans(["<s>", "▁In", "▁Rome", "<0x0A>", "</s>"], "In Rome")
    assert spans == [None, Span(0, 2), Span(2, 7), None, None]
    assert token_spans(["ĠIn", "ĠRome"], " In Rome") == [Span(1, 3), Span(3, 8)]
    assert token_spans(["In", " Oslo"], "In Rome") is None
    assert token_spans(["In"], " ") is None


def test_the_published_tokens(shared_data: Path) -> None:
    path = shared_data / "mu_shroom"
    scores = dict(mu_shroom.read_token_scores(path))
    examples = {example.case.id: example for example in mu_shroom.read(path)}
    assert scores.keys() == examples.keys()
    assert sum(bool(of_case) for of_case in scores.values()) > 0.9 * len(scores)
    english = dict(mu_shroom.read_token_scores(path, "en"))
    assert all(english.values())
    for id, of_case in english.items():
        text = examples[id].case.response
        assert "".join(span.of(text) for span, _ in of_case) == text.strip()


def test_damaged_rows(tmp_path: Path) -> None:
    file = tmp_path / "mushroom.en-val.v2.jsonl"
    file.write_text('{"id": "1", "model_output_tokens": ["a"], "model_output_logits": [], "model_output_text": "a"}\n')
    with pytest.raises(DataError, match=r":1: 0 logits for 1 tokens"):
        list(mu_shroom.read_token_scores(tmp_path))
