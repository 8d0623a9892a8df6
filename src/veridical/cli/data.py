"""`veridical data`: labelled data: what there is, what it contains, conversion, and synthetic data."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer
from typer import Argument, Option

from veridical.cli.comma_lists import parse_names, parse_numbers, parse_thresholds
from veridical.cli.delivery import plain_console
from veridical.cli.option_groups import option_groups
from veridical.cli.options import (
    DETECTION,
    OUTPUT,
    DataOptions,
    LabelledData,
    LocalModelOptions,
    ModelFolder,
    Threshold,
    write_line,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from veridical.core.errors import DataError
    from veridical.core.types import Example
    from veridical.datasets.topics import Topic

data_app = typer.Typer(
    no_args_is_help=True, help="Labelled data: list, show, count and convert data sets, and make synthetic ones."
)

OutFile = Annotated[
    Path, Option(metavar="FILE", help="The file to write (JSON Lines); read it as jsonl:FILE.", rich_help_panel=OUTPUT)
]


@data_app.command("list")
def list_command() -> None:
    """List the data sets that can be read, with what they label and their licences.

    [bold]veridical data list[/bold]
    """
    from rich.table import Table

    from veridical.datasets import DATASETS, load_reader

    table = Table("name", "what it is", "labels", "licence")
    for name in DATASETS:
        info = load_reader(name).INFO
        table.add_row(name, info.title, ", ".join(info.levels), info.licence)
    plain_console().print(table)


@data_app.command("statistics")
@option_groups
def statistics_command(
    files: Annotated[
        list[str],
        Argument(metavar="FILE…", help="Text files, one document each; or a data set as SET:PATH (wikipedia:FOLDER)."),
    ],
    out: Annotated[Path, Option(metavar="FILE", help="The file to write (.npz).", rich_help_panel=OUTPUT)],
    window: Annotated[int, Option(help="How many words apart the two words of a pair are at most.", min=1)] = 5,
    max_words: Annotated[int, Option(help="Keep this many words: those in most documents.", min=1)] = 50_000,
    min_pairs: Annotated[int, Option(help="Leave out pairs that occur less often.", min=1)] = 3,
) -> int:
    """Count words, and pairs of words near each other, in any texts: for the TF-IDF and PPMI of word features.

    The file holds words and counts, no running text.

    [bold]veridical data statistics wikipedia:data/wikipedia --out words.npz[/bold]
    [bold]veridical train features xsum_token:data/xsum_token --statistics words.npz --out words[/bold]
    """
    from veridical.core.files import read_text
    from veridical.datasets import DATASETS, read
    from veridical.datasets.wikipedia import read_texts
    from veridical.detectors.features.statistics import count_words

    def texts() -> Iterable[str]:
        for name in files:
            kind, _, path = name.partition(":")
            if kind == "wikipedia" and path:
                yield from read_texts(Path(path))
            elif path and kind in DATASETS:
                seen = dict.fromkeys(
                    text for e in read(name) for text in (e.case.response, *(s.text for s in e.case.sources))
                )
                yield from seen
            else:
                yield read_text(Path(name))

    counted = count_words(texts(), window=window, max_words=max_words, min_pairs=min_pairs)
    counted.save(out)
    write_line(
        f"wrote {out}: {len(counted.words):,} words and {len(counted.pair_keys):,} pairs of {counted.documents:,} texts"
    )
    return 0


@data_app.command("show")
@option_groups
def show_command(
    data: LabelledData,
    options: DataOptions,
    count: Annotated[int, Option("-n", help="How many cases.", min=1)] = 3,
    case_id: Annotated[str | None, Option("--id", metavar="ID", help="Only the case with this id.")] = None,
) -> None:
    """Show labelled cases with the human labels marked.

    [bold]veridical data show bump:data/bump -n 2[/bold]
    [bold]veridical data show bump:data/bump --id 17[/bold]
    """
    from veridical.core.decide import decide
    from veridical.core.errors import InputError
    from veridical.core.types import Checked
    from veridical.report.terminal import print_report

    with options.read(data) as examples:
        chosen = list(islice((e for e in examples if case_id is None or e.case.id == case_id), count))
    if not chosen:
        raise InputError(f"no case {case_id!r} in {data}", hint="ids are as `veridical data show` prints them")
    decisions = [decide(example.case, example.gold) for example in chosen]
    checked = [Checked(e.case, (e.gold,), (d,), d.outcome) for e, d in zip(chosen, decisions, strict=True)]
    print_report(checked, plain_console())


@data_app.command("stats")
@option_groups
def stats_command(
    data: LabelledData,
    options: DataOptions,
    as_json: Annotated[
        bool, Option("--json", help="Print one JSON document instead of text.", rich_help_panel=OUTPUT)
    ] = False,
) -> None:
    """Count cases, documents, labels and marked text, and print the hash that results refer to.

    [bold]veridical data stats xsum_token:data/xsum_token[/bold]
    """
    from veridical.core.serialization import encode
    from veridical.datasets.stats import count_examples
    from veridical.report.data_statistics import statistics_text

    with options.read(data) as examples:
        statistics = count_examples(examples)
    sys.stdout.write(encode(statistics) + "\n" if as_json else statistics_text(statistics))


@data_app.command("convert")
@option_groups
def convert_command(
    data: LabelledData,
    out: Annotated[Path, Argument(metavar="FILE", help="The file to write (JSON Lines); read it as jsonl:FILE.")],
    options: DataOptions,
    part: Annotated[
        str | None, Option(metavar="PART", help="Only one part of a 70/10/20 split by document: train, valid or test.")
    ] = None,
    seed: Annotated[int, Option(help="Random seed of the split by document.")] = 0,
) -> None:
    """Write labelled data as JSON Lines, one example per line, which jsonl:FILE reads back.

    [bold]veridical data convert bump:data/bump bump.jsonl[/bold]
    [bold]veridical data convert bump:data/bump bump-train.jsonl --part train[/bold]
    """
    from veridical.core.errors import UnknownNameError
    from veridical.datasets.split import FRACTIONS, split_by_document

    if part is not None and part not in FRACTIONS:
        raise UnknownNameError("part", part, FRACTIONS)
    with options.read(data) as reading:
        examples = list(reading)
    chosen = examples if part is None else split_by_document(examples, seed=seed)[part]
    _write_examples(out, chosen)
    write_line(f"wrote {len(chosen)} of {len(examples)} examples to {out}")


@data_app.command("label")
@option_groups
def label_command(
    data: LabelledData,
    detector: Annotated[
        str, Option(metavar="DETECTOR", help="The detector whose scores become the labels; see: veridical detectors.")
    ],
    out: Annotated[Path, Option(metavar="FILE", help="The file to write (JSON Lines); read it as jsonl:FILE.")],
    options: DataOptions,
) -> None:
    """Write data with the scores of a detector as labels, to train another one on them (distillation).

    What the detector could not judge is left out. The scores are targets as they are with `train tokens --soft-labels`.

    [bold]veridical data label wice:data/wice --detector tokens:teacher --out soft.jsonl[/bold]
    [bold]veridical train tokens jsonl:soft.jsonl --model models/minilm --soft-labels --out student[/bold]
    """
    import hashlib
    from dataclasses import replace

    from veridical.cli.progress import progress_bar
    from veridical.core.judging import judge
    from veridical.detectors import load_detector

    with options.read(data) as reading:
        examples = list(reading)
    loaded = load_detector(detector)
    labelled: list[Example] = []
    with progress_bar() as progress:
        for at in range(0, len(examples), 64):
            progress(loaded.name, at, len(examples))
            batch = examples[at : at + 64]
            judgements = judge(loaded, [example.case for example in batch])
            labelled += [
                replace(example, gold=judgement, annotations=())
                for example, judgement in zip(batch, judgements, strict=True)
                if judgement.judged != ()
            ]
        progress(loaded.name, len(examples), len(examples))
    _write_examples(out, labelled)
    digest = hashlib.sha256(out.read_bytes()).hexdigest()
    write_line(f"wrote {len(labelled)} of {len(examples)} examples to {out} (SHA-256 {digest})")


@dataclass(frozen=True, kw_only=True)
class CorruptionOptions:
    """How examples are corrupted, and which."""

    PANEL: ClassVar[str] = "Corruption"

    method: Annotated[
        str,
        Option(
            help="arguments (given, by perspective), attributes (of e2e-like data), knowledge (of the source), "
            "entities or rules (of the response)."
        ),
    ]
    types: Annotated[
        str | None,
        Option(
            metavar="NAMES",
            help="Error types, separated by commas. For rules: number, date, unit, name, negation, antonym, relation, "
            "invented, foreign (default: all). For arguments: removed, added, both (the default), partly-given, "
            "partly-said, repeated, swapped.",
        ),
    ] = None
    share: Annotated[
        float, Option(help="Share of the grounded examples to corrupt (0 to 1); the others stay as they are.")
    ] = 0.5
    sentences: Annotated[
        int, Option(help="Also use this many sentences of each source as grounded responses.", min=0)
    ] = 0
    excerpts: Annotated[
        int,
        Option(
            help="Also use this many excerpts of each passage of the sources as grounded responses: one to five "
            "sentences; passages have 40 to 1,500 words.",
            min=0,
        ),
    ] = 0
    rewrite: Annotated[
        float,
        Option(help="Share of the grounded responses to rewrite first so that they mean the same (0 to 1)."),
    ] = 0.0
    clutter: Annotated[
        float,
        Option(help="Share of the cases whose sources get sentences of other sources around them (0 to 1)."),
    ] = 0.0
    errors: Annotated[
        str,
        Option(metavar="WEIGHTS", help="For rules: weights of one, two, three … errors per response, such as 6,3,1."),
    ] = "1"
    wording: Annotated[
        str,
        Option(
            help="For arguments, where responses are composed: the given arguments have the same words as the "
            "response, other ones (paraphrases), or both."
        ),
    ] = "both"
    per_topic: Annotated[int, Option(help="For arguments: maximum number of draws of arguments per topic.", min=1)] = 6
    pairs: Annotated[
        bool, Option("--pairs", help="Write each corrupted example together with its original, and no others.")
    ] = False
    seed: Annotated[int, Option(help="Random seed; the same seed gives the same file.")] = 0


@data_app.command("corrupt")
@option_groups
def corrupt_command(data: LabelledData, corruption: CorruptionOptions, options: DataOptions, out: OutFile) -> None:
    """Make labelled synthetic errors from grounded examples.

    arguments: take away one of the arguments that an answer was given, or add one that it leaves out; of topics
    (perspectrum, argkp, .json, .csv) the answers are composed first. attributes: remove some from the source, or change
    them. knowledge: change a name, number or time in the source.
    entities: change one in the response. rules: make one error in the response: another number, date, unit or name, a
    negation put in or taken out, an antonym, the two sides of a relation swapped, an invented clause, a sentence that
    is foreign to it. Every span of the response that is no longer supported is marked; changes that cannot be located
    are skipped and counted. Both versions of a text stay in the same part of a split.

    For training, mix in what is no error: --rewrite puts other words, forms of numbers, dates and names, voice and
    order in place of the response's own and cuts it lightly, in faithful and in corrupted responses alike.

    [bold]veridical data corrupt e2e:data/e2e --method attributes --share 1 --pairs --out e2e-pairs.jsonl[/bold]
    [bold]veridical train probe jsonl:e2e-pairs.jsonl --model models/reader --template data-to-text-bare --out p[/bold]
    [bold]veridical data corrupt perspectrum:data/perspectrum --method arguments --share 0.7 --out errors.jsonl[/bold]
    [bold]veridical data corrupt wikipedia:data/wikipedia --method rules --sentences 2 --out rules.jsonl[/bold]
    [bold]veridical data corrupt plain:texts --method rules --excerpts 3 --rewrite 0.5 --errors 6,3 --out t.jsonl[/bold]
    """
    from functools import partial

    from veridical.core.errors import InputError
    from veridical.corrupt import Corruptor, corrupt
    from veridical.corrupt.arguments import Arguments
    from veridical.corrupt.rules import Rules

    how: str | Callable[..., Corruptor] = corruption.method
    types = None if corruption.types is None else parse_names(corruption.types)
    if corruption.method == "rules":
        how = partial(Rules, types=types, errors=parse_numbers(corruption.errors, "--errors"))
    elif corruption.errors != "1":
        raise InputError("--errors is for --method rules", hint="leave it out")
    if corruption.method == "arguments" and _is_topics(data):
        topics = _topics(data, options)
        how = partial(Arguments, types=types, topics=topics)
        examples = _composed(topics, corruption)
    else:
        examples = _corruptible(data, options, corruption)
    corrupted = corrupt(
        examples,
        how,
        share=corruption.share,
        pairs=corruption.pairs,
        seed=corruption.seed,
        types=types if isinstance(how, str) else None,
    )
    _write_examples(out, corrupted.examples)
    write_line(f"wrote {len(corrupted.examples)} examples, {corrupted.changed} of them corrupted, to {out}")
    _write_counts("not used", corrupted.skipped)


@dataclass(frozen=True, kw_only=True)
class GenerationOptions:
    """How responses are generated."""

    PANEL: ClassVar[str] = "Generation"

    task: Annotated[str, Option(help="summarise, dialogue or data-to-text.")]
    template: Annotated[
        str | None, Option(help="The prompt template. Default: the task's (tldr, dialogue, data-to-text).")
    ] = None
    top_k: Annotated[
        int, Option(help="Sample from the k most likely tokens; 1: always the most likely; 0: from all.", min=0)
    ] = 2
    temperature: Annotated[float, Option(help="Lower is more conservative; 0 always takes the most likely token.")] = (
        1.0
    )
    max_tokens: Annotated[int | None, Option(help="Maximum tokens per response. Default: the task's.")] = None
    max_prompt: Annotated[
        int | None, Option(help="Maximum tokens per prompt. Default: what fits into the model's context.", min=1)
    ] = None
    truncate: Annotated[
        bool, Option("--truncate", help="Truncate sources that are too long, instead of skipping their cases.")
    ] = False
    sample: Annotated[int | None, Option(help="Use only this many inputs, drawn by the seed.")] = None
    seed: Annotated[int, Option(help="Random seed of the sample and of generation.")] = 0
    batch_size: Annotated[int, Option(help="Responses generated at once.", min=1)] = 16
    label: Annotated[
        str | None,
        Option(
            metavar="SPEC", help="Label the responses with this detector, such as overlap.", rich_help_panel=DETECTION
        ),
    ] = None
    threshold: Threshold = None


@data_app.command("generate")
@option_groups
def generate_command(
    data: LabelledData,
    model: ModelFolder,
    out: Annotated[
        Path,
        Option(
            metavar="FILE",
            help="The file to write (JSON Lines); responses that it has already are not generated again.",
            rich_help_panel=OUTPUT,
        ),
    ],
    generation: GenerationOptions,
    options: DataOptions,
    local: LocalModelOptions,
) -> None:
    """Generate responses to the inputs of a data set with a local model: natural errors, to be labelled.

    Each case keeps its prompt. Responses are unlabelled unless a detector is named with --label, and such labels carry
    its name. The same seed gives the same responses; an interrupted run continues when it is started again.

    [bold]veridical data generate bump:data/bump --model models/reader --task summarise --sample 50 --out s.jsonl[/bold]
    [bold]veridical data generate e2e:data/e2e --model m --task data-to-text --label overlap --out d.jsonl[/bold]
    """
    from veridical.cli.progress import progress_bar
    from veridical.core.judging import thresholds_in_force
    from veridical.detectors import load_detector
    from veridical.tasks.grounded import Writing, find_task, inputs_of, labelled, write
    from veridical.tasks.responses import append_responses, kept_responses

    writing = Writing(
        find_task(generation.task),
        generation.template,
        generation.top_k,
        generation.temperature,
        generation.max_tokens,
        generation.max_prompt,
        generation.seed,
        generation.truncate,
    )
    detector = None if generation.label is None else load_detector(generation.label)
    thresholds = thresholds_in_force(detector, parse_thresholds(generation.threshold))
    with options.read(data) as reading:
        inputs = inputs_of(reading, writing.prompt, sample=generation.sample, seed=generation.seed)
    name = Path(model).name
    wanted = {writing.id_of(given, name): given for given in inputs}
    done = kept_responses(out, wanted, writing.groups(name), labelled=detector is not None)
    left = [given for id, given in wanted.items() if id not in done]
    loaded = local.load(model)
    missed: Counter[str] = Counter()
    with progress_bar() as show:
        for start in range(0, len(left), generation.batch_size):
            show("responses", len(done) + start, len(wanted))
            results = write(loaded, left[start : start + generation.batch_size], writing, name=name)
            missed.update(result for result in results if isinstance(result, str))
            responses = [result for result in results if not isinstance(result, str)]
            append_responses(out, responses if detector is None else labelled(responses, detector, thresholds))
    before = f" ({len(done)} were there)" if done else ""
    write_line(f"wrote {len(left) - missed.total()} of {len(wanted)} responses to {out}{before}")
    _write_counts("no response", missed)


def _is_topics(data: str) -> bool:
    """Whether `data` has topics from which answers can be composed, and no answers of its own."""
    from veridical.core.types import Level
    from veridical.datasets import DATASETS, load_reader
    from veridical.datasets.topics import has_topics

    name = data.partition(":")[0]
    return has_topics(data) and (name not in DATASETS or Level.RESPONSE not in load_reader(name).INFO.levels)


def _topics(data: str, options: DataOptions) -> list[Topic]:
    from veridical.datasets.topics import read_topics

    skipped: list[DataError] = []
    topics = list(read_topics(data, options.split, on_bad=skipped.append if options.skip_bad else None))
    if skipped:
        write_line(f"veridical: {len(skipped)} rows were skipped; the first: {skipped[0]}")
    return topics


def _composed(topics: list[Topic], corruption: CorruptionOptions) -> list[Example]:
    from veridical.core.errors import InputError
    from veridical.corrupt.argument_responses import composed

    if corruption.sentences or corruption.excerpts or corruption.clutter or corruption.rewrite:
        raise InputError(
            "--sentences, --excerpts, --clutter and --rewrite are for responses that there are already",
            hint="answers are composed of topics; for other words choose --wording",
        )
    return list(composed(topics, wording=corruption.wording, per_topic=corruption.per_topic, seed=corruption.seed))


def _corruptible(data: str, options: DataOptions, corruption: CorruptionOptions) -> list[Example]:
    """The examples of `data`, then sentences and excerpts of their sources; only these where it is plain texts."""
    from veridical.corrupt.error_types import plain_sentences
    from veridical.corrupt.rewrites import rewritten
    from veridical.corrupt.rules import copied_sentences, text_examples
    from veridical.corrupt.streams import Recipe, cluttered, excerpts
    from veridical.datasets import load_reader

    name, _, path = data.partition(":")
    seed, responses = corruption.seed, corruption.excerpts
    if (
        (corruption.sentences or responses)
        and Path(path).exists()
        and hasattr(reader := load_reader(name), "read_texts")
    ):
        given: list[Example] = []
        of_sources = list(text_examples(reader.read_texts(Path(path), options.split), name))
    else:
        with options.read(data) as reading:
            given = of_sources = list(reading)
    examples = [*given, *copied_sentences(of_sources, corruption.sentences, seed=seed)]
    texts = {source.text: e.document or e.case.id for e in of_sources if responses for source in e.case.sources}
    recipe = Recipe(responses=max(1, responses))
    examples += [excerpt for text, document in texts.items() for excerpt in excerpts(text, document, recipe, seed=seed)]
    if corruption.clutter:
        sources = dict.fromkeys(source.text for example in examples for source in example.case.sources)
        pool = [sentence for text in sources for sentence in plain_sentences(text)]
        examples = list(cluttered(examples, pool, share=corruption.clutter, seed=seed))
    return list(rewritten(examples, share=corruption.rewrite, seed=seed))


def _write_examples(out: Path, examples: Iterable[Example]) -> None:
    from veridical.core.files import write_whole
    from veridical.core.serialization import encode

    write_whole(out, "".join(encode(example) + "\n" for example in examples))


def _write_counts(what: str, counts: Mapping[str, int]) -> None:
    for reason, count in counts.items():
        write_line(f"{what}: {count:>6}  {reason}")
