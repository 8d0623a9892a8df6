"""A server on 127.0.0.1 in place of the Hugging Face hub, with models that a test fills and ways to fail."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

COMMIT = "c" * 40


@dataclass
class Repository:
    """A model; each of `failures` is spent on one request for a file."""

    files: dict[str, bytes]
    licence: str | None = "apache-2.0"
    gated: bool = False
    ignores_ranges: bool = False
    served: dict[str, bytes] = field(default_factory=dict)  # what is sent in place of a file
    listed: dict[str, str] = field(default_factory=dict)  # what is listed in place of a file's hash
    failures: list[str | int] = field(default_factory=list)  # "cut", "drip" or "hang", or the code of an error


@dataclass
class HubServer:
    url: str
    models: dict[str, Repository] = field(default_factory=dict)
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def downloads(self) -> list[str]:
        """The ranges of the requests for files; "" for one from the beginning."""
        return [headers.get("range", "") for path, headers in self.requests if "/resolve/" in path]


@contextmanager
def hub_server() -> Iterator[HubServer]:
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = unquote(urlsplit(self.path).path)
            hub.requests.append((path, {name.lower(): value for name, value in self.headers.items()}))
            if path.startswith("/api/models/"):
                self.listing(*path.removeprefix("/api/models/").split("/revision/"))
            elif path.startswith("/stored/"):  # where files are stored: another place, which must not see the token
                self.file(*path.removeprefix("/stored/").split("//"))
            else:
                name, _, rest = path.removeprefix("/").partition("/resolve/")
                where = f"/stored/{name}//{rest.partition('/')[2]}"
                gated = hub.models[name].gated and "authorization" not in self.headers
                self.answer(302, b"", Location=where) if not gated else self.refuse(401, "GatedRepo")

        def listing(self, name: str, revision: str) -> None:
            repository = hub.models.get(name)
            if repository is None:
                self.refuse(401, "RepoNotFound")
            elif revision not in ("main", COMMIT):
                self.refuse(404, "RevisionNotFound")
            else:
                siblings = [
                    {
                        "rfilename": path,
                        "size": len(data),
                        "blobId": hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest(),
                        "lfs": None if path.endswith((".json", ".txt")) else self.pointer(repository, path, data),
                    }
                    for path, data in repository.files.items()
                ]
                card = {} if repository.licence is None else {"license": repository.licence}
                self.answer(200, json.dumps({"sha": COMMIT, "cardData": card, "siblings": siblings}).encode())

        def pointer(self, repository: Repository, path: str, data: bytes) -> dict[str, object]:
            return {"sha256": repository.listed.get(path, hashlib.sha256(data).hexdigest()), "size": len(data)}

        def file(self, name: str, path: str) -> None:
            repository = hub.models[name]
            data = repository.served.get(path, repository.files[path])
            start = int(self.headers.get("range", "bytes=0-")[6:-1])
            body = data if repository.ignores_ranges else data[start:]
            failure = repository.failures.pop(0) if repository.failures else ""
            if isinstance(failure, int):
                self.answer(failure, b"")
                return
            self.send_response(206 if start and not repository.ignores_ranges else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with suppress(OSError):  # the other side may have gone
                if failure == "drip":
                    for i in range(0, len(body), 20):
                        self.wfile.write(body[i : i + 20])
                        time.sleep(0.01)
                elif failure:
                    self.wfile.write(body[: len(body) // 2])
                    if failure == "hang":
                        over.wait(20)
                    self.close_connection = True
                else:
                    self.wfile.write(body)

        def refuse(self, status: int, code: str) -> None:
            self.answer(status, b"{}", **{"X-Error-Code": code})

        def answer(self, status: int, body: bytes, **headers: str) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

    server = Server(("127.0.0.1", 0), Handler)
    hub = HubServer(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        over.set()
        server.shutdown()
        server.server_close()
        thread.join()
