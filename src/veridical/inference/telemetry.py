"""Import libraries that would send usage reports, with the reports switched off.

Each library reads its environment variable when it is imported, so the variable must be set before. For the first
import of such a library, use `import_without_telemetry`. After that, you can import its submodules as usual.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

_HUGGING_FACE = ("HF_HUB_DISABLE_TELEMETRY", "1")
SWITCHES = {
    "datasets": _HUGGING_FACE,
    "huggingface_hub": _HUGGING_FACE,
    "onnxruntime": ("ORT_DISABLE_TELEMETRY", "1"),
    "ray": ("RAY_USAGE_STATS_ENABLED", "0"),
    "transformers": _HUGGING_FACE,
}
"""For each library, the environment variable that switches its telemetry off, and the value to set."""


def import_without_telemetry(library: str) -> Any:
    """Import one of the libraries in `SWITCHES` with its telemetry off.

    If the user has already set the environment variable of the library, it is not changed.

    Raises:
        ImportError: The library is not installed.
    """
    name, value = SWITCHES[library]
    os.environ.setdefault(name, value)
    return import_module(library)
