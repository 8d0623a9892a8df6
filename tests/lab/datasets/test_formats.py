"""Every reader on small files in its publisher's format: what comes out, place by place."""

import json
from pathlib import Path

import pytest

from tests.lab.datasets import samples
from tests.lab.datasets.samples import put
from veridical.datasets import load_reader, read
from veridical.records.errors import DataError, InputError, MissingExtraError, UnknownNameError
from veridical.records.spans import Span
from veridical.records.types import Example
from veridical_lab.datasets import hf, procon
from veridical_lab.datasets.chevrons import parse_chevrons


def examples(name: str, folder: Path) -> list[Example]:
    return list(read(f"{name}:{getattr(samples, name)(folder)}"))


def marked(example: Example) -> list[str]:
    return [v.span.of(example.case.response) for v in example.gold.verdicts]


def test_ragtruth(tmp_path: Path) -> None:
    made = examples("ragtruth", tmp_path)
    assert [e.case.id for e in made] == ["0", "1", "2"]
    assert marked(made[0]) == ["in 1901"]
    assert made[0].gold.verdicts[0].label == "Evident Baseless Info"
    assert made[0].gold.verdicts[0].reason == "no year"
    assert [e.gold.hallucination for e in made] == [1.0, 0.0, 0.0]
    assert [e.case.question for e in made] == [None, "how deep is the lake", None]
    assert made[1].case.sources[0].text.startswith("passage 1: The lake")
    assert json.loads(made[2].case.sources[0].text) == {"name": "Café Lune", "wifi": None}
    assert (made[0].document, made[0].case.prompt, made[2].case.response) == ("7", "Sum up", "\nCafé Lune.")
    assert dict(made[0].group) == {"task": "Summary", "model": "m1", "part": "train", "quality": "good"}
    assert [e.case.id for e in read(f"ragtruth:{tmp_path}", "test")] == ["1"]


def test_ragtruth_labels_must_fit(tmp_path: Path) -> None:
    samples.ragtruth(tmp_path)
    path = tmp_path / "response.jsonl"
    path.write_text(path.read_text("utf-8").replace('"start": 16', '"start": 15'), "utf-8")
    with pytest.raises(DataError, match=r"response.jsonl:1: labels 1: the label \[15, 23\)"):
        list(read(f"ragtruth:{tmp_path}"))
    path.write_text(path.read_text("utf-8").replace('"end": 23', '"end": 99'), "utf-8")
    with pytest.raises(DataError, match="'end' is 99, not a number from 0 to 24"):
        list(read(f"ragtruth:{tmp_path}"))
    path.write_text(path.read_text("utf-8").replace('"source_id": "7"', '"source_id": "77"'), "utf-8")
    with pytest.raises(DataError, match="'77' is not in source_info"):
        list(read(f"ragtruth:{tmp_path}"))


def test_halueval(tmp_path: Path) -> None:
    made = {e.case.id: e for e in examples("halueval", tmp_path)}
    assert len(made) == 9
    pair = made["qa/1/right"], made["qa/1/hallucinated"]
    assert [(e.case.response, e.gold.hallucination, e.case.question) for e in pair] == [
        ("Yes", 0.0, "Is Oslo old?"),
        ("No", 1.0, "Is Oslo old?"),
    ]
    assert pair[0].document == pair[1].document
    turns = made["dialogue/1/right"].case.history
    assert [(t.speaker, t.text) for t in turns] == [
        ("Human", "Do you like tea?"),
        ("Assistant", "I do."),
        ("Human", "Which one?"),
    ]
    assert made["summarization/1/hallucinated"].case.sources[0].text == "A barn fell."
    assert marked(made["general/2"]) == ["a", "c"]
    assert (marked(made["general/3"]), made["general/3"].gold.hallucination) == ([], 1.0)
    assert made["general/3"].gold.notes
    assert len(list(read(f"halueval:{tmp_path / 'qa_data.json'}"))) == 2


def test_frank(tmp_path: Path) -> None:
    first, second = examples("frank", tmp_path)
    assert marked(first) == ["Ten people left ."]
    assert first.gold.hallucination == 1.0
    assert [j.by for j in first.annotations] == ["human:annotator_0", "human:annotator_1", "human:annotator_2"]
    assert [v.label for v in first.annotations[1].verdicts] == ["CircE+OutE"]
    assert (first.case.id, first.document) == ("ab12/bart", "ab12")
    # two annotators gave the second sentence no label: it is not judged
    assert (second.gold.hallucination, second.gold.judged) == (0.0, (Span(0, 14),))
    assert [e.case.id for e in read(f"frank:{tmp_path}", "valid")] == ["ab12/pgn"]


def test_tofueval(tmp_path: Path) -> None:
    first, second = examples("tofueval", tmp_path)
    assert first.case.response == "The council met. It was, they said, free."
    assert marked(first) == ["It was, they said, free."]
    assert (first.gold.verdicts[0].label, first.gold.verdicts[0].reason) == ("Extrinsic Information", "nobody said so")
    assert (first.case.question, first.document, second.gold.hallucination) == ("parking", "M1", 0.0)
    assert first.case.sources[0].text.endswith("parking costs.")
    (tmp_path / "meetingbank_dev_doc.csv").unlink()
    with pytest.raises(DataError, match="meetingbank_dev_doc"):
        list(read(f"tofueval:{tmp_path}"))


def test_aggrefact(tmp_path: Path) -> None:
    made = examples("aggrefact", tmp_path)
    assert [(e.case.id, e.gold.hallucination) for e in made] == [("dev/1", 0.0), ("dev/2", 1.0), ("test/1", 0.0)]
    assert made[1].gold.verdicts[0].claim.text == "Bees swim."
    assert made[0].document == made[1].document != made[2].document


def test_faithbench(tmp_path: Path) -> None:
    first, clean = examples("faithbench", tmp_path)
    assert marked(first) == ["production budget"]
    assert first.gold.verdicts[0].label is None  # the two labels differ
    by = {j.by: j for j in first.annotations}
    assert [(v.score, v.label) for v in by["human:b"].verdicts] == [(0.0, "Benign"), (1.0, "Questionable")]
    evidence = by["human:a"].verdicts[0].evidence[0]
    assert evidence.span.of(first.case.sources[0].text) == "budget"
    assert (clean.gold.hallucination, clean.annotations, clean.case.id) == (0.0, (), "batch_3/1")


def test_faithbench_marks_without_a_label_are_not_judged(tmp_path: Path) -> None:
    """The published set has a few spans with `"label": []`."""
    path = samples.faithbench(tmp_path) / "data_for_release" / "batch_3.json"
    batch = json.loads(path.read_text("utf-8"))
    marks = batch["samples"][0]["annotations"]
    marks[0]["label"] = []
    path.write_text(json.dumps(batch, indent=1), "utf-8")
    first, _ = read(f"faithbench:{tmp_path}")
    unsure = next(j for j in first.annotations if j.by == "human:a")
    assert (unsure.hallucination, unsure.verdicts, unsure.judged) == (None, (), (Span(0, 4), Span(14, 28)))
    assert (marked(first), first.gold.hallucination) == (["production budget"], 1.0)  # by the other annotator
    assert "without saying what" in first.gold.notes[0]
    del marks[1:]
    path.write_text(json.dumps(batch, indent=1), "utf-8")
    first, _ = read(f"faithbench:{tmp_path}")
    assert (first.gold.hallucination, first.gold.judged) == (None, (Span(0, 4), Span(14, 28)))
    assert first.gold.notes


def test_faithbench_names_the_line_of_the_sample(tmp_path: Path) -> None:
    path = samples.faithbench(tmp_path) / "data_for_release" / "batch_3.json"
    text = path.read_text("utf-8").replace('"Benign"', '"Fine"')
    path.write_text(text, "utf-8")
    line = 1 + text[: text.index('"sample_id": 0')].count("\n") - 1  # the brace before it
    with pytest.raises(DataError, match=rf"batch_3.json:{line}: annotations 2: the label of a span is"):
        list(read(f"faithbench:{tmp_path}"))
    skipped: list[DataError] = []
    assert [e.case.id for e in read(f"faithbench:{tmp_path}", on_bad=skipped.append)] == ["batch_3/1"]
    assert [error.line for error in skipped] == [line]


def conv_fever(folder: Path, rows: list[str], name: str) -> Path:
    head = (
        "conv_index,model_type,decoding,context,knowledge,response,Avg Factual Correctness,Hallucination,Verifiable\n"
    )
    return put(folder / name, head + "".join(f"{row}\n" for row in rows))


def test_conv_fever_expert_file(tmp_path: Path) -> None:
    """Its conv_index counts rows of a model: equal numbers are other conversations."""
    rows = [
        "0,small,dbs,A: Tea? <br>B: Yes <br>,Tea is hot.,It is hot,1.0,No,y",
        "1,small,dbs,A: Ski? <br>,Skis are long.,Sure,0.3,Yes,n",
        "0,large,dbs,A: Ski? <br>B: Why <br>,Skis are long.,They fly,0.0,Yes,y",
    ]
    conv_fever(tmp_path, rows, "factual_dataset_expert.csv")
    tea, small, large = read(f"conv_fever:{tmp_path}", "expert")
    assert tea.document != small.document == large.document
    assert [e.gold.hallucination for e in (tea, small, large)] == [0.0, None, 1.0]
    assert (small.gold.judged, bool(small.gold.notes)) == ((), True)
    assert {e.gold.by for e in (tea, small, large)} == {"human:expert"}
    conv_fever(tmp_path, rows[:1], "factual_dataset_crowd/gt.csv")
    crowd, *_ = read(f"conv_fever:{tmp_path}")
    assert (crowd.document, crowd.gold.by, crowd.case.id) == ("0", "human:crowd", "gt/1")


def test_argkp_has_a_case_per_labelled_pair(tmp_path: Path) -> None:
    put(tmp_path / "arguments_test.csv", "arg_id,argument,topic,stance\na1,Cars kill.,T,-1\na2,Fine.,T,1\n")
    put(tmp_path / "key_points_test.csv", "key_point_id,key_point,topic,stance\nk1,Deadly.,T,-1\nk2,Dear.,T,-1\n")
    labels = put(tmp_path / "labels_test.csv", "arg_id,key_point_id,label\na1,k1,1\na1,k2,0\n")
    made = list(read(f"argkp:{tmp_path}"))
    assert [(e.case.id, e.gold.omission, [s.text for s in e.case.sources]) for e in made] == [
        ("a1/k1", 0.0, ["Deadly."]),
        ("a1/k2", 1.0, ["Dear."]),
    ]
    assert made[0].case.sources[0].perspective == "con"
    for row, says in (("a2,k1,1", "another topic or side"), ("a3,k1,1", "not in the files"), ("a1,k1,0", "already")):
        labels.write_text(f"arg_id,key_point_id,label\na1,k1,1\n{row}\n", "utf-8")
        with pytest.raises(DataError, match=rf"labels_test.csv:3: .*{says}"):
            list(read(f"argkp:{tmp_path}"))
        skipped: list[DataError] = []
        assert len(list(read(f"argkp:{tmp_path}", on_bad=skipped.append))) == len(skipped) == 1


def test_chevrons(tmp_path: Path) -> None:
    first, second = examples("chevrons", tmp_path)
    assert marked(first) == ["twice"]
    assert [j.judged for j in first.annotations] == [(Span(0, 25),)] * 3
    assert first.gold.judged == (Span(0, 25),)  # nobody copied the last sentence
    assert (marked(second), second.gold.judged, second.document) == (["x < y"], None, None)


@pytest.mark.parametrize(
    ("response", "copy", "spans"),
    [
        ("a b c", "a b c", []),
        ("a b c", "<a> <b> c", ["a b"]),
        ("a b c", "< a >b c", ["a"]),
        ("a bc", "a <b><c>", ["bc"]),
        ("a < b", "a < b", []),
        ("a > b", "<a > b>", ["a > b"]),
        ("a\n b", "a <b>", ["b"]),
        ("\U0001f600 b", "<\U0001f600> b", ["\U0001f600"]),
        ("a b", "a <> b", []),
    ],
)
def test_chevrons_find_their_characters(response: str, copy: str, spans: list[str]) -> None:
    assert [s.of(response) for s in parse_chevrons(response, copy)[0]] == spans


@pytest.mark.parametrize("copy", ["a x", "a <b", "a> b", "<<a> b", "a b c"])
def test_chevrons_that_depart_are_refused(copy: str) -> None:
    with pytest.raises(InputError):
        parse_chevrons("a b", copy)


def test_procon(tmp_path: Path) -> None:
    first, clean = examples("procon", tmp_path)
    assert [(s.id, s.perspective, s.must_cover) for s in first.case.sources] == [
        ("pro-1", "pro", True),
        ("pro-2", "pro", True),
        ("con-1", "con", True),
    ]
    assert marked(first) == ["Trees grow."]
    assert [(o.source_id, o.span.of(first.case.source(o.source_id).text)) for o in first.gold.omissions] == [
        ("pro-2", "It is cheap."),
        ("con-1", "buses"),
    ]
    assert (first.gold.omission, clean.gold.omission, clean.gold.hallucination) == (1.0, 0.0, 0.0)
    questions = list(procon.read_questions(tmp_path / "topics.jsonl"))
    assert [(q.id, q.response, len(q.sources)) for q in questions] == [("t1", "", 3), ("t2", "", 3)]


def test_hades(tmp_path: Path) -> None:
    first, second, unlabelled = examples("hades", tmp_path)
    assert (first.case.id, first.case.response) == ("train/w5", "she lived quietly in rome .")
    assert marked(first) == ["lived quietly"]
    assert first.gold.judged == (Span(4, 17),)
    assert ([s.of(second.case.response) for s in second.gold.judged], second.gold.hallucination) == (["rome"], 0.0)
    assert (unlabelled.gold.hallucination, unlabelled.gold.judged) == (None, ())
    put(tmp_path / "train.txt", [{"replaced": "a ===b=== c", "replaced_ids": [0, 0], "hallucination": 1}])
    with pytest.raises(DataError, match=r"train.txt:1: words 0 to 0"):
        list(read(f"hades:{tmp_path}", "train"))


def test_begin_generic_and_stray_quotes(tmp_path: Path) -> None:
    (only,) = examples("begin", tmp_path)
    assert (only.gold.hallucination, only.gold.judged, only.case.response) == (None, (), 'Sure "thing')


def test_jsonl(tmp_path: Path) -> None:
    second, first = examples("jsonl", tmp_path)  # test.jsonl comes before train.jsonl
    assert (marked(first), first.document, second.case.id) == (["Rome"], "d", "2")
    assert [e.case.id for e in read(f"jsonl:{tmp_path}", "train")] == ["1"]
    with pytest.raises(UnknownNameError, match="known: test, train"):
        list(read(f"jsonl:{tmp_path}", "dev"))


LINES = {
    "a case": ({"veridical": "case/1", "id": "1", "response": "a"}, "without gold"),
    "a bare case": ({"id": "1", "response": "a"}, "without gold"),
    "a judgement": ({"veridical": "judgement/1", "case_id": "1", "by": "x"}, "'judgement/1', not an example"),
    "no gold": ({"veridical": "example/1", "case": {"id": "1", "response": "a"}}, "gold"),
    "a later version": ({"veridical": "example/2"}, "version"),
    "a span outside": (
        {
            "case": {"id": "1", "response": "a"},
            "gold": {"case_id": "1", "by": "h", "verdicts": [{"span": {"start": 0, "end": 9}, "score": 1.0}]},
        },
        "runs past",
    ),
}


@pytest.mark.parametrize("name", LINES)
def test_jsonl_names_the_bad_line(name: str, tmp_path: Path) -> None:
    line, says = LINES[name]
    good = json.loads((samples.jsonl(tmp_path) / "train.jsonl").read_text("utf-8"))
    path = put(tmp_path / "mine.jsonl", [good, line])
    with pytest.raises(DataError, match=says) as caught:
        list(read(f"jsonl:{path}"))
    assert caught.value.line == 2
    seen: list[DataError] = []
    assert len(list(load_reader("jsonl").read(path, on_bad=seen.append))) == len(seen) == 1


class Library:
    """As much of the Hugging Face library as the reader uses."""

    def __init__(self, parts: dict) -> None:
        self.parts = parts
        self.asked: list[str] = []

    def load_dataset(self, name: str) -> dict:
        self.asked.append(name)
        return self.parts

    load_from_disk = load_dataset


def test_hf_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"answer": "In Rome", "context": ["a", "b"], "ok": False, "marks": [{"start": 3, "end": 7}]}]
    library = Library({"train": rows, "test": [{"answer": "Yes", "context": ["a"], "ok": True, "marks": []}]})
    monkeypatch.setattr(hf, "import_without_telemetry", lambda name: library)
    spec = "hf:some/set?response=answer&sources=context&label=ok&spans=marks&hallucinated=False"
    first, second = read(spec)
    assert (first.case.id, marked(first), first.gold.hallucination) == ("train/1", ["Rome"], 1.0)
    assert ([s.text for s in first.case.sources], second.gold.hallucination) == (["a", "b"], 0.0)
    assert library.asked == ["some/set"]
    assert [e.case.id for e in read(spec, "train")] == ["train/1"]
    with pytest.raises(UnknownNameError, match="known: test, train"):
        list(read(spec, "dev"))
    with pytest.raises(UnknownNameError, match="answers"):
        list(read("hf:x?answers=a"))
    with pytest.raises(DataError, match="no field 'gone'"):
        list(read("hf:x?response=gone"))
    with pytest.raises(DataError, match="neither a label nor spans"):
        list(read("hf:x?response=answer"))


def test_hf_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(hf, "import_without_telemetry", gone)
    with pytest.raises(MissingExtraError, match=r"veridical-lab\[data\]"):
        list(read("hf:some/set?label=x"))


def test_hf_reads_a_folder_with_the_real_library(tmp_path: Path) -> None:
    library = pytest.importorskip("datasets")
    library.Dataset.from_list([{"response": "a", "label": 1}, {"response": "b", "label": 0}]).save_to_disk(
        tmp_path / "set"
    )
    made = list(read(f"hf:{tmp_path / 'set'}?response=response&label=label"))
    assert [(e.case.response, e.gold.hallucination) for e in made] == [("a", 1.0), ("b", 0.0)]


def test_a_claim_of_wice_without_meta_is_named(tmp_path: Path) -> None:
    row = {"meta": "none", "claim": "It is red.", "label": "supported", "evidence": ["It is red."]}
    file = tmp_path / "oracle_chunks" / "claim" / "test.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(row) + "\n")
    with pytest.raises(DataError, match=r"test\.jsonl:1: 'meta' is 'none', not an object"):
        list(read(f"wice:{tmp_path}", "claims/test"))
