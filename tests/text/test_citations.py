"""Citations: what is read as one, which source it means, and that nothing else is."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veridical.detectors.claims.cited_claims import remove_spans
from veridical.records.types import Outcome, Source
from veridical.text.citations import (
    Citation,
    find_citations,
    footnote_definitions,
    footnote_marks,
    footnotes,
    resolve_citation,
    statements,
)
from veridical.workflows.checking import check
from veridical_lab.datasets import fave


def read(text: str) -> list[tuple[str, tuple[str, ...], str | None, str | None]]:
    return [(c.span.of(text), c.authors, c.year, c.mark) for c in find_citations(text)]


AUTHOR_YEAR = [
    ("Ling (2009) found it.", [("Ling (2009)", ("Ling",), "2009")]),
    ("However, Ling (2009) found it.", [("Ling (2009)", ("Ling",), "2009")]),
    ("In Ling's (2009) study", [("Ling's (2009)", ("Ling",), "2009")]),
    ("Ling et al. (2009a) found", [("Ling et al. (2009a)", ("Ling",), "2009a")]),
    ("Ling and colleagues (2009) found", [("Ling and colleagues (2009)", ("Ling",), "2009")]),
    ("Ling & Benton (2009, p. 4)", [("Ling & Benton (2009, p. 4)", ("Ling", "Benton"), "2009")]),
    ("by van der Berg and O'Neil [2011]", [("van der Berg and O'Neil [2011]", ("van der Berg", "O'Neil"), "2011")]),
    ("J. B. Soep et al. (2008)", [("J. B. Soep et al. (2008)", ("J. B. Soep",), "2008")]),
    ("Smith, Jones, and Wesson (2014)", [("Smith, Jones, and Wesson (2014)", ("Smith", "Jones", "Wesson"), "2014")]),
    ("Müller-Lüdenscheidt (1999)", [("Müller-Lüdenscheidt (1999)", ("Müller-Lüdenscheidt",), "1999")]),
    ("Пендина et al. (2007)", [("Пендина et al. (2007)", ("Пендина",), "2007")]),
    (
        "so (see Smith & Jones, 2009, p. 5; e.g., Benton et al. 2010: 45).",
        [
            ("Smith & Jones, 2009, p. 5", ("Smith", "Jones"), "2009"),
            ("Benton et al. 2010: 45", ("Benton",), "2010"),
        ],
    ),
    ("(Ling, 2009, 2010)", [("Ling, 2009, 2010", ("Ling",), "2009"), ("Ling, 2009, 2010", ("Ling",), "2010")]),
    ("(Ling, n.d.)", [("Ling, n.d.", ("Ling",), "n.d.")]),
]


@pytest.mark.parametrize(("text", "wanted"), AUTHOR_YEAR)
def test_author_and_year(text: str, wanted: list[tuple[str, tuple[str, ...], str]]) -> None:
    assert read(text) == [(*w, None) for w in wanted]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("It rose [3].", [("[3]", "3")]),
        ("It rose [3, 5-7].", [("3", "3"), ("5-7", "5"), ("5-7", "6"), ("5-7", "7")]),
        ("It rose【3】.", [("【3】", "3")]),
        ("It rose 【3†source】.", [("【3†source】", "3")]),
        ("It rose [Source 3, Source 5].", [("3", "3"), ("5", "5")]),
        ("It rose (documents 3 and 5) [doc 2].", [("3", "3"), ("5", "5"), ("[doc 2]", "2")]),
        ("It rose.[^2] It fell.¹ It rose.²,⁴", [("[^2]", "2"), ("¹", "1"), ("²", "2"), ("⁴", "4")]),
        ("growth² and it rose[12]", [("²", "2"), ("[12]", "12")]),
    ],
)
def test_marks(text: str, wanted: list[tuple[str, str]]) -> None:
    marks = [(c.span.of(text), c.mark) for c in find_citations(text)]
    assert [mark for _, mark in marks] == [mark for _, mark in wanted]
    assert all(place in (span, "²,⁴") for (place, _), (span, _) in zip(marks, wanted, strict=True))


@pytest.mark.parametrize(
    "text",
    [
        "in the interval [0, 1]",
        "array[2019]",
        "5 km², 10³ cells, x²",
        "the year (2009)",
        "(n = 2009)",
        "in 2009 Ling",
        "[see above]",
        "(since 2009)",
        "[7-3]",
        "(Article 5)",
        "(3 sources)",
        "[^3]: Ling (2009) Title.",
        "",
    ],
)
def test_no_citation(text: str) -> None:
    assert find_citations(text) == []


def test_a_label_in_brackets_cites() -> None:
    text = "It is so [Life of Anna], not so [life] [other]."
    sources = [Source("life", "…"), Source("a", "…", citation="Life of Anna")]
    assert [(c.span.of(text), c.mark) for c in find_citations(text, sources)] == [
        ("[Life of Anna]", "Life of Anna"),
        ("[life]", "life"),
    ]


PAPERS = [
    Source("p1", "…", citation="K. Ling et al., 2009"),
    Source("p2", "…", citation="Ling, K. & Benton, M. (2010a)"),
    Source("p3", "…", citation="Ling, K. & Smith, M. (2010b)"),
    Source("p4", "…", citation="María José Álvarez-Núñez, 2011"),
    Source("p5", "…", citation="World Health Organization, 2012"),
    Source("p6", "…", citation="Wei Chen"),
]


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("Ling (2009)", ["p1"]),
        ("Ling et al., 2009", ["p1"]),
        ("Ling 2010b", ["p3"]),
        ("Kevin Ling (2009)", ["p1"]),
        ("LING (2009)", ["p1"]),
        ("Ling (2010)", ["p2", "p3"]),
        ("Ling (2010b)", ["p3"]),
        ("Ling & Benton (2010)", ["p2"]),
        ("Alvarez-Nunez (2011)", ["p4"]),
        ("World Health Organization (2012)", ["p5"]),
        ("Chen (2013)", ["p6"]),  # the source names no year
        ("Ling (2011)", []),
        ("Benton (2010)", []),  # not the first author
        ("Smithson (2010)", []),
        ("[2]", ["p2"]),  # no source has a number of its own
        ("[7]", []),
        ("[p3]", ["p3"]),
    ],
)
def test_what_it_means(text: str, ids: list[str]) -> None:
    (citation,) = find_citations(text, PAPERS)
    assert resolve_citation(citation, PAPERS) == ids


def test_numbers_of_their_own_come_before_places() -> None:
    sources = [Source("2", "…"), Source("x", "…", citation="[7]"), Source("y", "…")]
    found = {c.mark: resolve_citation(c, sources) for c in find_citations("[1] [2] [3] [7]")}
    assert found == {"1": [], "2": ["2"], "3": [], "7": ["x"]}


def test_a_footnote_means_what_its_definition_cites() -> None:
    text = "It rose.[^a] It fell.[^b]\n\n[^a]: Ling, K. et al. (2009). A title.\n[^b]: Nobody (1999).\n"
    found = [resolve_citation(c, PAPERS, footnotes(text)) for c in find_citations(text)]
    assert found == [["p1"], []]
    assert [s.of(text) for s in statements(text, cited=True)] == ["It rose.[^a]", "It fell.[^b]"]


def test_a_raised_mark_ends_with_its_sentence() -> None:
    text = "It rose.¹ It fell.[^2] Why?"
    assert [s.of(text) for s in statements(text, cited=True)] == ["It rose.¹", "It fell.[^2]", "Why?"]
    assert [s.of(text) for s in footnote_marks(text)] == ["[^2]", "¹"]


def test_what_may_be_none_is_not_sure() -> None:
    assert [c.certain for c in find_citations("(World Cup 2010) (Ling, 2010) (Ling et al. 2010) Ling (2010)")] == [
        False,
        True,
        True,
        True,
    ]


@pytest.mark.parametrize(
    ("text", "cited"),
    [
        ("However, Ling et al., 2009 showed that it rose.", "Ling et al., 2009"),
        ("As shown by Ling and Benton 2010, it rose.", "Ling and Benton 2010"),
        ("It rose (as Ling et al., 2009 showed).", "Ling et al., 2009"),
        ("In Rome 2009 it rose.", None),  # nobody is cited so
        ("Ling, 2008 showed that it rose.", None),
        ("Ling 2009-2011", None),
        ("Lingot 2009 rose.", None),
    ],
)
def test_author_and_year_without_brackets_cite_where_a_source_is_cited_so(text: str, cited: str | None) -> None:
    assert [c.span.of(text) for c in find_citations(text, PAPERS)] == ([cited] if cited else [])
    assert find_citations(text) == []


def test_a_claim_without_its_citations() -> None:
    text = "Ling (2009) found that it rose (Benton, 2010) [3]."
    spans = [s for c in find_citations(text) for s in (c.span, c.group)]
    assert remove_spans(text, spans) == "found that it rose."


def test_every_published_reference_is_found_by_its_name(shared_data: Path) -> None:
    """Each paper of fave, cited as C's format has it, means itself, and another one only if both would be cited so."""
    right = total = 0
    for case in fave.read_questions(shared_data / "fave"):
        cited = {s.id: _as_cited(s.citation or "") for s in case.sources}
        for source in case.sources:
            if cited[source.id] is None:
                continue
            total += 1
            found = find_citations(f"It was {cited[source.id]} who did.", case.sources)
            ids = {id for citation in found for id in resolve_citation(citation, case.sources)}
            right += ids == {s.id for s in case.sources if cited[s.id] == cited[source.id]}
    assert total > 860
    assert right / total > 0.995


def _as_cited(citation: str) -> str | None:
    """ "N. Ziemert et al., 2016" as "Ziemert et al. (2016)"; None for what is not a person's name and a year."""
    who, _, year = citation.rpartition(", ")
    names = [name.split() for name in who.removesuffix(" et al.").split(" and ")]
    plain = all(part.replace(".", "").isalpha() for name in names for part in name)
    if not year[:4].isdigit() or not plain or not all(0 < len(name) <= 4 for name in names):
        return None
    surnames = " and ".join(unicodedata.normalize("NFC", name[-1]) for name in names)
    return f"{surnames}{' et al.' if who.endswith(' et al.') else ''} ({year})" if surnames[0].isupper() else None


PIECES = st.lists(
    st.sampled_from(
        [
            "Ling",
            " (2009)",
            "(",
            ")",
            "[",
            "]",
            "3",
            ", ",
            "; ",
            "et al.",
            " & ",
            "2010a",
            "¹",
            "[^",
            "]: ",
            "\n",
            "-",
            "é",
            " ",
        ]
    ),
    max_size=40,
).map("".join) | st.text(max_size=80)


@given(PIECES, st.lists(st.text(max_size=5), max_size=3, unique=True))
def test_any_text(text: str, labels: list[str]) -> None:
    found = find_citations(text, [*PAPERS, *(Source(label, "…") for label in labels)])
    for c in found:
        assert isinstance(c, Citation)
        assert 0 <= c.span.start < c.span.end <= len(text)
        assert c.group.end <= len(text)
        assert (c.mark is None) == (c.year is not None)
        assert set(resolve_citation(c, PAPERS, footnotes(text))) <= {s.id for s in PAPERS}
    assert found == sorted(found, key=lambda c: c.span.start)
    for span in statements(text, cited=True):
        assert span.of(text).strip() == span.of(text) or footnote_definitions(text)


@pytest.mark.parametrize(
    "piece", ["A ", "(A, ", "Aa ", "Smith, ", "Smith and ", "A. ", "[", "[1,", "A-", "(see ", "van ", "¹", "A’", "J.-"]
)
def test_long_nonsense_is_read_in_linear_time(piece: str) -> None:
    find_citations(piece * 20_000, PAPERS)  # quadratic reading would take minutes


NAMED = (
    Source("report_2023.pdf", "The tower is 330 m tall and grey."),
    Source("b", "Bees live in the garden.", metadata={"source": "docs/bees.md", "title": "On bees"}),
)
MARKS = {
    "(report_2023.pdf)": ["report_2023.pdf"],
    "(Report_2023.pdf p. 12)": ["report_2023.pdf"],
    "[report_2023.pdf, p. 12]": ["report_2023.pdf"],
    "[report_2023.pdf, pp. 12-14]": ["report_2023.pdf"],
    "(source: report_2023.pdf, page 12)": ["report_2023.pdf"],
    "(report_2023.pdf, p. 3; bees.md)": ["report_2023.pdf", "b"],
    "[On bees]": ["b"],
    "(see On bees, section 2)": ["b"],
    "【2:0†source】": [],
    "【2:0†bees.md】": ["b"],
    "<sup>2</sup>": ["b"],
    "<sup>1,2</sup>": ["report_2023.pdf", "b"],
    "<sup>[2]</sup>": ["b"],
    "<source>2</source>": ["b"],
    '<source id="x">2</source>': ["b"],
    "[^2^]": ["b"],
}


@pytest.mark.parametrize("mark", MARKS)
def test_marks_of_other_tools(mark: str) -> None:
    text = f"The tower is tall {mark}."
    found = find_citations(text, NAMED)
    assert sorted(id for citation in found for id in resolve_citation(citation, NAMED)) == sorted(MARKS[mark])
    assert {citation.group.of(text) for citation in found} == {mark}


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("spec", ["default", "overlap", "verify:overlap", "verify:overlap,citations=all"])
def test_a_right_claim_with_a_mark_is_clear(spec: str, mark: str) -> None:
    said = "Bees live in the garden" if MARKS[mark] == ["b"] else "The tower is 330 m tall"
    assert check(f"{said} {mark}.", NAMED, detector=spec).outcome is Outcome.CLEAR
    wrong = check(f"The tower is 300 m tall {mark}.", NAMED, detector=spec)
    assert any("300" in span.text for span in wrong.flagged)


@pytest.mark.parametrize(
    "text",
    ["It is (b).", "It is (On bees).", "10<sup>2</sup> m", "5 km<sup>2</sup>", "(reports_2023.pdf)", "[repor p. 3]"],
)
def test_what_only_looks_like_a_mark(text: str) -> None:
    assert find_citations(text, NAMED) == []


@pytest.mark.parametrize(
    "piece", ["(a.pdf, p. ", "[a; ", "<sup>1,", "<sup>", "【2:0†", "(see ", "[report_2023.pdf,   "]
)
def test_marks_take_linear_time(piece: str) -> None:
    assert find_citations(piece * 20_000, NAMED) == []
