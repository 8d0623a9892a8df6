"""Getting published checkpoints: from a hub that fails in every way, into one folder that is read offline."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.inference.hub_server import COMMIT, HubServer, Repository, hub_server
from veridical.inference import fetched as module
from veridical.inference.catalogue import Checkpoint, Part, catalogue
from veridical.inference.checkpoint import checkpoint_folder
from veridical.inference.fetched import Fetched, fetch, fetched, find_fetched, models_folder, plan, remove, verify
from veridical.inference.hub import Hub
from veridical.records.errors import InputError, OutputError, UnknownNameError

NAME = "owner/model"
WEIGHTS = bytes(range(256)) * 20
FILES = {
    "config.json": b'{"architectures": ["BertForSequenceClassification"]}',
    "model.safetensors": WEIGHTS,
    "tokenizer.json": b"{}",
    "pytorch_model.bin": b"pickle",
    "modeling_own.py": b"code",
    "onnx/config.json": b"{}",
    "veridical.json": b"{}",
}
READ = {"config.json", "model.safetensors", "tokenizer.json"}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    monkeypatch.setenv("VERIDICAL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("HF_TOKEN", raising=False)
    with hub_server() as server:
        server.models[NAME] = Repository(dict(FILES))
        yield server


def hub_of(server: HubServer, token: str | None = None, timeout: float = 10.0) -> Hub:
    return Hub(server.url, token, timeout, attempts=3, pause=0.01)


def get(server: HubServer, name: str = NAME, revision: str | None = None, **options: object) -> Fetched:
    hub = hub_of(server, **options)  # type: ignore[arg-type]
    return fetch(plan(name, revision, hub=hub), hub=hub)


def test_the_files_that_are_read_and_a_record_of_them(server: HubServer) -> None:
    seen: list[tuple[int, int]] = []
    hub = hub_of(server)
    model = fetch(plan(NAME, hub=hub), hub=hub, progress=lambda done, total: seen.append((done, total)))
    assert {path.name for path in model.folder.iterdir()} == READ | {"veridical.json"}
    assert model == find_fetched(NAME)
    assert list(fetched()) == [model]
    assert (model.revision, model.licence, model.bytes) == (COMMIT, "apache-2.0", sum(len(FILES[n]) for n in READ))
    assert model.files["model.safetensors"] == hashlib.sha256(WEIGHTS).hexdigest()
    assert seen[-1] == (model.bytes, model.bytes)
    assert verify(model) == []
    assert list(models_folder().iterdir()) == [model.folder]  # no part is left


def test_the_onnx_file_of_the_publisher(server: HubServer) -> None:
    hub = hub_of(server)
    with pytest.raises(InputError, match=r"no onnx/model.onnx at main \(leave out --onnx"):
        plan(NAME, hub=hub, onnx=True)
    more = {"onnx/model.onnx": b"graph", "onnx/model.onnx_data": b"weights", "onnx/model_qint8.onnx": b"int8"}
    server.models[NAME].files |= more
    assert not find_fetched(NAME)
    model = fetch(plan(NAME, hub=hub, onnx=True), hub=hub)
    assert set(model.files) == {"config.json", "tokenizer.json", "onnx/model.onnx", "onnx/model.onnx_data"}
    assert model.is_onnx
    assert verify(model) == []


def test_a_fetched_model_is_found_offline(server: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    model = get(server)
    count = len(server.requests)
    assert checkpoint_folder(NAME) == model.folder
    assert checkpoint_folder(NAME, revision=COMMIT) == model.folder
    for name, revision, command in (
        ("owner/other", None, "get owner/other"),
        (NAME, "v2", f"get {NAME} --revision v2"),
    ):
        with pytest.raises(InputError, match=f"no model of that name.*veridical models {command}"):
            checkpoint_folder(name, revision=revision)
    assert len(server.requests) == count


def test_an_interrupted_download_goes_on(server: HubServer) -> None:
    server.models[NAME].failures = ["", "cut", "cut", "cut"]  # of config.json, then of the weights
    hub = Hub(server.url, None, 10.0, attempts=1, pause=0.01)
    planned = plan(NAME, hub=hub)
    with pytest.raises(InputError, match=r"cannot be reached.*goes on where it stopped"):
        fetch(planned, hub=hub)
    assert find_fetched(NAME) is None
    server.models[NAME].failures = []
    server.requests.clear()
    model = get(server)
    assert server.downloads() == [f"bytes={len(WEIGHTS) // 2}-", ""]  # the rest of the weights, and the tokenizer
    assert verify(model) == []


def test_nothing_of_an_interrupted_download_stays(server: HubServer) -> None:
    server.models[NAME].failures = ["", "cut", 503, 503]
    with pytest.raises(InputError):
        get(server)
    (part,) = models_folder().iterdir()
    assert remove(NAME) == [part]
    (models_folder() / ".owner--model.older.part").mkdir()
    model = get(server)
    assert list(models_folder().iterdir()) == [model.folder]
    assert remove(NAME) == [model.folder]
    with pytest.raises(UnknownNameError, match="unknown fetched model"):
        remove(NAME)


@pytest.mark.parametrize("failure", ["cut", 503, 429, "hang"])
def test_a_failure_that_passes(server: HubServer, failure: str | int) -> None:
    server.models[NAME].failures = ["", failure, failure]
    model = get(server, timeout=0.5 if failure == "hang" else 10.0)
    assert (model.folder / "model.safetensors").read_bytes() == WEIGHTS


def test_a_slow_server_and_one_without_ranges(server: HubServer) -> None:
    server.models[NAME].failures = ["", "drip"]
    assert verify(get(server, timeout=0.5)) == []
    remove(NAME)
    server.models[NAME].failures = ["", "cut"]
    server.models[NAME].ignores_ranges = True
    assert (get(server).folder / "model.safetensors").read_bytes() == WEIGHTS


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
def test_another_file_than_the_one_listed(server: HubServer, name: str) -> None:
    server.models[NAME].served[name] = bytes(len(FILES[name]))
    with pytest.raises(InputError, match=rf"{name} of owner/model is not the file that .* its hash differs"):
        get(server)
    assert find_fetched(NAME) is None
    server.models[NAME].served.clear()
    assert verify(get(server)) == []  # nothing of the wrong file is used


def test_a_file_longer_than_listed(server: HubServer) -> None:
    server.models[NAME].served["model.safetensors"] = WEIGHTS + b"more"
    with pytest.raises(InputError, match="its hash differs"):
        get(server)


def test_the_hash_of_the_catalogue_counts(server: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def recommended(sha256: str) -> dict[str, Checkpoint]:
        inside = Part("owner/base", None, {"config.json": hashlib.sha256(b"base").hexdigest()})
        part = Part(NAME, COMMIT, {"model.safetensors": sha256})
        return {"short": Checkpoint(part, "mit", ("en",), "1M", 1, False, "", "", inside)}

    server.models["owner/base"] = Repository({"config.json": b"base", "model.safetensors": b"large"})
    for name in ("fetched", "catalogue"):
        monkeypatch.setattr(f"veridical.inference.{name}.catalogue", lambda: recommended("0" * 64))
    with pytest.raises(InputError, match=r"lists another model.safetensors of owner/model than"):
        get(server, "short")
    for name in ("fetched", "catalogue"):
        monkeypatch.setattr(
            f"veridical.inference.{name}.catalogue", lambda: recommended(hashlib.sha256(WEIGHTS).hexdigest())
        )
    model = get(server, "short")
    assert model.name == "short"
    assert (model.folder / "base" / "config.json").read_bytes() == b"base"
    assert not (model.folder / "base" / "model.safetensors").exists()
    assert checkpoint_folder("short") == checkpoint_folder(NAME) == model.folder
    assert verify(model) == []


def test_what_the_hub_refuses(server: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="has no model 'owner/none', or it is private"):
        get(server, "owner/none")
    with pytest.raises(InputError, match="has no such revision"):
        get(server, revision="v2")
    with pytest.raises(UnknownNameError, match=r"unknown model 'nli-deberta'.*did you mean nli-deberta-base"):
        get(server, "nli-deberta")
    server.models["owner/pickle"] = Repository({"config.json": b"{}", "pytorch_model.bin": b"pickle"})
    with pytest.raises(InputError, match=r"no weights in safetensors at main.*--revision refs/pr/1"):
        get(server, "owner/pickle")
    server.models[NAME].gated = True
    with pytest.raises(InputError, match=f"gated.*accept them on {server.url}/{NAME}, and set HF_TOKEN"):
        get(server)
    assert verify(get(server, token="hf_secret")) == []
    assert not [path for path, headers in server.requests if "/stored/" in path and "authorization" in headers]


def test_no_network_and_no_hub(server: HubServer) -> None:
    nobody = Hub("http://127.0.0.1:9", None, 2.0, attempts=2, pause=0.01)
    with pytest.raises(InputError, match=r"http://127.0.0.1:9 cannot be reached: .*HTTPS_PROXY.*HF_ENDPOINT"):
        plan(NAME, hub=nobody)
    another = Hub(f"{server.url}/stored/owner/model//config.json?", None, attempts=1)
    with pytest.raises(InputError, match="does not answer as a Hugging Face hub does"):
        another.listing(NAME)


def test_a_disk_without_room(server: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = module.shutil.disk_usage("/")
    monkeypatch.setattr(module.shutil, "disk_usage", lambda path: usage._replace(free=1000))
    with pytest.raises(OutputError, match=r"not free in .*VERIDICAL_HOME"):
        get(server)


def test_changed_and_missing_files(server: HubServer) -> None:
    model = get(server)
    (model.folder / "config.json").write_text("{}", "utf-8")
    (model.folder / "tokenizer.json").unlink()
    assert [line.partition(" ")[2] for line in verify(model)] == ["has changed since it was downloaded", "is missing"]
    record = model.folder / "veridical.json"
    record.write_text(json.dumps({"repository": NAME}), "utf-8")
    with pytest.raises(InputError, match="not the record of a fetched model"):
        find_fetched(NAME)


def test_the_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("VERIDICAL_HOME", str(tmp_path))
    assert models_folder() == tmp_path / "models"
    monkeypatch.delenv("VERIDICAL_HOME")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert models_folder() == tmp_path / "veridical" / "models"


def test_the_catalogue_says_what_is_pinned() -> None:
    known = {name: entry.pinning for name, entry in catalogue().items()}
    assert known["nli-deberta-base"] == "commit and hash known"
    assert known["factcg-deberta-large"] == "commit known, hash as first downloaded"
    assert known["lettucedect-base-en"] == "commit and hash as first downloaded"


def test_the_catalogue_is_whole() -> None:
    hexadecimal = set("0123456789abcdef")
    assert len(catalogue()) >= 5
    for name, entry in catalogue().items():
        assert "/" in entry.part.repository, name
        assert "/" not in name
        assert entry.licence
        assert entry.source
        for part in filter(None, (entry.part, entry.inside)):
            assert part.revision is None or (len(part.revision) == 40 and set(part.revision) <= hexadecimal)
            assert all(len(sha256) == 64 and set(sha256) <= hexadecimal for sha256 in part.sha256.values())
