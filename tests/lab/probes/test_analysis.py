"""Analyses on activations in which a signal is planted: they must find it where it is, and nowhere else."""

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from tests.lab.files import saved
from tests.lab.probes.samples import example, examples
from veridical.inference.local_model import LocalModel
from veridical.models.load import load
from veridical.records.errors import DataError, InputError
from veridical.records.spans import Span
from veridical.records.types import Case, Example, Judgement, Source, Verdict
from veridical_lab.models.testing import tiny
from veridical_lab.probes import activation_store as store_module
from veridical_lab.probes import dataset as dataset_module
from veridical_lab.probes.activations import ActivationStates, in_memory
from veridical_lab.probes.analysis import (
    Analysis,
    AnalysisConfig,
    analyse_context_length,
    analyse_error_types,
    analyse_layers,
    analyse_model_size,
    analyse_transfer,
)
from veridical_lab.probes.analysis.context_length import truncate_sources
from veridical_lab.probes.analysis.error_types import error_types_of, with_errors_of
from veridical_lab.probes.analysis.results import ProbeFinding, encode_records, read_records
from veridical_lab.probes.labelled_sequences import EncodedExamples, labels_of
from veridical_lab.probes.options import ProbeConfig, ProbeOptions
from veridical_lab.report.analysis_plots import analysis_plots
from veridical_lab.report.analysis_tables import analysis_tables

FAST = ProbeOptions("linear", learning_rates=(0.1,), batch_sizes=(16,), patience=4, max_epochs=25)
CONFIG = AnalysisConfig(FAST, template="tldr", resamples=40)
COUNT = 140

Strength = Callable[[str, int], float]  # of the signal, by data set and sublayer


@pytest.fixture
def spec(tmp_path: Path) -> str:
    return saved(tmp_path / "data.jsonl", examples(COUNT))


def plant(
    monkeypatch: pytest.MonkeyPatch, strength: Strength, shows: Callable[[Example], bool] = lambda e: True
) -> None:
    """Activations are noise with the labels of tokens and of responses in them, in directions 0 and 1."""

    def states(
        model: LocalModel, encoded: EncodedExamples, config: ProbeConfig, store: Path | None
    ) -> ActivationStates:
        random = np.random.default_rng(len(encoded.examples))
        name = "synthetic" if str(encoded.examples[0].document).startswith("o") else "organic"
        found = labels_of(encoded)
        made = random.standard_normal((4, int(encoded.lengths.sum()), 8)).astype(np.float32)
        token = np.concatenate(found.tokens)
        response = np.repeat(found.responses, encoded.lengths)
        seen = np.repeat([shows(encoded.examples[of]) for of in encoded.example_of.tolist()], encoded.lengths)
        for s in range(4):
            made[s, :, 0] += strength(name, s) * token * seen
            made[s, :, 1] += strength(name, s) * response * seen
        return in_memory(made, encoded.lengths, range(4))

    monkeypatch.setattr(dataset_module, "_load_states", states)


def only_in(*sublayers: int) -> Strength:
    return lambda name, s: 12.0 if s in sublayers else 0.0


def figure(found: Analysis, metric: str, **at: object) -> float:
    (one,) = [f for f in found.findings if metric in f.row.metrics and at.items() <= f.at.items()]
    value = one.row.metrics[metric].value
    assert value is not None
    return value


@pytest.mark.parametrize("kind, sublayer", [("linear", 1), ("linear", 2), ("pooling", 3), ("mlp", 2)])
def test_the_curve_peaks_where_the_signal_is(
    model: LocalModel, spec: str, monkeypatch: pytest.MonkeyPatch, kind: str, sublayer: int
) -> None:
    plant(monkeypatch, only_in(sublayer))
    found = analyse_layers(model, spec, replace(CONFIG, options=replace(FAST, kind=kind)))
    for metric in ("f1", "f1_sp", "roc_auc", "word_roc_auc"):
        (peak,) = [p for p in found.peaks if p.metric == metric and p.half == "all"]
        assert (peak.peak_sublayer, peak.first, peak.chosen) == (sublayer,) * 3, metric
        assert peak.first_above_floor == sublayer
        least = 0.6 if metric == "f1_sp" else 0.75  # thresholds come from a few validation responses
        assert peak.peak > max(least, peak.floor + 0.02)
        assert peak.low <= sublayer <= peak.high
    half = ("attention", "feed-forward")[sublayer % 2]
    other = ("attention", "feed-forward")[1 - sublayer % 2]
    for metric in ("roc_auc", "word_roc_auc"):
        peaks = {p.half: p for p in found.peaks if p.metric == metric}
        assert peaks[half].peak - peaks[other].peak > 0.2
        view = figure(found, metric, view=f"ensemble of {half}") - figure(found, metric, view=f"ensemble of {other}")
        assert view > 0.2
    assert figure(found, "roc_auc", view="ensemble of all") > 0.95
    test = next(c for c in found.comparisons if c.metric == "roc_auc")
    assert test.p < 0.05


def test_the_first_is_not_the_highest(model: LocalModel, spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sublayer 1 is nearly as good as 3, which is perfect: 95 % of the peak is reached there."""
    plant(monkeypatch, lambda name, s: {1: 0.8, 3: 12.0}.get(s, 0.0))
    found = analyse_layers(model, spec, replace(CONFIG, objectives=("response",)))
    (peak,) = [p for p in found.peaks if p.metric == "roc_auc" and p.half == "feed-forward"]
    assert (peak.peak_sublayer, peak.first) in {(3, 1), (1, 1)}
    assert figure(found, "roc_auc", sublayer=1) < 1.0
    assert {p.first for p in found.peaks if p.metric == "roc_auc" and p.half == "attention"} <= {0, 2}


def test_rows_say_how_they_were_made(model: LocalModel, spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, only_in(1))
    found = analyse_layers(model, spec, replace(CONFIG, command="veridical analyse layers …"))
    assert {f.at["sublayer"] for f in found.findings} == {0, 1, 2, 3, None}
    one = next(f for f in found.findings if f.at["sublayer"] == 1 and f.at["objective"] == "response")
    assert (one.at["layer"], one.at["half"]) == (1, "feed-forward")
    assert one.model["weights"]
    assert one.model["parameters"] == sum(p.numel() for p in model.model.parameters())
    assert one.training["data_hash"] == one.row.data_hash
    assert one.row.command == "veridical analyse layers …"
    assert one.row.split == "test part"
    assert one.row.n == one.row.metrics["f1"].n < COUNT / 2
    assert one.row.threshold_from.startswith("f1 on the validation part")
    low, high = one.row.metrics["f1"].low, one.row.metrics["f1"].high
    assert 0 < low <= high <= 1
    assert len({f.row.run_id for f in found.findings}) == len(found.findings)


def test_thresholds_are_fitted_on_what_is_measured(
    model: LocalModel, spec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F1-Sp has a threshold of its own, as token F1 has; and it is measured in the model's tokens, too."""
    plant(monkeypatch, lambda name, s: 1.5 if s == 1 else 0.0)
    found = analyse_layers(model, spec, replace(CONFIG, objectives=("token",)))
    rows = [f.row for f in found.findings if f.at["sublayer"] is not None]
    assert all(set(row.thresholds) == {"token", "span"} for row in rows)
    assert any(row.thresholds["token"] != row.thresholds["span"] for row in rows)
    assert all(set(row.metrics) == {"f1_sp", "token_f1", "word_roc_auc", "f1_sp_model_tokens"} for row in rows)
    everything = figure(found, "f1_sp_model_tokens", view="flag all")
    assert 0 < everything < 1
    assert everything != figure(found, "f1_sp", view="flag all")


def test_what_cannot_be_read_is_not_clean(model: LocalModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = [example(i, text="dogs " * 400) for i in range(COUNT, COUNT + 30)]
    plant(monkeypatch, only_in(1))
    said: list[str] = []
    config = replace(CONFIG, objectives=("response",), progress=said.append)
    found = analyse_layers(model, saved(tmp_path / "a.jsonl", [*examples(COUNT), *long]), config)
    row = found.findings[0].row
    assert row.not_judged > 0
    assert row.metrics["f1"].n == row.n - row.not_judged
    assert any("30 in all" in line for line in said)


def test_the_same_again(model: LocalModel, spec: str) -> None:
    def bare(found: Analysis) -> list[object]:
        return [(f.at, f.row.metrics, f.row.thresholds, f.row.run_id) for f in found.findings]

    config = replace(CONFIG, objectives=("token",), options=replace(FAST, max_epochs=4))
    first, second = analyse_layers(model, spec, config), analyse_layers(model, spec, config)
    assert bare(first) == bare(second)
    assert first.peaks == second.peaks


def kinded(count: int = COUNT) -> list[Example]:
    """An error is of the kind "Extrinsic dogs", "Intrinsic lake" …; each response has errors of one word at most."""
    made = []
    for i in range(count):
        word = ("dogs", "lake", "cat")[i % 3]
        base = example(i, text=f"the {word} slept near the river in summer {i}.")
        label = {"dogs": "Extrinsic dogs", "lake": "Intrinsic lake"}.get(word)
        verdicts = tuple(replace(v, label=label) for v in base.gold.verdicts)
        made.append(replace(base, gold=replace(base.gold, verdicts=verdicts), group=(("word", word),)))
    return made


def test_the_kind_that_shows_is_found(model: LocalModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    extrinsic = lambda e: any((v.label or "").startswith("Ext") for v in e.gold.verdicts)  # noqa: E731
    plant(monkeypatch, only_in(2), extrinsic)
    found = analyse_error_types(
        model, saved(tmp_path / "a.jsonl", kinded()), CONFIG, merge={"ext": "extrinsic", "int": "INTRINSIC"}
    )
    assert figure(found, "roc_auc", kind="ext", sublayer=2) > 0.95
    assert abs(figure(found, "roc_auc", kind="int", sublayer=2) - 0.5) < 0.35
    assert figure(found, "f1_sp", kind="ext", sublayer=2) > figure(found, "f1_sp", kind="int", sublayer=2) + 0.3
    (peak,) = [p for p in found.peaks if p.metric == "roc_auc" and p.half == "all" and p.at["kind"] == "ext"]
    assert peak.peak_sublayer == 2
    errors = {f.at["kind"]: f.at["errors"] for f in found.findings}
    sizes = {f.at["kind"]: f.row.n for f in found.findings if f.at["objective"] == "response"}
    clean = {kind: n - int(errors[kind] or 0) for kind, n in sizes.items()}
    assert clean["ext"] == clean["int"] > 0


def test_groups_take_the_place_of_labels(model: LocalModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, only_in(2))
    data = [replace(e, group=(("system", "ab"[i % 2]),)) for i, e in enumerate(examples(COUNT))]
    found = analyse_error_types(
        model, saved(tmp_path / "a.jsonl", data), replace(CONFIG, objectives=("response",)), by="system"
    )
    assert {f.row.group for f in found.findings} == {"system=a", "system=b"}
    whole = analyse_layers(model, saved(tmp_path / "a.jsonl", data), replace(CONFIG, objectives=("response",)))
    assert sum(f.row.n for f in found.findings if f.at["view"] == "flag all") == whole.findings[0].row.n


def test_errors_of_another_kind_are_not_judged() -> None:
    case = Case("1", "aa bb cc dd")
    verdicts = (Verdict(Span(0, 2), 1.0, "x"), Verdict(Span(3, 5), 1.0, "y"), Verdict(Span(6, 8), 0.0, "y"))
    sample = Example(case, Judgement("1", "human", 1.0, verdicts=verdicts))
    mine = with_errors_of(sample, {"x"})
    assert mine.gold.verdicts == verdicts[:1]
    assert mine.gold.judged == (Span(0, 3), Span(5, 11))
    assert with_errors_of(sample, {"z"}) is None
    clean = replace(sample, gold=Judgement("1", "human", 0.0))
    assert with_errors_of(clean, {"x"}) is clean
    whole = with_errors_of(sample, {"x", "y"})
    assert whole.gold.judged is None


def test_kinds() -> None:
    data = kinded(6)
    assert error_types_of(data, {}) == {"Extrinsic dogs": {"Extrinsic dogs"}, "Intrinsic lake": {"Intrinsic lake"}}
    assert error_types_of(data, {"all": "trinsic"}) == {"all": {"Extrinsic dogs", "Intrinsic lake"}}
    assert list(error_types_of(data, {}, "word")) == ["cat", "dogs", "lake"]
    with pytest.raises(InputError, match=r"no label contains 'zzz' \(labels: Extrinsic dogs"):
        error_types_of(data, {"a": "zzz"})
    with pytest.raises(InputError, match=r"no group 'zzz' in the data \(there are: word\)"):
        error_types_of(data, {}, "zzz")


def two(tmp_path: Path) -> dict[str, str]:
    other = [replace(e, document=f"o{e.document}") for e in examples(COUNT + 20)]
    return {
        "organic": saved(tmp_path / "a.jsonl", examples(COUNT)),
        "synthetic": saved(tmp_path / "b.jsonl", other),
    }


def test_opposite_signals_do_not_carry_over(model: LocalModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, lambda name, s: (12.0 if name == "organic" else -12.0) if s == 1 else 0.0)
    found = analyse_transfer(model, two(tmp_path), CONFIG)
    for metric, view in (("f1", "best sublayer"), ("f1_sp", "best sublayer")):
        for name, other in (("organic", "synthetic"), ("synthetic", "organic")):
            assert figure(found, metric, train=name, test=name, view=view) > 0.75
            assert figure(found, metric, train=name, test=other, view=view) < 0.4
            assert figure(found, metric, train="flag all", test=name) > 0.1
    assert figure(found, "roc_auc", train="organic", test="synthetic", view="best sublayer") < 0.05
    assert figure(found, "roc_auc", train="organic", test="synthetic", view="ensemble of all") < 0.5
    assert {f.at["sublayer"] for f in found.findings if f.at["view"] == "best sublayer"} == {1}
    thresholds = {str(f.at["train"]): set() for f in found.findings if f.at["view"] == "best sublayer"}
    for f in found.findings:
        if f.at["view"] == "best sublayer" and f.at["objective"] == "response":
            thresholds[str(f.at["train"])].add(f.row.thresholds["response"])
    assert all(len(each) == 1 for each in thresholds.values())  # the training set's own, whatever is tested


def test_the_same_signal_does(model: LocalModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, only_in(1))
    config = replace(CONFIG, objectives=("response",))
    found = analyse_transfer(model, two(tmp_path), config, mixtures=["organic+synthetic"])
    for train in ("organic", "synthetic", "organic+synthetic"):
        for test in ("organic", "synthetic"):
            assert figure(found, "roc_auc", train=train, test=test, view="best sublayer") > 0.95
    about = {str(f.at["train"]): f.training for f in found.findings if f.training}
    sizes = {name: training["sequences"]["train"] for name, training in about.items()}
    assert sizes["synthetic"] <= sizes["organic"] + 0  # the larger is cut down to the smaller
    assert sizes["organic"] - 2 <= sizes["organic+synthetic"] <= sizes["organic"]
    full = analyse_transfer(model, two(tmp_path), config, equal=False)
    more = {str(f.at["train"]): f.training["sequences"]["train"] for f in full.findings if f.training}
    assert more["synthetic"] > sizes["synthetic"]


def test_a_mixture_learns_both(model: LocalModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One set shows in sublayer 1, the other in 2: only the mixture's ensemble sees both."""
    plant(monkeypatch, lambda name, s: 12.0 if s == (1 if name == "organic" else 2) else 0.0)
    config = replace(CONFIG, objectives=("response",))
    found = analyse_transfer(model, two(tmp_path), config, mixtures=["organic+synthetic"])
    for test in ("organic", "synthetic"):
        assert figure(found, "roc_auc", train="organic+synthetic", test=test, view="ensemble of all") > 0.85
    assert figure(found, "roc_auc", train="organic", test="synthetic", view="best sublayer") < 0.85


def test_a_set_without_spans_is_left_out_of_span_figures(
    model: LocalModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = [replace(e, gold=replace(e.gold, verdicts=())) for e in examples(COUNT)]
    specs = {**two(tmp_path), "whole": saved(tmp_path / "c.jsonl", bare)}
    plant(monkeypatch, only_in(1))
    said: list[str] = []
    found = analyse_transfer(model, specs, replace(CONFIG, progress=said.append))
    tested = {(f.at["objective"], f.at["test"]) for f in found.findings}
    assert ("response", "whole") in tested
    assert ("token", "whole") not in tested
    assert any("whole has no such labels" in line for line in said)


def test_size(folder: Path, model: LocalModel, spec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = load(tiny("gpt2", tmp_path / "gpt2"), dtype="fp32")
    plant(monkeypatch, only_in(1))
    found = analyse_model_size([model, other], spec, replace(CONFIG, objectives=("response",)))
    weights = {str(f.at["model"]): f.at["parameters"] for f in found.findings}
    assert len(weights) == 2
    assert weights[Path(other.name).name] == sum(p.numel() for p in other.model.parameters())
    assert {p.at["model"] for p in found.peaks if p.metric == "f1"} == set(weights)
    test, _ = found.comparisons
    assert [c.metric for c in found.comparisons] == ["f1", "roc_auc"]
    assert (test.p, test.p_bonferroni) == (1.0, 1.0)
    with pytest.raises(InputError, match="one model is named"):
        analyse_model_size([model], spec, replace(CONFIG, objectives=("response",)))


def test_sources_are_cut_to_so_many_tokens(model: LocalModel) -> None:
    sources = (Source("a", "The cat sat on the mat."), Source("b", "The dogs slept in the house."))
    sample = Example(Case("1", "The cat.", sources), Judgement("1", "human", 0.0, omission=0.0))

    def count(text: str) -> int:
        return len(model.tokenizer(text, add_special_tokens=False)["input_ids"])

    first = count(sources[0].text)
    for most in (1, 3, first, first + 2, 1000):
        cut = truncate_sources(model, sample, most).case.sources
        assert all(s.text.startswith(c.text) for s, c in zip(sources, cut, strict=False))
        assert sum(count(c.text) for c in cut) == min(most, first + count(sources[1].text))
    assert truncate_sources(model, sample, 0).case.sources == ()
    assert truncate_sources(model, sample, 1000).case.sources == sources


def test_context(model: LocalModel, spec: str) -> None:
    config = replace(CONFIG, objectives=("response",), options=replace(FAST, max_epochs=3))
    found = analyse_context_length(model, spec, config, [0, 4, None])
    read = {f.at["tokens"]: f.at["tokens_read"] for f in found.findings}
    assert list(read) == [0, 4, "all"]
    assert (read[0], read[4]) == (0.0, 4.0)
    assert float(read["all"] or 0) > 4
    assert len({f.row.data_hash for f in found.findings}) == 3
    assert len({f.row.n for f in found.findings}) == 1  # the same cases
    for wrong in ([], [-1]):
        with pytest.raises(InputError, match="tokens of the sources"):
            analyse_context_length(model, spec, config, wrong)


def test_a_store_is_found_by_the_next_analysis(
    model: LocalModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = saved(tmp_path / "a.jsonl", kinded())
    config = replace(CONFIG, objectives=("response",), options=replace(FAST, max_epochs=3))
    held = analyse_layers(model, spec, config)
    stored = analyse_layers(model, spec, replace(config, store=tmp_path / "states"))
    assert [f.row.metrics for f in stored.findings] == [f.row.metrics for f in held.findings]

    def refuse(*_: object) -> None:
        raise AssertionError("the model ran again")

    monkeypatch.setattr(store_module, "compute_states", refuse)
    again = analyse_layers(
        model, spec, replace(config, store=tmp_path / "states", options=replace(config.options, seed=1))
    )
    assert again.findings
    assert analyse_error_types(model, spec, replace(config, store=tmp_path / "states")).findings
    assert analyse_transfer(model, {"a": spec, "b": spec}, replace(config, store=tmp_path / "states")).findings, (
        "a store is known by its data, not by the name"
    )
    with pytest.raises(AssertionError, match="ran again"):
        analyse_layers(model, spec, replace(config, store=tmp_path / "states", template="short"))


def test_what_is_too_large_to_hold(model: LocalModel, spec: str) -> None:
    with pytest.raises(InputError, match=r"more than the 1\.0 kB allowed"):
        analyse_layers(model, spec, replace(CONFIG, memory=1000))


def test_a_sample_is_divided_like_the_whole(model: LocalModel, spec: str) -> None:
    config = replace(CONFIG, sample=60, objectives=("response",), options=replace(FAST, max_epochs=2))
    found = analyse_layers(model, spec, config)
    assert 3 <= found.findings[0].row.n <= 30
    assert found.findings[0].row.split == "60 documents, test part"


def test_labels_of_one_class(model: LocalModel, tmp_path: Path) -> None:
    clean = [replace(e, gold=Judgement(e.case.id, "human", 0.0)) for e in examples(60)]
    with pytest.raises(InputError, match=r"no responses of jsonl:a\.jsonl are labelled as hallucinated"):
        analyse_layers(model, saved(tmp_path / "a.jsonl", clean), CONFIG)
    wrong = [replace(e, gold=Judgement(e.case.id, "human", 1.0)) for e in examples(60)]
    with pytest.raises(InputError, match="only hallucinated ones by response"):
        analyse_layers(model, saved(tmp_path / "b.jsonl", wrong), CONFIG)


def test_no_spans_for_span_figures(model: LocalModel, tmp_path: Path) -> None:
    bare = [replace(e, gold=replace(e.gold, verdicts=())) for e in examples(60)]
    spec = saved(tmp_path / "a.jsonl", bare)
    with pytest.raises(InputError, match=r"no spans of jsonl:a\.jsonl are labelled"):
        analyse_layers(model, spec, replace(CONFIG, objectives=("token",)))
    assert {f.at["objective"] for f in analyse_layers(model, spec, CONFIG).findings} == {"response"}


def test_plans(model: LocalModel, spec: str) -> None:
    with pytest.raises(InputError, match="no objective"):
        AnalysisConfig(objectives=())
    for mix in ("a+c", "a+a"):
        with pytest.raises(InputError, match="does not name data sets"):
            analyse_transfer(model, {"a": spec, "b": spec}, CONFIG, mixtures=[mix])


def test_records_come_back(model: LocalModel, spec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, only_in(1))
    found = analyse_layers(model, spec, CONFIG)
    path = tmp_path / "layers.jsonl"
    path.write_text(encode_records(found), "utf-8")
    back = read_records(path)
    assert [asdict(f) for f in back.findings] == [asdict(f) for f in found.findings]
    assert isinstance(back.findings[0], ProbeFinding)
    assert (back.name, back.peaks, back.comparisons) == ("layers", found.peaks, found.comparisons)
    for line in ("[]", "{}", "nonsense", '{"veridical": "finding/2"}', '{"veridical": "peak/1", "metric": 3}'):
        path.write_text(encode_records(found) + line + "\n", "utf-8")
        with pytest.raises(DataError, match=r"layers\.jsonl:\d+: "):
            read_records(path)


def test_tables_and_pictures(model: LocalModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, only_in(1))
    spec = saved(tmp_path / "kinds.jsonl", kinded())
    config = replace(CONFIG, objectives=("response",), resamples=10, options=replace(FAST, max_epochs=3))
    made = [
        analyse_layers(model, spec, config),
        analyse_error_types(model, spec, config),
        analyse_transfer(model, two(tmp_path), config),
        analyse_model_size([model, load(tiny("gpt2", tmp_path / "gpt2"), dtype="fp32")], spec, config),
        analyse_context_length(model, spec, config, [0, None]),
    ]
    plots = {found.name: analysis_plots(found) for found in made}
    for found in made:
        tables = analysis_tables(found)
        assert tables[0].title.startswith(found.name)
        assert all(len(line) == len(table.head) for table in tables for line in table.lines)
        assert len(tables[0].lines) == len({line[0] for line in tables[0].lines})
        drawn = plots[found.name]
        assert set(drawn) == {f"{found.name}-{m}" for m in ("f1", "recall", "roc_auc")}
        for svg in drawn.values():
            ElementTree.fromstring(svg)
    text = {name: next(iter(drawn.values())) for name, drawn in plots.items()}
    assert "feed-forward" in text["layers"]
    assert "Intrinsic lake" in text["labels"]
    assert "organic" in text["transfer"]
    assert text["layers"] == next(iter(analysis_plots(made[0]).values()))
