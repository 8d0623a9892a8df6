"""What the default detector is trained on: public sets, and text with errors made by rules, in two parts.

`general_part` holds nothing of the sets that the detector is measured on; `labelled_part` is their training documents.
All sets are split by document before anything is made of them. `unlabelled_part` is for a teacher to label.
"""

from __future__ import annotations

import gzip
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import accumulate, islice
from pathlib import Path

from veridical.core.errors import InputError, UnknownNameError
from veridical.core.types import Case, Example, Judgement, Source
from veridical.corrupt.attributes import Attributes
from veridical.corrupt.error_types import Material
from veridical.corrupt.rules import Rules
from veridical.corrupt.streams import Recipe, cluttered, training_examples
from veridical.datasets import read, wikipedia
from veridical.datasets.plain import read_texts
from veridical.datasets.reading import jsonl_rows
from veridical.datasets.split import split_by_document

__all__ = [
    "MEASURED",
    "PAIRS",
    "RESEARCH_TEXT",
    "general_part",
    "labelled_part",
    "slot_errors",
    "some_of_each",
    "swapped",
    "training_documents",
    "unlabelled_part",
]

Examples = dict[str, list[Example]]

_PAIRS: Mapping[str, int] = {
    "mnli_dev": 7000, "mnli_olora": 2000, "taxinli": 4338, "cad_nli": 4500, "snli": 3500, "conjnli": 600,
    "negation_nli": 1600, "med": 500, "help": 250, "breaking_nli": 300, "hans_eval": 500, "pawsx_en": 1400,
    "fever_symmetric": 900, "vitaminc_sample": 399,
}  # fmt: skip
_DATA_TO_TEXT: Mapping[str, int] = {
    "tabfact": 800, "logicnlg": 1200, "infotabs": 3000, "quintd": 400, "rotowire_errors": 60,
}  # fmt: skip
_PASSAGES: Mapping[str, int] = {
    "faithdial_audit": 900, "wow_q2": 700, "boolq": 1400, "condaqa": 500, "bamboo_hallu": 300,
}  # fmt: skip
_FROM_SNLI = ("cad_nli", "negation_nli", "breaking_nli")
PAIRS = frozenset({*_PAIRS, "tabfact", "logicnlg", "infotabs"})
"""Sets of pairs of short texts, or of a table and a sentence."""
MEASURED: Mapping[str, int] = {
    "xsum_token": 1000, "bump": 900, "wice": 500, "summedits": 1200, "conv_fever": 1600, "begin": 300,
}  # fmt: skip
"""Sets that the detector is measured on, and how many training examples of each are used at most."""
RESEARCH_TEXT = ("xsum_token", "bump")
"""Sets of these whose labels are free and whose articles are for research: left out unless asked for."""


def training_documents(spec: str, most: int | None = None, *, part: str = "train", seed: int = 0) -> list[Example]:
    """Up to `most` examples of a set ("NAME:PATH"), drawn evenly from one part of its split by document."""
    return _some(split_by_document(read(spec))[part], most, seed)


def _some(examples: Iterable[Example], most: int | None, seed: int) -> list[Example]:
    found = list(examples)
    chosen = random.Random(f"{seed}\0default").sample(range(len(found)), min(len(found), most or len(found)))
    return [found[i] for i in sorted(chosen)]


def _source(example: Example) -> str:
    return " ".join(example.case.sources[0].text.casefold().split())


def some_of_each(
    sets: Mapping[str, list[Example]], most: int, seed: int = 0, *, most_words: int | None = None
) -> Examples:
    """Up to `most` examples of each set, drawn evenly, whose responses have up to `most_words` words together."""
    drawn = {name: _some(examples, most, seed) for name, examples in sets.items()}
    if most_words is None:
        return drawn
    ends = {name: accumulate(len(e.case.response.split()) for e in examples) for name, examples in drawn.items()}
    return {name: [e for e, end in zip(drawn[name], ends[name], strict=True) if end <= most_words] for name in drawn}


def general_part(
    data: Path, *, seed: int = 0, part: str = "train", progress: Callable[[str], None] = lambda line: None
) -> Examples:
    """The first part: sentence pairs, tables, replies, passages, key points, and text with errors made by rules.

    Two fifths of the short premises are among foreign sentences, so that a premise is as long as a real source. What
    was made from SNLI's captions is in the part that they are in.

    Args:
        data: The folder with the public sets; `entailment/` and `plain/` are in it.
        seed: The random seed.
        part: Which part of the split by document.
        progress: Called with a line of text per group of sets.

    Raises:
        InputError: If `data` is no such folder.
    """
    for folder in ("entailment", "plain", "wikipedia"):
        if not (data / folder).is_dir():
            raise InputError(f"there is no {folder!r} in {data}", hint="the folder with the public data sets")
    texts = list(islice(wikipedia.read_texts(data / "wikipedia"), 900))
    pool = Material.of(texts[:200]).sentences
    found: Examples = {}
    captions = split_by_document(read(f"snli:{data / 'entailment' / 'snli'}"))
    foreign = {_source(e) for other, examples in captions.items() if other != part for e in examples}
    for name, most in {**_PAIRS, **_DATA_TO_TEXT, **_PASSAGES}.items():
        read_from = f"{name}:{data / 'entailment' / name}"
        if name in _FROM_SNLI:
            own = (e for e in split_by_document(read(read_from))[part] if _source(e) not in foreign)
            examples = _some(own, most, seed)
        else:
            examples = training_documents(read_from, most, part=part, seed=seed)
        if name in _PAIRS:
            examples = list(cluttered(examples, pool, share=0.4, words_around=70, seed=seed))
        found[name] = examples
    progress(f"{sum(map(len, found.values()))} labelled examples")
    recipe = Recipe(faithful=0.4, rewrite=0.6, clutter=0.3)
    for name, documents, most in (
        ("wikipedia", texts, 2400),
        ("qa_passages", read_texts(data / "plain" / "qa_passages"), 1500),
        ("gum", read_texts(data / "plain" / "gum"), 500),
        ("plain_text", islice(read_texts(data / "plain" / "plain_text"), 150), 400),
    ):
        made = split_by_document(training_examples(documents, recipe, name=name, seed=seed))[part]
        found[f"{name}_rules"] = _some(made, most, seed)
        progress(f"{len(found[f'{name}_rules'])} of {name} with and without errors")
    found["wiki_split"] = _corrupted(_wiki_split(data, 1200, part, seed), 0.5, seed)
    found["wiki_split"] = list(cluttered(found["wiki_split"], pool, share=0.6, words_around=120, seed=seed))
    found["gum_summaries"] = _corrupted(_gum_summaries(data, part, seed), 0.5, seed)
    for name, most in (("argkp", 1500), ("perspectrum", 2000)):
        examples = training_documents(f"{name}:{data / name}", part=part, seed=seed)
        found[f"{name}_swapped"] = _balanced((pair for e in examples for pair in swapped(e)), most, seed)
    progress(f"{sum(map(len, found.values()))} examples in the first part")
    return found


def labelled_part(data: Path, *, without: Iterable[str] = (), seed: int = 0, part: str = "train") -> Examples:
    """The second part: training documents of the sets in `MEASURED`, and of E2E with attributes changed.

    Args:
        data: The folder with the public sets.
        without: Sets that are left out.
        seed: The random seed.
        part: Which part of the split by document.

    Raises:
        UnknownNameError: If `without` names a set that this part does not have.
    """
    left_out, known = set(without), {*MEASURED, "e2e"}
    for unknown in sorted(left_out - known):
        raise UnknownNameError("set of the second part", unknown, known)
    found = {
        name: training_documents(f"{name}:{data / name}", most, part=part, seed=seed)
        for name, most in MEASURED.items()
        if name not in left_out
    }
    if "e2e" not in left_out:
        references = training_documents(f"e2e:{data / 'e2e'}", part=part, seed=seed)
        found["e2e"] = _some(slot_errors(references, seed), 900, seed)
        found["e2e_swapped"] = _balanced((pair for e in references[:2000] for pair in swapped(e)), 500, seed)
    return found


def unlabelled_part(data: Path, seed: int = 0) -> Examples:
    """The first paragraph of Wikipedia articles as the response, the others as its source: what of it is supported
    nobody has said. The articles are not those of `general_part`."""
    made: list[Example] = []
    for text in islice(wikipedia.read_texts(data / "wikipedia"), 900, 2400):
        lead, _, body = text.partition("\n")
        if 8 <= len(lead.split()) <= 80 <= len(body.split()):
            id = f"wikipedia_leads/{len(made)}"
            made.append(Example(Case(id, lead, (Source("article", body),)), Judgement(id, "nobody", judged=())))
    return {"wikipedia_leads": _some(made, 900, seed)}


def slot_errors(references: Iterable[Example], seed: int = 0) -> Iterator[Example]:
    """E2E references whose labels say nothing is added, half of them made unfaithful by changed attributes."""
    rules, draw = Attributes([*(found := list(references))]), random.Random(f"{seed}\0slots")
    for example in found:
        if example.gold.hallucination:
            continue
        changed = rules.change(example, draw) if draw.random() < 0.5 else "faithful"
        yield example if isinstance(changed, str) else changed


def swapped(example: Example) -> Iterator[Example]:
    """Is each labelled source covered by the response: the source as response, the response as its source."""
    case = example.case
    for omission in example.gold.omissions:
        text = omission.span.of(case.source(omission.source_id).text)
        id = f"{case.id}/{omission.source_id}/swapped"
        pair = Case(id, text, (Source("response", case.response),))
        yield Example(pair, Judgement(id, example.gold.by, omission.score), example.document)


def _balanced(examples: Iterable[Example], most: int, seed: int) -> list[Example]:
    """As many of either label, `most` together."""
    sides: tuple[list[Example], list[Example]] = [], []
    for example in examples:
        sides[int((example.gold.hallucination or 0.0) >= 0.5)].append(example)
    count = min(most // 2, *map(len, sides))
    return [e for side in sides for e in _some(side, count, seed)] if count else []


def _corrupted(examples: Iterable[Example], share: float, seed: int) -> list[Example]:
    """The examples, about `share` of them with errors made by rules; a text that offers none stays faithful."""
    found = list(examples)
    rules, draw = Rules(found, errors=(0.7, 0.3)), random.Random(f"{seed}\0corrupted")
    made = (rules.change(e, draw) if draw.random() < share else e for e in found)
    return [old if isinstance(new, str) else new for old, new in zip(found, made, strict=True)]


def _supported(id: str, response: str, source: str, document: str) -> Example:
    return Example(Case(id, response, (Source("text", source),)), Judgement(id, "supported", 0.0), document)


def _wiki_split(data: Path, most: int, part: str, seed: int) -> list[Example]:
    """A sentence as the source and the same as two sentences as the response (Botha et al. 2018), and the reverse."""
    made = []
    for file in sorted((data / "plain" / "wiki_split").glob("*.tsv.gz")):
        for i, line in enumerate(gzip.decompress(file.read_bytes()).decode().splitlines()):
            whole, _, parts = line.partition("\t")
            whole, parts = _detokenised(whole), _detokenised(parts.replace("<::::>", " "))
            if whole and parts:
                source, response = (whole, parts) if i % 2 else (parts, whole)
                id = f"{file.name.partition('.')[0]}/{i}"
                made.append(_supported(id, response, source, id))
    return _some(split_by_document(made)[part], most, seed)


def _detokenised(text: str) -> str:
    """Tokenised text as people write it: no blank before punctuation, plain quotes."""
    text = re.sub(r" ([.,;:!?%)\]]|'s\b|n't\b|'(?:re|ve|ll|d|m)\b)", r"\1", text.replace("``", '"').replace("''", '"'))
    text = re.sub(r"([(\[$£€]) ", r"\1", text)
    return " ".join(re.sub(r'" ([^"]*?) "', r'"\1"', text).split())


def _gum_summaries(data: Path, part: str, seed: int) -> list[Example]:
    """Documents with summaries of them by people and models, and every third time another document's summary."""
    rows = [row for file in sorted((data / "plain" / "gum").glob("*.jsonl")) for row in jsonl_rows(file)]
    made: list[Example] = []
    for n, row in enumerate(rows):
        for writer, summary in sorted(row.values["summaries"].items()):
            id = f"gum/{row.text('id')}/{writer}"
            made.append(_supported(id, str(summary), row.text("text"), f"gum/{row.text('id')}"))
            if len(made) % 3 == 0:
                other = sorted(rows[(n + 1) % len(rows)].values["summaries"].items())[0][1]
                case = Case(f"{id}/foreign", str(other), made[-1].case.sources)
                made.append(replace(made[-1], case=case, gold=Judgement(case.id, "foreign", 1.0)))
    return split_by_document(made)[part]
