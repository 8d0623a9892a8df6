"""What the tests of the service share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from starlette.testclient import TestClient

from tests.processes import LIMIT
from tests.server.page_browser import Opened
from tests.server.services import client_of
from veridical.server import desk
from veridical.server.settings import HistorySettings

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep each check, however slow the machine is."""
    monkeypatch.setattr(desk, "_KEEP", LIMIT)


@pytest.fixture
def place(tmp_path: Path) -> HistorySettings:
    return HistorySettings(place=str(tmp_path / "history.db"))


@pytest.fixture
def client(place: HistorySettings) -> Iterator[TestClient]:
    with client_of("overlap", history=place) as client:
        yield client


@pytest.fixture
def opened(browser: Browser, url: str) -> Iterator[Opened]:
    one = Opened(browser, url)
    yield one
    one.context.close()
