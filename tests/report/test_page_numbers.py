"""What comes from a document with pages is shown with its page, wherever results are shown."""

from __future__ import annotations

import json

from veridical.io.serialization import decode, encode
from veridical.records.decide import decide, overall
from veridical.records.spans import Span
from veridical.records.types import Case, Checked, Evidence, Judgement, Omission, Source, Verdict
from veridical.report.findings import as_text, findings
from veridical.report.html import render_html
from veridical.report.sarif import SarifReport

TEXT = "The tower is red. The tower is 330 m tall."


def checked() -> Checked:
    source = Source("tower.pdf", TEXT, must_cover=True, pages=(0, 18))
    case = Case("1", "The tower is 300 m tall.", (source,))
    evidence = (Evidence("tower.pdf", Span(31, 36)),)
    verdicts = (Verdict(Span(13, 18), 1.0, evidence=evidence, reason="another number"),)
    omissions = (Omission("tower.pdf", Span(13, 16), 1.0),)
    judgement = Judgement("1", "by hand", 1.0, 1.0, verdicts, omissions)
    decision = decide(case, judgement)
    return Checked(case, (judgement,), (decision,), overall(case, [judgement], [decision]))


def test_pages_in_the_record() -> None:
    source = json.loads(encode(checked()))["case"]["sources"][0]
    assert source["pages"] == [0, 18]
    assert decode(encode(checked())) == checked()


def test_pages_where_people_read() -> None:
    text = as_text(checked())
    assert "source tower.pdf, page 2: “330 m”" in text
    assert "source tower.pdf, page 1" in text
    page = render_html([checked()])
    assert "tower.pdf, page 2" in page
    assert "tower.pdf, page 1" in page
    assert "of source tower.pdf, page 1" in findings(checked())[1].message


def test_pages_in_sarif() -> None:
    report = SarifReport()
    report.add(checked(), None)
    wrong, left_out = json.loads(report.text())["runs"][0]["results"]
    assert wrong["relatedLocations"][0]["properties"] == {"page": 2}
    assert left_out["properties"]["page"] == 1
