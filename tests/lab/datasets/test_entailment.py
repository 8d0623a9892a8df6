"""The sets for training (sentence pairs, statements about tables, data-to-text) in each publisher's format."""

import csv
import gzip
import json
from collections import Counter
from itertools import islice
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.lab.datasets.samples import put
from tests.lab.datasets.test_every_reader import check_variants
from veridical.datasets import DATASETS, load_reader, read
from veridical.io.serialization import decode, encode
from veridical.records.errors import DataError
from veridical.records.types import Example
from veridical_lab.datasets.tables import linearise

NLI = ("entailment", "neutral", "contradiction")
DOG, ANIMAL, CAT = "A dog runs.", "An animal runs.", "A cat runs."


def tsv(*rows: tuple[object, ...]) -> str:
    return "".join("\t".join(map(str, row)) + "\n" for row in rows)


def table(rows: list[dict[str, object]]) -> str:
    """A CSV file with a header."""
    return "".join(
        ",".join('"' + str(value).replace('"', '""') + '"' for value in values) + "\n"
        for values in (list(rows[0]), *(list(row.values()) for row in rows))
    )


def listed(rows: list[dict[str, object]]) -> str:
    return json.dumps(rows)


def lines(*rows: dict[str, object]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


RESPONSES = dict(zip((ANIMAL, "It is fast.", CAT), NLI, strict=True))
NAMED = [{"premise": DOG, "hypothesis": text, "label": label} for text, label in RESPONSES.items()]
GOLD = [{"sentence1": r["premise"], "sentence2": r["hypothesis"], "gold_label": r["label"]} for r in NAMED]
FLAGS = {"negation_logic": 1, "world_knowledge": 1, "spatial_reasoning": 0, "general_q2": "-", "pairID": "1e"}
TAXI = ["prem", "hyp", "label", "annotated_label", *FLAGS, "genre"]
TABLES = {"t1": "name#born\r\nada#1815\r\nalan#1912"}
FAITH = {"knowledge": "Tea is hot.", "history": "Hi"}
WOW = {"topic": "Tea", "message": "Hi", "dodeca_response": "hot", "memnet_response": "cold", "knowledge": "Tea is hot."}

# the file of each set with its text, and (id, response, label) of what is read from it
PAWSX, PARAPHRASES = (
    ("de", "es", "fr", "ja", "ko", "zh"),
    (("B of A .", "not entailed"), ("Runs a dog .", "entailment")),
)
SAMPLES: dict[str, tuple[dict[str, str], list[tuple[str, str, str | None]]]] = {
    "snli": (
        {"s1.dev": f"{DOG} \n{DOG} \n", "s2.dev": f"{ANIMAL} \n{CAT} \n", "labels.dev": "entailment\ncontradiction\n"},
        [("dev/1", ANIMAL, "entailment"), ("dev/2", CAT, "contradiction")],
    ),
    "mnli_dev": (
        {"data/mnli/dev.jsonl": lines(*NAMED)},
        [("all/1", ANIMAL, NLI[0]), ("all/2", "It is fast.", NLI[1]), ("all/3", CAT, NLI[2])],
    ),
    "mnli_olora": (
        {"train.json": listed([{"sentence": f"sentence 1: {DOG}\nsentence 2: {CAT}", "label": "contradiction"}])},
        [("all/1", CAT, "contradiction")],
    ),
    "taxinli": (
        {"taxinli10k.tsv": tsv(tuple(TAXI), (DOG, 'A "dog" runs', NLI[0], NLI[1], *FLAGS.values(), "oup"))},
        [("all/1", 'A "dog" runs', "entailment")],
    ),
    "cad_nli": (
        {"NLI/all_combined/train.tsv": tsv(tuple(GOLD[0]), (DOG, '"The ""dog"" runs."', NLI[0]), (CAT, DOG, NLI[2]))},
        [("train/1", 'The "dog" runs.', "entailment"), ("train/2", DOG, "contradiction")],
    ),
    "breaking_nli": (
        {"data/dataset.jsonl": lines({**GOLD[2], "category": "animals"})},
        [("all/1", CAT, "contradiction")],
    ),
    "hans_eval": (
        {"data/sick/hans.txt": tsv(("The cat saw the dog", "The dog saw the cat", 1), ("If it rains", "it rains", 0))},
        [("all/1", "The dog saw the cat", "not entailed"), ("all/2", "it rains", "entailment")],
    ),
    "conjnli": (
        {
            "conj_dev.tsv": "\ufeff" + tsv(("Premise", "Hypothesis", "Label"), (DOG, CAT, "contradiction")),
            "conj_test.tsv": "\ufeff" + tsv(("Premise", "Hypothesis"), (DOG, ANIMAL)),
        },
        [("dev/1", CAT, "contradiction"), ("test/1", ANIMAL, None)],
    ),
    "negation_nli": (
        {"SNLI.txt": "index\tText\tHypothesis\tgold_label\r\n0\tNo dog runs.\tA dog runs.\tcontradiction\r\n"},
        [("snli/1", DOG, "contradiction")],
    ),
    "med": (
        {"MED.tsv": tsv((*GOLD[0], "genre"), (DOG, ANIMAL, NLI[0], "paper:up"), (ANIMAL, DOG, NLI[1], "paper:up"))},
        [("all/1", ANIMAL, "entailment"), ("all/2", DOG, "neutral")],
    ),
    "help": (
        {
            "output_en/leskexppmb_and.tsv": tsv(
                ("", "monotonicity", "gold_label", "ori_sentence", "new_sentence"),
                (0, "conjunction", "entailment", "A dog and a cat run.", "A dog runs."),
            )
        },
        [("and/1", DOG, "entailment")],
    ),
    "pawsx_en": (
        {"dev-en.tsv": tsv(("A of B .", "B of A .", 0), (DOG, "Runs a dog .", 1))},
        [(f"all/{i}", *pair) for i, pair in enumerate(PARAPHRASES, 1)],
    ),
    "pawsx": (
        {f"pawsx_dev.{language}.tsv": tsv(("A of B .", "B of A .", 0), (DOG, "Runs a dog .", 1)) for language in PAWSX},
        [(f"{of}/{i}", *pair) for of in PAWSX for i, pair in enumerate(PARAPHRASES, 1)],
    ),
    "fever_symmetric": (
        {
            "symmetric_v0.2/fever_symmetric_dev.jsonl": lines(
                *({"claim": CAT, "evidence": e, "gold_label": g} for e, g in ((DOG, "REFUTES"), (CAT, "SUPPORTS")))
            )
        },
        [("dev/1", CAT, "contradiction"), ("dev/2", CAT, "entailment")],
    ),
    "vitaminc_sample": (
        {"train_3.jsonl": lines({"claim": CAT, "evidence": DOG, "label": "not enough info", "id": "5e_2"})},
        [("train_3/1", CAT, "neutral")],
    ),
    "faithdial_audit": (
        {
            "data-audit/gold/topical.csv": table(
                [
                    {"evidence": "Tea is hot.", "history": "Hi", "response": "It is\nhot.", "BEGIN": label}
                    for label in ("Entailment", "Partial Hallucination", "generic")
                ]
                + [{"evidence": "", "history": "", "response": "", "BEGIN": ""}]
            ),
            "data-audit/GPT2/gpt2_processed_cmu.csv": table(
                [
                    {**FAITH, "gpt2": "It is hot.", "begin_label": label}
                    for label in ("entailment. uncooperative", "entailment,hallucination", "hallucinated")
                ]
            ),
        },
        [(f"gold/topical/{i}", "It is\nhot.", label) for i, label in enumerate(("entailment", "partial", None), 1)]
        + [
            (f"gpt2/cmu/{i}", "It is hot.", label)
            for i, label in enumerate(("entailment", "partial", "not entailed"), 1)
        ],
    ),
    "wow_q2": (
        {"cross_annotation.csv": table([{**WOW, "dodeca_label": 0, "memnet_label": 1}])},
        [("all/1/dodeca", "hot", "entailment"), ("all/1/memnet", "cold", "not entailed")],
    ),
    "bamboo_hallu": (
        {
            "senhallu_4k.jsonl": lines(
                {"title": "T", "content": "\nWe test.", "hypothesis": "We train.", "answer": False}
            )
        },
        [("sentence/1", "We train.", "not entailed")],
    ),
    "boolq": (
        {"dev.json": listed([{"sentence": "question: is tea hot\npassage: Tea -- Tea is hot.", "label": "True"}])},
        [
            ("dev/1/yes", 'The answer to "is tea hot?" is yes.', "entailment"),
            ("dev/1/no", 'The answer to "is tea hot?" is no.', "contradiction"),
        ],
    ),
    "condaqa": (
        {
            "condaqa_dev.json": lines(
                *(
                    {"sentence1": DOG, "sentence2": "Any cat?", "label": label, "PassageID": "4", "PassageEditID": "2"}
                    for label in ("NO", "DON'T KNOW")
                )
            )
        },
        [
            (f"all/{said}", f'The answer to "Any cat?" is {said[2:]}.', label)
            for said, label in zip(("1/yes", "1/no", "2/yes", "2/no"), (NLI[2], NLI[0], NLI[1], NLI[1]), strict=True)
        ],
    ),
    "tabfact": (
        {
            "pairwise_data/all_positive_negative_pairs.json": json.dumps([["t1", "ada was born in 1815", "no ada"]]),
            "tables.json": json.dumps(TABLES),
        },
        [("all/1/true", "ada was born in 1815", "entailment"), ("all/1/false", "no ada", "contradiction")],
    ),
    "logicnlg": (
        {
            "logicnlg/val_lm_pos_neg.json": json.dumps(
                {
                    "t1": [
                        {v: [f"Alan is born in {y}", [0, 1], "people", "x"] for v, y in (("pos", 1912), ("neg", 1815))}
                    ]
                }
            ),
            "tabfact/tables.json": json.dumps(TABLES),
        },
        [("val/1/pos", "Alan is born in 1912", "entailment"), ("val/1/neg", "Alan is born in 1815", "contradiction")],
    ),
    "infotabs": (
        {
            "data/maindata/infotabs_dev.tsv": tsv(("table_id", "hypothesis", "label"), ("T1", "Ada was a poet.", "N")),
            "tables.json": json.dumps({"T1": {"title": ["Ada"], "Born": ["1815"], "Fields": ["logic", "maths"]}}),
        },
        [("dev/1", "Ada was a poet.", "neutral")],
    ),
    "rotowire_errors": (
        {
            "gsml.csv": table(
                [
                    {"TEXT_ID": "S1.txt", "DOC_TOKEN_START": 3, "DOC_TOKEN_END": 4, "TYPE": "NUMBER"}
                    | {"TOKENS": "12 points", "CORRECTION": "10 points", "COMMENT": ""}
                ]
            ),
            "texts/S1.txt": "Ada scored 12 points .",
            "shared_task.jsonl": lines(
                {"shared_task_text_id": "S1", "home_name": "Owls", "vis_name": "Jays", "day": "02_03_17"}
                | {"home_line": {"TEAM-PTS": "90"}, "vis_line": {"TEAM-PTS": "80"}}
                | {"box_score": {"PTS": {"0": "10", "1": "N/A"}, "PLAYER_NAME": {"0": "Ada", "1": "Bea"}}}
            ),
        },
        [("train/S1", "Ada scored 12 points .", None)],
    ),
    "quintd": (
        {
            "annotations_human.jsonl": lines(
                {"dataset": "owid", "model": "m", "table_idx": 0}
                | {"annotations": [{"type": 2, "text": "up ", "start": 8}]}
            ),
            "outputs/test/owid/default/m.out": "One.\\nI up now.\n",
            "outputs/test/owid/default/mistral.json": json.dumps({"generated": [{"in": "Data:\n```\na,1\n```\nTask"}]}),
        },
        [("owid/m/0", "One.\nI up now.", None)],
    ),
}
# where the folder of the set is, if it is not the one that the files are in
INSIDE = {"logicnlg": "logicnlg"}


def sample(name: str, folder: Path) -> Path:
    for file, text in SAMPLES[name][0].items():
        put(folder / file, text)
    if name == "breaking_nli":
        with ZipFile(folder / "breaking_nli_dataset.zip", "w") as archive:
            archive.write(folder / "data" / "dataset.jsonl", "data/dataset.jsonl")
    return folder / INSIDE.get(name, "")


def all_of(name: str, folder: Path) -> list[Example]:
    return list(read(f"{name}:{sample(name, folder)}"))


def test_every_set_has_a_sample() -> None:
    modules = {name: plugin.module.rpartition(".")[2] for name, plugin in DATASETS.plugins.items()}
    of_training = ("entailment", "tables", "quintd", "rotowire_errors")
    assert sorted(SAMPLES) == sorted(name for name, module in modules.items() if module in of_training)


@pytest.mark.parametrize("name", SAMPLES)
def test_each_format_is_read(name: str, tmp_path: Path) -> None:
    examples = all_of(name, tmp_path)
    assert [(e.case.id, e.case.response, dict(e.group).get("label")) for e in examples] == SAMPLES[name][1]
    for example in examples:
        assert decode(encode(example)) == example
        assert example.document
        assert len(example.case.sources) == 1
        label = dict(example.group).get("label")
        if label:
            assert example.gold.hallucination == float(label != "entailment")


@pytest.mark.parametrize("name", SAMPLES)
def test_gzipped_files_are_read_alike(name: str, tmp_path: Path) -> None:
    before = all_of(name, tmp_path)
    for file in [f for f in tmp_path.rglob("*") if f.is_file() and f.suffix not in (".zip", ".out", ".csv")]:
        if "texts" not in file.parts and file.name != "shared_task.jsonl" and not file.name.startswith("annotations"):
            (file.parent / f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
            file.unlink()
    assert list(read(f"{name}:{tmp_path / INSIDE.get(name, '')}")) == before


@pytest.mark.parametrize("name", SAMPLES)
def test_an_unknown_label_is_refused_with_its_place(name: str, tmp_path: Path) -> None:
    path = sample(name, tmp_path)
    old_and_new = {
        "hans_eval": ("\t1\n", "\t2\n"),
        "pawsx_en": ("\t0\n", "\t7\n"),
        "pawsx": ("\t0\n", "\t7\n"),
        "fever_symmetric": ("REFUTES", "DENIES"),
        "vitaminc_sample": ("not enough info", "perhaps"),
        "faithdial_audit": ("Partial", "Unsure"),
        "wow_q2": ('"1"', '"5"'),
        "bamboo_hallu": ("false", '"no"'),
        "boolq": ('"True"', '"Yes"'),
        "condaqa": ('"NO"', "3"),
        "tabfact": ('"no ada"', "3"),
        "logicnlg": ("[0, 1]", '["a"]'),
        "infotabs": ("\tN\n", "\tX\n"),
        "rotowire_errors": ("NUMBER", "DIGIT"),
        "quintd": ('"type": 2', '"type": 4'),
    }
    changed = 0
    for file in [f for f in tmp_path.rglob("*") if f.is_file() and f.suffix != ".zip"]:
        text = file.read_text("utf-8")
        old, new = old_and_new.get(name) or next(((x, "unsure") for x in NLI if x in text), ("\0", ""))
        changed += old in text
        file.write_text(text.replace(old, new), "utf-8")
    assert changed
    if name == "breaking_nli":
        path = path / "data" / "dataset.jsonl"
    with pytest.raises(DataError, match=rf"{tmp_path}.*:\d+: "):
        list(read(f"{name}:{path}"))
    seen: list[DataError] = []
    kept = list(read(f"{name}:{path}", on_bad=seen.append))
    assert seen
    assert len(kept) < len(SAMPLES[name][1])


@pytest.mark.parametrize("name", SAMPLES)
def test_whatever_the_json_holds_the_error_is_ours(name: str, tmp_path: Path) -> None:
    path = sample(name, tmp_path)
    for file in [f for f in tmp_path.rglob("*") if f.suffix in (".json", ".jsonl") and name != "breaking_nli"]:
        text = file.read_text("utf-8")
        first, rest = (text, "") if file.suffix == ".json" and name != "condaqa" else text.split("\n", 1)
        check_variants(file, first, rest, lambda: read(f"{name}:{path}"), tmp_path)


def test_pairs_that_share_a_sentence_are_one_document(tmp_path: Path) -> None:
    rows = tsv(tuple(GOLD[0]), ("a", "b", NLI[0]), ("c", "b", NLI[1]), ("c", "d", NLI[2]), ("e", "f", NLI[0]))
    put(tmp_path / "NLI/all_combined/train.tsv", rows)
    one, two, three, other = (e.document for e in read(f"cad_nli:{tmp_path}"))
    assert one == two == three != other


def test_a_table_is_one_line_per_row_with_its_cells() -> None:
    made = linearise([[("name", "ada"), ("born", "")], [("name", "alan")]])
    assert made.text == "name: ada; born: \nname: alan"
    assert [[cell.of(made.text) for cell in row] for row in made.cells] == [["ada", ""], ["alan"]]


def test_table_statements_point_to_cells(tmp_path: Path) -> None:
    true, false = all_of("logicnlg", tmp_path)
    source = true.case.sources[0]
    assert source.text == "people\nname: ada; born: 1815\nname: alan; born: 1912"
    assert true.document == "t1"
    cells = [[e.span.of(source.text) for v in x.gold.verdicts for e in v.evidence] for x in (true, false)]
    assert cells == [["alan", "1912"], ["1815", "alan"]]
    assert [v.span.of(false.case.response) for v in false.gold.verdicts] == ["1815"]
    (box,) = all_of("infotabs", tmp_path / "infotabs")
    assert box.case.sources[0].text == "Ada\nBorn: 1815\nFields: logic, maths"


def test_data_to_text_spans(tmp_path: Path) -> None:
    (report,) = all_of("rotowire_errors", tmp_path / "rotowire")
    (verdict,) = report.gold.verdicts
    assert verdict.span.of(report.case.response) == "12 points"
    assert (verdict.label, verdict.correction, report.document) == ("NUMBER", "10 points", "02_03_17 Jays at Owls")
    assert report.case.sources[0].text == "TEAM-PTS: 90\nTEAM-PTS: 80\nPLAYER_NAME: Ada; PTS: 10\nPLAYER_NAME: Bea"
    (text,) = all_of("quintd", tmp_path / "quintd")
    assert [(v.span.of(text.case.response), v.label) for v in text.gold.verdicts] == [("up", "misleading")]
    assert text.case.sources[0].text == "a,1"


def test_known_defects_are_left_out_and_counted(tmp_path: Path) -> None:
    pairs = [["t1", "a", "b"], ["t1", "a", "borries-ileigh"], ["t9", "a", "b"]]
    put(tmp_path / "pairwise_data/all_positive_negative_pairs.json", json.dumps(pairs, indent=1))
    put(tmp_path / "tables.json", TABLES)
    assert len(list(read(f"tabfact:{tmp_path}"))) == 2
    seen: list[DataError] = []
    assert len(list(read(f"tabfact:{tmp_path}", on_bad=seen.append))) == 2
    assert [(error.line, error.message.rpartition(".json:")[2]) for error in seen] == [
        (7, "7: the false statement is a placeholder"),
        (12, "12: the table 't9' is missing"),
    ]


def test_line_aligned_labels_must_agree(tmp_path: Path) -> None:
    path = sample("snli", tmp_path)
    put(path / "s2.dev", "A cat.\n")
    with pytest.raises(DataError, match=r"s2.dev: 1 lines, where labels.dev has 2"):
        list(read(f"snli:{path}"))


def test_broken_gzip_data_is_said(tmp_path: Path) -> None:
    (tmp_path / "dev-en.tsv.gz").write_bytes(gzip.compress(b"a\tb\t1\n" * 99)[:-12])
    with pytest.raises(DataError, match="gzip data"):
        list(read(f"pawsx_en:{tmp_path}"))
    (tmp_path / "dev-en.tsv.gz").write_bytes(b"plain")
    with pytest.raises(DataError, match="cannot be read"):
        list(read(f"pawsx_en:{tmp_path}"))


@pytest.mark.parametrize("name", SAMPLES)
def test_the_published_rows_are_read(name: str, shared_data: Path) -> None:
    folder = shared_data / "entailment" / name
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there")
    examples = list(islice(read(f"{name}:{folder}"), 300))
    assert len(examples) == 300 or name == "rotowire_errors"
    assert len({e.case.id for e in examples}) == len(examples)
    for example in examples[::10]:
        assert decode(encode(example)) == example
        assert all(v.span.of(example.case.response).strip() for v in example.gold.verdicts)
    for split in load_reader(name).INFO.splits:
        assert next(iter(read(f"{name}:{folder}", split)), None) is not None


def test_the_published_labels_are_those_of_the_files(shared_data: Path) -> None:
    folder = shared_data / "entailment"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there")
    raw = Counter((folder / "snli" / "labels.dev").read_text("utf-8").split())
    assert Counter(dict(e.group)["label"] for e in read(f"snli:{folder / 'snli'}", "dev")) == raw
    with (folder / "rotowire_errors" / "gsml.csv").open(newline="", encoding="utf-8") as file:
        kinds = Counter(row["TYPE"] for row in csv.DictReader(file))
    reports = read(f"rotowire_errors:{folder / 'rotowire_errors'}", "train")
    assert Counter(v.label for e in reports for v in e.gold.verdicts) == kinds
