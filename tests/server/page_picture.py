"""The picture of docs/page.md: `python -m tests.server.page_picture` (needs the e2e extra and a chromium binary)."""

from __future__ import annotations

from pathlib import Path

from tests.browsers import chromium
from tests.server.page_service import serving
from veridical.server.settings import ServerSettings

PICTURE = Path(__file__).parents[2] / "docs" / "page.png"


def main() -> None:
    with serving(ServerSettings()) as url, chromium() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 860}, reduced_motion="reduce")
        page.goto(url)
        page.wait_for_selector(".detector")
        page.locator(".example").first.click()
        page.wait_for_selector("#result:not([hidden])")
        page.locator("a.mark.flag").first.click()
        page.mouse.move(0, 0)
        page.screenshot(path=PICTURE)


if __name__ == "__main__":
    main()
