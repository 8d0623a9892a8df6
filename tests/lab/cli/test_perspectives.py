"""`veridical kb`, `answer`, `data corrupt --method arguments` and `bench perspectives` as a person runs them."""

import json
from pathlib import Path

import pytest

from tests.lab.cli.conftest import Command
from tests.lab.corrupt.test_arguments import TOPICS
from veridical.datasets import read
from veridical.io.serialization import decode
from veridical_lab.bench.compare import read_comparisons
from veridical_lab.bench.results import read_result_rows
from veridical_lab.models.testing import tiny

ASK = ("answer", "Should cars be banned?", "--kb", "cars.kb", "-m", "scripted:model.json", "--arguments", "2")
OVERLAP = (*ASK, "-d", "overlap")


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = {
        "pro": ["Cars pollute the air.", "Streets without cars are safe."],
        "con": ["Shops lose customers.", "Nurses depend on cars."],
    }
    rows = [f"Should cars be banned?,{side},{text}" for side, texts in arguments.items() for text in texts]
    Path("cars.csv").write_text("\n".join(["topic,perspective,argument", *rows]))
    passages = {"introduction": "Views differ.", "pro": "Cars pollute the air. Pigs fly."}
    passages["con"] = "Shops lose customers."
    revised = "Corrected text:\nCars pollute the air.\n\nShops lose customers."
    Path("model.json").write_text(
        json.dumps({"neutral answer": json.dumps(passages), "checked it against what you were given": revised})
    )
    code, out, err = command("kb", "build", "cars.kb", "cars.csv")
    assert (code, out, err) == (0, "", "wrote cars.kb: 1 topics, 4 arguments, 2 perspectives\n")


def test_kb(command: Command) -> None:
    code, out, _ = command("kb", "show", "cars.kb")
    assert (code, out) == (0, "Should cars be banned?: Should cars be banned? (pro 2, con 2)\n")
    assert "pro\n  pro-1: Cars pollute the air.\n" in command("kb", "show", "cars.kb", "ban of cars")[1]
    code, out, _ = command("kb", "search", "cars.kb", "shop", "--json")
    assert (code, json.loads(out)["id"]) == (0, "con-1")
    assert command("kb", "search", "cars.kb", "zebra") == (3, "", "no argument has any of these words\n")
    code, _, err = command("kb", "show", "cars.kb", "Should zebras be banned?")
    assert code == 2
    assert "did you mean 'Should cars be banned?'" in err


def test_kb_says_what_has_one_side_and_skips_bad_rows(command: Command) -> None:
    Path("more.csv").write_text("topic,perspective,argument\nCats?,pro,Cats purr.\nCats?,con,cats purr\n")
    code, _, err = command("kb", "build", "more.kb", "more.csv")
    assert (code, Path("more.kb").exists()) == (2, False)
    assert "more.csv:3: the argument 'cats purr' is on line 2 already" in err
    code, _, err = command("kb", "build", "more.kb", "more.csv", "--skip-bad")
    assert code == 0
    assert "rows skipped: 1" in err
    assert "cannot be answered, with arguments for one perspective only: 1" in err
    assert command("answer", "Cats?", "--kb", "more.kb", "-m", "scripted:model.json")[0] == 2


def test_an_answer_with_both_checks(command: Command) -> None:
    code, out, err = command(*OVERLAP)
    assert (code, err) == (1, "")
    assert out.startswith("Views differ.\n")
    assert "[-Pigs fly-]" in out
    assert "source con-2  (perspective con)" in out


def test_an_answer_is_revised_both_ways(command: Command) -> None:
    code, out, _ = command(*OVERLAP, "--revise", "--json")
    answer = decode(out, "answer")
    assert answer.introduction == "Views differ."
    response = answer.checked.case.response
    assert "Pigs" not in response
    pro, con = response.split("\n\n")
    assert "streets without cars are safe" in pro.casefold()
    assert "nurses depend on cars" in con.casefold()
    assert answer.checked.judgements[0].omission == 0.0
    assert [revised.changed for revised in answer.revised] == [True, True]
    assert code == (1 if answer.checked.outcome.value == "flagged" else 0)
    text = command(*OVERLAP, "--revise", "--text")[1]
    assert text == f"Views differ.\n\n{response}"


def test_a_page_and_a_dry_run(command: Command) -> None:
    command(*OVERLAP, "--html", "page.html")
    assert "Pigs fly" in Path("page.html").read_text()
    code, out, _ = command(*ASK[:4], "-m", "writer", "-d", "overlap", "--dry-run")
    assert (code, "writer: 1 calls (answer 1)" in out) == (0, True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("--arguments", "3"), "2 arguments for 'pro' that can be given together, 3 are asked for"),
        (("--guard",), "--guard needs a local model"),
        (("--kb", "gone.kb"), "no such knowledge base"),
        (("--kb", "cars.csv"), "not a knowledge base"),
    ],
)
def test_what_cannot_be_asked(command: Command, change: tuple[str, ...], message: str) -> None:
    code, out, err = command(*OVERLAP, *change)
    assert (code, out) == (2, "")
    assert message in err


def test_an_answer_that_cannot_be_read(command: Command) -> None:
    Path("model.json").write_text('["Cars are bad."]')
    code, _, err = command(*OVERLAP)
    assert code == 3
    assert "the answer cannot be read: not one JSON object" in err


def topics_file() -> None:
    rows = []
    for topic in TOPICS:
        sides = topic.perspectives.items()
        given = {name: [{"text": a.text, "paraphrases": list(a.paraphrases)} for a in group] for name, group in sides}
        rows.append({"id": topic.id, "topic": topic.text, "perspectives": given})
    Path("topics.json").write_text(json.dumps(rows))


def test_corrupt(command: Command) -> None:
    topics_file()
    common = ("data", "corrupt", "topics.json", "--method", "arguments", "--out", "e.jsonl")
    code, _, err = command(*common, "--per-topic", "2", "--wording", "other", "--types", "removed", "--share", "1")
    assert code == 0
    examples = list(read("jsonl:e.jsonl"))
    assert f"wrote {len(examples)} examples, {len(examples)} of them corrupted" in err
    assert {dict(e.group)["corrupted"] for e in examples} == {"removed"}
    assert all(e.gold.hallucination == 1.0 and not any(o.score for o in e.gold.omissions) for e in examples)
    code, _, err = command(*common, "--rewrite", "0.5")
    assert (code, "are for data that have responses" in err) == (2, True)
    code, _, err = command(*common, "--types", "removd")
    assert (code, "did you mean removed" in err) == (2, True)


def test_bench(command: Command) -> None:
    topics_file()
    common = ("bench", "perspectives", "overlap", "length", "--data", "topics.json", "--part", "train")
    out = ("--out", "rows.jsonl", "--comparisons", "tests.jsonl", "--resamples", "10", "--sample", "9")
    code, text, _ = command(*common, "--table", "1", "--table", "3", "--paper", *out)
    assert code == 0
    assert "the paper's table 1" in text
    assert "the paper's table 6" not in text
    rows = {(row.data, row.detector): row.metrics for row in read_result_rows([Path("rows.jsonl")])}
    assert {data for data, _ in rows} == {f"perspectives, {s}" for s in ("unparaphrased", "paraphrased", "ambiguous")}
    same = rows["perspectives, unparaphrased", "overlap"]
    # all content words of an argument that was removed or added are new, and none of the others'
    assert same["source_word_roc_auc"].value == 1.0
    assert same["coverage_roc_auc"].value == 1.0
    assert same["word_roc_auc"].value > 0.7  # the words of the frame are in no argument
    assert rows["perspectives, paraphrased", "overlap"]["coverage_roc_auc"].value < 0.9
    kept = {path: path.read_bytes() for path in Path("rows.jsonl.work").iterdir()}
    assert command("bench", "perspectives", "overlap", "coin", *common[4:], "--table", "2", *out)[0] == 0
    both = read_result_rows([Path("rows.jsonl")])  # results are appended
    assert {row.detector for row in both} == {"overlap", "length", "coin"}
    differences = read_comparisons(Path("tests.jsonl"))
    assert {(c.a, c.b) for c in differences} >= {("overlap", "length"), ("overlap", "coin")}
    assert command("bench", "perspectives", "overlap", "coin", *common[4:], "--table", "2", *out)[0] == 0
    assert [row.run_id for row in read_result_rows([Path("rows.jsonl")])] == [row.run_id for row in both]
    assert len(read_comparisons(Path("tests.jsonl"))) == len(differences)
    assert all(path.read_bytes() == before for path, before in kept.items())  # nothing is judged twice
    assert len(list(Path("rows.jsonl.work").iterdir())) == len(kept) + 3
    tests = read_comparisons(Path("tests.jsonl"))
    assert {(c.metric, c.test) for c in tests} >= {("roc_auc", "Hanley-McNeil")}
    assert all(c.p is None or c.p_bonferroni is not None for c in tests)


def test_errors_are_compared_with_error_free_responses(command: Command) -> None:
    """An example with the other kind of error alone is no negative, unless that is asked for."""
    topics_file()
    common = ("bench", "perspectives", "overlap", "--data", "topics.json", "--part", "train", "--resamples", "10")
    counts = {}
    for negatives in ("error-free", "all"):
        out = f"{negatives}.jsonl"
        assert command(*common, "--table", "1", "--negatives", negatives, "--out", out)[0] == 0
        rows = {row.data: row for row in read_result_rows([Path(out)])}
        row = rows["perspectives, unparaphrased"]
        counts[negatives] = [row.metrics[name].n for name in ("roc_auc", "coverage_roc_auc")]
        assert row.n == max(counts["all"]) if negatives == "all" else row.n > max(counts[negatives])
    assert all(a < b for a, b in zip(*counts.values(), strict=True))
    code, _, err = command(*common, "--table", "1", "--negatives", "some")
    assert (code, "unknown negatives 'some'" in err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("overlap", "--table", "4"), "there is no table 4 (choose from 1, 2, 3, 5, 6)"),
        (("overlap", "--table", "6"), "overlap has no aggregation of salience"),
        (("salience:m", "--table", "6", "--table", "1"), "make it by itself"),
        (("overlap", "--table", "1", "--part", "dev"), "unknown part 'dev'"),
        (("overlap", "--table", "1"), "no response can be composed"),
    ],
)
def test_what_cannot_be_measured(command: Command, arguments: tuple[str, ...], message: str) -> None:
    code, _, err = command("bench", "perspectives", *arguments, "--data", "cars.csv")
    assert (code, message in err) == (2, True), err


def test_train_classifier(command: Command) -> None:
    topics_file()
    tiny("bert", "encoder")
    common = ("train", "classifier", "topics.json", "--task", "coverage", "--method", "head", "--model", "encoder")
    small = ("--steps", "4", "--evaluate-every", "4", "--validation-examples", "9", "--dtype", "fp32", "--seed", "1")
    code, _, err = command(*common, *small, "--training", "synth", "--out", "c")
    assert code == 0, err
    assert "use it as classifier:c" in err
    response, pro, con = (Path(name) for name in ("r.txt", "pro.txt", "con.txt"))
    for path, text in ((response, "It is fast."), (pro, "It is fast."), (con, "It is loud.")):
        path.write_text(text)
    sides = ("--perspective", "pro=pro.txt", "--perspective", "con=con.txt")
    code, text, _ = command("check", "r.txt", *sides, "--detector", "classifier:c", "--json")
    assert json.loads(text)["judgements"][0]["omission"] is not None
    rows = [
        {"question": f"Fly {i}?", "arguments": {"pro": ["It is fast."], "con": ["It is loud."]}}
        | {"id": f"organic-{i}", "response": "It is fast.", "hallucinated": [], "omitted": [{"source": "con-1"}]}
        for i in range(4)
    ]
    Path("organic.jsonl").write_text("\n".join(map(json.dumps, rows)))
    organic = ("--organic", "procon:organic.jsonl")
    assert command(*common, *small, "--training", "synth", *organic, "--out", "e")[0] == 0
    sizes = [json.loads(Path(name, "detector.json").read_text())["training"]["data"] for name in ("c", "e")]
    assert sizes[0] != sizes[1]
    for change, message in (
        (("--training", "synthetic"), "did you mean synth"),
        (("--labels", "YES"), "names 1 labels"),
        (("--task", "cover"), "task of a classifier"),
    ):
        code, _, err = command(*common, *small, "--training", "synth", *change, "--out", "d")
        assert (code, message in err) == (2, True), err
    assert not Path("d").exists()
