"""The fixtures of `tests/models`."""

from tests.models.conftest import *  # noqa: F403
