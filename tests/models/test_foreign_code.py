"""Code in the folder of a model never runs, even if the user would answer "y" to the question of transformers."""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.architecture.test_promises import SOURCES
from veridical.inference.fast_tokenizer import FastTokenizer
from veridical.inference.onnx_runtime import OnnxExport, description_file, load_onnx
from veridical.models.load import load
from veridical.records.errors import InputError
from veridical_lab.models.testing import tiny_tokenizer


def foreign(folder: Path) -> Path:
    """A folder whose configuration and tokenizer name code of its own."""
    folder.mkdir()
    auto_map = {"AutoConfig": "own.Config", "AutoTokenizer": ["own.Tokenizer", None], "AutoModel": "own.Model"}
    for name in ("config.json", "tokenizer_config.json"):
        content = {"model_type": "own", "tokenizer_class": "Own", "auto_map": auto_map}
        (folder / name).write_text(json.dumps(content), "utf-8")
    (folder / "own.py").write_text(f"open({str(folder / 'ran')!r}, 'w')", "utf-8")
    (folder / "model.safetensors").write_bytes(b"")
    return folder


def plain(folder: Path) -> None:
    load(foreign(folder / "own"), kinds=("encoder",))


def hhem(folder: Path) -> None:
    foundation = foreign(folder / "own")
    config = {"architectures": ["HHEMv2ForSequenceClassification"], "foundation": f"a/{foundation.name}"}
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    (folder / "model.safetensors").write_bytes(b"")
    load(folder, kinds=("classifier",))


def onnx(folder: Path) -> None:
    (folder / "model.int8.onnx").write_bytes(b"weights")
    about = OnnxExport("int8", hashlib.sha256(b"weights").hexdigest(), "", 7, 0.0, 1.0)
    description_file(folder, "int8").write_text(json.dumps(asdict(about)), "utf-8")
    load_onnx(folder, foreign(folder / "own"), None, "int8")


def chat_template(folder: Path) -> None:
    tiny_tokenizer().save_pretrained(folder / "plain")
    (foreign(folder / "own") / "tokenizer.json").write_bytes((folder / "plain" / "tokenizer.json").read_bytes())
    FastTokenizer(folder / "own").apply_chat_template([{"role": "user", "content": "a"}])


@pytest.mark.parametrize("door", [plain, hhem, onnx, chat_template])
def test_code_in_a_folder_does_not_run(
    door: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("builtins.input", lambda question: "y")
    with pytest.raises((InputError, ValueError)):
        door(tmp_path)
    assert not (tmp_path / "own" / "ran").exists()


def test_every_call_that_reads_a_folder_refuses_code() -> None:
    calls = 0
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                name, options = node.func.attr, {keyword.arg for keyword in node.keywords}
                if name == "from_pretrained" and not options & {"trust_remote_code", None}:  # None: **options
                    pytest.fail(f"{path}:{node.lineno}: name trust_remote_code")
                calls += name == "from_pretrained"
    assert calls > 5
