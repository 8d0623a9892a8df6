"""The pytest plugin of Veridical: the fixture `assert_grounded`.

It is a module of its own because pytest imports it in every project where Veridical is installed: it imports nothing of
Veridical until a test asks for the fixture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from veridical import Checked


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the setting `veridical_detector`."""
    parser.addini("veridical_detector", "The detector of the fixture assert_grounded", default="default")


@pytest.fixture(scope="session")
def assert_grounded(pytestconfig: pytest.Config) -> Callable[..., Checked]:
    """`veridical.testing.assert_grounded` with the detector of the setting `veridical_detector`."""
    from functools import partial

    from veridical import testing

    return partial(testing.assert_grounded, detector=pytestconfig.getini("veridical_detector"))
