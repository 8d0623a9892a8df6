"""Every reader on the published files beside the checkout: counts, and labels derived again from the raw files."""

import csv
import json
import re
from collections import Counter
from contextlib import suppress
from functools import cache
from itertools import groupby, pairwise
from pathlib import Path

import pytest

from veridical.datasets import load_reader, read
from veridical.io.serialization import decode, encode
from veridical.records.errors import DataError, InputError
from veridical.records.types import Example, Verdict
from veridical_lab.datasets import argkp, fave, mu_shroom, perspectrum, plain, wikipedia

FOLDERS = {
    "argkp": ("argkp", 24093),
    "begin": ("begin", 430),
    "bump": ("bump", 2 * 693),
    "conv_fever": ("conv_fever", 3589),
    "e2e": ("e2e", 4299),
    "hades": ("hades_samples", 12),
    "halueval": ("halueval", 4507),
    "mu_shroom": ("mu_shroom", 499),
    "shroom_2024": ("shroom_2024", 1000),
    "summedits": ("summedits", 3568),
    "wice": ("wice", 374 + 124 + 1043),
    "xsum_token": ("xsum_token", 5 * 303),
}


@cache
def all_of(data: Path, name: str) -> list[Example]:
    return list(read(f"{name}:{data / FOLDERS[name][0]}"))


@pytest.mark.parametrize("name", FOLDERS)
def test_every_row_is_read_once_and_survives_json(name: str, shared_data: Path) -> None:
    examples = all_of(shared_data, name)
    assert len(examples) == FOLDERS[name][1]
    assert len({e.case.id for e in examples}) == len(examples)
    assert all(e.document and e.case.response.strip() for e in examples)
    for example in examples[:: max(1, len(examples) // 60)]:
        assert decode(encode(example)) == example
        assert example.gold.by.startswith("human:")
        for judgement in (example.gold, *example.annotations):  # the spans hold more than white space, none overlap
            spans = sorted(v.span for v in judgement.verdicts)
            assert all(span.of(example.case.response).strip() for span in spans)
            assert not any(a.overlaps(b) for a, b in pairwise(spans)) or name == "e2e"
        if example.gold.hallucination == 0.0:
            assert not any(v.score for v in example.gold.verdicts)


@pytest.mark.parametrize("name", FOLDERS)
def test_splits_cut_the_whole(name: str, shared_data: Path) -> None:
    splits = load_reader(name).INFO.splits
    found: list[str] = []
    for split in splits:
        with suppress(DataError):  # a split that is not in this part of the published set
            found += [e.case.id for e in read(f"{name}:{shared_data / FOLDERS[name][0]}", split)]
    assert not splits or sorted(found) == sorted(e.case.id for e in all_of(shared_data, name))


def marked(example: Example) -> list[str]:
    return [v.span.of(example.case.response) for v in sorted(example.gold.verdicts, key=lambda v: v.span)]


def raw_json(path: Path) -> list[dict]:
    return json.loads(path.read_text("utf-8"))


def raw_lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]


def raw_csv(path: Path, **options: object) -> list[dict]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, **options))


def test_xsum_token_labels(shared_data: Path) -> None:
    by_id = {e.case.id: e for e in all_of(shared_data, "xsum_token")}
    seen = 0
    for system in ("BERTS2S", "Gold", "PtGen", "TConvS2S", "TranS2S"):
        base = shared_data / "xsum_token" / system / system
        columns = [base.with_suffix(f".{p}").read_text("utf-8").split("\n")[:303] for p in ("docid", "target", "label")]
        for docid, target, labels in zip(*columns, strict=True):
            example = by_id[f"{system}/{docid}"]
            pairs = list(zip(target.replace("\\'", "'").split(), labels.split(), strict=True))
            runs = [[t for t, _ in group] for flag, group in groupby(pairs, key=lambda p: p[1]) if flag == "1"]
            assert [span.split() for span in marked(example)] == runs
            assert "\\" not in example.case.response
            assert (example.gold.hallucination, example.document) == (float("1" in labels.split()), docid)
            seen += 1
    assert seen == 1515
    assert Counter(dict(e.group)["system"] for e in by_id.values()) == dict.fromkeys(
        ("BERTS2S", "Gold", "PtGen", "TConvS2S", "TranS2S"), 303
    )


def without(example: Example) -> list[str]:
    """The words of the response outside its spans."""
    text = example.case.response
    for verdict in sorted(example.gold.verdicts, key=lambda v: v.span, reverse=True):
        text = text[: verdict.span.start] + " " + text[verdict.span.end :]
    return re.findall(r"\w+", text)


def test_bump_pairs(shared_data: Path) -> None:
    examples = all_of(shared_data, "bump")
    for raw, clean, edited in zip(
        raw_json(shared_data / "bump" / "task1_dataset.json"), examples[::2], examples[1::2], strict=True
    ):
        assert (clean.case.response, edited.case.response) == (raw["reference_summary"], raw["edited_summary"])
        assert clean.case.sources[0].text == edited.case.sources[0].text == raw["article"]
        assert (clean.gold.hallucination, edited.gold.hallucination) == (0.0, 1.0)
        assert (clean.gold.verdicts, dict(edited.group)["error_type"]) == ((), raw["corrected_error_type"])
        assert edited.gold.verdicts
        rest = iter(re.findall(r"\w+", raw["reference_summary"]))
        assert all(word in rest for word in without(edited))  # what is not marked was there before, in this order


def test_wice_tokens_and_claims(shared_data: Path) -> None:
    examples = {e.case.id: e for e in all_of(shared_data, "wice")}
    for part in ("train", "dev"):
        for raw in raw_lines(shared_data / "wice" / "non_supported_tokens" / f"{part}.jsonl"):
            example = examples[f"tokens/{raw['meta']['id']}"]
            wrong = [t for t, bad in zip(raw["claim_tokens"], raw["non_supported_spans"], strict=True) if bad]
            assert "".join("".join(marked(example)).split()) == "".join("".join(wrong).split())
            assert example.case.response == raw["claim"]
    claims = [e for e in examples.values() if e.case.id.startswith("claims/")]
    raws = raw_lines(shared_data / "wice" / "oracle_chunks" / "claim" / "dev.jsonl")
    for raw, example in zip(raws, claims, strict=True):
        assert dict(example.group)["label"] == raw["label"]
        assert example.gold.hallucination == float(raw["label"] != "supported")
        assert bool(example.gold.verdicts) == (raw["label"] != "partially_supported")
        assert example.case.sources[0].text.split("\n") == "\n".join(raw["evidence"]).split("\n")


def test_summedits_labels(shared_data: Path) -> None:
    examples = {e.case.id: e for e in all_of(shared_data, "summedits")}
    for path in (shared_data / "summedits").glob("*.json"):
        for raw in raw_json(path):
            example = examples[f"{path.stem.removeprefix('summedits_')}/{raw['id']}"]
            assert example.gold.hallucination == 1 - raw["label"]
            assert bool(example.gold.verdicts) == (raw["label"] == 0)
            rest = iter(re.findall(r"\w+", raw["original_summary"]))
            assert raw["label"] == 1 or all(word in rest for word in without(example))
    documents = {e.case.sources[0].text for e in examples.values()}
    assert len({e.document for e in examples.values()}) == len(documents) == 120


def test_mu_shroom_spans(shared_data: Path) -> None:
    examples = {e.case.id: e for e in all_of(shared_data, "mu_shroom")}
    soft = {j.case_id: j for j in mu_shroom.read_soft(shared_data / "mu_shroom")}
    people = 0
    for path in (shared_data / "mu_shroom").rglob("*.jsonl"):
        for raw in raw_lines(path):
            example, text = examples[raw["id"]], raw["model_output_text"]
            assert characters(example.gold.verdicts) == {i for a, b in raw["hard_labels"] for i in range(a, b)}
            assert example.gold.hallucination == float(bool(raw["hard_labels"]))
            assert {j.by for j in example.annotations} == {f"human:{name}" for name in raw["annotations"]}
            for judgement in example.annotations:
                pairs = raw["annotations"][judgement.by.removeprefix("human:")]
                inside = {i for a, b in pairs for i in range(a, min(b, len(text)))}
                assert characters(judgement.verdicts) == inside
                people += 1
            shares = {(v.span.start, v.span.end): v.score for v in soft[raw["id"]].verdicts}
            assert shares == {(s["start"], s["end"]): s["prob"] for s in raw["soft_labels"]}
            # the publisher's rule: hard is soft above one half
            above = {i for (a, b), share in shares.items() if share > 0.5 for i in range(a, b)}
            assert above == characters(example.gold.verdicts)
    assert people == 2173


def characters(verdicts: tuple[Verdict, ...]) -> set[int]:
    return {i for v in verdicts for i in range(v.span.start, v.span.end)}


def test_shroom_votes(shared_data: Path) -> None:
    examples = {e.case.id: e for e in all_of(shared_data, "shroom_2024")}
    for path in (shared_data / "shroom_2024").glob("*.json"):
        for i, raw in enumerate(raw_json(path), 1):
            example = examples[f"{path.name.removesuffix('.json')}/{i}"]
            votes = [j.hallucination for j in example.annotations]
            assert votes == [float(vote == "Hallucination") for vote in raw["labels"]]
            assert example.gold.hallucination == float(raw["label"] == "Hallucination") == float(sum(votes) > 2.5)
            assert sum(votes) / 5 == pytest.approx(raw["p(Hallucination)"])
            given = {s.id for s in example.case.sources}
            assert given == {"tgt": {"tgt"}, "src": {"src"}, "either": {"src", "tgt"}}[raw["ref"]]


def test_conv_fever_keeps_what_is_not_labelled(shared_data: Path) -> None:
    examples = {e.case.id: e for e in all_of(shared_data, "conv_fever")}
    for name in ("gt", "knn", "dpr"):
        for i, raw in enumerate(raw_csv(shared_data / "conv_fever" / "crowd" / f"{name}.csv"), 1):
            example = examples[f"{name}/{i}"]
            assert example.gold.hallucination == {"Yes": 1.0, "No": 0.0, "": None}[raw["Hallucination"]]
            assert (example.gold.judged == ()) == (raw["Hallucination"] == "")
            assert (example.case.response, example.case.sources[0].text) == (raw["response"], raw["knowledge"])
            spoken = "".join(f"{t.speaker}: {t.text}" for t in example.case.history)
            assert re.sub(r"\s|<br>", "", raw["context"]) == re.sub(r"\s", "", spoken)
    assert sum(e.gold.hallucination is None for e in examples.values()) == 1720
    assert all(e.gold.notes for e in examples.values() if e.gold.hallucination is None)


def test_begin_labels(shared_data: Path) -> None:
    raws = raw_csv(shared_data / "begin" / "begin_dev_wow.tsv", delimiter="\t", quoting=csv.QUOTE_NONE)
    for raw, example in zip(raws, all_of(shared_data, "begin"), strict=True):
        assert example.gold.hallucination == float(raw["begin_label"] != "Fully attributable")
        assert (example.case.response, example.case.history[0].text) == (raw["response"], raw["message"])


def test_e2e_slots(shared_data: Path) -> None:
    raws = raw_csv(shared_data / "e2e" / "devel-fixed.no-ol.csv")
    added = located = 0
    for raw, example in zip(raws, all_of(shared_data, "e2e"), strict=True):
        asked, said = (set(raw[key].split(", ")) for key in ("orig_mr", "mr"))
        assert {s.text for s in example.case.sources} == asked
        left_out = {example.case.source(o.source_id).text for o in example.gold.omissions if o.score == 1.0}
        assert left_out == asked - said
        assert example.gold.omission == float(bool(asked - said))
        assert example.gold.hallucination == float(bool(said - asked))
        assert all(f"[{text}]".lower() in " ".join(said - asked).lower() for text in marked(example))
        added += bool(said - asked)
        located += bool(example.gold.verdicts)
        assert bool(example.gold.notes) == bool(said - asked and not example.gold.verdicts)
    assert (added, located) == (589, 345)


def test_hades_phrases(shared_data: Path) -> None:
    examples = iter(all_of(shared_data, "hades"))
    for part in ("train", "valid", "test"):
        for raw in raw_lines(shared_data / "hades_samples" / f"{part}.txt"):
            example = next(examples)
            phrase = re.search("===(.*)===", raw["replaced"])[1]
            assert example.case.response == raw["replaced"].replace("===", "")
            if raw["hallucination"] < 0:
                assert (example.gold.judged, example.gold.hallucination) == ((), None)
                continue
            assert [span.of(example.case.response) for span in example.gold.judged] == [phrase]
            assert example.gold.judged[0].start == raw["replaced"].index("===")
            assert example.gold.hallucination == raw["hallucination"]
            assert marked(example) == [phrase] * raw["hallucination"]


def test_halueval_general(shared_data: Path) -> None:
    unplaced = 0
    for raw, example in zip(
        raw_lines(shared_data / "halueval" / "general_data.json"), all_of(shared_data, "halueval"), strict=True
    ):
        assert example.gold.hallucination == float(raw["hallucination"] == "yes")
        quotes = re.sub(r"\s", "", "".join(raw["hallucination_spans"]))
        if example.gold.verdicts:
            assert sorted(re.sub(r"\s", "", "".join(marked(example)))) == sorted(quotes)
        elif quotes:
            assert example.gold.notes
            unplaced += 1
    assert unplaced == 153


def test_argkp_matches(shared_data: Path) -> None:
    examples = {e.case.id: e for e in all_of(shared_data, "argkp")}
    labels = 0
    for part in ("train", "dev"):
        for raw in raw_csv(shared_data / "argkp" / f"labels_{part}.csv"):
            example = examples[f"{raw['arg_id']}/{raw['key_point_id']}"]
            assert [(o.source_id, o.score) for o in example.gold.omissions] == [
                (raw["key_point_id"], 1 - int(raw["label"]))
            ]
            assert example.gold.omission == 1 - int(raw["label"])
            labels += 1
    assert labels == len(examples)
    questions = list(argkp.read_questions(shared_data / "argkp"))
    assert (len(questions), sum(len(q.sources) for q in questions)) == (28, 243)
    assert {s.perspective for q in questions for s in q.sources} == {"pro", "con"}


def test_perspectrum_paraphrases(shared_data: Path) -> None:
    folder = shared_data / "perspectrum"
    examples = list(perspectrum.read(folder))
    pool = {p["pId"]: p["text"] for p in raw_json(folder / "perspective_pool_v1.0.json")}
    claims = raw_json(folder / "perspectrum_with_answers_v1.0.json")
    assert len(examples) == sum(len(p["pids"]) - 1 for c in claims for p in c["perspectives"]) == 6727
    assert len({e.case.id for e in examples}) == len(examples)
    by_claim = {str(c["cId"]): c for c in claims}
    for example in examples[::20]:
        claim, own, pid = example.case.id.split("/")
        entries = by_claim[claim]["perspectives"]
        assert example.case.response == pool[int(pid)]
        assert [s.text for s in example.case.sources] == [pool[entry["pids"][0]] for entry in entries]
        covered = [i for i, o in enumerate(example.gold.omissions) if o.score == 0.0]
        assert covered == [i for i, entry in enumerate(entries) if int(pid) in entry["pids"]]
        assert int(own) - 1 in covered
    questions = list(perspectrum.read_questions(folder))
    assert len(questions) == 907
    assert {s.perspective for q in questions for s in q.sources} == {"support", "undermine"}
    assert sum(1 for _ in perspectrum.read_questions(folder, "dev")) == 139


def test_sets_without_labels_say_so(shared_data: Path) -> None:
    questions = list(fave.read_questions(shared_data / "fave"))
    assert len(questions) == 120
    assert {len(q.sources) for q in questions} == {8}
    assert all(q.response == "" and q.question and all(s.citation for s in q.sources) for q in questions)
    told = json.loads((shared_data / "fave" / "paper_dataset.json").read_text("utf-8"))
    for question, row in zip(questions, told, strict=True):
        for source, paper in zip(question.sources, row["papers"], strict=True):
            title, blank, abstract = source.text.partition("\n\n")
            assert title.split() == paper["title"].split()
            assert abstract == paper["summary"] if blank else not paper["summary"].strip()
        assert len({s.citation for s in question.sources}) >= 7  # two without authors share a title
    with pytest.raises(InputError, match="read_questions"):
        fave.read(shared_data / "fave")
    with pytest.raises(InputError, match="read_texts"):
        wikipedia.read(shared_data / "wikipedia")
    texts = list(wikipedia.read_texts(shared_data / "wikipedia"))
    raw = (shared_data / "wikipedia" / "articles.txt").read_text("utf-8")
    assert texts == [text.strip("\n") for text in re.split(r"\n\s*\n", raw) if text.strip()]
    assert len(texts) == 7731


def test_plain_texts(shared_data: Path) -> None:
    with pytest.raises(InputError, match="no labels"):
        plain.read(shared_data / "plain")
    texts = list(plain.read_texts(shared_data / "plain"))
    assert len(texts) == 108 + 59 + 65 + 3669 + 240
    gum = (shared_data / "plain" / "gum" / "gum_docs.jsonl").read_text("utf-8").splitlines()
    assert texts[:108] == [json.loads(line)["text"] for line in gum]
    assert list(plain.read_texts(shared_data / "plain" / "plain_text" / "inaugural.zip")) == texts[108:167]
