"""The page in a real headless Chromium: nothing runs, nothing loads, links work, marks are there without colour."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.report.conftest import clear, hostile, map_of, silent, tower
from veridical.report.html import render_html

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(render_html([tower(), hostile(), silent(), clear()], title="A run"), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def mapped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mapped") / "report.html"
    path.write_text(render_html([tower()], maps=[[map_of(tower().case), None]]), encoding="utf-8")
    return path


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_word_lights_up_what_it_rests_on(browser: Browser, mapped: Path, scheme: str) -> None:
    opened = browser.new_page(color_scheme=scheme, viewport={"width": 1280, "height": 900})  # type: ignore[arg-type]
    said: list[str] = []
    opened.on("console", lambda message: said.append(message.text))
    opened.goto(mapped.as_uri())
    lit = "es => es.filter(e => getComputedStyle(e).outlineWidth == '2px').map(e => e.id)"
    words = opened.locator("#c1-d1-map [id^=c1-d1-map-]")
    found = map_of(tower().case)
    assert words.evaluate_all(lit) == []
    opened.locator("#c1-d1-map-r3").hover()
    best = [f"c1-d1-map-s{i}" for i in sorted((-found.values[:, 3]).argsort()[:5])]
    assert words.evaluate_all(lit) == ["c1-d1-map-r3", *best]
    assert opened.locator("#c1-d1-map-r3 .salience-from").is_visible()
    opened.mouse.move(0, 0)
    opened.locator("#c1-d1-map-r4").focus()
    assert "c1-d1-map-r4" in words.evaluate_all(lit)
    assert len(words.evaluate_all(lit)) == 6
    opened.locator("summary").first.focus()
    assert opened.evaluate(LEAST_CONTRAST, "#c1-d1-map .salience-word") >= 4.5
    assert said == []
    opened.close()


@pytest.mark.parametrize("width", [320, 1280])
def test_a_map_does_not_run_off_the_side(browser: Browser, mapped: Path, width: int) -> None:
    opened = browser.new_page(viewport={"width": width, "height": 800})
    opened.goto(mapped.as_uri())
    opened.locator("#c1-d1-map-r5").focus()
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    box = opened.locator("#c1-d1-map-r5 .salience-from").bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    opened.close()


@pytest.fixture
def page(browser: Browser, file: Path) -> Iterator[Page]:
    opened = browser.new_page(viewport={"width": 1280, "height": 700}, reduced_motion="reduce")
    opened.goto(file.as_uri())
    yield opened
    opened.close()


def test_nothing_is_reported_loaded_or_run(browser: Browser, file: Path) -> None:
    opened = browser.new_page()
    said: list[str] = []
    asked: list[str] = []
    opened.on("console", lambda message: said.append(message.text))
    opened.on("pageerror", lambda error: said.append(str(error)))
    opened.on("dialog", lambda dialog: said.append(dialog.message))
    opened.on("request", lambda request: asked.append(request.url))
    opened.goto(file.as_uri(), wait_until="networkidle")
    assert said == []
    assert [url for url in asked if not url.startswith("data:")] == [file.as_uri()]
    assert opened.title() == "A run"
    assert opened.locator("script, img, iframe").count() == 0
    opened.close()


def test_the_policy_stops_a_script_even_if_one_got_in(browser: Browser, file: Path) -> None:
    broken = file.with_name("broken.html")
    text = file.read_text(encoding="utf-8").replace("<body>", "<body><script>document.title='owned'</script>", 1)
    broken.write_text(text, encoding="utf-8")
    opened = browser.new_page()
    opened.goto(broken.as_uri())
    assert opened.title() == "A run"
    opened.close()


def test_a_click_goes_to_the_evidence_and_back(page: Page) -> None:
    word = page.locator("#c1-d1 a.m.backed")
    assert word.inner_text() == "tall"
    plain = page.locator("#c1-s1 .m.proof", has_text="tall").first.evaluate("e => getComputedStyle(e).backgroundColor")
    word.click()
    place = page.locator("#c1-s1 :target")
    assert place.inner_text() == "tall"
    assert place.evaluate("e => getComputedStyle(e).backgroundColor") != plain
    assert place.is_visible()
    place.click()
    assert page.locator("#c1-d1 :target").inner_text() == "tall"


def test_a_target_that_is_cut_is_lit_up_as_a_whole(page: Page) -> None:
    page.locator("#c1-d2 a.m.flag").first.click()
    lit = page.locator("#c1-s1 .m").evaluate_all(
        "es => es.filter(e => getComputedStyle(e).textDecorationThickness == '3px').map(e => e.textContent).join('')"
    )
    assert lit == "The tower is 330 m tall."


def test_the_keyboard_reaches_the_marks(page: Page) -> None:
    reached = []
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.className"))
    assert "m backed" in reached
    assert any(name.startswith("m flag") or name.endswith("flag") for name in reached)


def test_marks_are_told_apart_without_colour(browser: Browser, file: Path) -> None:
    opened = browser.new_page(forced_colors="active")
    opened.goto(file.as_uri())
    lines = {
        kind: opened.locator(f".text .m.{kind}:not(.flag.backed)").first.evaluate(
            "e => getComputedStyle(e).textDecorationLine + ' ' + getComputedStyle(e).textDecorationStyle"
        )
        for kind in ("flag", "omit", "unjudged", "proof")
    }
    assert all(line.startswith("underline") for line in lines.values())
    assert len(set(lines.values())) == 4
    opened.close()


def test_dark_is_dark_and_text_stands_out_in_both(browser: Browser, file: Path) -> None:
    lightness = {}
    for scheme in ("light", "dark"):
        opened = browser.new_page(color_scheme=scheme)  # type: ignore[arg-type]
        opened.goto(file.as_uri())
        colours = opened.evaluate(CONTRASTS)
        lightness[scheme] = colours["paper"]
        assert {k: round(v, 2) for k, v in colours["contrast"].items() if v < 4.5} == {}
        opened.close()
    assert lightness["light"] > 0.8
    assert lightness["dark"] < 0.05


LIGHT = """
  const parse = c => c.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
"""

# of text on what shows through its translucent background
LEAST_CONTRAST = f"""selector => {{ {LIGHT}
  const ground = e => {{ const c = parse(getComputedStyle(e).backgroundColor), a = c.length < 4 ? 1 : c[3];
    if (a == 1 || !e.parentElement) return c;
    return ground(e.parentElement).slice(0, 3).map((v, i) => a * c[i] + (1 - a) * v); }};
  return Math.min(...[...document.querySelectorAll(selector)].map(e => {{
    const a = light(parse(getComputedStyle(e).color)), b = light(ground(e));
    return (Math.max(a, b) + .05) / (Math.min(a, b) + .05); }}));
}}"""

CONTRASTS = (
    f"""() => {{ {LIGHT}"""
    + """
  const behind = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor);
    if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; };
  const contrast = {};
  for (const s of ['.text', '.m.flag', '.m.omit', '.m.unjudged', '.badge.flagged', '.badge.unjudged', '.badge.clear',
                   '.lead', '.refs a', '.sources .refs a', '.chip', '.chip.out', '.where', 'summary', '.small',
                   'ins']) {
    for (const e of [...document.querySelectorAll(s)].slice(0, 3)) {
      const a = light(parse(getComputedStyle(e).color)), b = light(behind(e));
      contrast[s] = Math.min(contrast[s] ?? 99, (Math.max(a, b) + .05) / (Math.min(a, b) + .05));
    }
  }
  return {paper: light(parse(getComputedStyle(document.body).backgroundColor)), contrast};
}"""
)


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_nothing_runs_off_the_side(browser: Browser, file: Path, width: int) -> None:
    opened = browser.new_page(viewport={"width": width, "height": 800})
    opened.goto(file.as_uri())
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    opened.close()
