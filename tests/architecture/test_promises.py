"""What the project says of itself holds: versions agree, licences are there, dangerous calls are not."""

from __future__ import annotations

import ast
import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import veridical
import veridical_lab
from veridical.detectors.default.detector import PACKAGED

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
SOURCES = [path for folder in ("src", "lab/src") for path in sorted((ROOT / folder).rglob("*.py"))]


def test_the_changelog_knows_this_version() -> None:
    assert f"## {veridical.__version__}" in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_both_packages_have_one_version() -> None:
    assert veridical_lab.__version__ == veridical.__version__


def test_the_licence_is_there() -> None:
    assert PROJECT["project"]["license"] == "Apache-2.0"
    assert "Apache License" in (ROOT / "LICENSE").read_text("utf-8")


def test_the_base_install_has_no_torch() -> None:
    base = " ".join(PROJECT["project"]["dependencies"])
    assert not re.search(r"torch|transformers|scikit|scipy|fastapi|httpx", base)


def test_the_default_detector_is_in_the_wheel_and_in_the_sdist() -> None:
    build = PROJECT["tool"]["hatch"]["build"]
    folder = PACKAGED.relative_to(ROOT)
    included = {"wheel": build["targets"]["wheel"]["packages"], "sdist": build["targets"]["sdist"]["include"]}
    for target, folders in included.items():
        assert any(folder.is_relative_to(each) for each in folders), target
        assert not build["targets"][target].get("exclude"), target
    assert not build.get("exclude")
    # named as artifacts: in both, whatever .gitignore says
    example = folder / "encoder" / "onnx" / "model.int8.onnx.1"
    assert any(fnmatch(example.as_posix(), pattern) for pattern in build["artifacts"])


def test_the_default_detector_is_small_and_has_no_weights_for_torch() -> None:
    files = [path for path in PACKAGED.rglob("*") if path.is_file()]
    # 82 MB for English, 47 MB for other languages
    assert sum(path.stat().st_size for path in files) < 135e6
    assert not [path for path in files if path.name in ("model.safetensors", "model.onnx", "pytorch_model.bin")]


DANGER = r"\bimport pickle\b|(?<![.\w])eval\(|(?<![.\w])exec\(|torch\.load\(|trust_remote_code=True"


def test_no_pickle_no_eval_no_remote_code() -> None:
    for path in SOURCES:
        assert not re.search(DANGER, path.read_text("utf-8")), path


def test_files_in_folders_follow_no_links() -> None:
    writers = {"write_whole", "replacing", "append_lines", "recover"}
    for path in SOURCES:
        for call in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(call, ast.Call) and ast.unparse(call.func) in writers and isinstance(call.args[0], ast.BinOp):
                assert "follow_link" in {word.arg for word in call.keywords}, f"{path}:{call.lineno}"
