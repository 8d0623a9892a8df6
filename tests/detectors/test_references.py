"""References that no source has: what is one, and when a source has it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veridical.detectors.explanation.references import invented_references
from veridical.records.types import Case, Source, Turn
from veridical.text.identifiers import identifiers

WRITTEN = (
    "parse_rows() `read` getUser json.load --dry-run /etc/app/x.conf a/b.py v2.1 version 3.4.5 1.2.3-rc1 OPS-71 #42 "
    "https://a.org/b?c=d 10.1000/xyz me@a.org [3] [^2] ² (Ling, 2009) Ling et al. (2010) § 12 RFC 2119 and the, . ( "
    ") ` 12.03.2024 COVID-19 iPhone McDonald ß İ"
)
TEXTS = st.one_of(st.text(max_size=80), st.lists(st.sampled_from(WRITTEN.split(" ")), max_size=12).map(" ".join))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Call parse_rows(), json.load() or getUserName.", ["parse_rows", "json.load", "getUserName"]),
        ("Pass `limit` or --dry-run.", ["limit", "--dry-run"]),
        ("See src/app/main.py, setup.cfg and /etc/app/x.conf.", ["src/app/main.py", "setup.cfg", "/etc/app/x.conf"]),
        ("Since version 2.1 and v3.0.1-rc1, not 1.2.3.", ["2.1", "3.0.1-rc1", "1.2.3"]),
        ("Read https://a.org/b (or 10.1000/xyz), ask me@a.org.", ["https://a.org/b", "10.1000/xyz", "me@a.org"]),
        (
            "Fixed in OPS-71, CVE-2024-1234, #42, RFC 2119, § 12a.",
            ["OPS-71", "CVE-2024-1234", "#42", "RFC 2119", "§ 12a"],
        ),
        ("On 12.03.2024, 1.234.567 U.S. iPhones and/or 3.5 km/h, e.g. of McDonald with COVID-19.", []),
    ],
)
def test_identifiers_files_versions_and_addresses_are_references(text: str, names: list[str]) -> None:
    assert [each.name for each in identifiers(text)] == names


@given(TEXTS)
def test_a_reference_stands_in_its_text(text: str) -> None:
    for each in identifiers(text):
        assert each.name in each.span.of(text)
        assert any(char.isalnum() for char in each.name)


@given(TEXTS, TEXTS)
def test_nothing_is_invented_that_a_source_or_the_question_has(response: str, other: str) -> None:
    assert invented_references(Case("1", response, (Source("a", other), Source("b", response)))) == []
    assert invented_references(Case("1", response, (Source("a", other),), question=response)) == []


@pytest.mark.parametrize(
    ("response", "source", "invented"),
    [
        ("Use parse_row().", "def parse_rows(path): ...", ["parse_row()"]),
        ("Use parse_rows().", "def parse_rows(path): ...", []),
        ("It needs version 2.1.", "It needs v2.1 or later.", []),
        ("It needs version 2.1.", "It needs v12.1 or later.", ["version 2.1"]),
        ("So Ling et al. (2009) say.", "Ling and Wu wrote this in 2010.", ["Ling et al. (2009)"]),
        ("So Ling et al. (2009) say.", "Ling K. and others, 2009.", []),
        ("It is so [7].", "It is so [3].", ["[7]"]),
        ("It is so [7].", "It is so [7].", []),
        ("It is so [1].", "It is so.", []),
    ],
)
def test_references_are_compared_exactly(response: str, source: str, invented: list[str]) -> None:
    case = Case("1", response, (Source("a", source),))
    assert [span.of(response) for span in invented_references(case)] == invented


@pytest.mark.parametrize(
    "piece", ["a", "a.", "/a", "a_", "1.", "`", "a@", "a-", "A-1", "a/", "::a", "a.b-", "[a](", "#"]
)
def test_long_texts_take_linear_time(piece: str) -> None:
    assert sum(1 for _ in identifiers(piece * 20_000)) >= 0


def test_what_the_assistant_said_before_is_no_source() -> None:
    said = (Turn("user", "How do I read a file?"), Turn("assistant", "Call read_rows()."), Turn("user", "Sure?"))
    case = Case("1", "Yes, read_rows().", (Source("api", "def load_rows(path): ..."),), "Sure?", said)
    assert [span.of(case.response) for span in invented_references(case)] == ["read_rows()"]
    asked = (Turn("user", "What does read_rows() do?"), *said[1:])
    assert invented_references(Case("1", case.response, case.sources, "Sure?", asked)) == []
