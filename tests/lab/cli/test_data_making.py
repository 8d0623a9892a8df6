"""`veridical data corrupt` and `veridical data generate`."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.lab.files import saved
from veridical.cli import main
from veridical.datasets import read
from veridical.datasets.split import split_by_document
from veridical.io.serialization import decode
from veridical.records.types import Case, Example, Judgement, Source
from veridical_lab.corrupt.output import CorruptionOutput
from veridical_lab.models.testing import tiny

ROWS = [
    ("name[{n}], eatType[pub], area[{a}], priceRange[cheap]", "{n} is a cheap pub in the {a}."),
    ("name[{n}], food[English], familyFriendly[no], area[{a}]", "{n} serves English food in the {a} to adults only."),
    ("name[{n}], area[{a}], priceRange[high]", "{n} in the {a} is for those with money."),
]


@pytest.fixture
def e2e(tmp_path: Path) -> str:
    lines = ["mr,ref,fixed,orig_mr"]
    for i in range(60):
        n, a = ("Cotto", "Aromi", "The Mill", "Clowns")[i % 4], ("riverside", "city centre")[i % 2]
        mr, ref = (part.format(n=f"{n} {i // 4}" if i % 5 == 0 else n, a=a) for part in ROWS[i % 3])
        lines.append(f'"{mr}","{ref}",0,"{mr}"')
    folder = tmp_path / "e2e"
    folder.mkdir()
    (folder / "devel-fixed.no-ol.csv").write_text("\n".join(lines) + "\n")
    return f"e2e:{folder}"


def test_corrupt_writes_what_reads_back_and_counts_the_rest(
    e2e: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "c.jsonl"
    command = ["data", "corrupt", e2e, "--method", "attributes", "--share", "1", "--pairs"]
    assert main([*command, "--seed", "3", "--out", str(out)]) == 0
    told = capsys.readouterr().err
    made = list(read(f"jsonl:{out}"))
    wrong = [e for e in made if e.gold.hallucination]
    assert f"wrote {len(made)} examples, {len(wrong)} of them corrupted" in told
    assert "priceRange: a vague mention" in told
    assert len(made) == 2 * len(wrong) > 60
    assert all(e.gold.verdicts for e in wrong)
    assert {e.document for e in made} <= {e.document for e in read(e2e)}
    assert all(split_by_document(made).values())
    again = tmp_path / "again.jsonl"
    assert main([*command, "--seed", "3", "--out", str(again)]) == 0
    assert again.read_bytes() == out.read_bytes()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--method", "attribute"], "did you mean attributes"),
        (["--method", "attributes", "--share", "2"], "the share is 2"),
        (["--method", "attributes", "--types", "name"], "no error types"),
        (["--method", "rules", "--types", "nmber"], "did you mean number"),
        (["--method", "attributes", "--split", "dve"], "did you mean dev"),
        (["--method", "masked"], "--fill-model FOLDER"),
        (["--method", "rules", "--fill-model", "m"], "are for --method masked"),
        (["--method", "rules=0"], "weights above 0"),
        (["--method", "rules=1,rulse=1"], "did you mean rules"),
    ],
)
def test_corrupt_refuses_in_one_line(
    e2e: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], says: str
) -> None:
    out = tmp_path / "c.jsonl"
    assert main(["data", "corrupt", e2e, *options, "--out", str(out)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line
    assert not out.exists()


def test_corrupt_by_rule_uses_responses_and_sentences_of_sources(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (
        "In May 2019 the city of Oslo opened a bridge of 300 metres. It was the longest one in that region for years."
    )
    rows = [
        Example(Case(f"c{i}", "It has 300 metres.", (Source("a", f"{i}: {text}"),)), Judgement(f"c{i}", "h", 0.0))
        for i in range(9)
    ]
    given = saved(tmp_path / "given.jsonl", rows)
    out = tmp_path / "c.jsonl"
    command = ["data", "corrupt", given, "--method", "rules", "--sentences", "1", "--out", str(out)]
    assert main([*command, "--types", "number,date,antonym", "--share", "1"]) == 0
    assert "wrote 18 examples, 18 of them corrupted" in capsys.readouterr().err
    made = list(read(f"jsonl:{out}"))
    assert [dict(e.group).get("response") for e in made] == [None] * 9 + ["copied"] * 9
    assert {v.label for e in made for v in e.gold.verdicts} <= {"number", "date", "antonym"}


def test_corrupt_reads_plain_texts_with_sentences(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "w"
    folder.mkdir()
    (folder / "articles.txt").write_text("\n\n".join(f"It was the longest of {i} rivers there." for i in range(9)))
    out = tmp_path / "c.jsonl"
    command = ["data", "corrupt", f"wikipedia:{folder}", "--method", "rules", "--out", str(out)]
    assert main([*command, "--sentences", "2", "--pairs", "--share", "1"]) == 0
    assert len(list(read(f"jsonl:{out}"))) == 18
    assert main(command) == 2
    assert "has no labels" in capsys.readouterr().err


@pytest.fixture
def articles(tmp_path: Path) -> str:
    folder = tmp_path / "w"
    folder.mkdir()
    text = (
        "In {i} Ann Berg met the committee. It was in Oslo. The river was cleaned in {j}. Dogs slept near the lake. "
        "Paris is the capital of France."
    )
    (folder / "articles.txt").write_text(
        "\n\n".join([*(text.format(i=1950 + i, j=1980 + i) for i in range(9)), "Short."])
    )
    return f"wikipedia:{folder}"


def test_corrupt_masked_words_of_plain_texts(articles: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fills, ranks = str(tiny("bert", tmp_path / "fills", head="MaskedLM")), str(tiny("gpt2", tmp_path / "ranks"))
    out, again = tmp_path / "m.jsonl", tmp_path / "again.jsonl"
    command = ["data", "corrupt", articles, "--method", "masked", "--passages", "2", "--share", "1"]
    models = ["--fill-model", fills, "--rank-model", ranks, "--candidates", "2"]
    assert main([*command, *models, "--out", str(out), "--json"]) == 0
    printed = capsys.readouterr()
    report = decode(printed.out, "corruption")
    made = list(read(f"jsonl:{out}"))
    assert (report.written, report.corrupted, report.inputs) == (len(made), 9, 9)
    assert {e.gold.by for e in made} == {"corrupt:masked"}
    assert {e.document for e in made} == {f"wikipedia/{i}" for i in range(9)}
    assert "wrote 9 examples, 9 of them corrupted" in printed.err
    assert "errors:" in printed.err
    # an interrupted run continues, in other batches; another run does not
    part, state = tmp_path / "again.jsonl.part", tmp_path / "again.jsonl.part.json"
    assert main([*command, *models, "--first", "2", "--out", str(again)]) == 0
    assert len(again.read_bytes().splitlines()) == 2
    _interrupt_after_first_save([*command, *models, "--out", str(again), "--batch-size", "4"])
    assert (part.exists(), state.exists()) == (True, True)
    assert main([*command, *models, "--seed", "1", "--out", str(again)]) == 2
    assert "belongs to a run with other data, options or models" in capsys.readouterr().err
    assert main([*command, *models, "--out", str(again), "--batch-size", "3"]) == 0
    assert "goes on after 4 examples" in capsys.readouterr().err
    assert again.read_bytes() == out.read_bytes()
    assert not part.exists()
    mixed = [*command[:4], "rules=1,masked=2", *command[5:], *models, "--out", str(again), "--types", "date,number"]
    assert main(mixed) == 0
    assert {e.gold.by for e in read(f"jsonl:{again}")} == {"corrupt:masked", "corrupt:rules"}


def test_masked_words_with_the_entities_of_a_pipeline(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def pipeline(text: str) -> SimpleNamespace:
        start = text.find("old market hall")
        place = SimpleNamespace(start_char=start, end_char=start + 15, label_="FAC")
        return SimpleNamespace(ents=[place] if start >= 0 else [])

    asked: list[str] = []
    monkeypatch.setattr(
        "veridical_lab.detectors.spacy_pipeline.load_pipeline", lambda name, **_: asked.append(name) or pipeline
    )
    text = "They met. They spoke. Later they opened the old market hall."
    case = Case("1", text, (Source("a", text),))
    data = saved(tmp_path / "d.jsonl", [Example(case, Judgement("1", "h", 0.0))])
    fills = str(tiny("bert", tmp_path / "fills", head="MaskedLM"))
    command = ["data", "corrupt", data, "--method", "masked", "--share", "1"]
    command += ["--fill-model", fills, "--mask-ratio", "1"]
    labels = {}
    for entities in ("rules", "spacy:en_core_web_sm"):
        out = tmp_path / f"{entities[:5]}.jsonl"
        assert main([*command, "--entities", entities, "--out", str(out)]) == 0
        (made,) = read(f"jsonl:{out}")
        labels[entities[:5]] = {v.correction: v.label for v in made.gold.verdicts}
    assert "old market hall" not in labels["rules"]
    assert labels["spacy"]["old market hall"] == "name"
    assert asked == ["en_core_web_sm"]
    assert main([*command, "--entities", "nltk", "--out", str(tmp_path / "no.jsonl")]) == 2
    assert "rules, or spacy:PIPELINE" in capsys.readouterr().err


def _interrupt_after_first_save(command: list[str]) -> None:
    add = CorruptionOutput.add

    def add_once(self: CorruptionOutput, made: object) -> None:
        add(self, made)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CorruptionOutput, "add", add_once)
        assert main(command) != 0


@pytest.fixture
def model(tmp_path: Path) -> str:
    return str(tiny("llama", tmp_path / "writer", max_position_embeddings=512))


@pytest.fixture
def command(e2e: str, model: str) -> list[str]:
    options = ["--template", "data-to-text-bare", "--max-tokens", "12", "--dtype", "fp32", "--batch-size", "4"]
    return ["data", "generate", e2e, "--model", model, "--task", "data-to-text", "--sample", "10", *options]


def test_generate_goes_on_where_it_was_stopped(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, torn = tmp_path / "whole.jsonl", tmp_path / "torn.jsonl"
    assert main([*command, "--out", str(whole)]) == 0
    lines = whole.read_bytes().splitlines(keepends=True)
    made = list(read(f"jsonl:{whole}"))
    assert len({e.case.id for e in made}) == len(made) > 5
    assert all(e.gold.judged == () and e.gold.by == "nobody" for e in made)
    assert f"wrote {len(made)} of 10 responses" in capsys.readouterr().err
    torn.write_bytes(b"".join(lines[:3]) + lines[3][:50])
    assert main([*command, "--out", str(torn)]) == 0
    assert "(3 were there)" in capsys.readouterr().err
    assert torn.read_bytes() == whole.read_bytes()
    assert main([*command, "--top-k", "3", "--out", str(torn)]) == 2
    assert "drawn is 'k=2, temperature=1', not 'k=3, temperature=1'" in capsys.readouterr().err


def test_generate_with_labels_of_a_detector(command: list[str], tmp_path: Path) -> None:
    out = tmp_path / "g.jsonl"
    assert main([*command, "--label", "overlap", "--out", str(out)]) == 0
    made = [decode(line) for line in out.read_text().splitlines()]
    assert {e.gold.by for e in made} == {"overlap"}
    assert {e.gold.hallucination for e in made} <= {0.0, 1.0}
    assert all("labelled by a detector at 0.5, not by people" in e.gold.notes for e in made)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--task", "sumarise"], "did you mean summarise"),
        (["--label", "overlapp"], "did you mean overlap"),
        (["--template", "raw"], "no prompt can be made with the template 'raw'"),
        (["--temperature", "-1"], "a temperature from 0"),
        (["--max-tokens", "600"], "reads 512 tokens at once"),
    ],
)
def test_generate_refuses_in_one_line(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], says: str
) -> None:
    out = tmp_path / "g.jsonl"
    assert main([*command, *options, "--out", str(out)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line
    assert not out.exists()


def test_a_probe_is_trained_on_what_was_made_with_the_prompt_of_the_task(e2e: str, model: str, tmp_path: Path) -> None:
    data, out = tmp_path / "c.jsonl", tmp_path / "probe"
    corrupt = ["data", "corrupt", e2e, "--method", "attributes", "--share", "1", "--pairs", "--out", str(data)]
    assert main(corrupt) == 0
    train = ["train", "probe", f"jsonl:{data}", "--model", model, "--out", str(out), "--template", "data-to-text-bare"]
    fast = ["--kind", "linear", "--epochs", "2", "--learning-rate", "0.01", "--sublayers", "1,3", "--dtype", "fp32"]
    assert main([*train, *fast]) == 0
    assert '"template": "data-to-text-bare"' in (out / "detector.json").read_text()
