"""What the tests of the history share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from veridical.history.store import History


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "history.db"


@pytest.fixture
def history(place: Path) -> Iterator[History]:
    with closing(History(place)) as history:
        yield history
