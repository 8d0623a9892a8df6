"""Small files in the publishers' formats, with invented content: what readers are tested on."""

import json
from pathlib import Path


def put(path: Path, content: str | list | dict, *, lines: bool = True) -> Path:
    """Write a text, a list as JSON Lines (or as an array), or an object."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, list) and lines:
        content = "\n".join(json.dumps(row, ensure_ascii=False) for row in content) + "\n"
    elif not isinstance(content, str):
        content = json.dumps(content, ensure_ascii=False, indent=1)
    path.write_text(content, encoding="utf-8")
    return path


def table(names: str, *rows: tuple[object, ...]) -> list[dict]:
    """Objects whose fields have these names."""
    return [dict(zip(names.split(), row, strict=True)) for row in rows]


def ragtruth(folder: Path) -> Path:
    lake = {"question": "how deep is the lake", "passages": "passage 1: The lake is 40 m deep.\n\n"}
    sources = table(
        "source_id task_type source source_info prompt",
        ("7", "Summary", "News", "The mill burnt down.", "Sum up"),
        ("8", "QA", "Web", lake, "Answer"),
        ("9", "Data2txt", "Shops", {"name": "Café Lune", "wifi": None}, "Write"),
    )
    span = {"start": 16, "end": 23, "text": "in 1901", "meta": "no year", "label_type": "Evident Baseless Info"}
    span |= {"implicit_true": False, "due_to_null": False}
    responses = table(
        "id source_id model labels split response temperature quality",
        ("0", "7", "m1", [span], "train", "The mill burned in 1901.", 0.7, "good"),
        ("1", "8", "m1", [], "test", "It is 40 m deep.", 0.7, "good"),
        ("2", "9", "m2", [], "train", "\nCafé Lune.", 0.7, "good"),
    )
    put(folder / "source_info.jsonl", sources)
    put(folder / "response.jsonl", responses)
    return folder


def halueval(folder: Path) -> Path:
    qa = table("knowledge question right_answer hallucinated_answer", ("Oslo is old.", "Is Oslo old?", "Yes", "No"))
    said = "[Human]: Do you like tea? [Assistant]: I do. [Human]: Which one?"
    dialogue = table(
        "knowledge dialogue_history right_response hallucinated_response", ("Assam is a tea.", said, "Assam.", "Mocha.")
    )
    summaries = table("document right_summary hallucinated_summary", ("A barn fell.", "Barn fell", "Barn sold"))
    general = table(
        "ID user_query chatgpt_response hallucination hallucination_spans",
        ("1", "q", "ok", "no", []),
        ("1", "r", "a\nb\nc", "yes", ["a\nc"]),
        ("2", "s", "so", "yes", ["too short"]),
    )
    for name, rows in (("qa", qa), ("dialogue", dialogue), ("summarization", summaries), ("general", general)):
        put(folder / f"{name}_data.json", rows)
    return folder


def frank(folder: Path) -> Path:
    summary = "The dam broke. Ten people left ."
    labels = [
        {"annotator_0": ["NoE"], "annotator_1": ["NoE"], "annotator_2": ["EntE"]},
        {"annotator_0": ["OutE"], "annotator_1": ["CircE", "OutE"], "annotator_2": ["NoE"]},
    ]
    row = {
        "hash": "ab12", "model_name": "bart", "article": "A dam broke.", "summary": summary, "split": "test",
        "summary_sentences": ["The dam broke.", "Ten people left ."], "summary_sentences_annotations": labels,
    }  # fmt: skip
    few = {"summary_sentences_annotations": [labels[0], {"annotator_0": ["NoE"]}]}
    clean = {**row, "model_name": "pgn", "split": "valid", **few}
    return put(folder / "human_annotations_sentence.json", [row, clean], lines=False).parent


def tofueval(folder: Path) -> Path:
    head = "doc_id,annotation_id,topic,model_name,sent_idx,summ_sent,sent_label,exp,type\n"
    rows = [
        'M1,0,parking,Model-A,2,"It was, they said, free.",no,nobody said so,Extrinsic Information\n',
        "M1,0,parking,Model-A,1,The council met.,yes,,\n",
        "M1,0,parking,Model-B,1,Nothing was decided.,yes,,\n",
    ]
    put(folder / "factual_consistency" / "meetingbank_factual_eval_dev.csv", head + "".join(rows))
    put(folder / "meetingbank_dev_doc.csv", 'meeting_id,source\nM1,"Chair: we meet.\nMember: parking costs."\n')
    return folder


def aggrefact(folder: Path) -> Path:
    names = "dataset doc claim label contamination_identifier"
    bees = ("Wice", "Bees fly.", "Bees fly.", 1, "x"), ("Reveal", "Bees fly.", "Bees swim.", 0, "y")
    put(folder / "dev.jsonl", table(names, *bees))
    put(folder / "test.csv", f"{names.replace(' ', ',')}\nWice,Ants dig.,Ants dig.,1,z\n")
    return folder


def faithbench(folder: Path) -> Path:
    def mark(who: str, label: list[str], span: str, start: int, **more: object) -> dict:
        told = {"annot_id": 1, "annotator_id": who, "annotator_name": who, "label": label, "note": "n"}
        return {**told, "summary_span": span, "summary_start": start, "summary_end": start + len(span), **more}

    place = {"source_span": "budget", "source_start": 2, "source_end": 8}
    marks = [
        mark("a", ["Unwanted", "Unwanted.Extrinsic"], "production", 4, **place),
        mark("b", ["Benign"], "The", 0, source_span=None, source_start=None, source_end=None),
        mark("b", ["Questionable"], "production budget", 4),
    ]
    samples = table(
        "sample_id source summary annotations metadata",
        (0, "A budget of 3.", "The production budget was 3.", marks, {"summarizer": "m"}),
        (1, "A budget.", "A budget.", [], {"summarizer": "m"}),
    )
    put(folder / "data_for_release" / "batch_3.json", {"samples": samples})
    return folder


def chevrons(folder: Path) -> Path:
    response = "He won twice. It was fun. Read x < y."
    copies = ("He won <twice>. It was <fun>.", "He won <twice. > It was fun.", "He won twice. It was fun.")
    first = {"id": "1", "response": response, "sources": ["He won once."], "task": "CF"}
    second = {"id": "2", "response": response, "sources": []}
    rows = [
        {**first, "annotations": dict(zip(("ann", "bo", "cy"), copies, strict=True))},
        {**second, "annotations": {"ann": "He won twice. It was fun. Read <x < y>."}},
    ]
    return put(folder / "marked.jsonl", rows)


def procon(folder: Path) -> Path:
    arguments = {"pro": ["It keeps streets quiet.", "It is cheap."], "con": ["It slows buses."]}
    row = {"id": "t1", "topic": "Zones", "question": "Should zones be slow?", "arguments": arguments}
    labelled = {
        **row,
        "response": "Streets get quiet. Buses slow down. Trees grow.",
        "hallucinated": ["Trees grow."],
        "omitted": [{"source": "pro-2"}, {"source": "con-1", "quote": "buses"}],
        "kind": "organic",
    }
    return put(folder / "topics.jsonl", [labelled, {**labelled, "id": "t2", "hallucinated": [], "omitted": []}])


def hades(folder: Path) -> Path:
    rows = [
        {"replaced": "she ===lived quietly=== in rome .", "replaced_ids": [1, 2], "hallucination": 1, "idx": "w5"},
        {"replaced": "she lived  in ===rome=== .", "replaced_ids": [4, 4], "hallucination": 0},
    ]
    put(folder / "train.txt", rows)
    put(folder / "test.txt", [{"replaced": "===he=== sang", "replaced_ids": [0, 0], "hallucination": -1}])
    return folder


def begin(folder: Path) -> Path:
    head = "model_name\tdata_source\tknowledge\tmessage\tresponse\tbegin_label\n"
    put(folder / "begin_test_tc.tsv", head + 't5\ttc\tTea is "hot.\tHi\tSure "thing\tGeneric\n')
    return folder


def jsonl(folder: Path) -> Path:
    gold = {"case_id": "1", "by": "human:me", "hallucination": 1.0}
    gold["verdicts"] = [{"span": {"start": 3, "end": 7}, "score": 1.0}]
    case = {"id": "1", "response": "In Rome", "sources": ["In Oslo"]}
    put(folder / "train.jsonl", [{"veridical": "example/1", "case": case, "gold": gold, "document": "d"}])
    case = {**case, "id": "2"}
    put(folder / "test.jsonl", [{"veridical": "example/1", "case": case, "gold": {"case_id": "2", "by": "human:me"}}])
    return folder


def _written(path: Path, statements: list[dict], answers: list[dict]) -> Path:
    """One passage in the format of the written sets, with one in another file of the folder that has no title."""
    first = {
        "id": "x1", "kind": "auth", "title": "Boat times", "sources": ["The boat leaves at 9.", "It is full."],
        "question": "When does it leave?", "statements": statements, "answers": answers,
    }  # fmt: skip
    put(path.with_name(path.name.replace("dev", "train")), [{**first, "id": "x2", "title": None, "question": None}])
    return put(path, [first]).parent


def _said(text: str, *marks: tuple[str, str | None], **more: object) -> dict:
    spans = [{"start": text.index(m), "end": text.index(m) + len(m), "correction": c} for m, c in marks]
    return {"text": text, "spans": spans, **more}


def written(folder: Path) -> Path:
    statements = [
        _said("Nine is when the boat 🚢 goes.", label="S", tag="voice"),
        _said(" The boat 🚢 leaves at 10,\nempty.", ("10", "9"), ("empty", "full"), label="C", tag="number"),
        _said("The boat leaves at 9 because of the tide.", ("because of the tide", None), label="N", tag="cause"),
    ]
    return _written(folder / "dev.jsonl", statements, [])


def written_pairs(folder: Path) -> Path:
    statements = [
        _said("It is full.", label="S", tag="negation", pair=0),
        _said("It is not full.", ("is not", "is"), label="C", tag="negation", pair=0),
        _said("The boat leaves.", label="S", tag="status", pair=1),
        _said("The boat has left.", ("has left", "leaves"), label="C", tag="status", pair=1),
    ]
    return _written(folder / "pairs_dev.jsonl", statements, [])


def written_answers(folder: Path) -> Path:
    return _written(folder / "dev.jsonl", [], [_said("At 10, from pier 2.", ("10", "9"), ("2", None), right=False)])


def written_rag(folder: Path) -> Path:
    answers = [_said("At 9.", right=True)] * 3 + [_said("At 10.", ("10", "9"), right=False)] * 2
    return _written(folder / "rag_dev.jsonl", [], [*answers, _said("At 9, daily.", ("daily", None), right=False)])
