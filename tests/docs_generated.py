"""The parts of the docs that are made from the code. `make docs` writes them, a test holds them in step."""

from __future__ import annotations

import csv
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import redirect_stdout
from functools import partial
from inspect import Parameter, getdoc, signature
from io import StringIO
from itertools import starmap
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests import api_reference, interfaces
from tests.processes import python
from veridical.detectors import DETECTORS
from veridical.records.detector import info_of

ROOT = Path(__file__).parents[1]
ROWS = ROOT / "benchmarks" / "rows"


def rows_of(name: str) -> list[dict[str, Any]]:
    """The rows of a file in `benchmarks/rows`."""
    return [json.loads(line) for line in (ROWS / name).read_text("utf-8").splitlines()]


def table(head: str, rows: Iterable[Iterable[object]], *paragraphs: str) -> str:
    """A Markdown table and paragraphs below it. In `head` each column ends in "|"; in ":|" if aligned to the right."""
    titles = re.findall(r"(.*?)(:?)\|(?: |$)", head)
    lines = [f"| {' | '.join(title.strip() for title, _ in titles)} |"]
    lines.append(f"|{'|'.join(f'---{right}' for _, right in titles)}|")
    lines += [f"| {' | '.join(map(str, cells))} |" for cells in rows]
    return "\n".join([*(line.replace("|  ", "| ") for line in lines), *(f"\n{text}" for text in paragraphs)])


def dates_of(rows: Iterable[dict[str, Any]]) -> str:
    """The days on which rows were measured."""
    return ", ".join(sorted({row["date"] for row in rows}))


def commands_of(rows: Iterable[dict[str, Any]]) -> str:
    """The commands that made rows, as a block of code."""
    return "\n".join(["```sh", *dict.fromkeys(row["command"] for row in rows), "```"])


def first_example() -> str:
    """What the first example of the README prints."""
    code = re.search(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert code
    with redirect_stdout(StringIO()) as printed:
        exec(compile(code[1], "README.md", "exec"), {"__name__": "__main__"})
    return f"```text\n{printed.getvalue()}```"


FIGURES = {"roc_auc": "ranking (ROC AUC)", "recall": "wrong responses found", "false_alarms": "right ones flagged"}


def _means() -> tuple[list[Any], dict[str, tuple[str, ...]]]:
    """The rows of the labelled sets, and the means of `FIGURES` over these sets by detector."""
    from veridical_lab.bench.results import read_result_rows
    from veridical_lab.report.result_tables import mean_tables

    rows = [row for row in read_result_rows([ROWS / "yardsticks.jsonl"]) if row.group is None]
    (means,) = mean_tables(rows)
    places = [next(i for i, head in enumerate(means.head) if head.startswith(name)) for name in FIGURES]
    return rows, {line[0]: tuple(line[i] for i in places) for line in means.lines}


def first_figures() -> str:
    """How well `default` and word overlap do: means over the labelled sets."""
    rows, means = _means()
    head = f"mean of {len({row.data for row in rows})} public sets | {' :| '.join(FIGURES.values())} :|"
    return table(head, [("`default`", *means["default"]), ("word overlap", *means["overlap"])])


def which_detector() -> str:
    """The detectors by what they are for, with what they need and how well they do."""
    rows, means = _means()

    def measured(name: str) -> tuple[str, ...]:
        own = [row for row in rows if row.detector == name]
        return (f"{sum(row.seconds for row in own) / sum(row.n for row in own):.2g}", *means[name])

    uses = [
        ("[`default`](default.md)", "a first check, words and omissions marked", "nothing", *measured("default")),
        (
            "[`overlap`](overlap.md)",
            "a fast list of all words that no source has; it flags most right responses, so read its marks, not its "
            "outcome",
            "nothing",
            *measured("overlap"),
        ),
        ("[`verify`](verify.md)", "the judgement of a chat model, claim by claim", "a request for each claim"),
        ("[`judge`, `selfcheck`](judge.md)", "the judgement of a chat model, all at once", "a request or a few"),
        ("[`hf`, `entailment`](entailment.md)", "a stronger reader on your machine", "a download, `veridical[models]`"),
        ("[`tokens`](tokens.md), and those marked (lab)", "a detector trained on your labels", "labelled responses"),
    ]
    catalogue = json.loads((ROOT / "src/veridical/inference/catalogue.json").read_text("utf-8"))
    published = "; ".join(
        f"`{name}`, {each['figures']} ({f'[paper]({url})' if (url := each['source']).startswith('http') else url})"
        for name, each in catalogue.items()
        if each["figures"]
    )
    return table(
        f"detector | use it for | it needs | seconds a response :| {' :| '.join(FIGURES.values())} :|",
        [(*use, *("" for _ in range(7 - len(use)))) for use in uses],
        f"The figures are means over {len({row.data for row in rows})} public sets of real outputs (95 % intervals), "
        f"on documents that training has not seen. Times are of {rows[0].machine}; more: [speed](default.md#speed).",
        f"Published figures of checkpoints that `hf` reads: {published}.",
    )


def comparison(path: Path = ROWS / "llm-faithfulness.jsonl") -> str:
    """RAGAS, DeepEval, a judge and our detectors on the same answers, by the last row of each."""
    from veridical.metrics.measure import Measured
    from veridical.report.tables import cell

    if not path.exists():
        return "Nothing is measured yet."
    rows = {row["tool"]: row for row in map(json.loads, path.read_text("utf-8").splitlines())}
    names = {
        "default": "`default`",
        "judge": "`judge:yes_no`",
        "verify": "`verify`",
        "ragas": "RAGAS faithfulness",
        "deepeval": "DeepEval faithfulness",
    }

    def figure(found: Mapping[str, Any]) -> str:
        return cell(Measured(*(found[name] for name in ("value", "low", "high"))))

    lines = [
        (
            name,
            *(figure(row[of]) for of in ("roc_auc", "false_alarms", "recall")),
            row["not_judged"],
            _figure(row["seconds"]),
            f"{row['calls']:g}",
            f"{row['prompt_tokens']:,.0f}, {row['completion_tokens']:,.0f}",
        )
        for tool, name in names.items()
        if (row := rows.get(tool))
    ]
    head = "| ranking (ROC AUC) :| right ones flagged :| wrong ones found :| not judged :| seconds :| calls :|"
    some = next(iter(rows.values()))
    about = (
        f"{some['n']} answers to {some['n'] // 2} questions of {some['data']}, {some['split']}",
        f"chat model {some['model']}",
        "95% intervals (ROC AUC: bootstrap over questions; else Wilson)",
        "seconds, calls and tokens: medians per answer",
        f"{some['date']}.",
    )
    return table(f"{head} tokens read, written :|", lines, "; ".join(about))


def client_cost() -> str:
    """What checking a response costs the clients of Veridical, RAGAS and DeepEval, without the time of a model."""
    rows = [json.loads(line) for line in (ROWS / "llm-peers.jsonl").read_text("utf-8").splitlines()]
    measured = {(row["what"], row["latency_ms"]): row for row in rows if "latency_ms" in row}
    names = {
        "veridical": "`verify`",
        "veridical, 8 claims a call": "`verify`, `claims_per_call=8`",
        "ragas": "RAGAS 0.4.3",
        "deepeval": "DeepEval 4.3.1",
        "deepeval, one client": "DeepEval, HTTP client reused",
    }
    lines = []
    for what, name in names.items():
        fast, slow = measured[what, 0], measured[what, 200]
        each = f"{fast['calls'] / fast['responses']:g}", f"{fast['prompt_words'] / fast['responses']:,.0f}"
        times = (f"{row['seconds'][0]:.1f}" for row in (fast, slow))
        lines.append((name, *each, f"{fast['cpu_ms_per_call'][0]:.2f}", *times))
    head = "| calls :| prompt words :| CPU ms per call :| s, at once :| s, 200 ms :|"
    foot = f"Calls and words per response, seconds for all; medians; {rows[0]['machine']}; {rows[0]['date']}."
    return table(head, lines, foot)


def command_help() -> str:
    """The help of every command: its text, examples as a block of code, and its options by panel."""
    from typer.main import get_command

    import veridical.cli as cli

    group = get_command(cli.app)
    sections = []
    for name in (*cli.COMMANDS.table, *sorted(cli.COMMANDS.plugins)):
        command = group.commands[name]  # type: ignore[attr-defined]
        sections.append(_section(f"## veridical {name}", command))
        for below, inner in getattr(command, "commands", {}).items():
            sections.append(_section(f"### veridical {name} {below}", inner))
    return "\n\n".join(sections)


def layouts() -> str:
    """The columns that are recognised, best first."""
    from veridical.io.columns import LAYOUTS

    def cells(layout: Any) -> tuple[str, ...]:
        columns = (layout.responses, layout.sources, layout.questions)
        return layout.name, *(", ".join(f"`{name}`" for name in names) for names in columns)

    return table("tool | response | sources | question |", map(cells, LAYOUTS))


def templates() -> str:
    """The prompt templates, except those with examples and those of one published detector."""
    from veridical.inference.template import TEMPLATES

    lines = []
    for name in ("general", "bare", "tldr", "short", "knowledge", "qa", "plain"):
        parts = re.split(r"(\n+)", TEMPLATES[name].text)
        shown = (part.replace("\n", "⏎") if part.startswith("\n") else f"`{part}`" for part in parts)
        lines.append((f"`{name}`", " ".join(shown)))
    lines.append(("`chat`", "the tokenizer's chat template, then the response"))
    lines.append(("`raw`", "`case.prompt`, then the response"))
    return table("template | text |", lines)


def _section(title: str, command: Any) -> str:
    panels: dict[str, list[str]] = {}
    for parameter in command.params:
        if parameter.name == "help":
            continue
        about = re.sub(r"\s+", " ", parameter.help or "")
        if parameter.param_type_name == "option":
            names = ", ".join(f"`{option}`" for option in (*parameter.opts, *parameter.secondary_opts))
            default = parameter.default
            if parameter.required:
                about += " [required]"
            elif not isinstance(default, bool) and default not in (None, []):
                about += f" [default: {default}]"
        else:
            names = f"`{parameter.metavar or parameter.name.upper()}`"
        is_argument = parameter.param_type_name == "argument"
        panel = "Arguments" if is_argument else parameter.rich_help_panel or "Options"
        panels.setdefault(panel, []).append(f"| {names} | {about} |")
    rows = [row for panel, of_panel in panels.items() for row in (f"| **{panel}** | |", *of_panel)]
    example = r"\[bold\](.*?)\[/bold\]"
    text = re.sub(
        rf"(?:{example}[^\n]*\n?)+",
        lambda run: "```sh\n" + "\n".join(map(_one_line, re.findall(example, run[0], re.DOTALL))) + "\n```\n",
        command.help or "",
        flags=re.DOTALL,
    )
    table = "\n".join(["| option | meaning |", "|---|---|", *rows]) if rows else ""
    return f"{title}\n\n{text.strip()}\n\n{table}".rstrip()


def _one_line(text: str) -> str:
    return " ".join(text.split())


def detector_table() -> str:
    """The table of registered detectors."""

    def cells(name: str) -> tuple[str, ...]:
        cls = DETECTORS.load(name)
        lab = "" if name in DETECTORS.table else " (lab)"
        return f"`{name}`{lab}", (getdoc(cls) or "").partition("\n")[0], ", ".join(info_of(cls).levels)

    return table("name | what it does | scores |", map(cells, (*DETECTORS.table, *sorted(DETECTORS.plugins))))


LINKS = {
    "As in `models.load`": "As for [every local model](../models.md#loading)",
    "(`inference.template`)": "([list](../models.md#prompts))",
}


def option_table(name: str) -> str:
    """The options in a detector's spec.

    They stand under "Options:" in the docstring of its `from_spec`; without that section they are the keyword arguments
    of its class. "As in `CLASS`." stands for what the docstring of that class says of the same names.
    """
    cls = DETECTORS.load(name)
    form = re.search(r"`[^`]+`", cls.from_spec.__doc__ or "")
    assert form, f"from_spec of {name} does not say how its spec is written"
    options = _described(cls.from_spec, "Options")
    if not options:
        names = [p.name for p in signature(cls).parameters.values() if p.kind is p.KEYWORD_ONLY and p.name != "name"]
        options = {", ".join(names): f"As in `{cls.__name__}`."}
    lines = [f"Write {form[0]}.", "", "| option | default | meaning |", "|---|---|---|"]
    for written, about in options.items():
        other = re.fullmatch(r"As in `(\w+)`\.", about)
        at = vars(sys.modules[cls.__module__])[other[1]] if other else cls
        for option in written.split(", "):
            meaning = _described(at, "Args|Attributes")[option] if other else about
            meaning, usual = _default_of(meaning, signature(at).parameters.get(option))
            for reference, link in LINKS.items():
                meaning = meaning.replace(reference, link)
            lines.append(f"| `{option}` | {usual} | {meaning} |".replace("|  |", "| |"))
    return "\n".join(lines)


def _described(thing: Any, section: str) -> dict[str, str]:
    """The entries of a section of a docstring, such as "Args"."""
    found = re.search(rf"^(?:{section}):\n((?: +.*\n?)+)", getdoc(thing) or "", re.MULTILINE)
    entries = re.findall(r"^ {4}(\S[^:\n]*): (.*(?:\n {5,}.*)*)", found[1] if found else "", re.MULTILINE)
    return {name: _one_line(about) for name, about in entries}


def _default_of(about: str, parameter: Parameter | None) -> tuple[str, str]:
    """The meaning of an option, and its default: what "Default: …" (or "None: …") says of it, or the parameter's."""
    about = re.sub(r'"([^" ]+)"', r"`\1`", about).replace("|", r"\|")
    said = re.search(r"[;.] (?:None|Default): (.*?)(?=\. |\.$)", about)
    if said:
        about = (about[: said.start()] + about[said.end() :]).strip()
        return about, said[1]
    default = Parameter.empty if parameter is None else parameter.default
    if isinstance(default, bool):
        return about, "`yes`" if default else "`no`"
    return about, "" if default in (Parameter.empty, None, ()) else f"`{default}`"


def results(name: str, metrics: str) -> Callable[[], str]:
    """The committed rows of one file as Markdown tables, groups left out."""

    def made() -> str:
        from veridical_lab.bench.results import read_result_rows
        from veridical_lab.report.result_tables import result_tables
        from veridical_lab.report.table_formats import markdown

        rows = [row for row in read_result_rows([ROWS / name]) if row.group is None]
        return markdown(result_tables(rows, metrics.split()))

    return made


def by_language(name: str) -> Callable[[], str]:
    """Return a maker of the table of the default detector's figures in a file of rows, by language."""

    def made() -> str:
        from veridical_lab.bench.results import read_result_rows

        rows = [row for row in read_result_rows([ROWS / name]) if row.detector == "default"]
        whole = next(row for row in rows if row.group is None)

        def cells(row: Any) -> tuple[object, ...]:
            figures = [row.metrics[name] for name in ("roc_auc", "false_alarms", "recall")]
            intervals = ["" if each.low is None else f" [{each.low:.2f}, {each.high:.2f}]" for each in figures]
            shown = (f"{each.value:.2f}{interval}" for each, interval in zip(figures, intervals, strict=True))
            language = "all" if row.group is None else row.group.removeprefix("language=")
            return (language, row.n, row.documents, *shown)

        foot = f"95% intervals by bootstrap over documents; {whole.data} ({whole.data_hash[:12]}); {whole.date}."
        of_languages = sorted((row for row in rows if row.group is not None), key=lambda row: row.group or "")
        head = "language | n :| documents :| ROC AUC | right ones flagged | wrong ones found |"
        return table(head, map(cells, [*of_languages, whole]), foot)

    return made


def yardsticks() -> str:
    """The default detector beside the baselines: means over the labelled sets, written sets, pairs by kind of error."""
    from veridical_lab.bench.results import read_result_rows
    from veridical_lab.report.result_tables import mean_tables, metric_tables, result_tables
    from veridical_lab.report.table_formats import markdown

    labelled, written = (read_result_rows([ROWS / f"yardsticks{name}.jsonl"]) for name in ("", "-written"))
    pairs = [row for row in written if (row.detector, row.data, row.foreign) == ("default", "written_pairs", 0)]
    kinds = [row for row in pairs if (row.group or "").startswith("tag=")]
    whole = [row for row in written if row.group is None]
    tables = [*mean_tables(labelled), *metric_tables(whole, ["roc_auc", "false_alarms", "recall"])]
    return markdown([*tables, *result_tables(kinds, ["pair_accuracy", "false_alarms", "recall"])])


def default_results() -> str:
    """The default detector beside word overlap and the words of the responses, a table for each metric."""
    from veridical_lab.bench.results import read_result_rows
    from veridical_lab.report.result_tables import mean_tables, metric_tables
    from veridical_lab.report.table_formats import markdown

    rows = [row for row in read_result_rows([ROWS / "yardsticks.jsonl"]) if row.group is None]
    shown = metric_tables(rows, ["roc_auc", "false_alarms", "recall", "ece"])
    return markdown([*shown, *mean_tables(rows)])


def default_speed(path: Path = ROWS / "default-speed.jsonl") -> str:
    """What the default detector costs, by the last row of each measurement."""
    rows = {row["what"]: row for row in map(json.loads, path.read_text("utf-8").splitlines())}

    def spread(found: dict[str, float], unit: str = "", scale: float = 1) -> str:
        median, low, high = (_figure(scale * found[name]) for name in ("median", "p5", "p95"))
        return f"{median}{unit}" if low == high else f"{median}{unit} ({low} to {high})"

    def time(row: dict[str, Any]) -> str:
        unit, scale = (" ms", 1e3) if row["seconds"]["median"] < 1 else (" s", 1)
        return spread(row["seconds"], unit, scale)

    def rate(row: dict[str, Any]) -> str:
        per_second = f"{spread(row['responses_per_second'])} responses a second; tokens a second: "
        encoder = row.get("encoder_tokens_per_second")
        read = f"{spread(encoder)} in the encoder, " if encoder else ""
        return f"{per_second}{read}{spread(row['text_tokens_per_second'])} of text"

    many, long, peer = rows["mixed"], rows["long, first"], rows.get("mixed, lettucedetect")
    wanted = [
        ("`veridical check examples/demo.jsonl`, the whole process", "cold, default", time),
        ("the same with `--detector overlap`", "cold, overlap", time),
        ("a response of 1 sentence, a source of 350 to 400 tokens", "warm 1", time),
        ("a response of 3 sentences, a source of 350 to 400 tokens", "warm 3", time),
        (f"{many['cases']} responses in one call, sources of 40 to 1,200 words", "mixed", rate),
    ]
    if peer:
        name = f"LettuceDetect {peer['versions']['lettucedetect']}, one by one"
        base = rows["mixed, lettucedetect, base"]
        wanted += [
            (f"{name}, with a MiniLM encoder (6 layers of 384)", "mixed, lettucedetect", rate),
            (f"the same in the size of its base model, {base['cases']} of the responses", base["what"], rate),
        ]
    pages = f"a source of {long['source_words']:,} words"
    wanted += [
        (f"a response of 5 sentences, {pages}", "long, first", time),
        ("another response to that source", "long, again", time),
        (f"a response of 5 sentences, {pages} to cover", "cover", time),
    ]
    lines = ["| what | time or rate | peak memory | calls |", "|---|---|---|---|"]
    for about, what, figures in wanted:
        row = rows[what]
        lines.append(f"| {about} | {figures(row)} | {_figure(row['peak_rss_mb']['median'])} MB | {row['n']} |")
    small, large = (rows.get(f"mixed, {name} / default") for name in ("lettucedetect", "lettucedetect, base"))
    more = []
    if small and large:
        more.append(
            f"For the same text, LettuceDetect takes {spread(small['ratio'])} times as long as `default` with MiniLM, "
            f"and {spread(large['ratio'])} times as long in the size of its base model."
        )
    with_int8 = f" ({', '.join(many['int8_instructions'])})" if many["int8_instructions"] else ""
    versions = ", ".join(f"{name} {number}" for name, number in many["versions"].items())
    more.append(f"{many['machine']}{with_int8}, {many['threads']} threads; {versions}; {many['date']}.")
    return "\n".join([*lines, "", *more])


def _figure(value: float) -> str:
    """A number with three significant digits."""
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if rounded >= 100 else f"{rounded:g}"


def default_training_sets() -> str:
    """The labelled sets that the default detector is trained on, with their licences."""
    from veridical.datasets import load_reader
    from veridical_lab.training import default_data as data

    parts = dict.fromkeys(data.WRITTEN_SETS, "all, with contrasts")
    parts |= {name: f"{most:,}" for name, most in {**data.ENTAILMENT, **data.LABELLED}.items()}
    parts |= dict.fromkeys(("argkp", "perspectrum"), "source and response exchanged")
    parts["e2e"] = "attributes changed by rules; source and response exchanged"
    infos = {name: load_reader(name).INFO for name in parts}
    cells = ((f"`{name}`", infos[name].title, part, infos[name].licence) for name, part in parts.items())
    return table("set | title | examples at most | licence |", cells)


def published_figures(name: str) -> Callable[[], str]:
    """What a paper prints."""

    def made() -> str:
        from veridical_lab.bench.published import published
        from veridical_lab.report.result_tables import published_tables
        from veridical_lab.report.table_formats import markdown

        return markdown(published_tables(published(name)))

    return made


def probe_comparisons() -> str:
    """The exact tests of the pooled ensemble of probes against every other detector beside it."""
    from veridical_lab.bench.compare import read_comparisons
    from veridical_lab.report.result_tables import comparison_table
    from veridical_lab.report.table_formats import markdown

    made = []
    for file in sorted((ROWS).glob("probes-compare-*.jsonl")):
        found = [c for c in read_comparisons(file) if c.metric in ("f1", "token_f1")]
        ours = "encoder" if file.stem.endswith("-encoder") else "pooling-ensemble"
        chosen = [c for c in found if ours in c.a or ours in c.b]
        made.append(comparison_table(chosen))
    return markdown(made)


def knowledge_base() -> str:
    """How long retrieval takes, as a table."""
    rows = rows_of("knowledge-base.jsonl")
    first = rows[0]
    size = f"{first['arguments']:,} arguments, {first['topics']:,} topics, {first['queries']} calls each"
    scan = f"a linear scan takes {_figure(first['linear_scan_milliseconds']['median'])} ms"
    made = f"built in {_figure(first['build_seconds'])} s, {_figure(first['megabytes'])} MB"
    cells = (
        (
            row["what"],
            *(f"{_figure(row['milliseconds'][name])} ms" for name in ("median", "p95", "max")),
            _figure(row["times_faster_than_linear_scan"]),
        )
        for row in rows
    )
    foot = f"{size}; {scan}; {made}; {first['machine']}, {first['date']}."
    return table("retrieval | median | 95th percentile | longest | linear scan / this |", cells, foot)


def answers() -> str:
    """Answers that models write, by what judges them, before and after revision."""
    rows = rows_of("answers.jsonl")

    def change(found: dict[str, Any]) -> str:
        low, high = found["difference"]["interval"]
        means = f"{found['before']['mean']:.3f} to {found['after']['mean']:.3f}"
        return f"{means}: {found['difference']['mean']:+.3f} [{low:+.3f}, {high:+.3f}]"

    def cells(row: dict[str, Any]) -> tuple[str, ...]:
        by_passages = f", {row['by_passages']} of them passage by passage" if row.get("by_passages") else ""
        answered = f"{row['answered']} of {row['asked']}{by_passages}"
        return row["model"], answered, row["detector"], change(row["hallucinated"]), change(row["stated"])

    of = f"{rows[0]['data']}; 95% intervals by bootstrap; {rows[0]['date']}"
    said = f"Before and after `--revise` with {rows[0]['checker']}; {of}."
    head = "model | answers :| judged by | with something unsupported | arguments stated |"
    return table(head, map(cells, rows), said, commands_of(rows))


def classifier_speed() -> str:
    """Prompt tuning next to the Trainer of transformers."""
    (row,) = rows_of("classifier-speed.jsonl")
    rates = (f"{row['tokens_per_processor_second'][name]:.0f}" for name in ("ours", "trainer"))
    ratio = f"{row['times_faster_than_trainer']:.2f} ({', '.join(f'{each:.2f}' for each in row['ratios'])})"
    made = f"{row['tokens']:,} tokens in {row['steps']} steps; {row['data']}; {row['machine']}, {row['date']}."
    head = "model | precision | tokens per second of processor time :| `Trainer` :| ratio (rounds) |"
    return table(head, [(row["model"], row["dtype"], *rates, ratio)], made, commands_of([row]))


def statement_checks() -> str:
    """Why a written statement is dropped."""
    from veridical_lab.adapt.statements import REASONS

    return table("dropped | because |", REASONS.items())


def adapting() -> str:
    """What adapting to a domain of `summedits` changes."""
    rows = rows_of("adapting.jsonl")

    def cells(row: dict[str, Any]) -> tuple[str, ...]:
        found = row["labelled summaries"]
        gain = found["gain"]
        return (
            row["domain"],
            row["writer"],
            found["n"],
            f"{found['before']['roc_auc']:.3f}",
            f"{found['after']['roc_auc']:.3f}",
            f"{gain['value']:+.3f} [{gain['low']:+.3f}, {gain['high']:+.3f}]",
            "yes" if row["gate"]["kept"] else "no",
            f"{row['minutes']:.0f}",
        )

    head = "domain | statements by | labelled summaries :| ROC AUC before :| after :| gain | kept | minutes :|"
    foot = f"`summedits`, summaries that adapting never sees; 95% intervals (bootstrap); {rows[-1]['date']}."
    return table(head, map(cells, rows), foot, commands_of(rows))


def true_rate() -> str:
    """How often intervals cover the true rate, and how wide they are, next to those of random labels."""
    rows = rows_of("true-rate.jsonl")
    names = ("wrong", "flagged", "coverage", "half_coverage", "width", "random_coverage", "random_width")
    cells = (
        (
            f"`{row['data']}`{', rare' * row['rare']}",
            f"{row['rows']:,}",
            *(f"{100 * row[name]:.1f} %" for name in names),
        )
        for row in rows
    )
    narrower = sum(row["width"] / row["random_width"] for row in rows) / len(rows)
    first = rows[0]
    about = f"{first['draws']} draws of {first['labels']} labels; detector `{first['detector']}`, {first['date']}"
    mean = f"On average the interval has {100 * narrower:.0f} % of the width of that of random labels"
    head = "run | answers :| wrong :| flagged :| covered :| of groups :| width :| random: covered :| width :|"
    return table(head, cells, f"{mean}. {about}.", commands_of([first]))


def _of_log(*commands: str) -> list[str]:
    """Return the lines that the last of some commands prints; `results/` is a run on the bundled log."""
    with TemporaryDirectory() as folder:
        for command in ("batch examples/log.jsonl results/", *commands):
            words = [
                {"results/": folder + "/run", "labels.csv": folder + "/labels.csv"}.get(w, w) for w in command.split()
            ]
            done = python("-m", "veridical", *words, cwd=ROOT, encoding="utf-8", env={**os.environ, "COLUMNS": "80"})
            if "--sheet" in words:
                _fill_in(Path(folder) / "labels.csv")
    return [line.rstrip() for line in (done.stdout + done.stderr).splitlines()]


def _fill_in(sheet: Path) -> None:
    """Say of each answer of the bundled log whether it is wrong."""
    rows = list(csv.reader(sheet.read_text("utf-8-sig").splitlines()))
    for row in rows[1:]:
        row[rows[0].index("wrong")] = "yes" if row[rows[0].index("id")] in _WRONG_IN_LOG else "no"
    with sheet.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)


_WRONG_IN_LOG = {f"q{i}" for i in (*range(11, 20), *range(22, 27), 29)}


def causes_of_log() -> str:
    """What `veridical causes` prints first about the bundled log."""
    lines = _of_log("causes results/")
    table = lines[: 1 + next(i for i, line in enumerate(lines) if line.startswith("└"))]
    commands = ("$ veridical batch examples/log.jsonl results/", "$ veridical causes results/")
    return "\n".join(["```console", *commands, *table, "…", "```"])


def rate_of_log() -> str:
    """What `veridical rate` prints about the bundled log once 20 answers are labelled."""
    lines = _of_log("rate results/ --sheet labels.csv --count 20", "rate results/ --labels labels.csv")
    return "\n".join(["```text", *lines, "```"])


def counts_of_log() -> str:
    """The line with the counts of `veridical check` on the bundled log."""
    done = python("-m", "veridical", "check", "examples/log.jsonl", "--fail-over", "0.05", cwd=ROOT, encoding="utf-8")
    return f"```text\n{done.stderr.splitlines()[-1]}\n```"


def causes() -> str:
    """How often each cause is named rightly, and what is named instead."""
    row = max((row for row in rows_of("causes.jsonl") if not row["model"]), key=lambda row: row["n"])

    def cells(cause: str, found: dict[str, Any]) -> tuple[object, ...]:
        others = ", ".join(f"{name} {n}" for name, n in found["named"].items() if name != cause)
        counts = (found["n"], found["seen"], _interval(found["accuracy"]), f"{found['of_all']:.2f}")
        return cause, *counts, others or "–"

    about = f"{row['n']} cases of {row['questions']} questions, {row['data']}, {row['split']} ({row['data_hash'][:12]})"
    foot = f"{about}; detector `{row['detector']}`; 95% intervals (Wilson); {row['date']}."
    head = "cause | cases :| visible :| right | of all cases :| named instead |"
    return table(head, starmap(cells, row["causes"].items()), foot, commands_of([row]))


def causes_by_chat_model() -> str:
    """How often causes are named rightly with a chat model, next to the default detector on the same questions."""
    rows = rows_of("causes.jsonl")
    chat = next(row for row in rows if row["model"])
    offline = next(row for row in rows if not row["model"] and row["n"] == chat["n"])
    seen = {cause: found["seen"] for cause, found in chat["causes"].items() if found["seen"]}
    right = {cause: [row["causes"][cause]["named"].get(cause, 0) for row in (offline, chat)] for cause in seen}
    cells = [(cause, seen[cause], *right[cause]) for cause in seen]
    total = ("all", sum(seen.values()), *map(sum, zip(*right.values(), strict=True)))
    about = f"Named rightly, of {chat['n']} cases of {chat['questions']} questions; {chat['date']}."
    head = f"cause | visible cases :| `default` :| `{chat['model']}` :|"
    return table(head, [*cells, total], about, commands_of([chat]))


def masked_speed() -> str:
    """What corrupting texts with a masked language model takes, and whether memory grows with their number."""
    (row,) = rows_of("masked-speed.jsonl")
    names = ("seconds", "texts_per_second", "words_per_second")
    cells = (
        (f"{run['report']['inputs']:,}", *(_figure(run[name]) for name in names), f"{run['peak_rss_mb']:,} MB")
        for run in (row["tenth"], row)
    )
    equal = "the same file" if row["same_in_batches_of_32_7_1"] else "another file"
    ranked = f"ranked by {row['rank_model']}" if row["rank_model"] else "one candidate each"
    what = f"{row['compared']} of the texts in batches of 32, 7 and 1 give {equal}"
    said = f"Whole processes, {row['threads']} threads, {ranked}; {what}; {row['machine']}, {row['date']}."
    head = "texts :| seconds :| texts per second :| words per second :| peak memory :|"
    return table(head, cells, said, commands_of([row]))


def generation_batches() -> str:
    """How fast texts are generated alone, in a batch, and in a batch whose prompts share a beginning."""
    rows = {row["benchmark"].rpartition("/")[2]: row for row in rows_of("generation-batches.jsonl")}
    ways = {
        "one by one": "one by one",
        "unshared": "one batch, each row reads the document",
        "batch": "one batch, the document read once",
    }
    cells = ((ways[w], _figure(rows[w]["tokens_per_s"]), _figure(rows[w]["times_one_by_one"])) for w in ways)
    row = next(iter(rows.values()))
    what = f"{row['rows']} prompts with {row['prompt_tokens']:,} tokens in all, {row['tokens']} tokens sampled"
    where = f"{row['model']} in {row['dtype']}, {row['threads']} threads of {row['cores']} cores"
    equal = "all texts equal" if all(row["equal"] == 1 for row in rows.values()) else "some texts differ"
    foot = f"{what}, {equal}; {where}, {row['rounds']} rounds; {row['date']}."
    return table("way | tokens per second | times one by one |", cells, foot)


def history_speed() -> str:
    """How long requests to a history with many cases take."""
    rows = rows_of("history-speed.jsonl")
    names = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
    heads = [f"{names[row['database']]}, {row['cases']:,} cases :|" for row in rows]
    cells: list[tuple[str, ...]] = []
    for request in rows[0]["requests"]:
        cells.append((request, *(f"{_figure(row['requests'][request]['median_ms'])} ms" for row in rows)))
    for name, what in (("rows_a_second", "rows of a file stored"), ("results_a_second", "results stored")):
        cells.append((f"{what} a second", *(f"{row[name]:,}" for row in rows)))
    cells.append(("deleting all cases", *(f"{_figure(row['delete_run_seconds'])} s" for row in rows)))
    waits = (f"{_figure(row['longest_check_while_deleting_ms'])} ms" for row in rows)
    cells.append(("the slowest check while they are deleted", *waits))
    first = rows[0]
    about = f"Medians of {first['rounds']} requests to the routes in one process, {first['machine']}, {first['date']}."
    return table(f"request | {' '.join(heads)}", cells, about, commands_of(rows))


def learning() -> str:
    """What recalibrating the default detector by decisions gains."""
    rows = rows_of("learning.jsonl")
    cells: list[tuple[str, ...]] = []
    for row in rows:
        about = f"{row['sentences']:,}, {row['wrong']:.0%}, {row['flagged']:.0%}, {row['decisions']:.0f}"
        first = (row["set"], about, f"{row['offered']:.0%}")
        for name, title in (("balanced_accuracy", "balanced accuracy"), ("brier", "Brier score")):
            figures = row[name]
            gains = (f"{round(figures[gain], 3) + 0.0:+.3f}" for gain in ("mean_gain", "worst_gain"))
            cells.append((*first, title, f"{figures['before']:.3f}", *gains, f"{figures['worse']:.0%}"))
            first = ("", "", "")
    about = "Gains are positive where the version is better; a draw without an offer gains 0."
    about += f" {rows[0]['draws']} draws, {', '.join(sorted({row['date'] for row in rows}))}."
    head = (
        "data | sentences, wrong, flagged, decided | offered :| metric | before :| mean gain :| worst :| draws worse :|"
    )
    return table(head, cells, about, commands_of(rows))


def server_load() -> str:
    """What the service answers under load, next to LettuceDetect's server."""
    rows = {row["what"]: row for row in rows_of("server-load.jsonl")}
    first = rows["veridical, capacity"]
    at_once = f"{first['clients']} clients, each sends the next request once the last is answered"
    random, peer = "requests at random times, ", "LettuceDetect's server, a checkpoint of the same size: "
    loads = {
        "veridical, capacity": at_once,
        "veridical, 80 %": f"{random}at 80 % of that rate",
        "veridical, 5 x": f"{random}at five times that rate",
        "veridical, after": f"{random}right afterwards at half of that rate",
        "lettucedetect, capacity": f"{peer}{at_once}",
        "lettucedetect, 80 %": f"{peer}{random}at 80 % of its rate",
    }
    lines = [
        "| load | sent a second | answered | 429 | broken off | p50 | p99 |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for what, about in loads.items():
        if (row := rows.get(what)) is None:
            continue
        by_status = dict(row["statuses"])
        answered, refused = by_status.pop("200", 0), by_status.pop("429", 0)
        rest = sum(by_status.values()) + row.get("lost", 0)
        times = " | ".join(f"{_figure(row[name])} ms" for name in ("p50_ms", "p99_ms"))
        rate = _figure(row.get("rate") or row["per_second"])
        lines.append(f"| {about} | {rate} | {answered:,} | {refused:,} | {rest:,} | {times} |")
    wrong = sum(row.get("wrong", 0) for row in rows.values())
    said = [f"{wrong or 'No'} answers differ from those that the cases have when they are checked alone."]
    if ratio := rows.get("veridical / lettucedetect, capacity"):
        by_round = ratio["ratio_by_round"]
        said.append(
            f"The first line is {_figure(ratio['ratio'])} times LettuceDetect's (median of {len(by_round)} rounds in "
            f"which the servers took turns; {_figure(min(by_round))} to {_figure(max(by_round))})."
        )
    words = (
        f"responses with their sources of {_figure(first['words_deciles'][0])} to {_figure(first['words_deciles'][-1])}"
    )
    said.append(
        f"The default detector, {words} words (first and last decile), one case per request, {first['seconds']:g}"
    )
    said.append(f"seconds each, server and clients on one machine: {first['machine']}, {first['date']}.")
    return "\n".join([*lines, "", " ".join(said), "", f"```sh\n{first['command']}\n```"])


def faults() -> str:
    """What `make faults` tried, and what was lost or wrong."""
    rows = rows_of("faults.jsonl")
    cells = (
        (row["fault"], f"{row['tried']:,}", row["lost"], row["wrong"], "; ".join(row["notes"][:2]).replace("|", "/"))
        for row in rows
        if "fault" in row
    )
    foot = f"Seed {rows[0]['seed']}, {rows[0]['machine']}, {rows[0]['date']}."
    return table("fault | tried :| lost :| wrong :| notes |", cells, foot)


def work_growth() -> str:
    """The processor time of each path at n, 2n and 4n."""
    rows = (row for row in rows_of("faults.jsonl") if "growth" in row)
    cells = ((row["growth"], f"{row['n']:,}", *(f"{seconds:.3f} s" for seconds in row["seconds"])) for row in rows)
    return table("path | n :| n :| 2n :| 4n :|", cells)


def server_limits() -> str:
    """The limits of the service, with their defaults and what its docstring says of each."""
    from veridical.server.settings import Limits

    about = _described(Limits, "Attributes").items()
    return table("limit | default :| |", ((f"`{name}`", f"{getattr(Limits(), name):,}", text) for name, text in about))


def batch_rows(folder: Path = ROWS) -> str:
    """How fast a batch is, in how much memory, and what is left of it after kills."""
    rows = [
        json.loads(line)
        for path in sorted(folder.glob("batch-*.jsonl"))
        for line in path.read_text("utf-8").splitlines()
    ]
    lines = ["| detector | rows | run | rows a second | peak memory |", "|---|---|---|---:|---|"]
    for row in rows:
        texts = f"{row['rows']:,} {'sentence pairs' if row['texts'] == 'pairs' else 'responses to articles'}"
        begin = f"| `{row['detector']}` | {texts}, {row['distinct_rows']:,} of them different, {row['input_mb']:,} MB |"
        same = "same files as without" if row.get("equal") else "OTHER FILES"
        if row["what"] == "whole":
            tenths = row["peak_mb_by_tenth"]
            inner = ", ".join(map(_figure, tenths[1:9]))
            memory = f"{_figure(row['peak_mb'])} MB; second to ninth tenth of the run: {inner}"
            lines.append(f"{begin} {row['workers']} processes | {_figure(row['rows_per_second'])} | {memory} |")
        elif row["what"] == "killed":
            after = " and ".join(f"{count:,}" for count in row["killed_after_rows"])
            about = f"{row['workers']} processes, killed after {after} rows: {same}"
            lines.append(f"{begin} {about} | | {_figure(row['peak_mb'])} MB |")  # no speed: parts of it were done twice
        else:
            rates = row["rows_per_second"]
            killed = _figure(row["rows"] / row["seconds_with_a_killed_worker"])
            lines += [
                f"{begin} 1 process, 1 thread | {_figure(rates['local'])} | |",
                f"{begin} Ray, 1 worker, 1 thread | {_figure(rates['ray 1'])} | |",
                f"{begin} Ray, 2 workers, 1 thread each | {_figure(rates['ray 2'])} | |",
                f"{begin} the same, one of them killed: {same} | {killed} | |",
            ]
    for row in rows:
        if row["what"] == "ray":
            lines += [
                "",
                f"Starting Ray takes {_figure(row['start_seconds'])} s. Two workers have "
                f"{row['efficiency_of_two_without_start']:.0%} of twice the speed of one (start left out), and one "
                f"worker takes {row['overhead_of_one']:.0%} longer than one local process (start included).",
            ]
    first = rows[0]
    return "\n".join(
        [
            *lines,
            "",
            f"{first['machine']}, {first['date']}; `benchmarks/batch_rows.py`, `benchmarks/rows/batch-*.jsonl`.",
        ]
    )


def perspective_results() -> str:
    """The detectors on each test set of answers with several perspectives, a table for each metric."""
    from veridical_lab.bench.results import read_result_rows
    from veridical_lab.report.result_tables import metric_tables
    from veridical_lab.report.table_formats import markdown

    metrics = ["roc_auc", "coverage_roc_auc", "word_roc_auc", "source_word_roc_auc"]
    return _short_names(markdown(metric_tables(read_result_rows([ROWS / "perspectives.jsonl"]), metrics)))


def _short_names(text: str) -> str:
    """Classifiers by what their folders have in common."""
    folder = "build/perspectives/"
    text = re.sub(rf"classifier:{folder}([\w-]*)hallucination,{folder}\1coverage", r"classifier:\1", text)
    return re.sub(r"classifier:([\w-]+)-(?=[ ,|])", r"classifier:\1", text).replace(f":{folder}", ":")


def real_models() -> str:
    """ROC AUC of responses by detectors that read real language models, one line per detector, one column per set."""
    from veridical.report.tables import cell
    from veridical_lab.bench.results import read_result_rows

    names = ("real-logprob.jsonl", "real-verify.jsonl")
    rows = read_result_rows([ROWS / name for name in names])
    sets = list(dict.fromkeys(row.data.removeprefix("jsonl:").removesuffix(".jsonl") for row in rows))
    of_detector: dict[str, dict[str, str]] = {}
    for row in rows:
        unread = f", {row.not_judged} of {row.n} not judged" if row.not_judged else ""
        name = row.data.removeprefix("jsonl:").removesuffix(".jsonl")
        of_detector.setdefault(row.detector.replace("build/models/", ""), {})[name] = (
            f"{cell(row.metrics.get('roc_auc'))}{unread}"
        )
    lines = ["| detector | " + " | ".join(sets) + " |", "|---|" + "---|" * len(sets)]
    lines += [f"| `{d}` | " + " | ".join(found.get(s, "–") for s in sets) + " |" for d, found in of_detector.items()]
    counts = {row.data: f"{row.data.removeprefix('jsonl:').removesuffix('.jsonl')} {row.n}" for row in rows}
    foot = f"Cases of the test part: {', '.join(counts.values())}; 95% intervals by bootstrap over documents; "
    return "\n".join([*lines, "", f"{foot}{', '.join(sorted({row.date for row in rows}))}."])


def judges() -> str:
    """Every way to ask a chat model, by set: ROC AUC, balanced accuracy at a fitted threshold, and what was asked."""
    from veridical.report.tables import cell
    from veridical_lab.bench.results import read_result_rows

    rows = read_result_rows([ROWS / "real-judges.jsonl"])
    sets = list(dict.fromkeys(row.data for row in rows))
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        found.setdefault(row.detector.replace(",min_probability_mass=0", ""), {})[row.data] = row

    def table(title: str, of: Callable[[Any], str]) -> str:
        names = [name.removeprefix("jsonl:").removesuffix("-judges.jsonl") for name in sets]
        lines = [f"| {title} | " + " | ".join(names) + " |", "|---|" + "---|" * len(sets)]
        for detector, by_set in found.items():
            cells = [of(by_set[name]) if name in by_set else "–" for name in sets]
            if any(cells):
                lines.append(f"| `{detector}` | {' | '.join(cells)} |")
        return "\n".join(lines)

    def asked(row: Any) -> str:
        if row.usage is None:
            return ""
        per_response = (row.usage.calls, row.usage.prompt_tokens, row.usage.completion_tokens, row.seconds)
        figures = ", ".join(_figure(value / row.n) for value in per_response)
        return f"{figures}; {row.not_judged} of {row.n} not judged" if row.not_judged else figures

    parts = [
        table("ROC AUC", lambda row: cell(row.metrics.get("roc_auc"))),
        table("balanced accuracy", lambda row: cell(row.metrics.get("balanced_accuracy"))),
        table("calls, prompt tokens, reply tokens and seconds per response", asked),
    ]
    counts = ", ".join(f"{row.n} of {row.documents} documents" for row in (next(iter(found.values()))[s] for s in sets))
    foot = f"Responses, in this order: {counts}; 95% intervals by bootstrap over documents; "
    return "\n\n".join([*parts, f"{foot}{', '.join(sorted({row.date for row in rows}))}."])


def wordings() -> str:
    """ROC AUC of each wording of the question that is answered by Yes or No, by model and set."""
    rows = rows_of("prompt-wordings.jsonl")
    of = {"response": "the response", "claims": "its sentences"}
    columns = list(dict.fromkeys((row["model"], row["data"].partition(",")[0], row["of"]) for row in rows))
    heads = [
        f"{model}, {data.removeprefix('jsonl:').removesuffix('-valid.jsonl')}, {of[asked]}"
        for model, data, asked in columns
    ]
    lines = ["| wording | " + " | ".join(heads) + " |", "|---|" + "---|" * len(heads)]
    for wording in dict.fromkeys(row["wording"] for row in rows):
        cells = dict.fromkeys(columns, "–")
        for row in rows:
            if row["wording"] == wording:
                low, high = row["interval"]
                key = (row["model"], row["data"].partition(",")[0], row["of"])
                cells[key] = f"{row['roc_auc']:.3f} [{low:.3f}, {high:.3f}]"
        lines.append(f"| {wording} | {' | '.join(cells.values())} |")
    sizes = sorted({f"{row['n']} responses of {row['documents']} documents" for row in rows})
    foot = f"Validation documents, {' or '.join(sizes)}; 95% intervals by bootstrap over documents; {dates_of(rows)}."
    return "\n".join([*lines, "", foot])


def method_throughput() -> str:
    """What each method takes next to a bare pass of the model, and generation next to transformers' and llama.cpp's."""
    rows = rows_of("method-throughput.jsonl")
    models = list(dict.fromkeys(row["model"] for row in rows))
    parts = []
    for what, title in (("reading", "judging, tokens of prompt and response"), ("writing", "generation, new tokens")):
        found: dict[str, dict[str, Any]] = {}
        for row in rows:
            if row["benchmark"].endswith(what):
                found.setdefault(row["way"], {})[row["model"]] = row
        lines = [f"| {title} | " + " | ".join(models) + " |", "|---|" + "---|" * len(models)]
        for way, of_model in found.items():
            cells = [
                f"{of_model[m]['tokens_per_s']:.3g} ({of_model[m]['times']:.2f})" if m in of_model else "–"
                for m in models
            ]
            lines.append(f"| {way.replace('model(**batch)', '`model(**batch)`')} | {' | '.join(cells)} |")
        parts.append("\n".join(lines))
    first = [next(row for row in rows if row["model"] == model) for model in models]
    counts = "; ".join(
        f"{row['model']}: {row['n']} cases of {row['tokens']} tokens, {row['dtype']}, rounds: {row['rounds']}"
        for row in first
    )
    row = rows[0]
    return "\n\n".join([*parts, f"{counts}; {row['data']}; {row['device']}, {row['machine']}; {row['date']}."])


def organic() -> str:
    """Probes trained and tested on what real models write and on synthetic errors, and detectors beside them."""
    from dataclasses import replace

    from veridical_lab.bench.results import read_result_rows
    from veridical_lab.probes.analysis.results import read_records
    from veridical_lab.report.analysis_tables import analysis_tables
    from veridical_lab.report.result_tables import result_tables
    from veridical_lab.report.table_formats import markdown

    folder, parts = ROWS, []
    for file in sorted(folder.glob("organic-transfer-*.jsonl")):
        model = file.stem.removeprefix("organic-transfer-")
        parts.append(f"**{model}**\n\n{transfer(file)}")
        layers = folder / f"organic-layers-{model}.jsonl"
        if layers.exists():
            peaks = markdown(analysis_tables(replace(read_records(layers), findings=[])))
            parts.append(f"{peaks}\n\n![ROC AUC of words by sublayer](organic-layers-{model}.svg)")
    rows = [row for row in read_result_rows([folder / "organic.jsonl"]) if row.group is None]
    rows = [replace(row, detector=re.sub(r"build/(organic|models)/", "", row.detector)) for row in rows]
    return "\n\n".join([*parts, markdown(result_tables(rows, ["f1", "roc_auc", "word_roc_auc", "token_f1", "f1_sp"]))])


def transfer(file: Path) -> str:
    """What probes of all sublayers together reach from data set to data set."""
    from dataclasses import replace

    from veridical_lab.probes.analysis.results import read_records
    from veridical_lab.report.analysis_tables import analysis_tables
    from veridical_lab.report.table_formats import markdown

    found = read_records(file)
    shown = [f for f in found.findings if f.at["view"] in ("ensemble of all", "flag all")]
    return markdown(analysis_tables(replace(found, findings=shown)))


def replies() -> str:
    """Probes on replies of dialogue systems that people labelled, and on true replies with a changed fact."""
    files = sorted(ROWS.glob("replies-transfer-*.jsonl"))
    return "\n\n".join(f"**{file.stem.removeprefix('replies-transfer-')}**\n\n{transfer(file)}" for file in files)


def contradictions() -> str:
    """How surely contradictions are told from absences, by rules and with what a detector says of the flagged text."""
    rows = [row for row in rows_of("explanations.jsonl") if row["measure"] == "label"]
    rows = [row for row in rows if row.get("detector") == "default"]
    cells: list[tuple[object, ...]] = []
    for row in rows:
        told = row["told"]
        first = (row["data"], row["n"], f"{told['value']:.3f} [{told['low']:.3f}, {told['high']:.3f}]")
        for label in ("contradiction", "absence"):
            found = [row[f"{label}_{figure}"] for figure in ("precision", "recall")]
            shares = ("–" if f is None else _interval(f) for f in found)
            cells.append((*first, row["by"], f"`{label}`", row[f"{label}_said"], *shares))
            first = ("", "", "")
    head = "data | n | ROC AUC | by | label | said | precision | recall |"
    return table(head, cells, f"Test documents; 95% intervals by bootstrap over documents; {dates_of(rows)}.")


def corrections() -> str:
    """How often a flagged place gets a correction, and how often it is right."""
    rows = [row for row in rows_of("explanations.jsonl") if row["measure"] == "correction"]
    rows = [row for row in rows if row["of"] != "value or name"]
    kinds = {"value": "number, date, quantity", "name": "name", "other": "other words"}

    def cells(row: dict[str, Any]) -> tuple[object, ...]:
        shares = (row[name] for name in ("right_of_given", "equal_of_given", "right_of_all"))
        figures = ("–" if one is None else _interval(one) for one in shares)
        return row["data"], kinds[row["of"]], row["n"], row["given"], *figures

    head = "data | flagged | places :| given :| right of given | equal of given | right of all |"
    foot = f"Test documents; 95% intervals by bootstrap over documents; {dates_of(rows)}."
    return table(head, map(cells, rows), foot)


def conversations() -> str:
    """How many turns of the invented conversations have the right outcome, by detector and kind."""
    rows = [row for row in rows_of("conversations.jsonl") if row["split"] == "test"]
    rows = [row for row in rows if row["data"] == "conversations.jsonl"]
    kinds = [name for name in rows[0]["by"] if " " in name and name not in _CAUSES]
    labels = {"right": "right turns", "wrong": "wrong turns"} | {kind: kind for kind in kinds}
    causes = ("{} of {}".format(*row["causes"]) if "causes" in row else "–" for row in rows)
    cells = [
        ("all turns", *(_interval(row["rightly"]) for row in rows)),
        *((label, *("{} of {}".format(*row["by"][name]) for row in rows)) for name, label in labels.items()),
        ("could not be judged", *(row["unjudged"] for row in rows)),
        ("[causes](causes.md) named rightly", *causes),
    ]
    count = f"{rows[0]['n']} turns of {rows[0]['conversations']} conversations"
    foot = f"Turns with the right outcome; {count}; intervals by bootstrap; {dates_of(rows)}."
    return table("test half | " + " ".join(f"`{row['detector']}` |" for row in rows), cells, foot)


def agent_log() -> str:
    """How many labelled turns of a real agent's log have the right outcome, by detector."""
    rows = [row for row in rows_of("conversations.jsonl") if row["data"] == "gpt-4o-airline.json"]
    cells = (
        (
            f"`{row['detector']}`",
            *("{} of {}".format(*row["by"][name]) for name in ("right", "wrong")),
            row["unjudged"],
        )
        for row in rows
    )
    foot = f"{rows[0]['n']} turns of {rows[0]['conversations']} conversations; {dates_of(rows)}."
    return table("detector | right turns that are clear | wrong turns that are flagged | not judged |", cells, foot)


_CAUSES = ("not retrieved", "wrong refusal", "right refusal", "question not answered")


def label_table() -> str:
    """The labels of an explanation."""
    from veridical.detectors.explanation import LABELS

    return table("label | meaning |", ((f"`{name}`", meaning) for name, meaning in LABELS.items()))


def kind_table() -> str:
    """The kinds of errors."""
    from veridical.detectors.explanation import KINDS

    return table("kind | what stands in the response |", ((f"`{kind}`", text) for kind, text in KINDS.items()))


def error_kinds() -> str:
    """How often the predicted kind of error is correct, in total and by kind, and the confusion matrix."""
    from veridical.detectors.explanation.kinds import KINDS, LEARNED

    rows = rows_of("error_kinds.jsonl")
    of_gold = [row for row in rows if row["flagged"] == "gold"]
    sets = " ".join(f"{row['data']} |" for row in of_gold)
    told = [*KINDS, "none"]

    def total(row: dict[str, Any]) -> tuple[object, ...]:
        largest = f"{row['largest']['kind']}, {row['largest']['value']:.2f}"
        shares = (f"{row['told'] / row['n']:.2f}", _interval(row["accuracy"]), _interval(row["of_told"]))
        return row["data"], row["flagged"], row["n"], largest, *shares

    def by_kind(kind: str) -> tuple[str, ...]:
        found = (row["kinds"].get(kind) for row in of_gold)
        form = "{recall:.2f} and {precision:.2f} of {n}"
        return kind, *("–" if f is None else form.format(**f | {"precision": f["precision"] or 0}) for f in found)

    def confused(gold: str) -> tuple[object, ...]:
        return gold, *(sum(row["confusion"].get(gold, {}).get(kind, 0) for row in of_gold) for kind in told)

    head = "data | flagged | n :| largest kind | named :| correct | correct if named |"
    parts = [
        table(head, map(total, rows)),
        "By kind, flagged at the gold spans (recall and precision):",
        table(f"kind | {sets}", map(by_kind, LEARNED)),
        "Confusion matrix (both sets, gold spans; rows are the tags, columns the predicted kinds):",
        table(f"| {' '.join(f'{kind} :|' for kind in told)}", map(confused, (*LEARNED, "other"))),
        f"Split dev; 95% intervals by bootstrap over passages; {dates_of(rows)}.",
    ]
    return "\n\n".join(parts)


def _interval(one: dict[str, float]) -> str:
    return f"{one['value']:.2f}" + (f" [{one['low']:.2f}, {one['high']:.2f}]" if "low" in one else "")


def papers() -> str:
    """Hallucinations in summaries of papers before and after revision, by critic and judge."""
    from veridical.io.serialization import read_documents
    from veridical_lab.report.prevalence_table import prevalence_tables
    from veridical_lab.report.table_formats import markdown

    path = ROWS / "papers.jsonl"
    rows = [row for _, row in read_documents(path, "prevalence")]
    about = dict.fromkeys(f"{row.questions} questions, {row.data_hash[:16]}; {row.date}" for row in rows)
    return f"{markdown(prevalence_tables(rows))}\n\n95% intervals by bootstrap over questions; {'; '.join(about)}"


def guarded(name: str) -> Callable[[], str]:
    """Guarded against unguarded texts, with the errors that an independent detector finds in them."""

    def change(found: dict[str, Any]) -> str:
        low, high = found["interval"]
        return (
            f"{found['unguarded']:.2f} → {found['guarded']:.2f} ({found['difference']:+.2f} [{low:+.2f}, {high:+.2f}])"
        )

    def table() -> str:
        rows = [json.loads(line) for line in (ROWS / name).read_text("utf-8").splitlines()]
        lines = [
            "| model | strategy | errors per text | texts with an error | left out per text | its words' mean score "
            "| words | tokens sampled | interventions |",
            "|---|---|---|---|---|---|---|---|---|",
        ]
        for row in rows:
            counts = [f"{row[f'{what}_unguarded']:g} → {row[f'{what}_guarded']:g}" for what in ("words", "drawn")]
            changes = [change(row[what]) for what in ("errors", "independent", "omitted", "detected")]
            strategy = row["benchmark"].partition("/")[2]
            cells = [row["model"], strategy, *changes, *counts, f"{row['interventions']:g}"]
            lines.append(f"| {' | '.join(cells)} |")
        first = rows[0]
        data = dict.fromkeys(f"n = {row['documents']}, {row['data']}" for row in rows)
        foot = (
            f"{'; '.join(data)}; judge: `{first['judge']}`; temperature {first['temperature']:g}, "
            f"top-k {first['top_k']}; {first['date']}."
        )
        return "\n".join([*lines, "", foot])

    return table


def guard_speed() -> str:
    """A probe in the loop next to `generate()` of transformers."""
    rows = rows_of("guard-speed.jsonl")
    times = ("{:.2f} [{:.2f}, {:.2f}]".format(row["ratio"], *row["quartiles"]) for row in rows)
    cells = ((row["model"], row["what"], f"{row['seconds']} s", ratio) for row, ratio in zip(rows, times, strict=True))
    row = rows[0]
    rounds = row["n"] // row["prompts"]
    of = (
        f"{row['prompts']} prompts, {row['tokens']} tokens each, {rounds} rounds; {row['data']}; {row['probes']} probes"
    )
    head = "model | way | processor time per text | times `generate()` [quartiles] |"
    return table(head, cells, f"{of}; {row['machine']}; {row['date']}.")


def datasets() -> str:
    """The table of data sets."""
    from veridical.datasets import table

    return table()


def reproduced() -> str:
    """Every table and data figure of the papers: what it needs, and our figures."""
    from veridical_lab.report.reproduction import matrix

    return matrix(ROWS)


def annotate_loop() -> str:
    """The rounds and annotators of the simulated annotation loop."""
    from veridical_lab.report.annotation import loop_tables
    from veridical_lab.report.table_formats import markdown

    rows = (ROWS / "annotate-loop.jsonl").read_text("utf-8").splitlines()
    return markdown(loop_tables([json.loads(row) for row in rows]))


def rules() -> str:
    """The rules of the default detector, and what is lost without each of them."""
    from veridical.detectors.default.rules import RULES

    effects = {
        "rewrite": "changes what the encoder reads",
        "places": "has the encoder read parts of the sources alone",
        "locate": "its places are compared with the question",
        "answer": "is also read by itself, as a short answer",
        "adjust": "decides about the sentence",
        "supported": "its words count as supported",
        "contradicted": "is flagged",
        "misplaced": "counts as missing from the sources",
    }
    rows = rows_of("rules.jsonl")
    measured = {row["rule"]: row for row in rows}
    cells: list[tuple[str, ...]] = []
    for rule in RULES.values():
        effect = next(text for name, text in effects.items() if getattr(rule, name) is not None)
        row = measured.get(rule.name)
        counts = ("–",) * 3 if row is None else tuple(str(row[name]) for name in ("changed", "helps", "harms"))
        cells.append((f"`{rule.name}`", rule.about, effect, *counts))
    about = (
        f"Of {rows[0]['n']:,} validation responses in {rows[0]['sets']} sets: how many scores the rule changes, how "
    )
    about += "many responses are decided rightly only with the rule (helps), and how many only without it (harms). "
    about += f"{rows[0]['date']}."
    return table("rule | where it applies | effect | changes :| helps :| harms :|", cells, about, commands_of(rows))


def option_tables() -> dict[str, tuple[str, Callable[[], str]]]:
    """A table for every mark `options-NAME` in the detectors' pages."""
    pages = sorted((ROOT / "docs" / "detectors").glob("*.md"))
    marked = [(page, name) for page in pages for name in re.findall(r"`: options-(\w+) -->", page.read_text("utf-8"))]
    return {f"options-{name}": (f"docs/detectors/{page.name}", partial(option_table, name)) for page, name in marked}


PARTS: dict[str, tuple[str, Callable[[], str]]] = {
    "first-example": ("README.md", first_example),
    "first-figures": ("README.md", first_figures),
    "which-detector": ("docs/detectors/README.md", which_detector),
    "comparison": ("docs/comparison.md", comparison),
    "client-cost": ("docs/comparison.md", client_cost),
    "rules-default": ("docs/detectors/default.md", rules),
    "annotate-loop": ("docs/annotate.md", annotate_loop),
    "reproduce": ("docs/reproduce.md", reproduced),
    "published-probes": ("docs/analyses.md", published_figures("chwang2024")),
    "published-perspectives": ("docs/perspectives.md", published_figures("chang2024")),
    "knowledge-base": ("docs/perspectives.md", knowledge_base),
    "answers": ("docs/perspectives.md", answers),
    "classifier-speed": ("docs/detectors/classifier.md", classifier_speed),
    "results-perspectives": ("docs/perspectives.md", perspective_results),
    "published-tokens": ("docs/detectors/features.md", published_figures("liu2022")),
    "datasets": ("docs/datasets.md", datasets),
    "yardsticks": ("docs/bench.md", yardsticks),
    "results-masked": ("docs/tasks.md", results("masked.jsonl", "word_roc_auc token_balanced_accuracy roc_auc")),
    "results-align": (
        "docs/detectors/align.md",
        results(
            "align.jsonl", "word_roc_auc token_f1 f1_sp roc_auc balanced_accuracy coverage_roc_auc source_word_roc_auc"
        ),
    ),
    "results-probes": (
        "docs/detectors/probe.md",
        results("probes.jsonl", "f1 f1_sp token_f1 roc_auc word_roc_auc"),
    ),
    "comparisons-probes": ("docs/detectors/probe.md", probe_comparisons),
    "results-features": (
        "docs/detectors/features.md",
        results("features.jsonl", "word_roc_auc token_f1 f1_sp roc_auc f1"),
    ),
    "results-features-mu_shroom": (
        "docs/detectors/features.md",
        results("features-mu_shroom.jsonl", "mushroom_iou mushroom_cor char_f1 word_roc_auc"),
    ),
    "results-verify": (
        "docs/detectors/verify.md",
        results("verify.jsonl", "roc_auc balanced_accuracy word_roc_auc token_f1"),
    ),
    "history-speed": ("docs/history.md", history_speed),
    "learning": ("docs/history.md", learning),
    "server-load": ("docs/serve.md", server_load),
    "faults": ("docs/faults.md", faults),
    "growth": ("docs/faults.md", work_growth),
    "server-limits": ("docs/serve.md", server_limits),
    "batch-rows": ("docs/batch.md", batch_rows),
    "true-rate": ("docs/rate.md", true_rate),
    "causes-of-log": ("docs/causes.md", causes_of_log),
    "statement-checks": ("docs/adapt.md", statement_checks),
    "adapting": ("docs/adapt.md", adapting),
    "rate-of-log": ("docs/rate.md", rate_of_log),
    "counts-of-log": ("docs/ci.md", counts_of_log),
    "causes": ("docs/causes.md", causes),
    "causes_by_chat_model": ("docs/causes.md", causes_by_chat_model),
    "masked-speed": ("docs/tasks.md", masked_speed),
    "generation-batches": ("docs/models.md", generation_batches),
    "results-slots": (
        "docs/detectors/slots.md",
        results("slots.jsonl", "precision recall f1 omission_recall omission_f1"),
    ),
    "real-models": ("docs/models.md", real_models),
    "judges": ("docs/models.md", judges),
    "wordings": ("docs/models.md", wordings),
    "method-throughput": ("docs/models.md", method_throughput),
    "organic": ("docs/analyses.md", organic),
    "replies": ("docs/analyses.md", replies),
    "organic-guard": ("docs/guard.md", guarded("organic-guard.jsonl")),
    "guard-speed": ("docs/guard.md", guard_speed),
    "commands": ("docs/cli.md", command_help),
    "python": ("docs/python.md", api_reference.reference),
    "layouts": ("docs/check.md", layouts),
    "templates": ("docs/models.md", templates),
    "interfaces": ("docs/interfaces.md", interfaces.table),
    "detectors": ("docs/detectors/README.md", detector_table),
    **option_tables(),
    "results-default": ("docs/detectors/default.md", default_results),
    "results-short-answers": (
        "docs/detectors/default.md",
        results("yardsticks-short-answers.jsonl", "roc_auc false_alarms recall"),
    ),
    "results-languages": ("docs/detectors/default.md", by_language("yardsticks-languages.jsonl")),
    "results-statements-languages": (
        "docs/detectors/default.md",
        by_language("yardsticks-statements-languages.jsonl"),
    ),
    "papers": ("docs/papers.md", papers),
    "corrections": ("docs/explanations.md", corrections),
    "contradictions": ("docs/explanations.md", contradictions),
    "conversations": ("docs/conversations.md", conversations),
    "agent_log": ("docs/conversations.md", agent_log),
    "label_table": ("docs/findings.md", label_table),
    "kind_table": ("docs/findings.md", kind_table),
    "error_kinds": ("docs/explanations.md", error_kinds),
    "speed-default": ("docs/detectors/default.md", default_speed),
    "training-default": ("docs/detectors/default.md", default_training_sets),
}


def _marks(name: str) -> tuple[str, str]:
    return f"<!-- made by `make docs`: {name} -->", f"<!-- end: {name} -->"


def part_in(path: Path, name: str) -> str:
    """What stands between the marks of `name` now."""
    begin, end = _marks(name)
    return path.read_text("utf-8").partition(begin)[2].partition(end)[0].strip()


def write() -> None:
    """Bring every generated part up to date."""
    for name, (file, fresh) in PARTS.items():
        path = ROOT / file
        begin, end = _marks(name)
        before, _, rest = path.read_text("utf-8").partition(begin)
        after = rest.partition(end)[2]
        path.write_text(f"{before}{begin}\n{fresh()}\n{end}{after}", "utf-8")


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        raise SystemExit("usage: python -m tests.docs_generated --write")
    write()
