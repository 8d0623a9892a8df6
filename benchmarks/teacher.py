"""A teacher: an encoder of any size, trained as a token classifier on a share of what `train default` reads first.

    python benchmarks/teacher.py ../shared/data models/mpnet --out build/teacher --share 0.1667

That is the general part (`training.default_data`): sentence pairs, tables, replies, passages, and text with errors made
by rules, none of the sets that detectors are measured on; validation documents of some of these say how well it does on
them. All of it takes MPNet-base four and a half hours on two cores, hence a share. MODEL may be a folder that this
script wrote: with another `--draw` it goes on with other examples. An interrupted training continues when run again.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from veridical.detectors.tokens.artifact import load_tokens
from veridical.detectors.tokens.detector import Tokens
from veridical.models.artifact import DETECTOR
from veridical.models.load import READERS, load
from veridical.training.default import DefaultTraining
from veridical.training.default_data import general_part, labelled_part, some_of_each
from veridical.training.tokens import train_tokens


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("model", type=Path, help="a Hugging Face folder, or one that this script wrote")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--share", type=float, default=1.0, help="of the examples of each set, but at least 20")
    parser.add_argument("--draw", type=int, default=1, help="the seed by which the examples are drawn")
    parser.add_argument("--rate", type=float, default=4e-5, help="the highest learning rate of the backbone")
    options = parser.parse_args()
    recipe = DefaultTraining()

    def say(line: str) -> None:
        print(line, flush=True)

    general = general_part(options.data, seed=recipe.seed, progress=say)
    drawn = {}
    for name, examples in general.items():
        most = max(20, round(len(examples) * options.share))
        drawn |= some_of_each({name: examples}, most, options.draw)
    valid = labelled_part(options.data, without=recipe.left_out, seed=recipe.seed, part="valid")
    if (options.model / DETECTOR).is_file():
        backbone, head = Tokens(options.model, dtype="fp32").backbone(), load_tokens(options.model)[2]
    else:
        backbone, head = load(options.model, dtype="fp32", kinds=READERS), None
    train_tokens(
        backbone,
        drawn,
        replace(recipe.tokens(options.rate, backbone.device), evaluations=2),
        out=options.out,
        start_from=head,
        validation={name: found for name, found in valid.items() if not name.endswith("_swapped")},
        progress=say,
    )


if __name__ == "__main__":
    main()
