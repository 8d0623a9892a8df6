"""`veridical data corrupt`: make synthetic errors."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from hashlib import sha256
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from typer import Option

from veridical.cli.comma_lists import parse_names
from veridical.cli.option_groups import option_groups
from veridical.cli.options import OUTPUT, DataOptions, write_line
from veridical_lab.cli.json_lines import check_out
from veridical_lab.cli.number_lists import parse_numbers, parse_weights
from veridical_lab.cli.shared_options import LabelledData, LocalModelOptions, OutJsonl, topics_of, write_counts

if TYPE_CHECKING:
    from veridical.records.types import Example
    from veridical_lab.corrupt import Corruptor
    from veridical_lab.corrupt.masked import Masked
    from veridical_lab.datasets.topics import Topic

_SAVED = 256  # examples between two saves of a way that changes them one by one


@dataclass(frozen=True, kw_only=True)
class CorruptionOptions:
    """Chooses which examples are corrupted, and how."""

    PANEL: ClassVar[str] = "Corruption"

    method: Annotated[
        str,
        Option(
            metavar="NAME",
            help="What to change: arguments (given by perspective), attributes (of data like e2e), knowledge (a fact "
            "in the source), or the response by entities, rules or masked; or several with weights: rules=2,masked=1.",
        ),
    ]
    types: Annotated[
        str | None,
        Option(
            metavar="NAMES",
            help="Error types, separated by commas. For rules: number, date, unit, name, negation, antonym, relation, "
            "invented, foreign (default: all). For arguments: removed, added, both (the default), meaning, "
            "partly-given, partly-said, repeated, swapped. For knowledge: "
            "entity, circumstance, predicate, coreference, extrinsic, freestyle (default: entity and circumstance).",
        ),
    ] = None
    share: Annotated[
        float, Option(help="The share of the grounded examples to corrupt (0 to 1). The others are not changed.")
    ] = 0.5
    sentences: Annotated[
        int, Option(help="Also use this many sentences of each source as grounded responses.", min=0)
    ] = 0
    excerpts: Annotated[
        int,
        Option(
            help="Also use this many excerpts of each passage of the sources as grounded responses. An excerpt has "
            "one to five sentences, and a passage has 40 to 1,500 words.",
            min=0,
        ),
    ] = 0
    passages: Annotated[
        int,
        Option(
            help="Also use this many passages of each source, of five to eight sentences, as cases that are source "
            "and grounded response at once.",
            min=0,
        ),
    ] = 0
    rewrite: Annotated[
        float,
        Option(help="Share of the grounded responses to rewrite first without changing their meaning (0 to 1)."),
    ] = 0.0
    clutter: Annotated[
        float,
        Option(help="Share of the cases whose sources are surrounded by sentences of other sources (0 to 1)."),
    ] = 0.0
    errors: Annotated[
        str,
        Option(metavar="WEIGHTS", help="For rules: weights of one, two, three … errors per response, such as 6,3,1."),
    ] = "1"
    wording: Annotated[
        str,
        Option(
            help="For arguments, where responses are composed: whether the given arguments have the same words as the "
            "response (same), other ones (other), or there is a case of each (both)."
        ),
    ] = "both"
    per_topic: Annotated[int, Option(help="For arguments: maximum number of draws of arguments per topic.", min=1)] = 6
    pairs: Annotated[
        bool, Option("--pairs", help="Write each corrupted example together with its original, and no others.")
    ] = False
    first: Annotated[
        int | None, Option(metavar="N", help="Use only the first N examples, passages included.", min=1)
    ] = None
    seed: Annotated[int, Option(help="Random seed; the same seed gives the same file.")] = 0


@dataclass(frozen=True, kw_only=True)
class MaskedWordsOptions(LocalModelOptions):
    """Sets how words are masked and replaced."""

    PANEL: ClassVar[str] = "Masked words"

    fill_model: Annotated[
        str | None,
        Option(
            metavar="FOLDER",
            help="For masked: the model that proposes replacements, a masked language model or a causal one.",
        ),
    ] = None
    rank_model: Annotated[
        str | None,
        Option(metavar="FOLDER", help="A causal language model that chooses the most fluent of several candidates."),
    ] = None
    mask_ratio: Annotated[float, Option(help="Share of words to mask (0 to 1).")] = 0.15
    from_sentence: Annotated[int, Option(help="Mask from this sentence of the response on.", min=1)] = 3
    candidates: Annotated[
        int | None, Option(help="Candidates to rank. Default: 8 with --rank-model, else 1.", min=1)
    ] = None
    top_k: Annotated[
        int,
        Option(
            help="Sample from the k likeliest replacements. 1 always takes the likeliest one, and 0 samples from all.",
            min=0,
        ),
    ] = 10
    top_p: Annotated[float, Option(help="Sample from the likeliest replacements with this much probability.")] = 1.0
    entities: Annotated[
        str,
        Option(metavar="NAME", help="What finds names: rules, or spacy:PIPELINE (a folder, or an installed name)."),
    ] = "rules"
    dtype: Annotated[str, Option(help="Precision of the models: fp32, bf16, fp16 or auto.")] = "fp32"
    batch_size: Annotated[
        int, Option(help="The number of responses to change at once. The result does not depend on it.", min=1)
    ] = 32

    def way(self) -> Masked:
        """Load the models, and return the way to corrupt."""
        from veridical.records.errors import InputError
        from veridical_lab.corrupt.masked import Masked, MaskedOptions
        from veridical_lab.corrupt.name_kinds import spacy_names
        from veridical_lab.detectors.spacy_pipeline import load_pipeline
        from veridical_lab.models.filling import PieceSampling

        options = MaskedOptions(
            ratio=self.mask_ratio,
            first_sentence=self.from_sentence,
            candidates=self.candidates,
            sampling=PieceSampling(top_k=self.top_k, top_p=self.top_p),
        )
        find_names = None
        if self.entities != "rules":
            kind, _, name = self.entities.partition(":")
            if kind != "spacy" or not name:
                raise InputError(f"nothing called {self.entities!r} finds names", hint="rules, or spacy:PIPELINE")
            needs = ("ner", "entity_ruler")
            pipeline = load_pipeline(name, exclude=("parser", "lemmatizer"), needs=needs, what="entity recogniser")
            find_names = spacy_names(pipeline)
        model = None if self.fill_model is None else self.load(self.fill_model, ("masked", "causal"))
        ranker = None if self.rank_model is None else self.load(self.rank_model)
        return Masked(model=model, ranker=ranker, options=options, find_names=find_names)


@option_groups
def corrupt_command(
    data: LabelledData,
    out: OutJsonl,
    corruption: CorruptionOptions,
    masked_words: MaskedWordsOptions,
    options: DataOptions,
    as_json: Annotated[
        bool,
        Option("--json", help="Print the report as one JSON document on standard output.", rich_help_panel=OUTPUT),
    ] = False,
) -> None:
    """Make labelled synthetic errors from grounded examples.

    Choose one of these methods:

    arguments: Remove one of the arguments that an answer was given, or add one that it leaves out. For data with topics
    (perspectrum, argkp, .json, .csv), answers are composed first.

    attributes: Remove or change attributes of the source.

    knowledge: Change a name, number or time in the source. With --types, also a predicate or pronouns, or leave
    something open there.

    entities: Change a name, number or time in the response.

    rules: Make errors in the response: another number, date, unit or name, an added or removed negation, an antonym,
    the two sides of a relation swapped, an invented clause, or a foreign sentence.

    masked: Replace words, names and values from the third sentence on by those that a language model expects there
    (--fill-model), and keep the most fluent of several candidates (--rank-model).

    Every unsupported span of the response is marked. Changes that cannot be located are skipped and counted. Both
    versions of a text stay in the same part of a split. The same seed gives the same file, whatever the batch size. If
    the command is interrupted, run it again and it continues.

    For training, also add harmless changes with --rewrite. It changes words, forms of numbers, dates and names, voice
    and order, and shortens some responses a little, both faithful and corrupted ones.

    [bold]veridical data corrupt e2e:data/e2e --method attributes --share 1 --pairs --out e2e-pairs.jsonl[/bold]
    [bold]veridical train probe jsonl:e2e-pairs.jsonl --model models/reader --template data-to-text-bare --out p[/bold]
    [bold]veridical data corrupt perspectrum:data/perspectrum --method arguments --share 0.7 --out errors.jsonl[/bold]
    [bold]veridical data corrupt wikipedia:data/wikipedia --method rules --sentences 2 --out rules.jsonl[/bold]
    [bold]veridical data corrupt wikipedia:data/wikipedia --method masked --passages 2 --fill-model models/minilm-masked
    --rank-model models/reader --out masked.jsonl[/bold]
    [bold]veridical data corrupt wikipedia:data/wikipedia --method rules=2,masked=1 --passages 1 --fill-model
    models/minilm-masked --out mixed.jsonl[/bold]
    [bold]veridical data corrupt plain:texts --method rules --excerpts 3 --rewrite 0.5 --errors 6,3 --out t.jsonl[/bold]
    """
    from veridical.cli.progress import progress_bar
    from veridical.io.serialization import encode
    from veridical.records.detector import digest_of
    from veridical_lab.corrupt import attempts
    from veridical_lab.corrupt.output import CorruptionOutput

    check_out(out, [data])
    corruptor, masked, examples = _way_and_examples(data, corruption, masked_words, options)
    how = {"corruption": asdict(corruption), "options": asdict(options)}
    how["masked"] = {k: v for k, v in asdict(masked_words).items() if k not in ("batch_size", "device")}
    models = getattr(masked, "provenance", ())
    output = CorruptionOutput(out, digest_of([data, how, models]), method=corruptor.name, seed=corruption.seed)
    if done := output.report.inputs:
        output.check_last(next(islice(examples, done - 1, None), None))
        write_line(f"goes on after {done} examples")
    size = _SAVED if masked is None else masked_words.batch_size
    stream = attempts(
        examples, corruptor, share=corruption.share, pairs=corruption.pairs, seed=corruption.seed, batch_size=size
    )
    with progress_bar() as show:
        while made := list(islice(stream, size)):
            output.add(made)
            show("examples", output.report.inputs, None)
    report = output.finish()
    write_line(f"wrote {report.written} examples, {report.corrupted} of them corrupted, to {out}")
    write_counts("errors", report.errors)
    write_counts("not used", report.skipped)
    if as_json:
        sys.stdout.write(encode(report) + "\n")


def _way_and_examples(
    data: str, corruption: CorruptionOptions, masked_words: MaskedWordsOptions, options: DataOptions
) -> tuple[Corruptor, Masked | None, Iterator[Example]]:
    """Return the way to corrupt, its part with models, and the examples, as a stream unless the way draws from all."""
    from veridical.records.errors import InputError
    from veridical_lab.corrupt import WAYS
    from veridical_lab.corrupt.arguments import Arguments
    from veridical_lab.corrupt.knowledge import Knowledge
    from veridical_lab.corrupt.mixture import Mixture
    from veridical_lab.corrupt.rules import Rules

    weights = parse_weights(corruption.method, "--method")
    makers = {name: WAYS.load(name) for name in weights}
    types = None if corruption.types is None else parse_names(corruption.types)
    if "rules" not in weights and corruption.errors != "1":
        raise InputError("--errors is for --method rules", hint="leave it out")
    if not {"rules", "arguments", "knowledge"} & set(weights) and types is not None:
        raise InputError(
            f"{corruption.method!r} has no error types to choose from", hint="leave --types out, or take rules"
        )
    topics = None
    if "arguments" in weights:
        if len(weights) > 1:
            raise InputError("arguments does not mix with other methods", hint="write them to files of their own")
        topics = topics_of(data, options.split, skip_bad=options.skip_bad) if _is_topics(data) else None
    if "masked" not in weights and (masked_words.fill_model or masked_words.rank_model):
        raise InputError("--fill-model and --rank-model are for --method masked", hint="leave them out")
    masked = masked_words.way() if "masked" in weights else None
    examples: Iterable[Example] = (
        _corruptible(data, options, corruption) if topics is None else _composed(topics, corruption)
    )
    if set(weights) != {"masked"}:
        examples = list(examples)

    def made(name: str) -> Corruptor:
        if name == "rules":
            return Rules(examples, types=types, errors=parse_numbers(corruption.errors, "--errors"))
        if name == "arguments":
            return Arguments(examples, types=types, topics=topics)
        if name == "knowledge":
            return Knowledge(examples, types=types)
        corruptor: Corruptor = masked if name == "masked" and masked is not None else makers[name](examples)
        return corruptor

    corruptors = [(made(name), weight) for name, weight in weights.items()]
    return (corruptors[0][0] if len(corruptors) == 1 else Mixture(corruptors)), masked, iter(examples)


def _corruptible(data: str, options: DataOptions, corruption: CorruptionOptions) -> Iterator[Example]:
    """Yield the examples of `data` (none for plain texts), then parts of their sources; read as a stream."""
    from veridical.datasets import load_reader
    from veridical_lab.corrupt.error_types import plain_sentences
    from veridical_lab.corrupt.rewrites import rewritten
    from veridical_lab.corrupt.rules import copied_sentences, text_examples
    from veridical_lab.corrupt.streams import Recipe, cluttered, excerpts, whole_passages

    name, _, path = data.partition(":")
    seed, recipe = corruption.seed, Recipe(responses=max(1, corruption.excerpts))
    labelled: Iterable[Example] = _labelled(data, options)
    parts = corruption.sentences or corruption.excerpts or corruption.passages
    reader: Any = load_reader(name) if parts and Path(path).exists() else None
    is_plain = hasattr(reader, "read_texts")
    held = list(labelled) if parts and not is_plain else []

    def of_sources() -> Iterable[Example]:
        return text_examples(reader.read_texts(Path(path), options.split), name) if is_plain else held

    def texts() -> Iterator[tuple[str, str]]:
        seen: set[bytes] = set()
        for example in of_sources():
            for source in example.case.sources:
                digest = sha256(source.text.encode("utf-8", "surrogatepass")).digest()
                if digest not in seen:
                    yield source.text, example.document or example.case.id
                seen.add(digest)

    examples: Iterable[Example] = () if is_plain else held or labelled
    if corruption.sentences:
        examples = chain(examples, copied_sentences(of_sources(), corruption.sentences, seed=seed))
    if corruption.excerpts:
        examples = chain(examples, (e for text, of in texts() for e in excerpts(text, of, recipe, seed=seed)))
    if corruption.passages:
        examples = chain(examples, (e for text, of in texts() for e in whole_passages(text, of, corruption.passages)))
    examples = islice(examples, corruption.first)
    if corruption.clutter:
        everything = list(examples)
        sources = dict.fromkeys(source.text for example in everything for source in example.case.sources)
        pool = [sentence for text in sources for sentence in plain_sentences(text)]
        examples = cluttered(everything, pool, share=corruption.clutter, seed=seed)
    return rewritten(examples, share=corruption.rewrite, seed=seed)


def _is_topics(data: str) -> bool:
    """Return whether `data` has topics from which answers can be composed, and no answers of its own."""
    from veridical.datasets import DATASETS, load_reader
    from veridical.records.types import Level
    from veridical_lab.datasets.topics import has_topics

    name = data.partition(":")[0]
    return has_topics(data) and (name not in DATASETS or Level.RESPONSE not in load_reader(name).INFO.levels)


def _composed(topics: list[Topic], corruption: CorruptionOptions) -> Iterator[Example]:
    from veridical.records.errors import InputError
    from veridical_lab.corrupt.argument_responses import composed

    if any((corruption.sentences, corruption.excerpts, corruption.passages, corruption.clutter, corruption.rewrite)):
        raise InputError(
            "--sentences, --excerpts, --passages, --clutter and --rewrite are for data that have responses",
            hint="leave them out: answers are composed of topics; for other words choose --wording",
        )
    made = composed(topics, wording=corruption.wording, per_topic=corruption.per_topic, seed=corruption.seed)
    return islice(made, corruption.first)


def _labelled(data: str, options: DataOptions) -> Iterator[Example]:
    with options.read(data) as reading:
        yield from reading
