"""No regular expression of the two packages takes more than linear time on a text that is pumped up."""

from __future__ import annotations

import re

import pytest

from tests.pumping import Use, modules, slow_texts, uses

SHARES = 12  # of the modules, so that workers can divide them


@pytest.mark.parametrize("share", range(SHARES))
def test_no_pattern_is_slow_on_a_long_text(share: int) -> None:
    patterns = {use for name, path in modules()[share::SHARES] for use in uses(name, path)}
    assert not [text for use in patterns for text in slow_texts(use)]


@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        (r"\s*x", "search"),  # from each blank to the last
        (r"(?m)^\W*sources", "search"),
        (r"\[(?:\s*source\s*)?\s*\d", "search"),
        (r"\s*\[?\s*x", "match"),
        (r"\w*code\w*_result", "match"),
        (r"(?:a|a)*b", "match"),
        (r"(\w+)-\n(\w+)", "search"),
        (r"<!--.*?-->", "search"),
    ],
)
def test_a_slow_pattern_is_found(pattern: str, method: str) -> None:
    assert next(slow_texts(Use("here", re.compile(pattern), method), seconds=20), None)


@pytest.mark.parametrize(
    ("pattern", "method"), [(r"\s*x", "match"), (r"(?<!\s)\s*+x", "search"), (r'"(?:[^"]|"")*"', "match")]
)
def test_a_linear_pattern_is_not_found(pattern: str, method: str) -> None:
    assert not list(slow_texts(Use("here", re.compile(pattern), method)))
