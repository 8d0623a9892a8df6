"""The fixtures of `tests/cli`."""

from collections.abc import Callable

from tests.cli.conftest import *  # noqa: F403

Command = Callable[..., tuple[int, str, str]]  # the fixture `command`
