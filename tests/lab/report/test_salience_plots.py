"""Pictures of a salience map hold its words and values, in any script and size, and nothing that acts."""

import re
import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from tests.report.conftest import map_of
from tests.report.test_html import Page
from veridical.records.errors import InputError, MissingExtraError
from veridical.records.salience_map import SalienceMap
from veridical.records.spans import Span
from veridical.records.types import Case, Source
from veridical.report.pages import render
from veridical.report.salience import map_view, salience_page, salience_style
from veridical_lab.report.salience_plots import salience_map_svg, word_bars_svg

CASE = Case("1", "Cats sleep & purr.", (Source("a", "Cats doze. Dogs bark.", "pro"), Source("<b>", "It rains.")))


def texts(svg: str) -> list[str]:
    return ["".join(node.itertext()) for node in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


@pytest.fixture
def no_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in sys.modules if n.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)


def test_a_map_needs_values_of_its_shape() -> None:
    found = map_of(CASE)
    with pytest.raises(InputError, match=r"\(6, 3\)"):
        SalienceMap(found.source_words, found.response_words, found.values.T, found.contribution, found.attribution)


def test_the_strongest_rows_stay_in_order() -> None:
    found = map_of(CASE).strongest(2, 2)
    peaks = map_of(CASE).values[:, :2].max(axis=1)
    best = sorted(np.argsort(-peaks)[:2])
    assert [w.text for w in found.source_words] == [map_of(CASE).source_words[i].text for i in best]
    assert found.values.shape == (2, 2)


def test_every_word_is_in_the_svg() -> None:
    shown = texts(salience_map_svg(map_of(CASE)))
    assert {"Cats", "doze", "Dogs", "bark", "It", "rains", "sleep", "purr"} <= set(shown)
    assert shown.count("Cats") == 2


def test_the_same_map_gives_the_same_svg() -> None:
    assert salience_map_svg(map_of(CASE)) == salience_map_svg(map_of(CASE))
    assert salience_map_svg(map_of(CASE)) != salience_map_svg(map_of(CASE, 1))


def test_flagged_words_have_a_colour_of_their_own() -> None:
    for draw in (salience_map_svg, word_bars_svg):
        assert "#d55e00" not in draw(map_of(CASE))
        assert "#d55e00" in draw(map_of(CASE), flagged=[Span(5, 7)])


def test_bars_are_as_long_as_the_scores() -> None:
    found = map_of(CASE)
    shown = texts(word_bars_svg(found))
    assert {"contribution of source words", "attribution of response words", "sleep", "bark"} <= set(shown)


def test_a_large_map_is_cut_and_says_so() -> None:
    case = Case("1", "cat " * 80, (Source("a", "dog " * 200),))
    shown = texts(salience_map_svg(map_of(case)))
    assert "60 of 200 source words, 60 of 80 response words" in shown
    assert shown.count("dog") == 60


def test_an_empty_map_is_refused() -> None:
    with pytest.raises(InputError, match="empty"):
        salience_map_svg(map_of(Case("1", "Cats.", (Source("a", ""),))))


def test_any_script_and_sign() -> None:
    case = Case("1", "$x$ कुत्ता 你好 مرحبا <&>", (Source("a", "नमस्ते 世界 a_b^2 $y$ " + "x" * 200),))
    assert "你" in texts(salience_map_svg(map_of(case)))


def test_without_matplotlib_the_line_to_run_is_said(no_plots: None) -> None:
    with pytest.raises(MissingExtraError, match=r"veridical-lab\[plots\]"):
        salience_map_svg(map_of(CASE))


def read(html: str) -> str:
    return "".join(Page(html).said)


def test_the_html_needs_no_matplotlib_and_holds_every_text(no_plots: None) -> None:
    html = render("salience.html", map=map_view(map_of(CASE), CASE, flagged=[Span(5, 10)]))
    text = re.sub(r"attribution [\d.]+%.*?\(([^)]*)\)(?:\n[\d.]+% .*?\([^)]*\))*", "", read(html), flags=re.DOTALL)
    assert "Cats sleep & purr." in text
    assert "Cats doze. Dogs bark." in text
    assert "<b>" in text
    assert html.count("salience-flagged") == 1


def test_the_html_names_what_a_word_rests_on(no_plots: None) -> None:
    found = map_of(CASE)
    best = found.source_words[int(found.values[:, 1].argmax())]
    html = render("salience.html", map=map_view(found, CASE))
    after = read(html.split("sleep", 1)[1].split("</span>", 1)[0] + "</span>")
    assert after.splitlines()[0] == f"attribution {found.attribution[1]:.1%}"
    assert after.splitlines()[1] == f"{found.values[:, 1].max():.1%} {best.text} ({best.source_id})"


def test_only_sentences_with_weight_are_shown() -> None:
    case = Case("1", "Cats sleep.", (Source("a", " ".join(f"Fact{i} is here." for i in range(500))),))
    found = map_of(case)
    html = render("salience.html", map=map_view(found, case, sentence_limit=5))
    assert "5 of 500 sentences" in html
    assert "… " in html
    strongest = found.source_words[int(found.contribution.argmax())].text
    assert strongest in read(html)
    assert len(html) < 20_000


def test_what_comes_from_outside_stays_text() -> None:
    bad = "<script>x</script>\x1b\u202e"
    case = Case("1", f"cats {bad}", (Source(bad, f"cats {bad}", bad),))
    page = salience_page(map_of(case), case, title=bad)
    assert "<script" not in page
    assert "\x1b" not in page
    assert "\u202e" not in page
    read(page)


def test_the_style_has_every_shade_of_the_page() -> None:
    page = salience_page(map_of(CASE), CASE)
    style = salience_style()
    assert style in page
    used = set(re.findall(r"salience-\d", page.partition("</style>")[2])) - {"salience-0"}
    assert used
    assert all(f".{name} {{" in style for name in used)
