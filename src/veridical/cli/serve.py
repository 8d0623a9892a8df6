"""`veridical serve`: the detectors as a service, with a page to use them from."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from typer import Option

from veridical.cli.option_groups import option_groups
from veridical.cli.options import ChatOptions, write_line
from veridical.cli.revise import ReviserName
from veridical.server.settings import (
    DEFAULT_DETECTORS,
    LOOPBACK_HOSTS,
    SOURCE_ROLES,
    Limits,
    ProxySettings,
    ServerSettings,
    is_loopback,
)

_USUAL = Limits()
_MB = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class AccessOptions:
    """Who may use the service."""

    PANEL: ClassVar[str] = "Access"

    api_keys: Annotated[
        Path | None,
        Option(metavar="FILE", help="Only who has a key may use the service; FILE holds the keys' hashes."),
    ] = None
    new_key: Annotated[
        str | None,
        Option(metavar="NAME", help="Make a key, print it once, add its hash to the file of --api-keys, and end."),
    ] = None
    cors: Annotated[
        list[str] | None,
        Option(metavar="ORIGIN", help="Let pages of this origin use the service. Repeatable. Default: none."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class CapacityOptions:
    """How much the service takes at once."""

    PANEL: ClassVar[str] = "Capacity"

    queue: Annotated[int, Option(help="Cases that may wait for a detector; a request beyond it gets 429.", min=1)] = (
        _USUAL.queue
    )
    batch: Annotated[int, Option(help="Cases of one batch.", min=1)] = _USUAL.batch_cases
    time_limit: Annotated[float, Option(help="Seconds that a request may take.", min=0.1)] = _USUAL.timeout
    max_mb: Annotated[int, Option(help="Refuse bodies and documents that are larger.", min=1)] = (
        _USUAL.document_bytes // _MB
    )

    def limits(self) -> Limits:
        """The limits, with the usual ones for all else."""
        return Limits(
            queue=self.queue,
            cases=min(_USUAL.cases, self.queue),
            batch_cases=self.batch,
            timeout=self.time_limit,
            body_bytes=min(_USUAL.body_bytes, self.max_mb * _MB),
            document_bytes=self.max_mb * _MB,
        )


@dataclass(frozen=True, kw_only=True)
class ServiceOptions:
    """What is served, and where."""

    PANEL: ClassVar[str] = "Service"

    detector: Annotated[
        list[str] | None,
        Option(
            "--detector",
            "-d",
            metavar="SPEC",
            help="A detector that requests may name; the first is used where none is named. Repeatable. Default: "
            "default and overlap.",
        ),
    ] = None
    reviser: ReviserName = None
    host: Annotated[str, Option(help="The address to bind to; any other than this machine's own needs --api-keys.")] = (
        "127.0.0.1"
    )
    port: Annotated[int, Option(help="The port; 0 for any that is free.", min=0, max=65535)] = 8000
    log_text: Annotated[bool, Option("--log-text", help="Write the texts of requests into the log, too.")] = False


@dataclass(frozen=True, kw_only=True)
class ProxyOptions:
    """Whose chat replies are checked on their way, and what is done."""

    PANEL: ClassVar[str] = "Proxy"

    proxy: Annotated[
        str | None,
        Option(metavar="URL", help="Pass /v1/chat/completions on to this OpenAI-compatible server; check its replies."),
    ] = None
    action: Annotated[
        str,
        Option(
            metavar="NAME",
            help="annotate: report what is found in the reply. header: in a header alone. block: withhold what is "
            "flagged. revise: put the revised text in its place.",
        ),
    ] = "annotate"
    source_roles: Annotated[
        str, Option(metavar="LIST", help="Messages of these roles are the sources, where a request has no `sources`.")
    ] = ",".join(SOURCE_ROLES)
    unavailable: Annotated[
        str | None,
        Option(metavar="NAME", help="pass or block what could not be checked. Default: block with --action block."),
    ] = None
    proxy_key_env: Annotated[
        str | None,
        Option(
            metavar="VARIABLE",
            help="The environment variable that holds the key of that server. Default: each client sends its own.",
        ),
    ] = None

    def settings(self) -> ProxySettings | None:
        """The proxy's settings, None without a proxy."""
        from veridical.cli.comma_lists import parse_names
        from veridical.core.errors import InputError, UnknownNameError

        if self.unavailable not in (None, "pass", "block"):
            raise UnknownNameError("value of --unavailable", str(self.unavailable), ("pass", "block"))
        if self.proxy is None:
            if self != ProxyOptions():
                raise InputError(
                    "no chat server is named, and an option says how its replies are checked", hint="--proxy URL"
                )
            return None
        return ProxySettings(
            base_url=self.proxy,
            action=self.action,
            source_roles=tuple(parse_names(self.source_roles)),
            blocks=None if self.unavailable is None else self.unavailable == "block",
            key_env=self.proxy_key_env,
        )


@option_groups
def serve_command(
    service: ServiceOptions,
    access: AccessOptions,
    capacity: CapacityOptions,
    proxy: ProxyOptions,
    chat: ChatOptions,
) -> int:
    """Serve detectors over HTTP, with a page at / to use them from.

    [bold]veridical serve[/bold]
    [bold]veridical serve -d default -d overlap --port 9000[/bold]
    [bold]veridical serve --api-keys keys.txt --new-key alice[/bold]
    [bold]veridical serve --host 0.0.0.0 --api-keys keys.txt[/bold]
    [bold]veridical serve --proxy http://127.0.0.1:8080/v1 --action block[/bold]
    """
    from veridical.core.errors import InputError, MissingExtraError
    from veridical.server.keys import make_key, read_keys

    if access.new_key is not None:
        if access.api_keys is None:
            raise InputError("--new-key needs a file of keys", hint="--api-keys FILE")
        sys.stdout.write(make_key(access.api_keys, access.new_key) + "\n")
        return 0
    try:
        from veridical.server.running import run_server
    except ImportError:
        raise MissingExtraError("veridical serve", "serve") from None

    keys = () if access.api_keys is None else read_keys(access.api_keys)
    if not keys and not is_loopback(service.host):
        raise InputError(
            f"--host {service.host} can be reached from other machines, and no keys are given",
            hint="--api-keys FILE; make a key with --api-keys FILE --new-key NAME",
        )
    specs = tuple(service.detector or DEFAULT_DETECTORS)
    connection = chat.connection()
    settings = ServerSettings(
        detectors=specs,
        connection=connection,
        keys=keys,
        cors=tuple(access.cors or ()),
        hosts=() if keys else LOOPBACK_HOSTS,
        proxy=proxy.settings(),
        reviser=service.reviser,
        log_text=service.log_text,
        limits=capacity.limits(),
    )
    served = ", ".join(specs)

    def on_start(url: str) -> None:
        write_line(f"veridical: serving {served} on {url}")

    run_server(settings, host=service.host, port=service.port, on_start=on_start)
    return 0
