"""Published checkpoints by folder or hub name: the detector that reads what a configuration says it is."""

from __future__ import annotations

from veridical.core.detector import Detector, DetectorContext, DetectorInfo
from veridical.core.errors import InputError
from veridical.core.spec import Spec
from veridical.core.types import Level
from veridical.detectors.tokens.artifact import PUBLISHED_TEMPLATE
from veridical.models.artifact import described_kind
from veridical.models.checkpoint import checkpoint_folder, read_config

__all__ = ["Published"]


class Published:
    """A published checkpoint (LettuceDetect, NLI, MiniCheck, HHEM-1 …), read as what its configuration says it is.

    A token classifier becomes the detector `tokens` with LettuceDetect's prompt, a sequence classifier `entailment`;
    their options are taken.
    """

    info = DetectorInfo((Level.RESPONSE, Level.SPAN))

    @classmethod
    def from_spec(cls, spec: Spec, context: DetectorContext) -> Detector:
        """The detector for `hf:FOLDER` or `hf:OWNER/NAME[,revision=COMMIT]`, with the options of what reads it."""
        if spec.value is None:
            raise InputError("hf needs a checkpoint", hint="hf:FOLDER or hf:OWNER/NAME")
        options = dict(spec.options)
        folder = checkpoint_folder(spec.value, revision=options.pop("revision", None))
        kind = described_kind(folder)
        if kind is not None:
            raise InputError(f"{folder} is a detector of Veridical's own", hint=f"{kind or 'its kind'}:{folder}")
        named = read_config(folder).get("architectures")
        architectures = ", ".join(map(str, named)) if isinstance(named, list) else "no architecture is named"
        if "ForTokenClassification" in architectures:
            options.setdefault("template", PUBLISHED_TEMPLATE)
            reader = "tokens"
        elif "ForSequenceClassification" in architectures:
            reader = "entailment"
        else:
            raise InputError(
                f"{folder} is no classifier ({architectures})",
                hint="hf reads classifiers of tokens and of text pairs; logprob and align read other models",
            )
        detector = context.load(Spec(reader, (str(folder), *spec.values[1:]), options))
        detector.name = str(spec)
        return detector
