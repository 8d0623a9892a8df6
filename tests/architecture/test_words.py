"""Terms that are no longer used: docs, docstrings and messages have the standard term of the field instead."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UNIT = "(?:case|claim|word|line|batch|document|response|row|set|sentence|sublayer|source|token|probe)"
RETIRED = {
    r"reads? along": "monitors",
    r"listen(?:s|ed|ing|ers?)?": "monitors, monitor",
    r"kin": "similar",
    r"(?<![Ff]ew[-_])shots?": "few-shot examples",
    r"worked examples?": "few-shot examples",
    r"rehears\w*": "dry run",
    r"(?<!of )courses?": "decoding run, state",
    r"parted": "separated",
    r"the (?:tenth|fifth|seventh) of": "validation, test part",
    r"divi(?:ded|sion) by document": "split by document",
    r"[ABCD] §": "author and year of the paper",
    rf"one (?!with)\w+ an? {UNIT}": "one … per …",
    r"house": "package layout",
    r"mend(?:s|ed|ing)?": "revise, fix",
    r"forced (?:decoding|along)|decod\w+ by force": "teacher forcing",
    r"reheat": "temperature increase",
    r"redraw\w*": "sampled again",
    r"anew": "again",
    r"for ever": "indefinitely",
    r"told": "reported, distinguished",
    r"settled": "accepted",
    r"weigh(?:s|ed|ing)?": "compare, weight",
    r"worst side": "worst perspective",
    r"is no (?:list|object|number)": "is not a …",
    r"spoken": "text for screen readers",
}
RETIRED_IN_DOCS = {
    r"rooms?": "package",
    r"stands?": "is",
    r"tells": "reports",
    r"lies?": "is",
    r"drawn": "sampled",
    r"beside": "next to, in addition to",
}
# (file, term): why it may stay
ALLOWED = {
    ("CHANGELOG.md", "shots"): "the former name of an option",
    ("CHANGELOG.md", "reheat"): "the former name of an option",
    ("CHANGELOG.md", "settled"): "the former name of an action",
    ("src/veridical/detectors/__init__.py", "shots"): "the former name of an option, still refused in artifacts",
    ("src/veridical/models/template.py", "shots"): "the name of a folder",
    ("src/veridical/datasets/e2e_slots.py", "shot"): "a misspelling in the data (coffee shot)",
    ("src/veridical/datasets/e2e_slots.py", "house"): "a word in the data (coffee house)",
    ("src/veridical/models/testing.py", "house"): "a sentence of the corpus of the tests' tokenizers",
}
DOCS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
SOURCES = sorted((ROOT / "src").rglob("*.py"))


def retired_in(path: Path, text: str, terms: dict[str, str]) -> Iterator[str]:
    name = path.relative_to(ROOT).as_posix()
    for term, instead in terms.items():
        for match in re.finditer(rf"(?<!\w)(?:{term})(?!\w)", text):
            if (name, match[0]) not in ALLOWED:
                context = " ".join(text[max(match.start() - 30, 0) : match.end() + 30].split())
                yield f"“{match[0]}” in “… {context} …”: write {instead}"


def without_generated(text: str) -> str:
    """The page without what `make docs` writes: that is checked where it comes from."""
    return re.sub(r"<!-- made by.*?<!-- end: .*?-->", "", text, flags=re.DOTALL)


@pytest.mark.parametrize("path", DOCS, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_docs_use_standard_terms(path: Path) -> None:
    text = without_generated(path.read_text("utf-8"))
    assert not list(retired_in(path, text, RETIRED | RETIRED_IN_DOCS))


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_docstrings_and_messages_use_standard_terms(path: Path) -> None:
    strings = (node.value for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Constant))
    text = "\n\n".join(string for string in strings if isinstance(string, str))
    assert not list(retired_in(path, text, RETIRED))


def test_what_is_allowed_is_still_there() -> None:
    assert not [where for where in ALLOWED if not re.search(rf"\b{where[1]}\b", (ROOT / where[0]).read_text("utf-8"))]
