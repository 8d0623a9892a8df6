"""Descriptions that a model wrote, labelled by `slots`, and as many human ones with changed attributes.

    python benchmarks/organic_data.py e2e:FOLDER GENERATED.jsonl… --organic FILE --synthetic FILE

Both files have the same number of responses to each set of attributes (a document), where the synthetic ones allow it:
what probes learn from them differs in the errors alone. Prints one JSON row: responses, the share with an error, errors
by attribute, and a hash of each file.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from veridical.datasets import read
from veridical.datasets.split import content_hash, document_of
from veridical.detectors import load_detector
from veridical.io.files import write_whole
from veridical.io.serialization import encode
from veridical.records.judging import thresholds_in_force
from veridical.records.types import Example
from veridical_lab.corrupt import corrupt
from veridical_lab.tasks.grounded import label_responses


def as_many(examples: Sequence[Example], like: Sequence[Example]) -> Iterator[Example]:
    """The first examples of each document, as many as `like` has of it."""
    wanted = Counter(map(document_of, like))
    for example in examples:
        if wanted[document_of(example)] > 0:
            wanted[document_of(example)] -= 1
            yield example


def described(examples: Sequence[Example]) -> dict[str, object]:
    errors = Counter((v.label or "").partition("[")[0] for e in examples for v in e.gold.verdicts)
    return {
        "responses": len(examples),
        "documents": len({document_of(e) for e in examples}),
        "hallucinated": round(sum(e.gold.hallucination or 0.0 for e in examples) / len(examples), 4),
        "errors": dict(sorted(errors.items())),
        "hash": content_hash(examples)[:16],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", metavar="SET:PATH")
    parser.add_argument("generated", nargs="+", type=Path)
    parser.add_argument("--organic", type=Path, required=True)
    parser.add_argument("--synthetic", type=Path, required=True)
    given = parser.parse_args()
    slots = load_detector("slots")
    written = [example for file in given.generated for example in read(f"jsonl:{file}")]
    organic = list(label_responses(written, slots, thresholds_in_force(slots, None)))
    changed = corrupt(read(given.data), "attributes", share=0.5, seed=0).examples
    synthetic = list(as_many(changed, organic))
    for kind, examples in (("organic", organic), ("synthetic", synthetic)):
        write_whole(getattr(given, kind), "".join(encode(example) + "\n" for example in examples))
    print(json.dumps({"organic": described(organic), "synthetic": described(synthetic)}))


if __name__ == "__main__":
    main()
