"""Load a published checkpoint by folder or hub name, with the detector and the prompt that suit it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from veridical.detectors.tokens.checkpoint import PUBLISHED_TEMPLATE
from veridical.inference.artifact import described_kind
from veridical.inference.catalogue import repository_of
from veridical.inference.checkpoint import (
    HHEM,
    architectures_of,
    checkpoint_folder,
    label_names,
    parse_config,
    read_config,
    role_of,
)
from veridical.inference.onnx_runtime import PUBLISHED
from veridical.records.detector import Detector, DetectorContext, DetectorInfo
from veridical.records.errors import InputError
from veridical.records.spec import Spec
from veridical.records.types import Level


@dataclass(frozen=True, slots=True)
class Format:
    """A rule that chooses a detector for all published checkpoints of one model class with similar names.

    Attributes:
        architecture: A regular expression that the name of the model class must match, such as
            "ForTokenClassification".
        names: A regular expression that the checkpoint's name must match, such as "minicheck". The name is needed
            because configurations hardly ever say who published a checkpoint.
        reader: The detector that loads such checkpoints, "entailment" or "tokens".
        options: The default options of this detector.
        clear: If true, a checkpoint whose name does not match `names` is accepted too, as long as its class labels are
            self-explanatory ("supported", not "LABEL_0") or the user explains them with the option `labels`.
    """

    architecture: str
    names: str
    reader: str = "entailment"
    options: Mapping[str, str] = field(default_factory=dict)
    clear: bool = False


_PAIRS, _TOKENS, _SEQ2SEQ = r"(?<!HHEMv2)ForSequenceClassification", "ForTokenClassification", "^T5ForConditional"
FORMATS = (  # the first that fits
    Format(_TOKENS, "lettuce", "tokens", {"template": PUBLISHED_TEMPLATE, "max_tokens": "4096"}, clear=True),
    Format(HHEM, "", options={"form": "hhem-2", "max_tokens": "4096"}),
    Format(_SEQ2SEQ, "minicheck", options={"form": "minicheck-t5", "max_tokens": "2048"}),
    Format(_PAIRS, "minicheck", options={"form": "minicheck", "max_tokens": "2048"}),
    Format(_PAIRS, "factcg", options={"form": "factcg", "max_tokens": "2048"}),
    Format(_PAIRS, "hhem|hallucination_evaluation_model", options={"form": "hhem"}),
    Format(_PAIRS, "alignscore", options={"form": "alignscore", "labels": "entailment|neutral|contradiction"}),
    Format(_PAIRS, "$^", clear=True),  # NLI, FactCC and others whose classes have names
)
_LANGUAGE = re.compile(r"-(de|fr|es|it|pl|cn|hu)-v\d")  # in names of LettuceDetect's


class Published:
    """Reads a checkpoint as its publisher does (MiniCheck, HHEM, LettuceDetect, NLI, FactCG, AlignScore).

    Token classifiers are loaded by the detector `tokens`, with the prompt of LettuceDetect. Classifiers of text pairs
    are loaded by the detector `entailment`. You can use the options of these detectors. `FORMATS` lists which detector
    and options are chosen for the configuration and the name of a checkpoint.
    """

    info = DetectorInfo((Level.RESPONSE, Level.SPAN), needs_sources=False)

    @classmethod
    def from_spec(cls, spec: Spec, context: DetectorContext) -> Detector:
        """Make the detector for `hf:FOLDER` or `hf:NAME[,revision=COMMIT]`.

        NAME is the name of a downloaded model of the Hugging Face hub, "owner/model", or a name in `veridical models
        list`. You can add options of the detector that loads the checkpoint, `tokens` or `entailment`.

        Raises:
            InputError: No rule in `FORMATS` fits the checkpoint, or its weights are not in safetensors.
        """
        if spec.value is None:
            raise InputError("hf needs a checkpoint", hint="hf:FOLDER or hf:NAME, as in `veridical models list`")
        options = dict(spec.options)
        folder = checkpoint_folder(spec.value, revision=options.pop("revision", None))
        kind = described_kind(folder)
        if kind is not None:
            raise InputError(f"{folder} is a detector of Veridical's own", hint=f"{kind or 'its kind'}:{folder}")
        if not (any(folder.glob("*.safetensors")) or (folder / PUBLISHED).is_file() or "onnx" in options):
            pickles = sorted(file.name for end in ("bin", "ckpt", "pt", "pth") for file in folder.glob(f"*.{end}"))
            raise InputError(
                f"{folder} has no weights in safetensors"
                + (f", only pickles ({', '.join(pickles)})" if pickles else ""),
                hint="pickles are not loaded: convert them where you trust them (docs/detectors/entailment.md), or try "
                "revision=refs/pr/1, where the hub puts what it converted",
            )
        form, defaults = _format_of(folder, Path(repository_of(spec.value)).name, options)
        detector = context.load(Spec(form.reader, (str(folder), *spec.values[1:]), {**defaults, **options}))
        detector.name = str(spec)
        return detector


def _format_of(folder: Path, name: str, options: Mapping[str, str]) -> tuple[Format, dict[str, str]]:
    """Find the first format that fits a checkpoint, and the options for reading it. Raise `InputError` if none fits."""
    config = parse_config(folder)
    architecture = architectures_of(config) or "no architecture is named"
    if re.search("ForCausalLM|LMHead", architecture):
        raise InputError(
            f"{folder} is no classifier ({architecture})",
            hint="a judge such as Granite Guardian, Lynx or Bespoke-MiniCheck-7B: serve it, then -d judge:yes_no "
            "--model NAME --base-url URL; logprob and align read other models",
        )
    read_config(folder)
    name += f" {config.get('_name_or_path', '')}"
    if folder.parent.name == "snapshots":  # of a cache of the hub: models--OWNER--NAME/snapshots/COMMIT
        name += f" {folder.parent.parent.name}"
    classes = label_names(config)
    clear = "labels" in options or any(map(role_of, classes))
    candidates = [form for form in FORMATS if re.search(form.architecture, architecture)]
    for form in candidates:
        defaults = dict(form.options)
        if "form" in options and "form" in defaults:
            fits = options["form"] == defaults["form"]
        else:
            fits = bool(re.search(form.names, name, re.IGNORECASE)) or (clear and form.clear)
        if not fits:
            continue
        if clear:
            defaults.pop("labels", None)
        if "template" in defaults and (language := _LANGUAGE.search(name)):
            defaults["template"] += f"-{language[1]}"
        return form, defaults
    if not candidates:
        raise InputError(
            f"{folder} is no classifier that is known here ({architecture})",
            hint="hf reads classifiers of tokens and of pairs of texts, and MiniCheck's encoder-decoder",
        )
    labels = "supported|hallucinated" if candidates[0].reader == "tokens" else "contradiction|neutral|entailment"
    ways = [f"form={form.options['form']}" for form in candidates if "form" in form.options]
    ways += [f"labels={labels} for its classes in their order"] if any(form.clear for form in candidates) else []
    raise InputError(
        f"the name of {folder} does not say what it is ({architecture}), nor do its classes, called "
        f"{', '.join(classes[:8])}",
        hint=f"say it: {' or '.join(ways)}",
    )
