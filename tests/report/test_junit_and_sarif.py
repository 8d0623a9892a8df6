"""Files for CI servers: valid by the published schemas whatever the texts are, and true to what was decided."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft4Validator
from lxml import etree

from tests.example_records import checked_at
from tests.report.conftest import HOSTILE
from veridical.io.rows import RowForm, read_cases
from veridical.records.types import Case, Checked, Evidence, Judgement, Omission, Outcome, Source, Span, Verdict
from veridical.report.findings import findings
from veridical.report.junit import JUnitReport
from veridical.report.locations import FileLocations, Region, locate_cases
from veridical.report.sarif import SarifReport
from veridical.workflows.checking import check, check_cases

SCHEMAS = Path(__file__).parent / "schemas"
JUNIT = etree.XMLSchema(etree.parse(SCHEMAS / "junit-10.xsd"))
SARIF = Draft4Validator(json.loads((SCHEMAS / "sarif-2.1.0-rtm.5.json").read_text("utf-8")))


def junit(*checked: Checked, name: str = "cases") -> etree._Element:
    report = JUnitReport(name)
    for one in checked:
        report.add(one)
    document = etree.fromstring(report.text().encode())
    JUNIT.assertValid(document)
    return document


def sarif(*checked: Checked, path: Path | None = None) -> dict[str, Any]:
    report = SarifReport()
    locations = iter(()) if path is None else locate_cases(path, RowForm())
    for one in checked:
        report.add(one, next(locations, None))
    document = json.loads(report.text().encode())
    SARIF.validate(document)
    return document["runs"][0]


def flagged_everywhere(text: str) -> Checked:
    """A case all of whose texts, names and reasons are `text`, with everything flagged."""
    whole = Span(0, len(text))
    case = Case(text, text, (Source(text, text, must_cover=True),), text)
    verdict = Verdict(whole, 1.0, text, None, (Evidence(text, whole),), text, text)
    judgement = Judgement(text, text, 1.0, 1.0, (verdict,), (Omission(text, whole, 1.0, text),), notes=(text,))
    return checked_at(case, (judgement,), (0.5,), Outcome.FLAGGED)


def unjudged(text: str) -> Checked:
    return checked_at(Case(text, text), (Judgement(text, text, notes=(text,)),), (0.5,), Outcome.UNJUDGED)


def test_a_failure_has_the_words_and_an_error_the_reason() -> None:
    clear = check("The tower is tall.", ["The tower is tall."], detector="overlap")
    flagged = check("The tower is purple.", ["The tower is tall."], must_cover=["It rusts."], detector="overlap")
    alone = check("The tower is tall.", detector="overlap")
    document = junit(clear, flagged, alone, name="tower")
    suite = document[0]
    for counted in (document, suite):
        assert [counted.get(name) for name in ("tests", "failures", "errors")] == ["3", "1", "1"]
    assert [len(test) for test in suite] == [0, 1, 1]
    assert [test.get("classname") for test in suite] == ["tower"] * 3
    failure, error = suite[1][0], suite[2][0]
    assert (failure.tag, failure.get("type")) == ("failure", "hallucination omission")
    assert "“purple” is not backed by the sources" in failure.get("message")
    assert "left out: “rusts” of source 2" in failure.get("message")
    assert "[-purple-]" in failure.text
    assert (error.tag, error.get("type")) == ("error", "unjudged")
    assert "no sources" in error.get("message").lower() + error.text.lower()


HOSTILE_TEXTS = [
    HOSTILE,
    "]]>",
    "<![CDATA[x]]> &amp; &#0; --> <?php",
    "a\r\nb\rc\n\x00\x0b\x0c\x1b\x85\u2028\ufeff\ufffe\uffff\ud800\udfff",
    "😀\U0010ffff\u202e [text](0) {0} %s",
    "../../etc/passwd#?% ä",
]


@pytest.mark.parametrize("text", HOSTILE_TEXTS)
def test_hostile_texts_give_valid_files(text: str) -> None:
    for checked in (flagged_everywhere(text), unjudged(text)):
        document = junit(checked, name=text)
        assert len(document[0][0]) == 1
        run = sarif(checked)
        found = [*run["results"], *run["invocations"][0]["toolExecutionNotifications"]]
        assert found
        assert not [result for result in found if "](" in result["message"]["text"]]


@settings(max_examples=20)
@given(st.text(st.characters(), max_size=20))
def test_any_text_gives_valid_files(text: str) -> None:
    checked = flagged_everywhere(text or "x")
    junit(checked, name=text)
    assert len(sarif(checked)["results"]) == 2


def test_places_are_those_in_the_file(tmp_path: Path) -> None:
    cases = [
        {"response": 'É is "300" m\ttall 😀 300', "sources": "É is tall."},
        {"response": "fine", "sources": [{"text": "fine"}]},
        {"response": "fine", "sources": ["fine", {"must_cover": True, "text": "Line\nand pürple"}]},
    ]
    lines = [json.dumps(cases[0]), " ", json.dumps(cases[1], ensure_ascii=False), json.dumps(cases[2])]
    forms = {
        "crlf.jsonl": "\ufeff" + "\r\n".join(lines),
        "lf.jsonl": "\n" + "\n".join(lines) + "\n",
        "array.json": "\n" + json.dumps(cases, indent=3),
        "ascii.json": json.dumps(cases),
    }
    for name, text in forms.items():
        path = tmp_path / name
        path.write_bytes(text.encode())
        written = text.removeprefix("\ufeff")
        checked = list(check_cases(read_cases(path), "overlap"))
        results = sarif(*checked, path=path)["results"]
        regions = [r["locations"][0]["physicalLocation"]["region"] for r in results]
        assert [r["ruleId"] for r in results] == ["hallucination", "hallucination", "omission", "omission"]
        for result, region in zip(results, regions, strict=True):
            start, length = region["charOffset"], region["charLength"]
            raw = written[start : start + length]
            assert region["snippet"]["text"] == raw
            line = written.split("\n")[region["startLine"] - 1]
            assert line[region["startColumn"] - 1 : region["endColumn"] - 1] == raw
            at = result["properties"]
            case = checked[0].case if result["ruleId"] == "hallucination" else checked[2].case
            source = at.get("source")
            whole = case.response if source is None else case.source(source).text
            assert json.loads(f'"{raw}"') == whole[at["start"] : at["end"]]
        words = [json.loads(f'"{region["snippet"]["text"]}"') for region in regions]
        assert words[-1] == "pürple"
        assert words[0] == "300"
        places = {result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for result in results}
        assert places == {path.as_uri()}
        prints = [result["partialFingerprints"]["veridical/v1"] for result in results]
        assert len(set(prints)) == len(prints)


def test_rows_of_other_tools_have_places(tmp_path: Path) -> None:
    ragas = {"question": "How?", "answer": 'It is "purple".', "contexts": [None, "It is red.", {"text": "It is blue."}]}
    langsmith = {"inputs": {"context": "It is red."}, "outputs": {"answer": "It is purple."}}
    turns = [["user", "It is red."], ["assistant", "It is purple."]]
    files = {
        "ragas.jsonl": "\n" + json.dumps(ragas),
        "langsmith.json": json.dumps([langsmith], indent=1),
        "chat.jsonl": "\n\n" + json.dumps({"messages": turns, "sources": "It is red, too."}),
    }
    for name, text in files.items():
        (path := tmp_path / name).write_text(text)
        (checked,) = check_cases(read_cases(path), "overlap", explain=True)
        (result,) = sarif(checked, path=path)["results"]
        region = result["locations"][0]["physicalLocation"]["region"]
        line = text.split("\n")[region["startLine"] - 1]
        assert line[region["startColumn"] - 1 : region["endColumn"] - 1] == region["snippet"]["text"] == "purple"


def test_rows_of_which_only_the_line_is_known_have_it(tmp_path: Path) -> None:
    files = {
        "a.csv": ('answer,contexts\n"It is\nred.",It is red.\n"It is\npurple.","It is red."\n', 4),
        "b.jsonl": ('\n{"answer": "It is purple.", "contexts": "It is red.", "reference": "It is purple."}', 2),
        "c.json": ('[\n{"output": "{\\"answer\\": \\"It is purple.\\"}",\n"input": {"context": "It is red."}}]', 2),
    }
    for name, (text, line) in files.items():
        (path := tmp_path / name).write_text(text)
        results = sarif(*check_cases(read_cases(path), "overlap"), path=path)["results"]
        assert [r["locations"][0]["physicalLocation"]["region"] for r in results] == [{"startLine": line}]
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["answer", "contexts"], ["It is purple.", "It is red."]):
        book.active.append(row)
    book.save(path := tmp_path / "d.xlsx")
    (result,) = sarif(*check_cases(read_cases(path), "overlap"), path=path)["results"]
    assert list(result["locations"][0]["physicalLocation"]) == ["artifactLocation"]


def test_a_file_that_changed_since_has_no_places(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text('{"response": "purple", "sources": ["red"]}')
    (checked,) = check_cases(read_cases(path), "overlap")
    for now in (
        '{"response": "orange", "sources": ["red"]}',
        '{"response": ',
        "[]",
        "x",
        '{"response": 1}',
        '{"r": 1}',
    ):
        path.write_text(now)
        (result,) = sarif(checked, path=path)["results"]
        assert "region" not in result["locations"][0].get("physicalLocation", {})


def test_separate_files_have_places_unless_they_were_converted() -> None:
    case = Case("1", "a\r\nb c", (Source("x.txt", "one\ntwo"), Source("y.PDF", "one"), Source("-", "one")))
    at = FileLocations(Path("a.txt"), (Path("x.txt"), Path("y.PDF"), Path("-")))
    of_response = at.find(case, None, Span(5, 6))
    assert of_response is not None
    assert of_response.region == Region(5, 6, 2, 3, 2, 4, "c")
    of_text = at.find(case, "x.txt", Span(4, 7))
    assert of_text is not None
    assert of_text.region == Region(4, 7, 2, 1, 2, 4, "two")
    of_pdf = at.find(case, "y.PDF", Span(0, 1))
    assert of_pdf is not None
    assert of_pdf.region is None
    assert at.find(case, "-", Span(0, 1)) is None


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("a b/ü#1.jsonl", "a%20b/%C3%BC%231.jsonl"),
        ("../x.jsonl", "../x.jsonl"),
        ("c:x.jsonl", "c%3Ax.jsonl"),
        ("b\udcff.jsonl", "b%FF.jsonl"),
        (str(Path.cwd() / "sub" / "x.jsonl"), "sub/x.jsonl"),
    ],
)
def test_files_are_named_relative_to_the_folder_of_the_command(path: str, uri: str) -> None:
    report = SarifReport()
    report.add(check("purple", ["red"], detector="overlap"), FileLocations(Path(path), (Path("s.txt"),)))
    (result,) = json.loads(report.text())["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == uri


def test_what_is_flagged_as_a_whole_is_one_finding() -> None:
    case = Case("1", "It is tall.", (Source("a", "It is small.", must_cover=True),))
    judgement = Judgement("1", "x", 0.9, 0.8)
    at_half = checked_at(case, (judgement,), (0.5,), Outcome.FLAGGED)
    assert [(f.kind, f.score, f.span) for f in findings(at_half)] == [
        ("hallucination", 0.9, None),
        ("omission", 0.8, None),
    ]
    by_flag_over = checked_at(case, (judgement,), (0.95,), Outcome.FLAGGED)
    assert [(f.kind, f.score) for f in findings(by_flag_over)] == [("hallucination", 0.9)]
    assert findings(checked_at(case, (judgement,), (0.5,), Outcome.CLEAR)) == []
    (first, _) = sarif(at_half)["results"]
    assert first["properties"]["end"] == len(case.response)
