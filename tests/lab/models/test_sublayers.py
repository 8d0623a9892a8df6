from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from veridical.inference.local_model import READERS, LocalModel
from veridical.models.load import load
from veridical.records.errors import InputError
from veridical_lab.models.sublayers import (
    SUBLAYER_LAYOUTS,
    SublayerLayout,
    capture_sublayers,
    check_layout,
    first_layers,
    sublayer_count,
)
from veridical_lab.models.testing import ARCHITECTURES, ENCODER_DECODERS, ENCODERS, tiny

Get = Callable[..., LocalModel]


@pytest.mark.parametrize("architecture", sorted(set(ARCHITECTURES) - set(ENCODER_DECODERS)))
def test_block_input_plus_sublayers_is_block_output(tiny_model: Get, architecture: str) -> None:
    model = tiny_model(architecture)
    assert sublayer_count(model) == 4
    check_layout(model)


@pytest.mark.parametrize(
    ("architecture", "options"),
    [
        ("falcon", {"new_decoder_architecture": True, "num_kv_heads": 2}),
        ("falcon", {"parallel_attn": False, "bias": True}),
        ("gpt_neox", {"use_parallel_residual": False}),
        ("qwen2", {"tie_word_embeddings": True}),
    ],
)
def test_variants(tiny_model: Get, architecture: str, options: dict[str, object]) -> None:
    check_layout(tiny_model(architecture, **options))


@pytest.mark.parametrize(
    ("architecture", "wrong"),
    [
        ("gemma2", SUBLAYER_LAYOUTS["llama"]),  # what the modules give back is normed before it is added
        ("llama", SublayerLayout("layers", "self_attn", "mlp.down_proj.nothing")),
        ("llama", SublayerLayout("layers", "input_layernorm", "mlp")),
        ("bert", replace(SUBLAYER_LAYOUTS["bert"], attention="attention.self.value")),
        ("bert", replace(SUBLAYER_LAYOUTS["bert"], feed_forward="output")),  # after the norm
        ("opt", SublayerLayout("layers", "self_attn", "fc2")),
    ],
)
def test_a_wrong_table_is_found_out(
    tiny_model: Get, monkeypatch: pytest.MonkeyPatch, architecture: str, wrong: SublayerLayout
) -> None:
    model = tiny_model(architecture)
    monkeypatch.setitem(SUBLAYER_LAYOUTS, architecture, wrong)
    with pytest.raises(InputError, match="does not fit"):
        check_layout(model)


def test_an_unknown_architecture_says_how_to_add_it(tiny_model: Get, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model("llama")
    monkeypatch.delitem(SUBLAYER_LAYOUTS, "llama")
    with pytest.raises(InputError, match=r"LAYOUTS\['llama'\] = SublayerLayout"):
        check_layout(model)


def test_hooks_are_taken_away(tiny_model: Get) -> None:
    model = tiny_model("llama")
    seen: list[int] = []
    with capture_sublayers(model, [0, 3], lambda i, t: seen.append(i)):
        model.model(input_ids=torch.tensor([[5, 6]]))
    model.model(input_ids=torch.tensor([[5, 6]]))
    assert seen == [0, 3]
    with pytest.raises(InputError, match="no sublayer 4"), capture_sublayers(model, [4], lambda i, t: None):
        pass


@pytest.mark.parametrize("architecture", ENCODERS)
def test_the_first_layers_are_those_of_the_whole(architecture: str, tmp_path: Path) -> None:
    folder = tiny(architecture, tmp_path / "whole")
    whole = load(folder, dtype="fp32", kinds=READERS)
    one = load(first_layers(folder, 1, tmp_path / "one"), dtype="fp32", kinds=READERS)
    assert (sublayer_count(whole), sublayer_count(one)) == (4, 2)
    states: dict[str, list[torch.Tensor]] = {"whole": [], "one": []}
    ids = torch.tensor([[5, 6, 7, 8]])
    for name, model in (("whole", whole), ("one", one)):
        with torch.inference_mode(), capture_sublayers(model, [0, 1], lambda _, x, n=name: states[n].append(x.clone())):
            model.model.base_model(input_ids=ids, attention_mask=torch.ones_like(ids))
    for expected, found in zip(states["whole"], states["one"], strict=True):
        torch.testing.assert_close(found, expected)
    assert one.tokenizer.get_vocab() == whole.tokenizer.get_vocab()


@pytest.mark.parametrize("count", [0, 3])
def test_no_more_layers_than_there_are(count: int, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"has 2 layers, not {count}"):
        first_layers(tiny("bert", tmp_path / "whole"), count, tmp_path / "cut")
    assert not (tmp_path / "cut").exists()
