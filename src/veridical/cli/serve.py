"""`veridical serve`: the detectors as a service, with a page to use them from."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from typer import Option

from veridical.cli.option_groups import option_groups
from veridical.cli.options import ChatOptions, write_line

if TYPE_CHECKING:
    pass

SERVICE = "Service"
ACCESS = "Access"


@dataclass(frozen=True, kw_only=True)
class AccessOptions:
    """Who may use the service."""

    PANEL: ClassVar[str] = ACCESS

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


@option_groups
def serve_command(
    detector: Annotated[
        list[str] | None,
        Option(
            "--detector",
            "-d",
            metavar="SPEC",
            help="A detector that requests may name; the first is used where none is named. Repeatable. Default: "
            "default and overlap.",
            rich_help_panel=SERVICE,
        ),
    ] = None,
    host: Annotated[
        str, Option(help="The address to bind to; any other than this machine's own needs --api-keys.")
    ] = "127.0.0.1",
    port: Annotated[int, Option(help="The port.", min=0, max=65535)] = 8000,
    *,
    access: AccessOptions,
    chat: ChatOptions,
) -> int:
    """Serve detectors over HTTP, with a page at / to use them from.

    [bold]veridical serve[/bold]
    [bold]veridical serve -d default -d overlap --port 9000[/bold]
    [bold]veridical serve --api-keys keys.txt --new-key alice[/bold]
    [bold]veridical serve --host 0.0.0.0 --api-keys keys.txt[/bold]
    """
    from veridical.core.errors import InputError, MissingExtraError
    from veridical.server.keys import make_key, read_keys

    if access.new_key is not None:
        if access.api_keys is None:
            raise InputError("--new-key needs a file of keys", hint="--api-keys FILE")
        sys.stdout.write(make_key(access.api_keys, access.new_key) + "\n")
        return 0
    try:
        from veridical.server.running import run
    except ImportError:
        raise MissingExtraError("veridical serve", "serve") from None
    from veridical.server.settings import DEFAULT_DETECTORS, LOOPBACK_HOSTS, ServerSettings, is_loopback

    keys = () if access.api_keys is None else read_keys(access.api_keys)
    if not keys and not is_loopback(host):
        raise InputError(
            f"--host {host} can be reached from other machines, and no keys are given",
            hint="--api-keys FILE; make a key with --api-keys FILE --new-key NAME",
        )
    specs = tuple(detector or DEFAULT_DETECTORS)
    connection = chat.connection()
    settings = ServerSettings(
        detectors=specs,
        connection=connection,
        keys=keys,
        cors=tuple(access.cors or ()),
        hosts=() if keys else LOOPBACK_HOSTS,
    )
    run(
        settings,
        host=host,
        port=port,
        on_start=lambda url: write_line(f"veridical: serving {', '.join(specs)} on {url}"),
    )
    return 0
