"""What the project says of itself holds: versions agree, licences are there, dangerous calls are not."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import veridical

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
SOURCES = sorted((ROOT / "src").rglob("*.py"))


def test_the_changelog_knows_this_version() -> None:
    assert f"## {veridical.__version__}" in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_the_licence_is_there() -> None:
    assert PROJECT["project"]["license"] == "Apache-2.0"
    assert "Apache License" in (ROOT / "LICENSE").read_text("utf-8")


def test_the_base_install_has_no_torch() -> None:
    base = " ".join(PROJECT["project"]["dependencies"])
    assert not re.search(r"torch|transformers|scikit|scipy|fastapi|httpx", base)


DANGER = r"\bimport pickle\b|(?<![.\w])eval\(|(?<![.\w])exec\(|torch\.load\(|trust_remote_code=True"


def test_no_pickle_no_eval_no_remote_code() -> None:
    for path in SOURCES:
        assert not re.search(DANGER, path.read_text("utf-8")), path
