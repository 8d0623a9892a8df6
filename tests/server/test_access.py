"""Which key may call which route: every route of the application with every kind of key, so that none is forgotten."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from starlette.routing import BaseRoute, Mount, Route
from starlette.testclient import TestClient

from tests.server.services import client_of
from veridical.server.app import PAGE
from veridical.server.keys import ROLES, make_key, read_keys
from veridical.server.settings import HistorySettings, ProxySettings

OPEN = {("GET", "/docs"), ("GET", "/openapi.json")} | {
    (method, path) for path in ("/health", "/ready") for method in ("GET", "HEAD")
}
NEEDS = {
    "check": {
        ("GET", "/metrics"),
        ("GET", "/v1/detectors"),
        ("GET", "/v1/models"),
        ("POST", "/v1/chat/completions"),
        ("POST", "/v1/check"),
        ("POST", "/v1/documents"),
        ("POST", "/v1/report"),
        ("POST", "/v1/revise"),
        ("POST", "/v1/salience"),
        ("POST", "/v1/stream"),
    },
    "review": {
        ("GET", "/v1/calibrations"),
        ("GET", "/v1/calibrations/{name}"),
        ("GET", "/v1/runs"),
        ("GET", "/v1/runs/{run}"),
        ("GET", "/v1/runs/{run}/cases"),
        ("GET", "/v1/runs/{run}/cases/{number}"),
        ("GET", "/v1/runs/{run}/compare/{other}"),
        ("GET", "/v1/runs/{run}/decisions"),
        ("GET", "/v1/runs/{run}/examples"),
        ("GET", "/v1/runs/{run}/facets"),
        ("GET", "/v1/runs/{run}/trend"),
        ("POST", "/v1/runs"),
        ("POST", "/v1/runs/{run}/calibrations"),
        ("POST", "/v1/runs/{run}/sample"),
        ("PUT", "/v1/runs/{run}/cases/{number}/decisions"),
    },
    "admin": {
        ("DELETE", "/v1/runs/{run}"),
        ("DELETE", "/v1/runs/{run}/cases/{number}"),
        ("GET", "/v1/runs/{run}/audit"),
        ("PUT", "/v1/calibrations/{name}"),
    },
}
ROUTES = [(role, *route) for role, routes in NEEDS.items() for route in sorted(routes)]
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")


class Served(NamedTuple):
    client: TestClient
    keys: dict[str, str]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service with every route, a key for each role, and a key that was revoked: its line was removed."""
    folder: Path = tmp_path_factory.mktemp("access")
    file = folder / "keys"
    keys = {role: make_key(file, role, role) for role in ROLES} | {"revoked": make_key(file, "revoked", "admin")}
    lines = file.read_text("utf-8").splitlines(keepends=True)
    file.write_text("".join(line for line in lines if " revoked " not in line), "utf-8")
    with client_of(
        "overlap",
        history=HistorySettings(place=str(folder / "history.db"), proxy=True),
        proxy=ProxySettings(base_url="http://127.0.0.1:1/v1"),
        keys=read_keys(file),
        hosts=(),
    ) as client:
        yield Served(client, keys)


def named(path: str) -> str:
    """An address of the route; nothing of these names exists."""
    return re.sub(r"\{\w+\}", "1", path)


def test_the_table_has_every_route(served: Served) -> None:
    routes: list[BaseRoute] = served.client.app.routes  # type: ignore[attr-defined]
    folders = [route for route in routes if isinstance(route, Mount)]
    single = [route for route in routes if isinstance(route, Route)]
    assert len(folders) + len(single) == len(routes), "routes of a kind that this test does not know"
    assert [(each.path, each.app.directory) for each in folders] == [("", PAGE)], "all of a folder is open"  # type: ignore[attr-defined]
    offered = {(method, route.path) for route in single for method in route.methods or ()}
    offered -= {("HEAD", path) for _, path in offered if path in ("/docs", "/openapi.json")}  # Starlette adds it to GET
    table = OPEN.union(*NEEDS.values())
    assert offered - table == set(), "say here who may call it"
    assert table - offered == set(), "there is no such route"


@pytest.mark.parametrize("given", ["none", "unknown", "revoked", "hash", *ROLES])
@pytest.mark.parametrize(("role", "method", "path"), ROUTES, ids=lambda value: str(value))
def test_a_key_opens_the_routes_of_its_role(served: Served, role: str, method: str, path: str, given: str) -> None:
    client, keys = served
    sent = {"unknown": "vk-unknown", "hash": "0" * 64, **keys}.get(given)
    for headers in ({"X-API-Key": sent}, {"Authorization": f"Bearer {sent}"}) if sent else ({},):
        answer = client.request(method, named(path), headers=headers)
        if given not in ROLES:
            assert answer.status_code == 401
        elif ROLES.index(given) < ROLES.index(role):
            assert (answer.status_code, answer.json()["hint"]) == (403, f"this needs {role}")
        else:
            assert answer.status_code not in (401, 403, 500)


@pytest.mark.parametrize("path", sorted({path for _, _, path in ROUTES}))
def test_no_other_method_does_anything(served: Served, path: str) -> None:
    client, keys = served
    for method in METHODS:
        if any((method, path) in routes for routes in NEEDS.values()):
            continue
        assert client.request(method, named(path)).status_code == 401
        answer = client.request(method, named(path), headers={"X-API-Key": keys["admin"]})
        assert answer.status_code in (404, 405)


@pytest.mark.parametrize(
    "change", ["/{}", "/.{}", "{}/", "{}//", "{}?", "{}%2f", "/x/..{}", "/v1/..{}", "{}%00", "{}%09"]
)
@pytest.mark.parametrize("path", ["/metrics", "/v1/detectors", "/v1/runs", "/V1/runs"])
def test_another_spelling_of_an_address_opens_nothing(served: Served, change: str, path: str) -> None:
    client, _ = served
    answer = client.get(f"{client.base_url}{change.format(path)}", follow_redirects=True)
    assert answer.status_code in (401, 404)
