"""One contract over every registered detector; a new one joins by being registered (and named in SPECS if it
needs an argument)."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from veridical.core.detector import Detector, DetectorInfo, fingerprint_of, info_of, thresholds_of
from veridical.core.errors import InputError
from veridical.core.serialization import encode
from veridical.core.types import Case, Example, Judgement, Level, Source, Span, Verdict, check_judgement
from veridical.detectors import DETECTORS, load_detector
from veridical.models.artifact import save_record

# name -> the specs under which the contract is run; a detector without options needs no entry. MODEL is a tiny language
# model made for the test; "max_windows" keeps its passes over a source of a megabyte few. SCRIPT is a chat model's
# replies, FITTED a folder of thresholds for word overlap, COMBINED an ensemble of it; FEATURES and READING are
# classifiers of word features, with sources, and without them on a language model; TOKENS and ONLINE are token
# classifiers, DEFAULT a default detector on a tiny encoder, NLI a sequence classifier. PROMPTED and COVERING are a
# tuned prompt that judges responses, and a head that judges each argument.
SPECS: dict[str, list[str]] = {
    "align": ["align:ENCODER,dtype=fp32,idf=yes"],
    "calibrated": ["calibrated:FITTED"],
    "classifier": ["classifier:PROMPTED,COVERING", "classifier:COVERING"],
    "coin": ["coin", "coin:0.3"],
    "entailment": [
        "entailment:NLI,dtype=fp32",
        "entailment:NLI,dtype=fp32,form=summac,response=worst",
    ],
    "default": ["default:DEFAULT"],
    "dependency_arcs": [],  # needs a parser; tests/detectors/test_dependency_arcs.py gives one
    "logprob": [
        "logprob:MODEL,dtype=fp32,max_windows=2",
        "logprob:MODEL,dtype=fp32,max_windows=2,score=entropy,unit=token",
        "logprob:SUMMARISER,dtype=fp32,max_windows=2",
    ],
    "majority": ["majority", "majority:hallucinated"],
    "overlap": ["overlap", "overlap:values", "overlap:rouge", "overlap:rouge-plain"],
    "ensemble": ["ensemble:overlap,length", "ensemble:COMBINED,cascade=yes"],
    "features": ["features:FEATURES", "features:READING,dtype=fp32"],
    "hf": [],  # loads `tokens` or `entailment`; tests/detectors/test_published.py
    "judge": [f"judge:{method},model=scripted:SCRIPT" for method in ("yes_no", "cot", "list")],
    "probe": [],  # needs a trained artifact; tests/detectors/test_probe.py makes one
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

LONG = "The river rose by 3.5 m in May 2021, Dr. Smith said. " * 2_000  # over 100 kB: a hundred windows of a tiny model
CASES = [
    Case("plain", "The cat sat on the mat.", (Source("a", "A cat sat on a mat."),)),
    Case("empty", "", (Source("a", "Something to say."),)),
    Case("empty, to cover", "", (Source("a", "Something to say.", must_cover=True),)),
    Case("white space", " \n\t ", (Source("a", "Something."),)),
    Case("no sources", "Nobody backs this."),
    Case("empty source", "Words.", (Source("a", "", must_cover=True),)),
    Case("stop words only", "and the of", (Source("a", "the and of", must_cover=True),)),
    Case("punctuation only", "... !? —", (Source("a", "?!"),)),
    Case("leading white space", "\n\n  Paris is big.", (Source("a", "  \r\nParis is a big city."),)),
    Case(
        "CRLF",
        "One line.\r\nTwo lines.\r\n",
        (Source("a", "One line.\r\nThree lines.\r\n", must_cover=True),),
    ),
    Case(
        "emoji",
        "👩‍👩‍👧 love 🇫🇷 and e\u0301clairs İstanbul ﬁne",
        (Source("a", "They love éclairs 🇫🇷.", must_cover=True),),
    ),
    Case("scripts", "नमस्ते दुनिया。你好世界 مرحبا ไทย", (Source("a", "你好 नमस्ते", must_cover=True),)),
    Case(
        "repeats",
        "no no no yes no",
        (Source("a", "yes no", must_cover=True), Source("b", "no no", "con", True)),
    ),
    Case(
        "perspectives",
        "Cheap, but slow.",
        (
            Source("p", "It is cheap.", "pro", True),
            Source("c", "It is loud.", "con", True),
            Source("x", "slow"),
        ),
        question="Is it good?",
    ),
    Case(
        "numbers",
        "1,200 people paid $5m on 3 May 2021.",
        (Source("a", "1200 people; five million dollars; 2021-05-03"),),
    ),
    Case("long source", "The river rose in June.", (Source("a", LONG, must_cover=True),)),
    Case("long word", "x" * 5000, (Source("a", "x" * 5000),)),
    Case(
        "control characters",
        "a\x1b[31mred\x07 \u202eabc\u2028d\x85e",
        (Source("a", "red\x00abc", must_cover=True),),
    ),
]


@pytest.fixture(scope="module", params=ALL)
def detector(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Detector:
    spec: str = request.param
    if any(name in spec for name in ("MODEL", "SUMMARISER", "ENCODER")):
        import torch

        from veridical.models.testing import tiny

        torch.set_num_threads(1)  # tiny matrices only wait for each other
        for name, architecture in (("MODEL", "llama"), ("SUMMARISER", "t5"), ("ENCODER", "bert")):
            folder = tmp_path_factory.getbasetemp() / f"tiny-{architecture}"
            if name in spec:
                spec = spec.replace(name, str(folder if folder.exists() else tiny(architecture, folder)))
    if ":NLI" in spec:
        from veridical.models.testing import tiny

        folder = tmp_path_factory.getbasetemp() / "tiny-nli"
        labels = dict(enumerate(["entailment", "neutral", "contradiction"]))
        tiny("bert", folder, head="SequenceClassification", id2label=labels)
        spec = spec.replace(":NLI", f":{folder}")
    if "SCRIPT" in spec:
        script = tmp_path_factory.getbasetemp() / "script.json"
        script.write_text('{"": "It says so.\\nSupported: Yes"}', encoding="utf-8")
        spec = spec.replace("SCRIPT", str(script))
    if "FITTED" in spec:
        from veridical.calibration.calibrated import FittedCalibration, Scale
        from veridical.calibration.calibrators import Platt

        folder = tmp_path_factory.getbasetemp() / "fitted"
        scales = {name: Scale(0.5, Platt(2.0, -1.0)) for name in Level}
        save_record(FittedCalibration("overlap", fingerprint_of(load_detector("overlap")), scales), folder)
        spec = spec.replace("FITTED", str(folder))
    if "COMBINED" in spec:
        from tests.detectors.ensemble_members import TWO
        from veridical.detectors.ensemble.artifact import FittedEnsemble, Member, Stage

        members = tuple(Member(s, fingerprint_of(load_detector(s))) for s in ("overlap", "overlap:values"))
        stages = (Stage(0.2, 0.8),)
        folder = tmp_path_factory.getbasetemp() / "combined"
        save_record(FittedEnsemble(members, dict.fromkeys(Level, TWO), stages), folder)
        spec = spec.replace("COMBINED", str(folder))
    for name, options in (("FEATURES", {}), ("READING", {"sources": False, "context": "left"})):
        if name in spec:
            from tests.detectors.feature_examples import trained
            from veridical.models.load import load
            from veridical.models.testing import tiny
            from veridical.training.features import Inputs

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
            from tests.detectors.classifier_examples import trained_classifier
            from veridical.models.load import load
            from veridical.models.testing import tiny

            folder = tmp_path_factory.getbasetemp() / f"tiny-{name.lower()}"
            if not folder.exists():
                trained_classifier(load(tiny("llama", folder / "model"), dtype="fp32"), folder / "detector", **form)
            spec = spec.replace(name, str(folder / "detector"))
    return load_detector(spec)


@pytest.fixture(scope="module")
def judged(detector: Detector) -> list[Judgement]:
    return detector.judge(CASES)


def test_it_is_a_detector(detector: Detector) -> None:
    assert isinstance(detector, Detector)
    assert detector.name.split(":")[0] in DETECTORS
    assert isinstance(type(detector).info, DetectorInfo)  # type: ignore[attr-defined]
    assert set(info_of(detector).levels) <= set(info_of(type(detector)).levels)
    assert info_of(detector).levels
    assert set(thresholds_of(detector)) <= set(Level)
    json.dumps(fingerprint_of(detector))
    assert (type(detector).__doc__ or "").strip()


def test_same_length_and_order(judged: list[Judgement]) -> None:
    assert [j.case_id for j in judged] == [c.id for c in CASES]


def test_a_source_of_a_megabyte() -> None:
    case = Case("1", "The river rose in June.", (Source("a", LONG * 10, must_cover=True),))
    for name in ("overlap", "overlap:values"):
        (judgement,) = load_detector(name).judge([case])
        check_judgement(case, judgement)
        assert (judgement.hallucination, len(judgement.omissions)) == (pytest.approx(1 / 3), 40_000)


def test_nothing_in_nothing_out(detector: Detector) -> None:
    assert detector.judge([]) == []


def test_spans_lie_in_the_texts_and_by_names_the_detector(detector: Detector, judged: list[Judgement]) -> None:
    for case, judgement in zip(CASES, judged, strict=True):
        check_judgement(case, judgement)
        assert judgement.by == detector.name
        assert all(len(v.span) for v in judgement.verdicts)
        assert all(case.source(o.source_id).must_cover for o in judgement.omissions)


def test_could_not_judge_does_not_look_clean(detector: Detector, judged: list[Judgement]) -> None:
    by_id = {j.case_id: j for j in judged}
    unsourced = ["no sources"] if info_of(detector).needs_sources else []
    for id in ("empty", "white space", "punctuation only", *unsourced):
        judgement = by_id[id]
        assert judgement.hallucination is None, id
        assert judgement.judged == (), id
        assert judgement.notes, id


def test_omissions_are_scored_only_where_something_had_to_be_covered(judged: list[Judgement]) -> None:
    for case, judgement in zip(CASES, judged, strict=True):
        if not any(s.must_cover for s in case.sources):
            assert judgement.omission is None
            assert not judgement.omissions


def assert_same(a: list[Judgement], b: list[Judgement]) -> None:
    """The same judgements; what a model computed may differ by rounding (1e-5, as batches have other shapes)."""
    for one, two in zip(a, b, strict=True):
        assert blank(one) == blank(two)
        assert numbers(one) == pytest.approx(numbers(two), abs=1e-5)


def numbers(judgement: Judgement) -> list[float | None]:
    weights = [e.weight for v in judgement.verdicts for e in v.evidence]
    return [
        judgement.hallucination,
        judgement.omission,
        *(v.score for v in judgement.verdicts),
        *(o.score for o in judgement.omissions),
        *weights,
    ]


def blank(judgement: Judgement) -> Judgement:
    """The judgement with every number at 0 (and what is said of numbers left out)."""
    verdicts = tuple(
        replace(v, score=0.0, reason=None, evidence=tuple(replace(e, weight=0.0) for e in v.evidence))
        for v in judgement.verdicts
    )
    omissions = tuple(replace(o, score=0.0, reason=None) for o in judgement.omissions)
    return replace(
        judgement,
        hallucination=None if judgement.hallucination is None else 0.0,
        omission=None if judgement.omission is None else 0.0,
        verdicts=verdicts,
        omissions=omissions,
    )


FEW = [case for case in CASES if case.id != "long source"]


def test_the_same_input_twice(detector: Detector, judged: list[Judgement]) -> None:
    again = detector.judge(FEW)
    assert detector.judge(FEW) == again
    assert_same(again, [j for j in judged if j.case_id != "long source"])


def test_batch_composition_does_not_matter(detector: Detector, judged: list[Judgement]) -> None:
    few = [j for j in judged if j.case_id != "long source"]
    assert_same([detector.judge([case])[0] for case in FEW], few)
    assert_same(detector.judge(FEW[::-1]), few[::-1])


def test_cases_are_left_alone(detector: Detector) -> None:
    cases = CASES[:-4]
    before = copy.deepcopy(cases)
    detector.judge(cases)
    assert cases == before


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60) | st.lists(
    st.sampled_from(
        [
            "the",
            "cat",
            "cats",
            "1,200",
            "7",
            "seven",
            "İ",
            "é",
            "e\u0301",
            "ß",
            "👩‍👧",
            "-",
            ".",
            "\r\n",
            " ",
            "5 km",
        ]
    ),
    max_size=20,
).map(" ".join)


def _cases() -> Iterator[st.SearchStrategy[Case]]:
    source = st.tuples(TEXT, st.booleans(), st.sampled_from([None, "pro", "con"]))
    yield st.builds(
        lambda response, sources: Case(
            "x", response, tuple(Source(str(i), t, p, m) for i, (t, m, p) in enumerate(sources))
        ),
        TEXT,
        st.lists(source, max_size=3),
    )


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=next(_cases()))
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
    assert main(["verify", str(response), str(source), "--checker", plain]) == 1
    assert main(["revise", str(response), str(source), "--checker", plain]) == 1
    assert main(["bench", plain, "--data", f"jsonl:{cases}", "--fit", "f1"]) == 0
    assert load_detector("plain").name == "plain"
    with pytest.raises(InputError, match="plain does not take 'x'"):
        load_detector("plain:x")
