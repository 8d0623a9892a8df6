"""Records what inseq's input x gradient gives for tiny models whose weights anybody can make again.

    pip install -c constraints.txt inseq==0.7.1 torch==2.13.0        # in an environment of its own
    HF_HUB_OFFLINE=1 python -m tests.lab.models.data.inseq_values > tests/lab/models/data/inseq_values.json

inseq is no dependency of the project: it is asked once, and the test compares with what it said.
"""

import json
import platform
import sys
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
import transformers

WORDS = 60
PROMPT, RESPONSE = list(range(3, 15)), [20, 7, 33, 4, 41]
_SHAPE = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "intermediate_size": 48,
    "vocab_size": WORDS,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
_GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": WORDS, "bos_token_id": 1, "eos_token_id": 2}
CONFIGS = {
    "gpt2": lambda: transformers.GPT2Config(**_GPT2, pad_token_id=0),
    "llama": lambda: transformers.LlamaConfig(**_SHAPE),
    "qwen2": lambda: transformers.Qwen2Config(**_SHAPE),
    "gemma2": lambda: transformers.Gemma2Config(**_SHAPE, sliding_window=8, final_logit_softcapping=2.0),
}


def tiny(architecture: str) -> Any:
    """The model of `architecture`, weights drawn by numpy's frozen generator in order of their names."""
    model = transformers.AutoModelForCausalLM.from_config(CONFIGS[architecture](), attn_implementation="eager")
    draw = np.random.RandomState(0)
    for name, parameter in sorted(model.named_parameters()):
        if parameter.dim() > 1 or name.endswith("bias"):
            values = draw.normal(0, 0.2, parameter.shape).astype(np.float32)
            parameter.data.copy_(torch.from_numpy(values))
    return model.eval()


def tokenizer() -> Any:
    """One token a word: "w7" is token 7; 0, 1 and 2 are special."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    special = {"<pad>": 0, "<s>": 1, "</s>": 2}
    words = {f"w{i}": i for i in range(len(special), WORDS)}
    raw = Tokenizer(models.WordLevel({**special, **words}, unk_token="<pad>"))
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw, unk_token="<pad>", pad_token="<pad>", bos_token="<s>", eos_token="</s>"
    )


def main() -> None:
    import inseq

    values = {}
    text, whole = (" ".join(f"w{i}" for i in ids) for ids in (PROMPT, PROMPT + RESPONSE))
    for name in CONFIGS:
        with torch.enable_grad():
            reader = inseq.load_model(tiny(name), "input_x_gradient", tokenizer=tokenizer(), device="cpu")
            out = reader.attribute(text, whole, attributed_fn="logit", show_progress=False)
        map_ = out.sequence_attributions[0].target_attributions.sum(-1)  # (all tokens, generated tokens)
        values[name] = [[None if np.isnan(x) else float(f"{x:.8g}") for x in row] for row in map_.double().numpy()]
    versions = {"inseq": version("inseq"), "torch": torch.__version__, "transformers": transformers.__version__}
    made = {"made_by": "python -m tests.lab.models.data.inseq_values", **versions, "python": platform.python_version()}
    json.dump({**made, "prompt": PROMPT, "response": RESPONSE, "values": values}, sys.stdout)


if __name__ == "__main__":
    main()
