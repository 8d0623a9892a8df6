"""Use Label Studio's HTTP API: create projects, push tasks, pull annotations. This needs httpx (extra `annotate`).

The access token is read from the environment. Legacy tokens work, and so do personal access tokens (JSON web tokens,
which are exchanged for short-lived tokens).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from veridical.records.errors import InputError, MissingExtraError, OutputError
from veridical_lab.annotate.label_studio import TASK_MARK, config_of

if TYPE_CHECKING:
    import httpx

KEY_ENV = "LABEL_STUDIO_API_KEY"
_BATCH = 200  # tasks per request


@dataclass(frozen=True, slots=True)
class LabellingProject:
    """A project on the server."""

    id: int
    title: str
    config: str


class LabelStudio:
    """Connects to a Label Studio server. Use it as a context manager, which closes the connections.

    Args:
        url: The address, such as http://127.0.0.1:8080.
        token: An access token. Default: the token in the environment variable `LABEL_STUDIO_API_KEY`.
        timeout: The time limit of one request, in seconds.
        transport: How requests are sent, for tests. Default: over the network.

    Raises:
        MissingExtraError: httpx is not installed.
        InputError: There is no token, or `url` is not an HTTP address.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: float = 60.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        try:
            import httpx
        except ImportError:
            raise MissingExtraError("a running Label Studio", "annotate", "veridical-lab") from None
        token = token or os.environ.get(KEY_ENV)
        if not token:
            raise InputError(
                "there is no access token for Label Studio",
                hint=f"copy it from Account & Settings there into the environment variable {KEY_ENV}",
            )
        if not url.startswith(("http://", "https://")):
            raise InputError(f"{url!r} is not the address of a server", hint="such as http://127.0.0.1:8080")
        self.url = url.rstrip("/")
        self._client = httpx.Client(base_url=self.url, timeout=timeout, transport=transport)
        self._refresh = token if token.count(".") == 2 else None
        if self._refresh is None:
            self._client.headers["Authorization"] = f"Token {token}"

    def __enter__(self) -> LabelStudio:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def projects(self) -> list[LabellingProject]:
        """List all projects that the token may see."""
        entries = self._pages("/api/projects/")
        if not all(isinstance(entry.get("id"), int) for entry in entries):
            raise self._unexpected("/api/projects/")
        return [LabellingProject(p["id"], p.get("title") or "", p.get("label_config") or "") for p in entries]

    def project(self, name: str) -> LabellingProject:
        """Find the project with this number or title.

        Raises:
            InputError: There is no such project, or there are several.
        """
        fitting = [p for p in self.projects() if name in (str(p.id), p.title)]
        if len(fitting) != 1:
            number = "no" if not fitting else str(len(fitting))
            raise InputError(
                f"{self.url} has {number} project {name!r}", hint="name it by its number, as in its address"
            )
        return fitting[0]

    def create(
        self, title: str, kind: str, *, annotators: int = 1, labels: Sequence[str] = ("hallucinated",)
    ) -> LabellingProject:
        """Create a project in which `annotators` people answer each question of `kind`."""
        config = config_of(kind, labels=labels)
        settings = {
            "title": title,
            "label_config": config,
            "maximum_annotations": annotators,
            "show_collab_predictions": True,
        }
        made = self._json("POST", "/api/projects/", json=settings)
        if not isinstance(made, dict) or not isinstance(made.get("id"), int):
            raise self._unexpected("/api/projects/")
        return LabellingProject(made["id"], title, config)

    def push(self, project: LabellingProject, tasks: Sequence[dict[str, Any]]) -> int:
        """Add the tasks that the project does not have yet, and return how many were added.

        If a push was interrupted, call this method again to continue.
        """
        present = set(map(_identity, self.tasks(project)))
        new = [task for task in tasks if _identity(task) not in present]
        for start in range(0, len(new), _BATCH):
            self._json("POST", f"/api/projects/{project.id}/import", json=new[start : start + _BATCH])
        return len(new)

    def pull(self, project: LabellingProject) -> list[dict[str, Any]]:
        """Download all annotated tasks of a project, for `label_studio.read_tasks`."""
        path = f"/api/projects/{project.id}/export"
        return self._entries(path, self._json("GET", path, params={"exportType": "JSON"}))

    def annotate(self, task: int, result: Sequence[dict[str, Any]], *, seconds: float | None = None) -> None:
        """Add an annotation to a task, in the name of the token's owner."""
        about = {"result": list(result), "was_cancelled": False, "lead_time": seconds}
        self._json("POST", f"/api/tasks/{task}/annotations/", json=about)

    def tasks(self, project: LabellingProject) -> list[dict[str, Any]]:
        """Download all tasks of a project with their data and pre-annotations."""
        return self._pages("/api/tasks/", project=project.id, fields="all")

    def _pages(self, path: str, **params: Any) -> list[dict[str, Any]]:
        """Download all entries of a list that the server sends page by page."""
        entries: list[dict[str, Any]] = []
        page = 1
        while True:
            reply = self._json("GET", path, params={**params, "page": page, "page_size": _BATCH})
            about = reply if isinstance(reply, dict) else {"results": reply}
            page_entries = self._entries(path, about.get("results", about.get("tasks")))
            entries += page_entries
            total = about.get("count", about.get("total", len(entries)))
            if not isinstance(total, int):
                raise self._unexpected(path)
            if not page_entries or len(entries) >= total:
                return entries
            page += 1

    def _entries(self, path: str, entries: Any) -> list[dict[str, Any]]:
        """Check that `entries` is a list of objects, as Label Studio replies. Raise `InputError` otherwise."""
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise self._unexpected(path)
        return entries

    def _unexpected(self, path: str) -> InputError:
        return InputError(f"{self.url}{path} is not Label Studio's answer", hint="check the address")

    def _json(self, method: str, path: str, **options: Any) -> Any:
        """Send one request and return the JSON reply. Raise one of our errors if anything goes wrong."""
        import httpx

        try:
            if self._refresh is not None and "Authorization" not in self._client.headers:
                self._authorize()
            reply = self._client.request(method, path, **options)
            if reply.status_code == 401 and self._refresh is not None:  # short-lived tokens last for minutes
                self._authorize()
                reply = self._client.request(method, path, **options)
            if reply.status_code in (401, 403):
                raise InputError(f"{self.url} refuses the access token", hint=f"put a valid one into {KEY_ENV}")
            if reply.is_error:
                raise OutputError(f"{self.url}{path}: {reply.status_code} {' '.join(reply.text.split())[:300]}")
            return reply.json()
        except httpx.HTTPError as error:
            raise InputError(
                f"{self.url} cannot be reached: {error}", hint="is Label Studio running there? label-studio start"
            ) from None
        except InputError:
            raise
        except (KeyError, TypeError, ValueError):
            raise self._unexpected(path) from None

    def _authorize(self) -> None:
        reply = self._client.post("/api/token/refresh", json={"refresh": self._refresh})
        if reply.is_error:
            raise InputError(f"{self.url} refuses the access token", hint=f"put a valid one into {KEY_ENV}")
        self._client.headers["Authorization"] = f"Bearer {reply.json()['access']}"


def _identity(task: dict[str, Any]) -> str:
    data = task.get("data")
    about = data.get(TASK_MARK, {}) if isinstance(data, dict) else {}
    return str((about.get("kind"), about.get("case"), about.get("part"))) if isinstance(about, dict) else str(about)
