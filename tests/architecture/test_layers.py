"""The layers of docs/ARCHITECTURE.md as a test: imports point down, the root is light, public names exist."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import veridical
from tests.processes import python
from veridical.core.errors import MissingExtraError
from veridical.detectors.default.detector import PACKAGED

SRC = Path(veridical.__file__).parent
ARCHITECTURE = Path(__file__).parents[2] / "docs" / "ARCHITECTURE.md"
LAYERS = [
    {"core"},
    {"datasets", "metrics", "documents"},
    {"models"},
    {"llm"},
    {"calibration"},
    {"detectors", "corrupt"},
    {"revise", "guard"},
    {"tasks", "checking"},
    {"bench", "batch"},
    {"probes", "training"},
    {"annotate"},
    {"report"},
    {"server", "testing", "integrations"},
    {"cli"},
    {"__main__"},
]
LAYER = {package: number for number, packages in enumerate(LAYERS) for package in packages}
HEAVY = [
    "torch",
    "transformers",
    "onnxruntime",
    "tokenizers",
    "sklearn",
    "scipy",
    "httpx",
    "fastapi",
    "numpy",
    "pydantic",
    "rich",
    "typer",
    "jinja2",
]


def modules() -> list[Path]:
    return sorted(SRC.rglob("*.py"))


def package_of(path: Path) -> str:
    return path.relative_to(SRC).with_suffix("").parts[0]


def imported(path: Path) -> set[str]:
    """The packages of Veridical that a module imports, anywhere in it."""
    packages: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        packages |= {name.split(".")[1] for name in names if name.startswith("veridical.")}
    return packages


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(SRC)))
def test_imports_point_down(path: Path) -> None:
    package = package_of(path)
    if package == "__init__":
        assert imported(path) <= {"core", "checking"}
        return
    assert package in LAYER, f"{package} has no layer: give it one in docs/ARCHITECTURE.md and here"
    wrong = {p for p in imported(path) & LAYER.keys() if p != package and LAYER[p] >= LAYER[package]}
    assert not wrong, f"{package} (layer {LAYER[package]}) imports {wrong}"


def test_the_documented_table_is_this_one() -> None:
    rows = re.findall(r"^\| \d+ \| ([`\w ]+) \|", ARCHITECTURE.read_text("utf-8"), re.MULTILINE)
    assert [set(re.findall(r"`(\w+)`", row)) for row in rows] == LAYERS


def loaded_by(code: str) -> set[str]:
    listing = python("-c", f"{code}\nimport sys; print(*sys.modules)", text=True, check=True)
    return set(listing.stdout.split())


def test_the_root_is_light() -> None:
    assert not loaded_by("import veridical") & set(HEAVY)


def test_core_loads_no_heavy_library_except_for_json() -> None:
    names = [m.name for m in pkgutil.iter_modules([str(SRC / "core")]) if m.name != "serialization"]
    code = "\n".join(f"import veridical.core.{name}" for name in names)
    assert not loaded_by(code) & set(HEAVY)


@pytest.mark.skipif(not PACKAGED.is_dir(), reason="the default detector is not in this checkout")
def test_the_default_check_needs_no_heavy_library() -> None:
    loaded = loaded_by("import veridical; veridical.check('a cat', ['a dog'])")
    assert not loaded & {"torch", "transformers", "sklearn", "scipy", "httpx", "fastapi", "matplotlib"}


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(SRC)))
def test_public_names_exist(path: Path) -> None:
    name = ".".join(["veridical", *path.relative_to(SRC).with_suffix("").parts]).removesuffix(".__init__")
    if name == "veridical.__main__":
        return
    try:
        module = importlib.import_module(name)
    except MissingExtraError as missing:  # an adapter to a framework that is not in the development environment
        pytest.skip(str(missing))
    public = getattr(module, "__all__", [])
    missing = [n for n in public if not hasattr(module, n)]
    assert not missing
    assert len(public) == len(set(public))


def test_every_library_module_declares_what_is_public() -> None:
    undeclared = [
        str(p.relative_to(SRC))
        for p in modules()
        if package_of(p) not in ("cli", "__main__")
        and p.name != "__init__.py"
        and "__all__" not in p.read_text("utf-8")
    ]
    assert not undeclared


def test_no_module_is_a_drawer_for_odds_and_ends() -> None:
    assert not [p for p in modules() if p.stem in ("utils", "util", "helpers", "common", "misc")]
