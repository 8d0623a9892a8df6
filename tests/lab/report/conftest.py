"""The fixtures of `tests/report`."""

from tests.report.conftest import *  # noqa: F403
