"""What the tests of the page share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.server.page_browser import Opened

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture
def opened(browser: Browser, url: str) -> Iterator[Opened]:
    one = Opened(browser, url)
    yield one
    one.context.close()
