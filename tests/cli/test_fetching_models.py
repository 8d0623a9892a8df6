"""`veridical models`, against a server on 127.0.0.1 in place of the hub."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path

import pytest

from tests.inference.hub_server import HubServer, Repository, hub_server
from tests.inference.test_fetched import FILES, NAME
from veridical.detectors.default.detector import PACKAGED
from veridical.io.serialization import decode
from veridical_lab.models.testing import tiny

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    monkeypatch.setenv("VERIDICAL_HOME", str(tmp_path))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("COLUMNS", "200")
    with hub_server() as server:
        server.models[NAME] = Repository(dict(FILES))
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        yield server


def test_get_list_verify_remove(command: Command, server: HubServer, tmp_path: Path) -> None:
    code, out, err = command("models", "get", NAME)
    assert (code, out) == (0, "")
    assert "licence: apache-2.0" in err
    assert f"wrote {tmp_path / 'models' / 'owner--model'}; use it with: -d hf:owner/model" in err
    code, out, err = command("models", "get", NAME)
    assert code == 0
    assert err == f"owner/model is in {tmp_path / 'models' / 'owner--model'}\n"
    code, _, err = command("models", "get", NAME, "--revision", "v2")
    assert code == 2
    assert "first: veridical models remove owner/model" in err
    code, _, err = command("models", "get", NAME, "--onnx")
    assert code == 2
    assert "owner/model is here in safetensors" in err
    code, out, _ = command("models", "list")
    assert code == 0
    assert "cross-encoder/nli-deberta-v3-base: accuracy 0.924 on SNLI" in out
    assert "owner/model" in out
    code, out, _ = command("models", "verify")
    assert (code, out) == (0, f"owner/model: 3 files as they were downloaded, {'c' * 40}\n")
    (tmp_path / "models" / "owner--model" / "config.json").write_text("{}", "utf-8")
    code, out, err = command("models", "verify", NAME)
    assert (code, out) == (2, "")
    assert "config.json has changed since it was downloaded; get it again: veridical models remove owner/model" in err
    assert command("models", "remove", NAME)[0] == 0
    assert list((tmp_path / "models").iterdir()) == []
    code, _, err = command("models", "remove", NAME)
    assert code == 2
    assert "unknown fetched model 'owner/model'" in err


def test_a_licence_that_forbids_commerce_is_said_before_the_download(command: Command, server: HubServer) -> None:
    server.models[NAME].licence = "cc-by-nc-4.0"
    code, _, err = command("models", "get", NAME)
    assert code == 2
    assert "the licence cc-by-nc-4.0 forbids commercial use (to accept it: --accept-licence)" in err
    assert server.downloads() == []
    assert command("models", "get", NAME, "--accept-licence")[0] == 0
    assert command("models", "verify")[0] == 0


def test_a_licence_is_accepted_on_a_terminal(
    command: Command, server: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(StringIO):
        def isatty(self) -> bool:
            return True

    server.models[NAME].licence = "cc-by-nc-4.0"
    for answer, code in (("n", 2), ("y", 0)):
        monkeypatch.setattr("sys.stdin", Terminal(f"{answer}\n"))
        assert command("models", "get", NAME)[0] == code
        assert bool(server.downloads()) == (code == 0)


def test_one_line_for_each_failure(command: Command, server: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, says in {
        "owner/none": "has no model 'owner/none', or it is private",
        "nothing": "unknown model 'nothing'",
    }.items():
        code, out, err = command("models", "get", name)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert says in err


@pytest.mark.skipif(not PACKAGED.is_dir(), reason="the default detector is not in this checkout")
def test_a_fetched_model_reads_in_the_default_detector_while_the_hub_is_away(
    command: Command, server: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = {0: "entailment", 1: "neutral", 2: "contradiction"}
    folder = tiny("bert", tmp_path / "nli", head="SequenceClassification", id2label=labels)
    server.models["owner/nli"] = Repository({path.name: path.read_bytes() for path in folder.iterdir()})
    assert command("models", "get", "owner/nli")[0] == 0
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    count = len(server.requests)
    (tmp_path / "answer.txt").write_text("Anna Berg ran the project.", "utf-8")
    (tmp_path / "source.txt").write_text("Anna Berg led the works.", "utf-8")
    texts = str(tmp_path / "answer.txt"), str(tmp_path / "source.txt")
    results = []
    for spec in ("default", "default:reader=hf:owner/nli"):
        code, out, err = command("check", *texts, "-d", spec, "--json")
        assert code in (0, 1), err
        (judgement,) = decode(out).judgements
        assert judgement.by == spec
        results.append(judgement)
    plain, read = results
    assert plain.hallucination != read.hallucination
    assert [verdict.score for verdict in plain.verdicts] == [verdict.score for verdict in read.verdicts]
    assert len(server.requests) == count
