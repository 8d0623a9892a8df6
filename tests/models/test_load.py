from __future__ import annotations

import gc
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from veridical.inference.local_model import FORCED, READERS, LocalModel
from veridical.models import load as module
from veridical.models.load import load, unload
from veridical.records.errors import InputError, MissingExtraError, UnknownNameError
from veridical_lab.models.testing import tiny


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny("gpt2", tmp_path_factory.mktemp("gpt2"))


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "copy"))


def test_it_is_ready_to_read_with(folder: Path) -> None:
    model = load(folder, dtype="fp32", device="cpu")
    assert not model.model.training
    assert not any(p.requires_grad for p in model.model.parameters())
    assert (model.kind, model.max_positions, model.model_type) == ("causal", 256, "gpt2")
    assert model.dtype == next(model.model.parameters()).dtype == torch.float32
    assert model.revision is None
    assert len(model.hash) == 16


def test_the_same_model_is_loaded_once(folder: Path) -> None:
    assert load(folder, dtype="fp32") is load(str(folder) + "/", dtype="fp32")
    assert load(folder, dtype="fp32") is not load(folder, dtype="bf16")
    assert load(folder, dtype="bf16").dtype == torch.bfloat16


def test_it_is_loaded_once_for_all_that_can_work_with_it(tmp_path: Path) -> None:
    folder = tiny("bart", tmp_path)
    model = load(folder, dtype="fp32", kinds=FORCED)
    assert (model.kind, model.max_positions, model.response_positions) == ("seq2seq", 256, 256)
    assert load(folder, dtype="fp32", kinds=("seq2seq",)) is model
    for kinds in (("causal",), READERS):
        with pytest.raises(InputError, match=r"is an encoder-decoder \(bart\)"):
            load(folder, dtype="fp32", kinds=kinds)


def test_dtype_auto_is_bf16_only_where_the_processor_computes_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for there, expected in ((True, torch.bfloat16), (False, torch.float32)):
        for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"):
            monkeypatch.setattr(torch.cpu, name, lambda there=there: there, raising=False)
        assert module._placement("cpu", "auto") == (torch.device("cpu"), expected)


def test_a_model_is_loaded_once_however_its_device_is_named(folder: Path) -> None:
    model = load(folder)
    name = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}[model.dtype]
    assert load(folder, device=str(model.device), dtype=name) is model


def test_the_hash_is_of_tokenizer_and_configuration_not_of_the_place(folder: Path, copy: Path) -> None:
    assert load(copy, dtype="fp32").hash == load(folder, dtype="fp32").hash
    other = copy.parent / "other"
    tiny("gpt2", other, n_layer=1)
    assert load(other, dtype="fp32").hash != load(folder, dtype="fp32").hash


def test_no_such_folder() -> None:
    with pytest.raises(InputError, match=r"no model folder './nowhere'"):
        load("./nowhere")


def test_a_hub_name_that_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)  # else it is looked for, again and again
    with pytest.raises(InputError, match="cannot be loaded") as caught:
        load("nobody/no-model")
    assert "hub" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_encoder_is_no_decoder(tmp_path: Path) -> None:
    folder = tiny("bert", tmp_path)
    with pytest.raises(InputError, match=r"is an encoder \(bert\)"):
        load(folder)
    assert load(folder, kinds=("encoder",)).kind == "encoder"


def test_a_tokenizer_without_offsets(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import transformers

    class Slow:
        is_fast = False

    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", lambda *a, **k: Slow())
    with pytest.raises(InputError, match="gives no offsets"):
        load(folder, dtype="fp16")


@pytest.mark.parametrize("wrong", [{"device": "tpu"}, {"dtype": "int8"}])
def test_unknown_options(folder: Path, wrong: dict[str, str]) -> None:
    with pytest.raises(UnknownNameError, match="known: auto"):
        load(folder, **wrong)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is such a device")
def test_a_device_that_is_not_there(folder: Path) -> None:
    with pytest.raises(InputError, match="no device 'cuda'"):
        load(folder, device="cuda")


def test_unloading(folder: Path, tmp_path: Path) -> None:
    import weakref

    other = load(tiny("gpt2", tmp_path), dtype="fp32")
    model = load(folder, dtype="fp32", device="cpu")
    weights = weakref.ref(model.model)
    unload(model)
    assert load(tmp_path, dtype="fp32") is other, "only the one that is named"
    assert load(folder, dtype="fp32", device="cpu") is not model
    del model
    gc.collect()
    assert weights() is None
    unload()
    assert load(tmp_path, dtype="fp32") is not other


def test_without_torch(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtraError, match=r"veridical\[models\]"):
        load(folder)


def test_seeds_make_the_same_numbers(tiny_model: Callable[..., LocalModel], tmp_path: Path) -> None:
    again = load(tiny("gpt2", tmp_path / "a"), dtype="fp32").model.state_dict()
    other = load(tiny("gpt2", tmp_path / "b", seed=1), dtype="fp32").model.state_dict()
    first = tiny_model("gpt2").model.state_dict()
    assert all(torch.equal(again[k], first[k]) for k in first)
    assert not all(torch.equal(other[k], first[k]) for k in first)


# --- GGUF -------------------------------------------------------------------------------------------------------------

BLOCK = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def gguf_of(folder: Path, file: Path) -> LocalModel:
    """Write the tiny Qwen2 in `folder` as a GGUF file, as llama.cpp's converter does; returns it."""
    gguf = pytest.importorskip("gguf")
    model = load(folder, dtype="fp32", device="cpu")
    config, tokenizer = model.model.config, json.loads(model.tokenizer.backend_tokenizer.to_str())["model"]
    writer = gguf.GGUFWriter(file, "qwen2")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(config.vocab_size)
    pieces = sorted(tokenizer["vocab"], key=tokenizer["vocab"].get)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(pieces)
    writer.add_token_types([3 if i < 4 else 1 for i in range(len(pieces))])
    writer.add_token_merges([merge if isinstance(merge, str) else " ".join(merge) for merge in tokenizer["merges"]])
    writer.add_eos_token_id(2)
    for name, tensor in model.model.state_dict().items():
        parts = name.removeprefix("model.").split(".")
        if parts[0] == "layers":
            name = f"blk.{parts[1]}.{BLOCK['.'.join(parts[2:-1])]}.{parts[-1]}"
        else:
            name = {"embed_tokens": "token_embd", "norm": "output_norm", "lm_head": "output"}[parts[0]] + ".weight"
        writer.add_tensor(name, tensor.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return model


def test_a_gguf_file_is_the_model_that_it_was_made_of(tmp_path: Path) -> None:
    original = gguf_of(tiny("qwen2", tmp_path / "qwen2"), tmp_path / "model.gguf")
    model = load(tmp_path / "model.gguf", dtype="fp32", device="cpu")
    assert (model.kind, model.max_positions, model.name) == ("causal", 256, str(tmp_path / "model.gguf"))
    text = "The river should be cleaned before the summer."
    ids = original.tokenizer(text)["input_ids"]
    assert model.tokenizer(text)["input_ids"] == ids
    with torch.inference_mode():
        logits, expected = (each.model(input_ids=torch.tensor([ids])).logits for each in (model, original))
    assert torch.allclose(logits, expected, atol=1e-4)
    assert load(str(tmp_path / "model.gguf"), dtype="fp32", device="cpu") is model


def test_the_tokenizer_beside_a_gguf_file_is_taken(tmp_path: Path) -> None:
    folder = tiny("qwen2", tmp_path / "qwen2")
    original = gguf_of(folder, folder / "model.gguf")
    model = load(folder / "model.gguf", dtype="fp32", device="cpu")
    assert model.tokenizer.bos_token == original.tokenizer.bos_token == "<s>"


def test_a_gguf_file_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "model.gguf"
    broken.write_bytes(b"GGUF but nothing else")
    with pytest.raises(InputError, match="cannot be loaded"):
        load(broken, dtype="fp32")
    with pytest.raises(InputError, match="there is no model folder"):
        load(tmp_path / "other.gguf")
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(MissingExtraError, match=r"veridical\[gguf\]"):
        load(broken, dtype="fp32")


def without_a_layer(data: bytes) -> bytes:
    from safetensors.torch import load as read
    from safetensors.torch import save

    weights = read(data)
    del weights[next(name for name in weights if "mlp" in name)]
    return save(weights, metadata={"format": "pt"})


def with_a_token(data: bytes) -> bytes:
    tokenizer = json.loads(data)
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    tokenizer["added_tokens"].append({"id": 10**6, "content": "tower", "special": False, **flags})
    return json.dumps(tokenizer).encode()


TOO_LARGE = r"describes [\d,]+ (parameters|layers), and its weights have [\d,]+ bytes"
DAMAGED: list[tuple[str, bytes | dict[str, object] | Callable[[bytes], bytes | None], str]] = [
    ("config.json", lambda _: None, r"no config\.json"),
    ("config.json", {"model_type": "no-such-type"}, "cannot be loaded"),
    ("config.json", {"vocab_size": 100}, "cannot be loaded.*other sizes than config.json says"),
    ("config.json", {"hidden_size": "x"}, "cannot be loaded.*ints,but got str"),
    ("config.json", {"num_attention_heads": 0}, "cannot be loaded.*zero"),
    ("config.json", {"vocab_size": 10**12}, TOO_LARGE),
    ("config.json", {"n_layer": 10**6}, TOO_LARGE),
    ("config.json", {"n_inner": 10**7}, TOO_LARGE),
    ("model.safetensors", lambda _: None, "has no weights"),
    ("model.safetensors", without_a_layer, "lack 1 tensors"),
    ("model.safetensors", b"\0" * 7, "cannot be loaded.*describes 2 layers, and its weights have 7 bytes"),
    ("model.safetensors", (2**62).to_bytes(8, "little") + b"{}" * 5000, "cannot be loaded.*header too large"),
    ("model.safetensors", lambda data: data[:-100], "cannot be loaded.*incomplete metadata"),
    ("tokenizer.json", b"[" * 100_000, "cannot be loaded.*recursion"),
    ("tokenizer.json", with_a_token, "ids without an embedding, such as that of 'tower'"),
]


@pytest.mark.parametrize(("file", "change", "message"), DAMAGED, ids=[message for *_, message in DAMAGED])
def test_a_damaged_folder_is_refused_with_one_line(copy: Path, file: str, change: Any, message: str) -> None:
    path = copy / file
    data = path.read_bytes()
    if isinstance(change, dict):
        changed = json.dumps(json.loads(data) | change).encode()
    else:
        changed = change(data) if callable(change) else change
    if changed is None:
        path.unlink()
    else:
        path.write_bytes(changed)
    with pytest.raises(InputError, match=message) as refused:
        load(copy, dtype="fp32", device="cpu")
    assert "\n" not in str(refused.value)


def test_pickled_weights_are_refused(copy: Path) -> None:
    (copy / "model.safetensors").rename(copy / "pytorch_model.bin")
    with pytest.raises(InputError, match=r"pickles only.*save_pretrained"):
        load(copy)


def test_the_first_part_of_a_gguf_file_is_refused_before_the_others_are_made_up(tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf")
    folder = tiny("qwen2", tmp_path / "qwen2")
    writer = gguf.GGUFWriter(folder / "model-00001-of-00002.gguf", "qwen2")
    writer.add_block_count(8)
    writer.add_context_length(2048)
    writer.add_embedding_length(8192)
    writer.add_feed_forward_length(8192)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tensor("token_embd.weight", torch.zeros(64, 256).numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(
        InputError, match=r"describes 4,\d{3},\d{3},\d{3} parameters, and its weights have 65,\d+ bytes"
    ):
        load(folder / "model-00001-of-00002.gguf", dtype="fp32", device="cpu")
