"""How often the built-in tagger agrees with a spaCy pipeline: `python benchmarks/tagger_agreement.py FOLDER PIPELINE`.

On the words of the first 60 articles of BUMP in FOLDER. Prints the shares of words with the same part of speech, with
the same entity type, and on which both say that they are (or are not) in an entity.
"""

from __future__ import annotations

import json
import sys

from veridical.datasets import read
from veridical.text.segment import words
from veridical_lab.detectors.features.tagger import RuleTagger, SpacyTagger

ARTICLES = 60


def main(folder: str, pipeline: str) -> None:
    every = dict.fromkeys(example.case.sources[0].text for example in read(f"bump:{folder}/bump"))
    texts = list(every)[:ARTICLES]
    places = [words(text) for text in texts]
    theirs = SpacyTagger(pipeline)
    pairs = [
        (ours, other)
        for a, b in zip(RuleTagger().tag(texts, places), theirs.tag(texts, places), strict=True)
        for ours, other in zip(a, b, strict=True)
    ]
    same = {
        "part of speech": sum(a[0] == b[0] for a, b in pairs),
        "entity type": sum(a[1] == b[1] for a, b in pairs),
        "in an entity": sum((a[1] == "none") == (b[1] == "none") for a, b in pairs),
    }
    shares = {name: round(count / len(pairs), 3) for name, count in same.items()}
    print(json.dumps({"pipeline": theirs.identity(), "articles": len(texts), "words": len(pairs), **shares}))


if __name__ == "__main__":
    main(*sys.argv[1:])
