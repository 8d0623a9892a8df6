"""Make tiny models and tokenizers for tests (ours and yours), from a seed, as Hugging Face folders.

Nothing is downloaded, and the same arguments always give the same numbers.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from veridical.inference.local_model import require_models
from veridical.models.load import quiet
from veridical.records.errors import UnknownNameError

TokenizerKind = Literal["bytes", "metaspace", "wordpiece", "unigram"]
TOKENIZERS = ("bytes", "metaspace", "unigram", "wordpiece")

_TEXT = """The committee met on Monday and agreed that the river should be cleaned before the summer.
Dr. Anna Berg, who led the study, said: "It's not a small task; 1,250 tonnes of mud lie there."
Paris is the capital of France. The cat sat on the mat, and the dogs slept in the house near the lake.
Question: who won the race in 1998? Answer: Marta Kowalska won it in two hours and 3 minutes.
Knowledge: a source says what happened. Response: the text tells it again in other words.
"""
_SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 256,
}
_GROUPED = {**_SIZES, "num_key_value_heads": 2}
_HEADS = {**_GROUPED, "head_dim": 8}
_WINDOW = {**_HEADS, "sliding_window": 64, "query_pre_attn_scalar": 8}
# name -> (configuration class, model class, fields that differ from the class's defaults)
ARCHITECTURES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bart": (
        "BartConfig",
        "BartForConditionalGeneration",
        {
            "d_model": 32,
            **{f"{side}_layers": 2 for side in ("encoder", "decoder")},
            **{f"{side}_attention_heads": 4 for side in ("encoder", "decoder")},
            **{f"{side}_ffn_dim": 48 for side in ("encoder", "decoder")},
            "max_position_embeddings": 256,
            "decoder_start_token_id": 2,
        },
    ),
    "bert": ("BertConfig", "BertModel", _SIZES),
    "distilbert": (
        "DistilBertConfig",
        "DistilBertModel",
        {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48, "max_position_embeddings": 256},
    ),
    "electra": ("ElectraConfig", "ElectraModel", {**_SIZES, "embedding_size": 16}),
    "falcon": (
        "FalconConfig",
        "FalconForCausalLM",
        {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 256},
    ),
    "gemma": ("GemmaConfig", "GemmaForCausalLM", _HEADS),
    "gemma2": ("Gemma2Config", "Gemma2ForCausalLM", _WINDOW),
    "gemma3": ("Gemma3TextConfig", "Gemma3ForCausalLM", _WINDOW),
    "gpt2": ("GPT2Config", "GPT2LMHeadModel", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 256}),
    "gpt_neox": ("GPTNeoXConfig", "GPTNeoXForCausalLM", _SIZES),
    "llama": ("LlamaConfig", "LlamaForCausalLM", _GROUPED),
    "mistral": ("MistralConfig", "MistralForCausalLM", _GROUPED),
    "modernbert": (
        "ModernBertConfig",
        "ModernBertForMaskedLM",
        {**_SIZES, "global_attn_every_n_layers": 2, "local_attention": 64, "cls_token_id": 1, "sep_token_id": 2},
    ),
    "mpnet": ("MPNetConfig", "MPNetModel", {**_SIZES, "max_position_embeddings": 258}),
    "opt": (
        "OPTConfig",
        "OPTForCausalLM",
        {
            "hidden_size": 32,
            "word_embed_proj_dim": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "ffn_dim": 48,
            "max_position_embeddings": 256,
        },
    ),
    "phi3": ("Phi3Config", "Phi3ForCausalLM", _GROUPED),
    "qwen2": ("Qwen2Config", "Qwen2ForCausalLM", _GROUPED),
    "qwen3": ("Qwen3Config", "Qwen3ForCausalLM", _HEADS),
    "roberta": ("RobertaConfig", "RobertaModel", {**_SIZES, "max_position_embeddings": 258}),
    "t5": (
        "T5Config",
        "T5ForConditionalGeneration",
        {
            "d_model": 32,
            "d_kv": 8,
            "d_ff": 48,
            "num_layers": 2,
            "num_heads": 4,
            "n_positions": 256,
            "decoder_start_token_id": 0,
        },
    ),
}
ENCODER_DECODERS = ("bart", "t5")
ENCODERS = ("bert", "distilbert", "electra", "modernbert", "mpnet", "roberta")


def tiny(
    architecture: str,
    folder: str | Path,
    *,
    tokenizer: TokenizerKind | None = None,
    head: Literal["MaskedLM", "SequenceClassification", "TokenClassification"] | None = None,
    seed: int = 0,
    **config: Any,
) -> Path:
    """Write a random model (about 30,000 weights, fp32) with its tokenizer to a folder, and return the folder.

    The model has 2 blocks of width 32 and 256 positions. Its weights are larger than is usual for random weights, so
    that predictions differ from token to token.

    `tokenizer` is one of `TOKENIZERS`. The default is "wordpiece" for encoders, "unigram" for T5, and "bytes"
    otherwise. BART's tokenizer puts <s> and </s> around a text, and T5's puts </s> after it. If `head` is set, the
    model is a classifier of the labels in `id2label`, or a masked language model, whose tokenizer then has <mask>. Use
    `config` to change fields of the configuration.
    """
    require_models()
    import torch
    import transformers
    from tokenizers import processors

    if architecture not in ARCHITECTURES:
        raise UnknownNameError("architecture", architecture, ARCHITECTURES)
    usual: TokenizerKind = "wordpiece" if architecture in ENCODERS else "unigram" if architecture == "t5" else "bytes"
    built = tiny_tokenizer(tokenizer or usual)
    if architecture in ENCODER_DECODERS:
        single = "<s> $A </s>" if architecture == "bart" else "$A </s>"
        built.backend_tokenizer.post_processor = processors.TemplateProcessing(
            single=single, pair=f"{single} $B </s>", special_tokens=[("<s>", 1), ("</s>", 2)]
        )
    if head == "MaskedLM":
        built.add_special_tokens({"mask_token": "<mask>"})
    config_class, model_class, fields = ARCHITECTURES[architecture]
    special = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "vocab_size": len(built)}
    settings = getattr(transformers, config_class)(**{**special, **fields, **config})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        classes = model_class if head is None else f"AutoModelFor{head}"
        made = getattr(transformers, classes)
        model = (made(settings) if head is None else made.from_config(settings)).train(False)
        for name, weight in model.named_parameters():
            if weight.ndim > 1:
                torch.nn.init.normal_(weight, std=0.3)
            elif name.endswith("bias"):
                torch.nn.init.normal_(weight, std=0.05)
    folder = Path(folder)
    with quiet():
        model.save_pretrained(folder)
    built.save_pretrained(folder)
    return folder


def tiny_tokenizer(kind: TokenizerKind = "bytes") -> Any:
    """Build a fast tokenizer of about 300 pieces from a paragraph. <pad>, <s>, </s>, <unk> are 0 to 3.

    "bytes" is byte-level BPE, as in GPT-2, Llama 3 and Qwen. "metaspace" is BPE with byte fallback. "metaspace" and
    "unigram" are like those of SentencePiece. "wordpiece" is as in BERT: lower case and no accents, but with <s> … </s>
    instead of [CLS] … [SEP].
    """
    require_models()
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    special = ["<pad>", "<s>", "</s>", "<unk>"]
    if kind == "bytes":
        built = Tokenizer(models.BPE())
        built.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        built.decoder = decoders.ByteLevel()
        letters = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(
            vocab_size=400, special_tokens=special, initial_alphabet=letters, show_progress=False
        )
        built.train_from_iterator(_TEXT.splitlines(), trainer)
    elif kind == "metaspace":
        built = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
        built.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        built.decoder = decoders.Sequence(
            [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
        )
        pieces = [*special, *(f"<0x{byte:02X}>" for byte in range(256))]
        trainer = trainers.BpeTrainer(vocab_size=480, special_tokens=pieces, show_progress=False)
        built.train_from_iterator(_TEXT.splitlines(), trainer)
        # the trainer needs byte pieces to be special, but decoding would drop special ones
        document = json.loads(built.to_str())
        document["added_tokens"] = [token for token in document["added_tokens"] if token["content"] in special]
        built = Tokenizer.from_str(json.dumps(document))
    elif kind == "unigram":
        counts = _frequent_pieces(["▁" + word for word in _TEXT.split()], 200 - len(special))
        scores = [(piece, math.log(count / sum(counts.values()))) for piece, count in counts.items()]
        built = Tokenizer(models.Unigram([*((piece, 0.0) for piece in special), *scores], special.index("<unk>")))
        built.add_special_tokens(special)
        built.normalizer = normalizers.NFKC()
        built.pre_tokenizer = pre_tokenizers.Metaspace()
        built.decoder = decoders.Metaspace()
    elif kind == "wordpiece":
        normalizer, splitter = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
        split = [word for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(_TEXT))]
        pieces = [*special, *_frequent_pieces(split, 300 - len(special), inside="##")]
        built = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token="<unk>"))
        built.add_special_tokens(special)
        built.normalizer, built.pre_tokenizer = normalizer, splitter
        built.decoder = decoders.WordPiece()
        built.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>", pair="<s> $A </s> $B </s>", special_tokens=[("<s>", 1), ("</s>", 2)]
        )
    else:
        raise UnknownNameError("tokenizer", kind, TOKENIZERS)
    return PreTrainedTokenizerFast(
        tokenizer_object=built, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )


def _frequent_pieces(words: Iterable[str], size: int, inside: str = "") -> dict[str, int]:
    """Count the parts of words, and return all letters and the most frequent parts with their counts.

    Pieces that do not begin a word get the prefix `inside`. This replaces the trainers of WordPiece and Unigram, whose
    results differ from run to run.
    """
    counts: Counter[str] = Counter()
    letters: set[str] = set()
    for word in words:
        for start in range(len(word)):
            mark = inside if start else ""
            letters.add(mark + word[start])
            counts.update(mark + word[start:end] for end in range(start + 1, len(word) + 1))
    best = sorted(counts, key=lambda piece: (piece not in letters, -counts[piece] * len(piece), piece))
    return {piece: counts[piece] for piece in best[:size]}
