"""The documentation builds as a site without warnings, and every page of `docs/` is in its navigation."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from tests.processes import python

ROOT = Path(__file__).parents[1]
CONFIG = (ROOT / "zensical.toml").read_text("utf-8")


def test_every_page_is_in_the_navigation() -> None:
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    assert set(re.findall(r'"([\w/.-]+\.md)"', CONFIG)) == pages


def test_the_site_builds_without_warnings(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    config = CONFIG.replace('site_dir = "out/site"', 'site_dir = "site"')
    (tmp_path / "zensical.toml").write_text(config, encoding="utf-8")
    done = python("-m", "zensical", "build", "--strict", cwd=tmp_path, encoding="utf-8")
    assert done.returncode == 0, done.stdout + done.stderr
    page = (tmp_path / "site" / "python" / "index.html").read_text("utf-8")
    assert "Find the unsupported parts of a response" in page
    assert (tmp_path / "site" / "tutorial" / "index.html").is_file()
