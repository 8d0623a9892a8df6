"""Import libraries that report their use to others, with the reporting switched off.

Each reads its switch when it is imported, or starts to report then; later is too late. This is the one place where they
are imported first: later imports of their submodules need nothing.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

__all__ = ["SWITCHES", "import_without_telemetry"]

_HUGGING_FACE = ("HF_HUB_DISABLE_TELEMETRY", "1")
SWITCHES = {
    "datasets": _HUGGING_FACE,
    "onnxruntime": ("ORT_DISABLE_TELEMETRY", "1"),
    "ray": ("RAY_USAGE_STATS_ENABLED", "0"),
    "transformers": _HUGGING_FACE,
}
"""By library, the environment variable that switches its telemetry off, and the value for it."""


def import_without_telemetry(library: str) -> Any:
    """Import one of `SWITCHES` with its telemetry off, unless the user has set its environment variable.

    Raises:
        ImportError: It is not installed.
    """
    name, value = SWITCHES[library]
    os.environ.setdefault(name, value)
    return import_module(library)
