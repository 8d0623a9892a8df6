from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from veridical.inference.artifact import Artifact, load_artifact
from veridical.inference.heads import LinearClassifier
from veridical.inference.local_model import LocalModel
from veridical.models.base_model import base_of, check_base, load_base
from veridical.models.load import load
from veridical.records.errors import DataError, InputError
from veridical_lab.models.saving import save_artifact
from veridical_lab.models.testing import tiny

Get = Callable[..., LocalModel]


@pytest.fixture
def artifact(tiny_model: Get) -> Artifact:
    random = np.random.default_rng(0)
    tensors = {"a": random.normal(size=(2, 3)).astype(np.float32), "b": np.arange(3, dtype=np.float32)}
    return Artifact("probe", base_of(tiny_model("llama")), {"threshold": 0.1}, tensors, {"seed": 1}, {"f1": 0.5})


def test_there_and_back(artifact: Artifact, tmp_path: Path) -> None:
    found = load_artifact(save_artifact(artifact, tmp_path / "x"), "probe")
    assert found.base == artifact.base
    assert (found.settings, found.training, found.validation) == ({"threshold": 0.1}, {"seed": 1}, {"f1": 0.5})
    assert found.tensors.keys() == artifact.tensors.keys()
    for name, array in artifact.tensors.items():
        np.testing.assert_array_equal(found.tensors[name], array)
    assert sorted(p.name for p in (tmp_path / "x").iterdir()) == ["detector.json", "weights.safetensors"]


def test_another_model_is_refused_and_the_difference_named(tiny_model: Get, tmp_path: Path) -> None:
    size = {"vocab_size": 480}  # enough for both tokenizers
    base = base_of(tiny_model("llama", **size))
    check_base(base, tiny_model("llama", **size))
    others = {
        "architecture differs .llama, here gpt2": tiny_model("gpt2"),
        "tokenizer differs": tiny_model("llama", tokenizer="metaspace", **size),
        "number of layers differs .2, here 3": load(
            tiny("llama", tmp_path / "3", num_hidden_layers=3, **size), dtype="fp32"
        ),
        "weights differs": load(tiny("llama", tmp_path / "seed", seed=1, **size), dtype="fp32"),
    }
    for match, model in others.items():
        with pytest.raises(InputError, match=match):
            check_base(base, model)


def test_the_base_model_is_found_where_it_was_or_where_it_is_said_to_be(tmp_path: Path) -> None:
    folder = tiny("llama", tmp_path / "then")
    base = base_of(load(folder, dtype="bf16", device="cpu"))
    found = load_base(base, "the probe in p", device="cpu")
    assert (found.dtype_name, base_of(found)) == ("bf16", base)
    assert load_base(base, "the probe in p", device="cpu", dtype="fp32").dtype_name == "fp32"
    folder.rename(tmp_path / "now")
    with pytest.raises(InputError, match=r"model of the probe in p is not in '.*then' any more \(say where it is"):
        load_base(base, "the probe in p", device="cpu")
    # a revision is of a hub model, and says nothing of a folder that is named instead
    for revision in (None, "abc"):
        moved = replace(base, revision=revision)
        assert load_base(moved, "the probe in p", model=tmp_path / "now", device="cpu").revision is None
    with pytest.raises(InputError, match=r"the probe in p was trained on .*: the weights differs"):
        load_base(base, "the probe in p", model=tiny("llama", tmp_path / "other", seed=1), device="cpu")


def test_a_model_is_hashed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load(tiny("llama", tmp_path), dtype="fp32")
    first = base_of(model)
    monkeypatch.setattr("veridical.inference.artifact.hashlib", None)  # so that hashing again fails
    assert base_of(model) == base_of(replace(model)) == first


def test_a_copy_in_bf16_is_the_same_model(tmp_path: Path) -> None:
    folder = tiny("llama", tmp_path)
    full, half = load(folder, dtype="fp32"), load(folder, dtype="bf16")
    check_base(base_of(full), half)
    check_base(base_of(half), full)


def test_a_tokenizer_is_the_same_whatever_it_was_last_asked(tmp_path: Path) -> None:
    model = load(tiny("bert", tmp_path / "model"), dtype="fp32", kinds=("encoder",))
    before = base_of(model)
    model.tokenizer(["one", "two words"], padding=True, truncation=True, max_length=3)
    assert base_of(model) == before


def test_weights_that_were_trained_on_are_another_model(tmp_path: Path) -> None:
    model = load(tiny("llama", tmp_path), dtype="fp32")
    base = base_of(model)
    with torch.no_grad():
        model.model.model.layers[1].mlp.down_proj.weight *= 1.02
    with pytest.raises(InputError, match="weights"):
        check_base(base, model)


@pytest.mark.parametrize("number", ["2", "9" * 5000])
def test_a_newer_format_is_refused(artifact: Artifact, tmp_path: Path, number: str) -> None:
    save_artifact(artifact, tmp_path)
    path = tmp_path / "detector.json"
    path.write_text(path.read_text().replace("detector/1", f"detector/{number}"))
    with pytest.raises(DataError, match="this Veridical reads 1") as refused:
        load_artifact(tmp_path, "probe")
    assert len(str(refused.value)) < 400


def test_a_scale_of_zero_is_refused() -> None:
    arrays = LinearClassifier.standardising(np.zeros((2, 3))).arrays()
    LinearClassifier.from_arrays(arrays, 3, Path("detector.json"))
    with pytest.raises(DataError, match="scale of the classifier is not above 0"):
        LinearClassifier.from_arrays({**arrays, "scale": np.zeros(3)}, 3, Path("detector.json"))


def test_folders_that_hold_no_artifact(artifact: Artifact, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no detector\.json"):
        load_artifact(tmp_path, "probe")
    save_artifact(artifact, tmp_path)
    with pytest.raises(DataError, match="of the kind 'probe', not 'tagger'"):
        load_artifact(tmp_path, "tagger")
    path = tmp_path / "detector.json"
    document = json.loads(path.read_text())
    for broken, match in (
        ("{", "not JSON"),
        (json.dumps({"veridical": "case/1"}), "not the description"),
        (json.dumps({**document, "base": {}}), "missing or unknown"),
        (json.dumps({k: v for k, v in document.items() if k != "settings"}), "a field is missing"),
    ):
        path.write_text(broken)
        with pytest.raises(DataError, match=match):
            load_artifact(tmp_path, "probe")


def test_weights_that_are_damaged_missing_or_of_another_run(artifact: Artifact, tmp_path: Path) -> None:
    save_artifact(artifact, tmp_path)
    weights = tmp_path / "weights.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-4])
    with pytest.raises(DataError, match="damaged"):
        load_artifact(tmp_path, "probe")
    weights.unlink()
    with pytest.raises(DataError, match="no such file"):
        load_artifact(tmp_path, "probe")
    other = replace(artifact, tensors={"a": np.zeros(1, dtype=np.float32)})
    save_artifact(other, tmp_path / "other")
    weights.write_bytes((tmp_path / "other" / "weights.safetensors").read_bytes())
    with pytest.raises(DataError, match="another run"):
        load_artifact(tmp_path, "probe")


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [("width", "768", r"base\.width: "), ("layers", 1.5, r"base\.layers: "), ("name", None, r"base\.name: ")],
)
def test_a_base_of_other_types_is_refused(
    artifact: Artifact, tmp_path: Path, field: str, value: object, problem: str
) -> None:
    folder = save_artifact(artifact, tmp_path)
    document = json.loads((folder / "detector.json").read_text())
    document["base"][field] = value
    (folder / "detector.json").write_text(json.dumps(document))
    with pytest.raises(DataError, match=problem):
        load_artifact(folder, "probe")


@pytest.mark.parametrize(
    "header",
    [
        {"a": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}},
        {"a": {"dtype": "F8_E4M3", "shape": [4], "data_offsets": [0, 4]}},
        {"a": {"dtype": "F32", "shape": [2**40, 2**40], "data_offsets": [0, 4]}},
        {name: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]} for name in "ab"},
    ],
    ids=["bf16", "f8", "size", "overlap"],
)
def test_tensors_that_cannot_be_read_are_one_line(artifact: Artifact, tmp_path: Path, header: object) -> None:
    folder = save_artifact(artifact, tmp_path)
    described = json.dumps(header).encode()
    data = struct.pack("<Q", len(described)) + described + bytes(4)
    document = json.loads((folder / "detector.json").read_text())
    document["weights"] = hashlib.sha256(data).hexdigest()
    (folder / "detector.json").write_text(json.dumps(document))
    (folder / "weights.safetensors").write_bytes(data)
    with pytest.raises(DataError, match=r"weights.safetensors: cannot be read"):
        load_artifact(folder, "probe")
