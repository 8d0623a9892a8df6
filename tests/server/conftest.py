"""What the tests of the service share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.processes import LIMIT
from tests.server.page_browser import Opened
from veridical.server import desk

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep each check, however slow the machine is."""
    monkeypatch.setattr(desk, "_KEEP", LIMIT)


@pytest.fixture
def opened(browser: Browser, url: str) -> Iterator[Opened]:
    one = Opened(browser, url)
    yield one
    one.context.close()
