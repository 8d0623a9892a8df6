"""One contract over every registered detector; a new one joins by being registered (and named in SPECS if it
needs an argument)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from veridical.detectors import DETECTORS, load_detector
from veridical.inference.saving import save_record
from veridical.io.serialization import encode
from veridical.records.detector import Detector, DetectorInfo, fingerprint_of, info_of
from veridical.records.errors import InputError
from veridical.records.types import Case, Example, Judgement, Level, Source, Span, Verdict, check_judgement
from veridical.testing import assert_detector_contract

# name -> the specs under which the contract is run; a detector without options needs no entry. MODEL is a tiny language
# model made for the test; "max_windows" keeps its passes over a source of a megabyte few. SCRIPT is a chat model's
# replies, FITTED a folder of thresholds for word overlap; FEATURES and READING are
# classifiers of word features, with sources, and without them on a language model; TOKENS and ONLINE are token
# classifiers, DEFAULT a default detector on a tiny encoder, NLI a sequence classifier. PROMPTED and COVERING are a
# tuned prompt that judges responses, and a head that judges each argument.
SPECS: dict[str, list[str]] = {
    "align": ["align:ENCODER,dtype=fp32,idf=yes"],
    "calibrated": ["calibrated:FITTED"],
    "classifier": ["classifier:PROMPTED,COVERING", "classifier:COVERING"],
    "coin": ["coin", "coin:0.3"],
    "entailment": ["entailment:NLI,dtype=fp32", "entailment:NLI,dtype=fp32,form=summac,response=worst"],
    "default": ["default:DEFAULT"],
    "dependency_arcs": [],  # needs a parser; tests/lab/detectors/test_dependency_arcs.py gives one
    "logprob": [
        "logprob:MODEL,dtype=fp32,max_windows=2",
        "logprob:MODEL,dtype=fp32,max_windows=2,score=entropy,unit=token",
        "logprob:SUMMARISER,dtype=fp32,max_windows=2",
    ],
    "majority": ["majority", "majority:hallucinated"],
    "overlap": ["overlap", "overlap:values", "overlap:rouge", "overlap:rouge-plain"],
    "features": ["features:FEATURES", "features:READING,dtype=fp32"],
    "hf": [],  # loads `tokens` or `entailment`; tests/detectors/test_published.py
    "judge": [f"judge:{method},model=scripted:SCRIPT" for method in ("yes_no", "cot", "list")],
    "probe": [],  # needs a trained artifact; tests/lab/detectors/test_probe.py makes one
    "salience": ["salience:MODEL,dtype=fp32,max_windows=2", "salience:SUMMARISER,dtype=fp32,max_windows=2"],
    "selfcheck": ["selfcheck:overlap,model=scripted:SCRIPT,samples=2", "selfcheck:yes_no,model=scripted:SCRIPT"],
    "tokens": ["tokens:TOKENS,dtype=fp32", "tokens:ONLINE,dtype=fp32"],
    "verify": [
        "verify",
        "verify:overlap:values",
        "verify:overlap,citations=all+missing+each",
        "verify:yes_no,model=scripted:SCRIPT,citations=skip",
        "verify:qa,model=scripted:SCRIPT",
        "verify:cot,model=scripted:SCRIPT,splitter=model,window=4000,coverage=no",
    ],
}
ALL = [spec for name in DETECTORS for spec in SPECS.get(name, [name])]
LONG = "The river rose by 3.5 m in May 2021, Dr. Smith said. " * 20_000


@pytest.fixture(scope="module", params=ALL)
def detector(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Detector:
    spec: str = request.param
    if any(name in spec for name in ("MODEL", "SUMMARISER", "ENCODER")):
        import torch

        from veridical_lab.models.testing import tiny

        torch.set_num_threads(1)  # tiny matrices only wait for each other
        for name, architecture in (("MODEL", "llama"), ("SUMMARISER", "t5"), ("ENCODER", "bert")):
            folder = tmp_path_factory.getbasetemp() / f"tiny-{architecture}"
            if name in spec:
                spec = spec.replace(name, str(folder if folder.exists() else tiny(architecture, folder)))
    if ":NLI" in spec:
        from veridical_lab.models.testing import tiny

        folder = tmp_path_factory.getbasetemp() / "tiny-nli"
        labels = dict(enumerate(["entailment", "neutral", "contradiction"]))
        tiny("bert", folder, head="SequenceClassification", id2label=labels)
        spec = spec.replace(":NLI", f":{folder}")
    if "SCRIPT" in spec:
        script = tmp_path_factory.getbasetemp() / "script.json"
        script.write_text('{"": "It says so.\\nSupported: Yes"}', encoding="utf-8")
        spec = spec.replace("SCRIPT", str(script))
    if "FITTED" in spec:
        from veridical.detectors.calibrated import FittedCalibration, Scale
        from veridical.metrics.calibrators import Platt

        folder = tmp_path_factory.getbasetemp() / "fitted"
        scales = {name: Scale(0.5, Platt(2.0, -1.0)) for name in Level}
        save_record(FittedCalibration("overlap", fingerprint_of(load_detector("overlap")), scales), folder)
        spec = spec.replace("FITTED", str(folder))
    for name, options in (("FEATURES", {}), ("READING", {"sources": False, "context": "left"})):
        if name in spec:
            from tests.lab.detectors.feature_examples import trained
            from veridical.models.load import load
            from veridical_lab.models.testing import tiny
            from veridical_lab.training.features import Inputs

            folder = tmp_path_factory.getbasetemp() / f"tiny-{name}"
            model = load(tiny("llama", folder / "model"), dtype="fp32") if name == "READING" else None
            spec = spec.replace(name, str(trained(folder / "detector", inputs=Inputs(model=model), **options)))
    if "DEFAULT" in spec:
        from tests.detectors.default_artifact import tiny_default

        spec = spec.replace("DEFAULT", str(tiny_default(tmp_path_factory.getbasetemp() / "default")))
    for name, form in (("TOKENS", {"attention": "prefix"}), ("ONLINE", {"architecture": "llama", "lexical": False})):
        if name in spec:
            from tests.detectors.token_examples import trained_tokens

            spec = spec.replace(name, str(trained_tokens(tmp_path_factory.getbasetemp() / name.lower(), **form)))
    for name, form in (
        ("PROMPTED", {"method": "prompt"}),
        ("COVERING", {"method": "head", "task": "coverage", "unit": "part"}),
    ):
        if name in spec:
            if name == "PROMPTED":
                pytest.importorskip("peft")
            from tests.lab.detectors.classifier_examples import trained_classifier
            from veridical.models.load import load
            from veridical_lab.models.testing import tiny

            folder = tmp_path_factory.getbasetemp() / f"tiny-{name.lower()}"
            if not folder.exists():
                trained_classifier(load(tiny("llama", folder / "model"), dtype="fp32"), folder / "detector", **form)
            spec = spec.replace(name, str(folder / "detector"))
    return load_detector(spec)


def test_it_is_a_detector(detector: Detector) -> None:
    assert isinstance(detector, Detector)
    assert detector.name.split(":")[0] in DETECTORS
    assert isinstance(type(detector).info, DetectorInfo)  # type: ignore[attr-defined]
    assert set(info_of(detector).levels) <= set(info_of(type(detector)).levels)
    assert (type(detector).__doc__ or "").strip()


def test_it_keeps_the_contract(detector: Detector) -> None:
    assert_detector_contract(detector)


def test_a_source_of_a_megabyte() -> None:
    case = Case("1", "The river rose in June.", (Source("a", LONG, must_cover=True),))
    for name in ("overlap", "overlap:values"):
        (judgement,) = load_detector(name).judge([case])
        check_judgement(case, judgement)
        assert (judgement.hallucination, len(judgement.omissions)) == (pytest.approx(1 / 3), 40_000)


ODD = ["the", "cat", "cats", "1,200", "7", "seven", "5 km", "İ", "é", "é", "ß", "👩\u200d👧", "-", ".", "\r\n", " "]
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
TEXT |= st.lists(st.sampled_from(ODD), max_size=20).map(" ".join)
SOURCE = st.tuples(TEXT, st.booleans(), st.sampled_from([None, "pro", "con"]))


def case_of(response: str, sources: list[tuple[str, bool, str | None]]) -> Case:
    return Case("x", response, tuple(Source(str(i), t, p, m) for i, (t, m, p) in enumerate(sources)))


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=st.builds(case_of, TEXT, st.lists(SOURCE, max_size=3)))
@example(case=Case("x", "/²", (Source("0", "0"),)))
def test_any_text(detector: Detector, case: Case) -> None:
    (judgement,) = detector.judge([case])
    check_judgement(case, judgement)


class Plain:
    """A detector of somebody else's: nothing but a name and `judge`."""

    name = "plain"

    def judge(self, cases: list[Case]) -> list[Judgement]:
        return [Judgement(case.id, self.name, 0.9, verdicts=(Verdict(Span(0, 2), 0.9),)) for case in cases]


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(DETECTORS.table, "plain", f"{__name__}:Plain")
    return "plain"


def test_a_plain_object_works_wherever_a_detector_is_named(
    plain: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from veridical.cli import main

    response, source, cases = (tmp_path / name for name in ("a.txt", "b.txt", "cases.jsonl"))
    response.write_text("It is so.", "utf-8")
    source.write_text("It is.", "utf-8")
    labelled = [
        Example(Case(str(i), "It is so."), Judgement(str(i), "human:a", float(i % 2)), document=str(i))
        for i in range(40)
    ]
    cases.write_text("".join(encode(example) + "\n" for example in labelled), "utf-8")
    assert main(["detectors"]) == 0
    assert "plain " in capsys.readouterr().out
    assert main(["check", str(response), str(source), "-d", plain]) == 1
    assert main(["check", str(response), str(source), "-d", f"verify:{plain}"]) == 1
    assert main(["revise", str(response), str(source), "--checker", plain]) == 1
    assert main(["bench", plain, "--data", f"jsonl:{cases}", "--fit", "f1"]) == 0
    assert load_detector("plain").name == "plain"
    with pytest.raises(InputError, match="plain does not take 'x'"):
        load_detector("plain:x")
