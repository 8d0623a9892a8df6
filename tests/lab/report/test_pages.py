"""Every page allows itself its own style sheet by hash and nothing else, whatever it shows."""

from base64 import b64decode, b64encode
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.report.conftest import HOSTILE, map_of, tower
from tests.report.test_html import Page
from tests.report.test_revision import TOWER
from veridical.report.html import render_html
from veridical.report.revision import render_revisions
from veridical.report.salience import salience_page
from veridical_lab.bench.results import read_result_rows
from veridical_lab.report.result_page import render_results
from veridical_lab.report.result_plots import by_set

ROWS = Path(__file__).parents[3] / "benchmarks" / "rows" / "baselines-fitted.jsonl"


def results() -> str:
    rows = read_result_rows([ROWS])
    return render_results([row for row in rows if row.data == rows[0].data], title=HOSTILE)


PAGES = {
    "report": lambda: render_html([tower()], maps=[[map_of(tower().case), None]], title=HOSTILE),
    "results": results,
    "revisions": lambda: render_revisions([TOWER], title=HOSTILE),
    "salience": lambda: salience_page(map_of(tower().case), tower().case, title=HOSTILE),
}


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_bound_to_its_style_sheet(name: str) -> None:
    html = PAGES[name]()
    page = Page(html)
    style = html.partition("<style>")[2].partition("</style>")[0]
    policy = next(held["content"] for _, held in page.tags if held.get("http-equiv") == "Content-Security-Policy")
    assert f"style-src 'sha256-{b64encode(sha256(style.encode()).digest()).decode()}'" in policy
    assert "unsafe" not in policy
    assert not [held for _, held in page.tags if "style" in held or any(key.startswith("on") for key in held)]
    assert not {tag for tag, _ in page.tags} & {"script", "iframe", "form"}
    assert all(held["src"].startswith("data:image/svg+xml;base64,") for _, held in page.tags if "src" in held)
    assert all(held["href"][0] == "#" or held["href"] == "data:," for _, held in page.tags if "href" in held)


def test_the_result_page_has_every_line_and_plots_that_are_pictures() -> None:
    page = Page(results())
    rows = read_result_rows([ROWS])
    shown = [row for row in rows if row.data == rows[0].data]
    assert sum(tag == "tr" for tag, _ in page.tags) == len(shown) + 1
    plots = [held for tag, held in page.tags if tag == "img"]
    assert plots
    for plot in plots:
        assert plot["alt"]
        assert ElementTree.fromstring(b64decode(plot["src"].partition(",")[2])).tag.endswith("svg")


def test_a_plot_has_a_point_for_each_detector_on_each_data_set() -> None:
    (row, *_) = [
        row for row in read_result_rows([ROWS]) if row.group is None and row.metrics["roc_auc"].value is not None
    ]
    other = replace(row, detector="probe:build/x/my-probe,unit=word")
    rows = [
        replace(row, data="jsonl:build/a.jsonl"),
        replace(other, data="jsonl:build/a.jsonl"),
        replace(row, data="b"),
        replace(row, data="b", metrics={"roc_auc": replace(row.metrics["roc_auc"], value=0.25)}),  # a later run
        replace(row, data="c", group="kind=x"),
        replace(row, data="d", metrics={}),
    ]
    svg = by_set(rows, "roc_auc")
    assert svg
    n = row.metrics["roc_auc"].n
    drawn = list(ElementTree.fromstring(svg).iter())
    texts = [part.text for part in drawn if part.tag.endswith("}text")]
    assert {f"a ({n})", f"b ({n})", row.detector, "probe:my-probe,unit=word"} <= set(texts)
    assert not {f"c ({n})", f"d ({n})"} & set(texts)
    points = [float(part.attrib["x"]) for part in drawn if part.tag.endswith("}use") and "fill" in part.attrib["style"]]
    assert len(points) == 3 + 2  # two on a, one on b, and those in the legend
    assert points[2] < points[0] == points[1]
    assert by_set(rows[4:], "roc_auc") is None
