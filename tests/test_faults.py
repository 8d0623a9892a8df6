"""The injected faults can be imported and started; `make faults` runs them."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

pytest.importorskip("resource")
from tests.faults import growth
from tests.faults.__main__ import main


@pytest.mark.parametrize("path", growth.PATHS)
def test_each_path_whose_growth_is_measured_runs(path: Callable[[int], Callable[[], object]]) -> None:
    path(2)()


def test_some_faults_do_not_replace_the_rows_of_all(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["faults", "--only", "growth", "--write"])
    with pytest.raises(SystemExit) as error:
        main()
    assert error.value.code == 2
    assert "leave --only out" in capsys.readouterr().err
