"""The shape of the code: short functions, few parameters, no import cycle, no giant layer."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import veridical
from tests.architecture.test_layers import ARCHITECTURE, LAYER

SRC = Path(veridical.__file__).parent
MAX_P90_LINES = 30
MAX_LINES = 80
MAX_PARAMETERS = 6
MAX_FUNCTIONS_OVER_PARAMETERS = 20
MAX_SHARE_OF_A_LAYER = 0.40

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def trees() -> dict[str, tuple[str, ast.Module]]:
    """Module name -> (text, syntax tree)."""
    parsed = {}
    for path in sorted(SRC.rglob("*.py")):
        name = ".".join(["veridical", *path.relative_to(SRC).with_suffix("").parts]).removesuffix(".__init__")
        text = path.read_text("utf-8")
        parsed[name] = (text, ast.parse(text))
    return parsed


def functions() -> Iterator[tuple[str, Function]]:
    for module, (_, tree) in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, Function):
                yield f"{module}:{node.lineno} {node.name}", node


def lines_of(function: Function) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def parameters_of(function: Function) -> int:
    arguments = function.args
    first = [*arguments.posonlyargs, *arguments.args][:1]
    bound = bool(first) and first[0].arg in ("self", "cls")
    return len(arguments.posonlyargs) + len(arguments.args) + len(arguments.kwonlyargs) - bound


def imported_modules(module: str, tree: ast.Module) -> set[str]:
    """The modules of the package that a module imports anywhere in it, except for type checking only."""
    targets: set[str] = set()
    nodes: list[ast.AST] = [tree]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            nodes.extend(node.orelse)
            continue
        nodes.extend(ast.iter_child_nodes(node))
        if isinstance(node, ast.Import):
            targets |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            targets |= {name if name in trees() else node.module for name in inner}
    return (targets & trees().keys()) - {module}


def test_functions_are_short() -> None:
    lengths = sorted((lines_of(function), name) for name, function in functions())
    assert not [name for length, name in lengths if length > MAX_LINES]
    assert lengths[int(len(lengths) * 0.9)][0] <= MAX_P90_LINES


def test_few_functions_have_many_parameters() -> None:
    many = [name for name, function in functions() if parameters_of(function) > MAX_PARAMETERS]
    assert len(many) <= MAX_FUNCTIONS_OVER_PARAMETERS, many


def test_there_is_no_import_cycle() -> None:
    """A package's `__init__` counts as a module of its own: imported only where a name in it is."""
    graph = {module: imported_modules(module, tree) for module, (_, tree) in trees().items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(" -> ".join(error.args[1])) from None


def test_no_layer_holds_most_of_the_code() -> None:
    share, layer = max((share, layer) for layer, share in shares().items())
    assert share < MAX_SHARE_OF_A_LAYER, f"layer {layer} has {share:.0%} of all lines"


def test_documented_shares_are_about_right() -> None:
    rows = re.findall(r"^\| (\d+) \|[^|]*\| (\d+) % \|", ARCHITECTURE.read_text("utf-8"), re.MULTILINE)
    assert len(rows) == len(set(LAYER.values()))
    now = shares()
    stale = {layer: f"{now[int(layer)]:.0%}" for layer, share in rows if abs(now[int(layer)] - int(share) / 100) > 0.03}
    assert not stale, f"docs/ARCHITECTURE.md, share of lines by layer: {stale}"


def shares() -> dict[int, float]:
    """Layer -> its share of all lines; -1 is the root module."""
    lines: Counter[int] = Counter()
    for module, (text, _) in trees().items():
        package = [*module.split("."), "__init__"][1]
        lines[LAYER.get(package, -1)] += text.count("\n")
    return {layer: count / lines.total() for layer, count in lines.items()}
