"""Training examples in many languages: which sets there are, how they are split, and that the labels hold."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from veridical.records.types import Example
from veridical_lab.training.languages import in_languages

PASSAGES = {
    "en": "The old library opened in 1913. The new library opened in 1931 and cost 200 pounds.",
    "de": "Die alte Bibliothek wurde 1913 eröffnet. Die neue Bibliothek wurde 1931 eröffnet und kostete 200 Pfund.",
}
QUESTIONS = {
    "en": [("When did the new library open?", "1931"), ("When did the old library open?", "1913")],
    "de": [("Wann wurde die neue Bibliothek eröffnet?", "1931"), ("Wann wurde die alte eröffnet?", "1913")],
}


def squad(passage: str, questions: list[tuple[str, str]], title: str) -> dict[str, Any]:
    asked = [
        {"id": f"{title}/{i}", "question": q, "answers": [{"text": a, "answer_start": passage.find(a) if a else 0}]}
        for i, (q, a) in enumerate(questions)
    ]
    return {"title": title, "paragraphs": [{"context": passage, "qas": asked}]}


def write(path: Path, articles: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(json.dumps({"data": articles}).encode()))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    languages = tmp_path / "languages"
    for language in ("en", "de"):
        articles = [squad(PASSAGES[language], QUESTIONS[language], f"Library {n}") for n in range(30)]
        write(languages / f"xquad.{language}.json.gz", articles)
    without = [
        squad(f"Talo {n} rakennettiin 18{n:02}. Se myytiin 19{n:02}.", [("Milloin?", "")], "") for n in range(30)
    ]
    write(languages / "tydi_dev.fi.json.gz", without)
    write(tmp_path / "plain" / "qa_passages" / "tydiqa.goldp.en.train.json.gz", [squad("It rained.", [("?", "")], "")])
    rows = "".join(f"Satz {n} ist wahr.\tSatz {n} stimmt.\t{n % 2}\n" for n in range(60))
    for file in (languages / "pawsx_dev.de.tsv", tmp_path / "entailment" / "pawsx_en" / "dev-en.tsv"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(rows, encoding="utf-8")
    return tmp_path


def test_every_marked_word_is_wrong_and_can_be_corrected(data: Path) -> None:
    sets = in_languages(data, "train", seed=0)
    assert {"answers_en", "answers_de", "exchanged_de", "exchanged_fi", "answers_translated", "pawsx_de"} <= set(sets)
    for name, examples in sets.items():
        for example in examples:
            for verdict in example.gold.verdicts:
                marked, corrected = verdict.span.of(example.case.response), str(verdict.correction)
                assert marked
                assert corrected not in ("", marked)
                if name.startswith("exchanged"):
                    text = example.case.response
                    repaired = text[: verdict.span.start] + corrected + text[verdict.span.end :]
                    assert repaired in example.case.sources[0].text, "only the answer was exchanged"
            assert (example.gold.hallucination or 0) >= 0.5 or not example.gold.verdicts


def test_short_answers_stand_in_the_form_in_which_the_detector_reads_them(data: Path) -> None:
    for example in in_languages(data, "train", seed=0)["answers_en"]:
        response = example.case.response
        assert response.startswith(f'The answer to "{example.case.question}" is 19')
        assert [verdict.span.of(response) for verdict in example.gold.verdicts] in ([], [response[-4:]])


def test_answers_meet_the_passage_in_another_language(data: Path) -> None:
    for example in in_languages(data, "train", seed=1)["answers_translated"]:
        other = {"en": "de", "de": "en"}[dict(example.group)["language"]]
        assert example.case.sources[0].text == PASSAGES[other]


def test_translations_stay_in_one_part(data: Path) -> None:
    def documents(part: str, prefixes: tuple[str, ...]) -> set[str | None]:
        sets = in_languages(data, part, seed=0)
        return {e.document for name, examples in sets.items() if name.startswith(prefixes) for e in examples}

    for prefixes in (("answers", "exchanged"), ("pawsx",)):
        train, valid = documents("train", prefixes), documents("valid", prefixes)
        assert train
        assert valid
        assert not train & valid


def test_another_seed_draws_others(data: Path) -> None:
    def responses(seed: int) -> list[str]:
        made: list[Example] = in_languages(data, "train", seed=seed)["exchanged_en"]
        return [example.case.id for example in made]

    assert responses(0) == responses(0)
    assert responses(0) != responses(1)
