"""The page of a service as a test opens it in the browser."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Dialog, Locator, Page

RESPONSE = "It is wrong here. 😀 And wrongly so there, which is doubtful."
SOURCE = "Nobody saw it. What is right is on the right."


class Opened:
    """A page of the service; every message, error and foreign request is kept."""

    def __init__(self, browser: Browser, url: str, detectors: tuple[str, ...] = ("marker",), **options: Any) -> None:
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
        self.context.set_default_timeout(30_000)
        self.page: Page = self.context.new_page()
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.problems.append(message.text))
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("dialog", self.dialog)
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(url)
        self.page.wait_for_selector(".detector")
        for box in self.page.locator("input[name=detector]").all():
            box.set_checked(box.input_value() in detectors)

    def dialog(self, dialog: Dialog) -> None:
        self.problems.append(dialog.message)
        dialog.dismiss()

    def check(self, response: str = RESPONSE, source: str = SOURCE, must_cover: str = "") -> Page:
        """Type the texts, press the button, and wait for the result."""
        self.page.fill("#response", response)
        if source:
            self.page.locator(".card textarea").first.fill(source)
        if must_cover:
            self.page.click("#add-source")
            card = self.page.locator(".card").last
            card.locator("textarea").fill(must_cover)
            card.get_by_label("must be covered").check()
        self.page.click("#check")
        self.page.wait_for_selector("#result:not([hidden])")
        return self.page

    def marked(self, selector: str) -> list[str]:
        """The texts of elements without what only screen readers get."""
        return [own_text(element) for element in self.page.locator(selector).all()]


def own_text(element: Locator) -> str:
    words: str = element.evaluate("e => [...e.childNodes].filter(n => n.nodeType == 3).map(n => n.data).join('')")
    return words


def until(page: Page, script: str, argument: Any = None) -> None:
    """Wait until `script` is true; the page's own policy keeps Playwright from waiting inside it."""
    end = time.monotonic() + 30
    while not page.evaluate(script, argument):
        assert time.monotonic() < end, script
        page.wait_for_timeout(20)


def axe_violations(page: Page) -> list[str]:
    """What axe-core finds; the test is skipped where it is not installed."""
    axe = os.environ.get("AXE")
    if not axe:
        pytest.skip("AXE does not name axe.min.js of axe-core (make browser fetches it)")
    if not page.evaluate("'axe' in window"):
        page.evaluate(Path(axe).read_text("utf-8"))
    results = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [f"{v['id']}: {n['html']} {n['failureSummary']}" for v in results["violations"] for n in v["nodes"]]


def file_of(name: str, *documents: Any) -> dict[str, Any]:
    text = "\n".join(each if isinstance(each, str) else json.dumps(each) for each in documents)
    return {"name": name, "mimeType": "application/json", "buffer": text.encode()}
