"""`veridical serve`: serve detectors over HTTP, with a web page and an optional chat proxy."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from typer import Option

from veridical.cli.option_groups import option_groups
from veridical.cli.options import ServedModelOptions, write_line
from veridical.cli.revise import ReviserName
from veridical.server.keys import ROLES
from veridical.server.settings import (
    DEFAULT_DETECTORS,
    LOOPBACK_HOSTS,
    SOURCE_ROLES,
    HistorySettings,
    Limits,
    ProxySettings,
    ServerSettings,
    is_loopback,
)

_DEFAULTS = Limits()
_MB = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class AccessOptions:
    """Options of `veridical serve` for access: API keys, their roles, and the origins of web pages."""

    PANEL: ClassVar[str] = "Access"

    api_keys: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Require an API key from every client. FILE holds the hashes of the keys; --new-key adds one.",
        ),
    ] = None
    new_key: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="Make a key with this name, print it once, add its hash to the file of --api-keys, and exit.",
        ),
    ] = None
    role: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="What the key of --new-key may do. check: check texts. review: also see the history, import files and "
            "decide. admin: also delete, and read the audit. Default: check.",
        ),
    ] = None
    cors: Annotated[
        list[str] | None,
        Option(
            metavar="ORIGIN",
            help="Allow web pages of this origin, such as https://example.org, to use the service. Repeatable. "
            "Default: none.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class HistoryOptions:
    """Options of `veridical serve` for its history: whether and where to store checks, and for how long."""

    PANEL: ClassVar[str] = "History"

    history: Annotated[
        str | None,
        Option(
            metavar="PLACE",
            help="Keep checks and what people decide about them in this SQLite file, or in the database "
            "postgresql://HOST/NAME. By default, nothing is stored.",
        ),
    ] = None
    history_proxy: Annotated[
        bool, Option("--history-proxy", help="Also keep the texts that pass through the proxy.")
    ] = False
    history_days: Annotated[
        float | None, Option(help="Delete what is older than this many days. Default: never.", min=0.01)
    ] = None
    history_cases: Annotated[
        int | None, Option(help="Delete the oldest cases beyond this number. Default: never.", min=1)
    ] = None

    def settings(self) -> HistorySettings | None:
        """Convert the options to settings of the server. Return None if no history is to be stored."""
        from veridical.records.errors import InputError

        if self.history is None:
            if self != HistoryOptions():
                raise InputError("no history is named, but an option says what to keep", hint="add --history PLACE")
            return None
        return HistorySettings(
            place=self.history, proxy=self.history_proxy, days=self.history_days, cases=self.history_cases
        )


@dataclass(frozen=True, kw_only=True)
class CapacityOptions:
    """Options of `veridical serve` that limit the number, the size and the time of requests."""

    PANEL: ClassVar[str] = "Capacity"

    queue: Annotated[
        int,
        Option(
            help="The largest number of cases that wait for one detector. If a request does not fit, it is answered "
            "with the status 429.",
            min=1,
        ),
    ] = _DEFAULTS.queue
    batch: Annotated[int, Option(help="Most cases that a detector judges at once.", min=1)] = _DEFAULTS.batch_cases
    time_limit: Annotated[
        float,
        Option(
            help="The time limit of one request, in seconds. A slower request is answered with the status 504.", min=0.1
        ),
    ] = _DEFAULTS.timeout
    max_mb: Annotated[
        int,
        Option(
            help="Refuse uploaded documents of more than this many megabytes. JSON bodies may have "
            f"{_DEFAULTS.body_bytes // _MB} of them at most.",
            min=1,
        ),
    ] = _DEFAULTS.document_bytes // _MB

    def limits(self) -> Limits:
        """Return the limits that the options set, and the defaults of all others."""
        return Limits(
            queue=self.queue,
            cases=min(_DEFAULTS.cases, self.queue),
            batch_cases=self.batch,
            timeout=self.time_limit,
            body_bytes=min(_DEFAULTS.body_bytes, self.max_mb * _MB),
            document_bytes=self.max_mb * _MB,
            memory_bytes=max(_DEFAULTS.memory_bytes, self.max_mb * _MB),
        )


@dataclass(frozen=True, kw_only=True)
class ServiceOptions:
    """Options of `veridical serve` for the detectors to offer, the address to bind to, and the log."""

    PANEL: ClassVar[str] = "Service"

    detector: Annotated[
        list[str] | None,
        Option(
            "--detector",
            "-d",
            metavar="SPEC",
            help="A detector that requests may name. If a request names none, the first one is used. Repeatable. "
            "Default: default and overlap.",
        ),
    ] = None
    reviser: ReviserName = None
    host: Annotated[
        str,
        Option(metavar="ADDRESS", help="The address to bind to. If other machines can reach it, you need --api-keys."),
    ] = "127.0.0.1"
    port: Annotated[int, Option(help="The port to bind to; 0 takes any free port.", min=0, max=65535)] = 8000
    log_text: Annotated[
        bool, Option("--log-text", help="Also write the responses and sources of requests to the log.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class ProxyOptions:
    """Options of `veridical serve` for the chat proxy: the server whose replies are checked, and the action."""

    PANEL: ClassVar[str] = "Proxy"

    proxy: Annotated[
        str | None,
        Option(
            metavar="URL", help="Forward /v1/chat/completions to this OpenAI-compatible server, and check its replies."
        ),
    ] = None
    action: Annotated[
        str,
        Option(
            metavar="NAME",
            help="What to do with the result of the check. annotate: add it to the reply. header: only set a header. "
            "block: withhold a flagged reply. revise: replace a flagged reply by its revision.",
        ),
    ] = "annotate"
    source_roles: Annotated[
        str,
        Option(
            metavar="LIST",
            help="The roles whose messages are sources as a whole, separated by commas, in addition to tool and "
            "function.",
        ),
    ] = ",".join(SOURCE_ROLES)
    context_marker: Annotated[
        list[str] | None,
        Option(
            metavar="BEFORE...AFTER",
            help="The words before and after the context in messages, such as 'Documents:...Question:'. You do not "
            "need this for the default prompts of LangChain, LlamaIndex, Haystack and Open WebUI. Repeatable.",
        ),
    ] = None
    unavailable: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="What to do with a reply that could not be checked: pass or block. Default: block with --action "
            "block, otherwise pass.",
        ),
    ] = None
    proxy_key_env: Annotated[
        str | None,
        Option(
            metavar="VARIABLE",
            help="The name of the environment variable that holds the API key of that server. Default: each client "
            "sends its own key.",
        ),
    ] = None

    def settings(self) -> ProxySettings | None:
        """Convert the options to settings of the server. Return None if there is no proxy."""
        from veridical.cli.comma_lists import parse_names
        from veridical.records.errors import InputError, UnknownNameError

        if self.unavailable not in (None, "pass", "block"):
            raise UnknownNameError("value of --unavailable", str(self.unavailable), ("pass", "block"))
        if self.proxy is None:
            if self != ProxyOptions():
                raise InputError(
                    "no chat server is named, but an option says how to check its replies", hint="add --proxy URL"
                )
            return None
        return ProxySettings(
            base_url=self.proxy,
            action=self.action,
            source_roles=tuple(parse_names(self.source_roles)),
            context_markers=tuple(self.context_marker or ()),
            blocks=None if self.unavailable is None else self.unavailable == "block",
            key_env=self.proxy_key_env,
        )


@option_groups
def serve_command(
    service: ServiceOptions,
    access: AccessOptions,
    history: HistoryOptions,
    capacity: CapacityOptions,
    proxy: ProxyOptions,
    chat: ServedModelOptions,
) -> int:
    """Serve detectors over HTTP, with a web page at / for trying them.

    [bold]veridical serve[/bold]
    [bold]veridical serve -d default -d overlap --port 9000[/bold]
    [bold]veridical serve --api-keys keys.txt --new-key alice[/bold]
    [bold]veridical serve --host 0.0.0.0 --api-keys keys.txt[/bold]
    [bold]veridical serve --history history.db --history-days 90[/bold]
    [bold]veridical serve --proxy http://127.0.0.1:8080/v1 --action block[/bold]
    """
    from veridical.records.errors import InputError, MissingExtraError
    from veridical.server.keys import make_key, read_keys

    if access.new_key is not None:
        if access.api_keys is None:
            raise InputError("--new-key needs a file of keys", hint="--api-keys FILE")
        sys.stdout.write(make_key(access.api_keys, access.new_key, access.role or ROLES[0]) + "\n")
        return 0
    if access.role is not None:
        raise InputError("--role is of a new key", hint="add --new-key NAME")
    try:
        from veridical.server.running import run_server
    except ImportError:
        raise MissingExtraError("veridical serve", "serve") from None

    keys = () if access.api_keys is None else read_keys(access.api_keys)
    if not keys and not is_loopback(service.host):
        raise InputError(
            f"--host {service.host} can be reached from other machines, but no keys are given",
            hint="--api-keys FILE; make a key with --api-keys FILE --new-key NAME",
        )
    specs = tuple(service.detector or DEFAULT_DETECTORS)
    settings = ServerSettings(
        detectors=specs,
        connection=chat.chosen(),
        keys=keys,
        cors=tuple(access.cors or ()),
        hosts=() if keys else LOOPBACK_HOSTS,
        proxy=proxy.settings(),
        history=history.settings(),
        reviser=service.reviser,
        log_text=service.log_text,
        limits=capacity.limits(),
    )

    def on_start(url: str) -> None:
        write_line(f"veridical: serving {', '.join(specs)} on {url}")

    run_server(settings, host=service.host, port=service.port, on_start=on_start)
    return 0
