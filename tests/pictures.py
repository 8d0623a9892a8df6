"""The pictures of the docs: `python -m tests.pictures` (needs the e2e extra and a chromium binary).

The terminal and the report show the answers of docs/tutorial.md, the page its first example.
"""

from __future__ import annotations

import json
import os
import re
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.text import Text

from tests.browsers import chromium
from tests.processes import python
from tests.server.page_service import serving
from veridical.server.settings import ServerSettings

DOCS = Path(__file__).parents[1] / "docs"
COMMAND = ("check", "cases.jsonl", "--explain", "--html", "report.html")


def main() -> None:
    with TemporaryDirectory() as folder, serving(ServerSettings()) as url, chromium() as browser:
        shown = check_tutorial(Path(folder))
        (DOCS / "tutorial-terminal.svg").write_text(terminal_svg(shown), encoding="utf-8")
        report = browser.new_page(viewport={"width": 1100, "height": 730}, reduced_motion="reduce")
        report.goto((Path(folder) / "report.html").as_uri())
        report.screenshot(path=DOCS / "tutorial-report.png")

        page = browser.new_page(viewport={"width": 1280, "height": 860}, reduced_motion="reduce")
        page.goto(url)
        page.wait_for_selector(".detector")
        page.locator(".example").first.click()
        page.wait_for_selector("#result:not([hidden])")
        page.locator("a.mark.flag").first.click()
        page.mouse.move(0, 0)
        page.screenshot(path=DOCS / "page.png")


def check_tutorial(folder: Path) -> str:
    """Check the answers of the tutorial in `folder`; return what the terminal shows, with colours."""
    text = (DOCS / "tutorial.md").read_text("utf-8")
    (app,) = re.findall(r'^```python title="app.py"\n(.*?)^```$', text, re.MULTILINE | re.DOTALL)
    names: dict[str, object] = {}
    exec(app, names)
    answers, retrieve = names["ANSWERS"], names["retrieve"]
    assert isinstance(answers, dict)
    assert callable(retrieve)
    cases = [{"id": q, "question": q, "response": a, "sources": [retrieve(q)]} for q, a in answers.items()]
    (folder / "cases.jsonl").write_text("".join(json.dumps(case) + "\n" for case in cases), encoding="utf-8")
    colours = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": "100", "PYTHONIOENCODING": "utf-8"}
    return python("-m", "veridical", *COMMAND, cwd=folder, env=colours, encoding="utf-8").stdout


def terminal_svg(shown: str) -> str:
    console = Console(record=True, width=100, file=StringIO())
    console.print(Text("$ veridical " + " ".join(COMMAND)))
    console.print(Text.from_ansi(shown))
    return console.export_svg(title="veridical")


if __name__ == "__main__":
    main()
