"""The layers of docs/ARCHITECTURE.md: imports point down and in no circle, the root is light, public names exist."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import veridical
import veridical_lab
from tests.processes import python
from veridical.detectors.default.detector import PACKAGED
from veridical.records.errors import MissingExtraError

SRC = Path(veridical.__file__).parent
LAB = Path(veridical_lab.__file__).parent
ARCHITECTURE = Path(__file__).parents[2] / "docs" / "ARCHITECTURE.md"
LAYERS = [
    {"records"},
    {"text"},
    {"io"},
    {"inference", "metrics", "datasets"},
    {"models"},
    {"llm"},
    {"detectors"},
    {"workflows"},
    {"report", "history"},
    {"server", "testing", "integrations"},
    {"cli"},
    {"__main__"},
]
LAB_LAYERS = [
    {"datasets", "metrics"},
    {"models"},
    {"detectors", "corrupt"},
    {"revise", "guard"},
    {"tasks"},
    {"bench"},
    {"probes", "training"},
    {"annotate", "adapt"},
    {"reproduce"},
    {"report"},
    {"cli"},
]
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
    "sqlalchemy",
]


def name_of(path: Path) -> str:
    root = SRC if path.is_relative_to(SRC) else LAB
    return ".".join([root.name, *path.relative_to(root).with_suffix("").parts]).removesuffix(".__init__")


MODULES = {name_of(path): path for root in (SRC, LAB) for path in sorted(root.rglob("*.py"))}


def package_of(module: str) -> str:
    return [*module.split("."), "__init__"][1]


def imported_modules(module: str, *, for_types: bool) -> set[str]:
    """The modules of both packages that a module imports anywhere in it; `for_types`: those for type checking, too."""
    targets: set[str] = set()
    nodes: list[ast.AST] = [ast.parse(MODULES[module].read_text(encoding="utf-8"))]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test) and not for_types:
            nodes.extend(node.orelse)
            continue
        nodes.extend(ast.iter_child_nodes(node))
        if isinstance(node, ast.Import):
            targets |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            targets |= {name if name in MODULES else node.module for name in inner}
    return (targets & MODULES.keys()) - {module}


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_down(module: str) -> None:
    root, package = module.split(".")[0], package_of(module)
    layers = LAYERS if root == "veridical" else LAB_LAYERS
    layer = {name: number for number, names in enumerate(layers) for name in names}
    imported = imported_modules(module, for_types=True)
    if root == "veridical":
        assert not [name for name in imported if name.startswith("veridical_lab")], "the product imports its laboratory"
    own = {package_of(name) for name in imported if name.split(".")[0] == root}
    if package == "__init__":
        assert own <= {"records", "workflows"}
        return
    assert package in layer, f"{package} has no layer: give it one in docs/ARCHITECTURE.md and here"
    wrong = {name for name in own & layer.keys() if name != package and layer[name] >= layer[package]}
    assert not wrong, f"{package} (layer {layer[package]}) imports {wrong}"


def test_no_string_names_an_upper_package() -> None:
    """Lower packages load upper ones by registered names only, and the root registers those."""
    layer = {name: number for number, names in enumerate(LAYERS) for name in names}
    upward = [
        f"{module} names {node.value}"
        for module, path in MODULES.items()
        if module.startswith("veridical.")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and re.fullmatch(r"veridical(\.\w+)+(:\w+)?", str(node.value))
        if layer.get(package_of(str(node.value).partition(":")[0]), -1) > layer[package_of(module)]
    ]
    assert not upward


def test_there_is_no_import_cycle() -> None:
    """A package's `__init__` counts as a module of its own: imported only where a name in it is."""
    graph = {module: imported_modules(module, for_types=False) for module in MODULES}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(" -> ".join(error.args[1])) from None


def test_the_documented_tables_are_these() -> None:
    rows = re.findall(r"^\| \d+ \| ([`\w ]+) \|", ARCHITECTURE.read_text("utf-8"), re.MULTILINE)
    assert [set(re.findall(r"`(\w+)`", row)) for row in rows] == LAYERS + LAB_LAYERS


def loaded_by(code: str) -> set[str]:
    listing = python("-c", f"{code}\nimport sys; print(*sys.modules)", text=True, check=True)
    return set(listing.stdout.split())


def test_the_root_is_light() -> None:
    assert not loaded_by("import veridical") & set(HEAVY)


def test_records_and_text_load_no_heavy_library() -> None:
    names = [f"{root}.{m.name}" for root in ("records", "text") for m in pkgutil.iter_modules([str(SRC / root)])]
    code = "\n".join(f"import veridical.{name}" for name in names if name != "text.lexical")
    assert not loaded_by(code) & set(HEAVY)


def test_the_version_is_printed_without_other_heavy_libraries_than_typer() -> None:
    loaded = loaded_by("from veridical.cli import main; assert main(['--version']) == 0")
    assert loaded & set(HEAVY) == {"typer"}


@pytest.mark.skipif(not PACKAGED.is_dir(), reason="the default detector is not in this checkout")
def test_the_default_check_needs_no_heavy_library() -> None:
    loaded = loaded_by("import veridical; veridical.check('a cat', ['a dog'])")
    assert not loaded & {"torch", "transformers", "sklearn", "scipy", "httpx", "fastapi", "matplotlib"}


@pytest.mark.parametrize("name", [name for name in MODULES if name != "veridical.__main__"])
def test_public_names_exist(name: str) -> None:
    try:
        module = importlib.import_module(name)
    except MissingExtraError as missing:  # an adapter to a framework that is not in the development environment
        pytest.skip(str(missing))
    public = getattr(module, "__all__", [])
    missing = [n for n in public if not hasattr(module, n)]
    assert not missing
    assert len(public) == len(set(public))


def test_no_module_is_a_drawer_for_odds_and_ends() -> None:
    assert not [name for name in MODULES if name.split(".")[-1] in ("utils", "util", "helpers", "common", "misc")]


def test_the_walk_names_files_and_functions_that_exist() -> None:
    walk = ARCHITECTURE.read_text("utf-8").partition("## The walk")[2].partition("\n## ")[0]
    named = re.findall(r"`([\w/]+\.py)(?::([\w.]+))?`", walk)
    assert len({file for file, _ in named}) > 15
    for file, name in named:
        text = (SRC / file).read_text("utf-8")
        for part in filter(None, name.split(".")):
            assert re.search(rf"^ *(?:async )?(?:def|class) {part}\b", text, re.MULTILINE), f"{file} has no {name}"
