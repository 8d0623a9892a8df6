"""Make the training data of the default detector: labelled public sets, written statements, and rule-based errors.

Every set is split by document before examples are made from it. Articles licensed for research only are left out.
"""

from __future__ import annotations

import gzip
import math
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from veridical.datasets import read
from veridical.datasets.reading import jsonl_rows
from veridical.datasets.split import split_by_document
from veridical.records.errors import InputError
from veridical.records.types import Case, Example, Judgement, Source
from veridical_lab.corrupt.attributes import Attributes
from veridical_lab.corrupt.crossed import relation_examples
from veridical_lab.corrupt.error_types import Material
from veridical_lab.corrupt.rules import Rules
from veridical_lab.corrupt.streams import Recipe, cluttered, training_examples
from veridical_lab.datasets import wikipedia
from veridical_lab.datasets.plain import read_texts
from veridical_lab.training.contrasts import contrasts
from veridical_lab.training.languages import in_languages

Examples = dict[str, list[Example]]
_Item = TypeVar("_Item")

ENTAILMENT: Mapping[str, int] = {
    "snli": 4200, "infotabs": 5000, "cad_nli": 3200, "mnli_dev": 7000, "boolq": 900, "hans_eval": 750, "taxinli": 1300,
    "med": 1150, "conjnli": 1000, "breaking_nli": 750, "negation_nli": 620, "mnli_olora": 620, "pawsx_en": 1400,
    "help": 450, "condaqa": 1400, "quintd": 400, "fever_symmetric": 580, "vitaminc_sample": 274, "faithdial_audit": 680,
    "wow_q2": 650, "bamboo_hallu": 310, "tabfact": 600, "logicnlg": 1300,
}  # fmt: skip
"""The sets in `entailment/`, each with the maximum number of examples that are drawn for a pass."""
LABELLED: Mapping[str, int] = {"wice": 1120, "summedits": 2340, "conv_fever": 1350, "begin": 280}
"""Labelled sets that also measure the detector. Their test documents are not used here."""
# sets with sources that must be covered, each with the number of examples that are drawn for a pass
_COVERAGE: Mapping[str, int] = {"e2e": 100, "argkp": 500, "perspectrum": 600}
WRITTEN_SETS = ("written", "written_answers", "written_rag", "written_pairs")
"""Statements and answers written for this purpose. In training, contrasts are added (`training.contrasts`)."""
_IN_LANGUAGES = Path(__file__).parent / "written_in_languages"
_RELATIONS = 8_500  # relations, four examples each
_ANSWERS = 33_000  # short answers and paraphrases; from a smaller set, a larger share is drawn for each pass
_PLACED = 80_000  # short answers whose sources are only the sentences around them, and therefore short
_MORE_PAIRS = 2.5  # factor on the drawn share of labelled pairs and outputs, of which there are few
_FROM_SNLI = ("cad_nli", "negation_nli", "breaking_nli")


def part_of(
    data: Path,
    part: str = "train",
    *,
    seed: int = 0,
    share: float = 1.0,
    parsed: Path | None = None,
    languages: Sequence[str] | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> Examples:
    """Make the examples of one part of the split by document, by set.

    A fifth of the sources get foreign sentences around them, so that a short premise becomes as long as a real source.
    Sets made from SNLI's captions follow the split of these captions, and pairs in other languages follow the split of
    the English pairs from which they were translated. Half of the written passages come without their question.

    Args:
        data: The folder with the public sets, each in a folder of its name.
        part: "train" or "valid".
        seed: The random seed for drawing examples and errors.
        share: Draw this fraction of each set. Statements written in other languages are few, and all of them are used.
        parsed: A folder of parsed texts (`corrupt.crossed`), from which to make pairs that differ only in how things
            relate. Default: no such pairs.
        languages: Use questions and paraphrases in these languages (everything else is English). Default: all
            languages.
        progress: Called with a line of text after each group of sets.

    Raises:
        InputError: `data` lacks a folder.
    """
    for folder in ("entailment", "languages", "plain", "wikipedia", "written", *LABELLED, *_COVERAGE):
        if not (data / folder).is_dir():
            raise InputError(f"there is no {folder!r} in {data}", hint="the folder with the public data sets")
    draw = partial(_draw, seed=seed, share=share)
    draw_pairs = partial(_draw, seed=seed, share=min(1.0, share * _MORE_PAIRS))
    sets: Examples = {}
    split = "train" if part == "train" else "dev"
    for name in WRITTEN_SETS:
        written = list(read(f"{name}:{data / 'written'}", split))
        drawn = set(draw(sorted({str(example.document) for example in written})))
        sets[name] = [example for example in written if example.document in drawn]
    sets |= _written_in_languages(split, languages)
    sets = {name: list(_without_questions(written, seed)) for name, written in sets.items()}
    if part == "train":
        for name in list(sets):
            sets |= contrasts(name, sets[name], seed)
    progress(f"{_count(sets)} written examples")
    captions = split_by_document(read(f"snli:{data / 'entailment' / 'snli'}"))
    foreign = {_source(e) for other, examples in captions.items() if other != part for e in examples}
    for name, most in ENTAILMENT.items():
        examples = split_by_document(read(f"{name}:{data / 'entailment' / name}"))[part]
        if name in _FROM_SNLI:
            examples = [e for e in examples if _source(e) not in foreign]
        sets[name] = draw_pairs(examples, most)
    for name, most in LABELLED.items():
        sets[name] = draw_pairs(split_by_document(read(f"{name}:{data / name}"))[part], most)
    references = split_by_document(read(f"e2e:{data / 'e2e'}"))[part]
    sets["e2e"] = draw(slot_errors(references, seed), 375)
    for name, most in _COVERAGE.items():
        examples = draw(split_by_document(read(f"{name}:{data / name}"))[part], 2000)
        sets[f"{name}_swapped"] = _balanced((pair for e in examples for pair in swapped(e)), round(share * most), seed)
    progress(f"{_count(sets)} with labelled sets")
    answers = in_languages(data, part, seed, share=share, languages=languages)
    placed = {name: answers.pop(name) for name in list(answers) if name.startswith("answers_in_place_")}
    for of_answers, most in ((answers, _ANSWERS), (placed, _PLACED)):
        portion = min(1.0, share * most / max(1, _count(of_answers))) if part == "train" else 1.0
        sets |= {name: _draw(examples, seed=seed, share=portion) for name, examples in of_answers.items()}
    progress(f"{_count(sets)} with other languages")
    if parsed is not None:
        crossed = relation_examples(parsed, seed=seed, part=part)
        sets["relations"] = list(islice(crossed, 4 * round(share * _RELATIONS)))
        progress(f"{_count(sets)} with relations")
    texts = draw(islice(wikipedia.read_texts(data / "wikipedia"), 3600), 900)
    for name, documents, most in (
        ("wikipedia", texts, 1100),
        ("qa_passages", draw(read_texts(data / "plain" / "qa_passages"), 500), 500),
        ("gum", draw(read_texts(data / "plain" / "gum")), 150),
        ("plain_text", draw(islice(read_texts(data / "plain" / "plain_text"), 150)), 150),
    ):
        made = training_examples(documents, Recipe(faithful=0.4, rewrite=0.6), name=name, seed=seed)
        sets[f"{name}_rules"] = some(split_by_document(made)[part], math.ceil(share * most), seed)
    sets["wiki_split"] = _corrupted(draw(_wiki_split(data, part), 600), seed)
    sets["gum_summaries"] = _corrupted(draw(_gum_summaries(data, part)), seed)
    progress(f"{_count(sets)} with errors made by rules")
    pool = Material.of(texts[:200]).sentences
    return {n: list(cluttered(e, pool, share=0.2, words_around=70, seed=seed)) for n, e in sets.items()}


def _written_in_languages(split: str, languages: Sequence[str] | None) -> Examples:
    """Read the statements and answers in other languages than English that come with this package, all of them.

    The sets are called "written_XX" and "written_answers_XX", where XX is a language.
    """
    sets: Examples = {}
    for name in ("written", "written_answers"):
        for example in read(f"{name}:{_IN_LANGUAGES}", split):
            language = dict(example.group)["language"]
            if languages is None or language in languages:
                sets.setdefault(f"{name}_{language}", []).append(example)
    return sets


def _without_questions(examples: Iterable[Example], seed: int) -> Iterator[Example]:
    """Leave out the questions of half of the documents, because many users have none."""
    for example in examples:
        is_asked = random.Random(f"{seed}\0{example.document}\0question").random() < 0.5
        yield example if is_asked else replace(example, case=replace(example.case, question=None))


def some(items: Iterable[_Item], most: int | None, seed: int) -> list[_Item]:
    """Draw up to `most` items at random, and keep their order."""
    pool = list(items)
    chosen = random.Random(f"{seed}\0default").sample(range(len(pool)), min(len(pool), most or len(pool)))
    return [pool[i] for i in sorted(chosen)]


def _draw(items: Iterable[Any], most: int | None = None, *, seed: int, share: float) -> list[Any]:
    """Draw a share of the items at random. If there are more than `most`, draw this share of `most`."""
    pool = list(items)
    return some(pool, math.ceil(share * min(len(pool), most or len(pool))), seed)


def some_of_each(sets: Mapping[str, list[Example]], most: int, seed: int = 0) -> Examples:
    """Draw up to `most` examples of each set at random."""
    return {name: some(examples, most, seed) for name, examples in sets.items()}


def _count(sets: Examples) -> int:
    return sum(map(len, sets.values()))


def _source(example: Example) -> str:
    return " ".join(example.case.sources[0].text.casefold().split())


def slot_errors(references: Iterable[Example], seed: int = 0) -> Iterator[Example]:
    """Yield the E2E references without labelled hallucinations.

    Half of them are made wrong by changing attributes.
    """
    examples = list(references)
    rules, draw = Attributes(examples), random.Random(f"{seed}\0slots")
    for example in examples:
        if example.gold.hallucination:
            continue
        changed = rules.change(example, draw) if draw.random() < 0.5 else "faithful"
        yield example if isinstance(changed, str) else changed


def swapped(example: Example) -> Iterator[Example]:
    """For each labelled source, yield an example that asks whether the response covers the source.

    In this example, the source is the response, and the response is the source.
    """
    case = example.case
    for omission in example.gold.omissions:
        text = omission.span.of(case.source(omission.source_id).text)
        id = f"{case.id}/{omission.source_id}/swapped"
        pair = Case(id, text, (Source("response", case.response),))
        yield Example(pair, Judgement(id, example.gold.by, omission.score), example.document)


def _balanced(examples: Iterable[Example], most: int, seed: int) -> list[Example]:
    """Draw `most` examples, half of them with each label, or fewer if one label is rare."""
    sides: tuple[list[Example], list[Example]] = [], []
    for example in examples:
        sides[int((example.gold.hallucination or 0.0) >= 0.5)].append(example)
    count = min(most // 2, *map(len, sides))
    return [e for side in sides for e in some(side, count, seed)] if count else []


def _corrupted(examples: list[Example], seed: int) -> list[Example]:
    """Put an error made by rules into about half of the examples.

    A text in which the rules find nothing to change stays faithful.
    """
    rules, draw = Rules(examples, errors=(0.7, 0.3)), random.Random(f"{seed}\0corrupted")
    made = (rules.change(e, draw) if draw.random() < 0.5 else e for e in examples)
    return [old if isinstance(new, str) else new for old, new in zip(examples, made, strict=True)]


def _supported(id: str, response: str, source: str, document: str) -> Example:
    return Example(Case(id, response, (Source("text", source),)), Judgement(id, "supported", 0.0), document)


def _wiki_split(data: Path, part: str) -> list[Example]:
    """Make pairs of a sentence and the same in two sentences (Botha et al. 2018), in both directions."""
    made = []
    for file in sorted((data / "plain" / "wiki_split").glob("*.tsv.gz")):
        for i, line in enumerate(gzip.decompress(file.read_bytes()).decode().splitlines()):
            whole, _, parts = line.partition("\t")
            whole, parts = _detokenised(whole), _detokenised(parts.replace("<::::>", " "))
            if whole and parts:
                source, response = (whole, parts) if i % 2 else (parts, whole)
                id = f"{file.name.partition('.')[0]}/{i}"
                made.append(_supported(id, response, source, id))
    return split_by_document(made)[part]


def _detokenised(text: str) -> str:
    """Convert tokenised text to how people write: no blank before punctuation, plain quotes."""
    text = re.sub(r" ([.,;:!?%)\]]|'s\b|n't\b|'(?:re|ve|ll|d|m)\b)", r"\1", text.replace("``", '"').replace("''", '"'))
    text = re.sub(r"([(\[$£€]) ", r"\1", text)
    return " ".join(re.sub(r'" ([^"]*?) "', r'"\1"', text).split())


def _gum_summaries(data: Path, part: str) -> list[Example]:
    """Pair documents with summaries by people and models. Every third pair also gets a copy with a foreign summary."""
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
