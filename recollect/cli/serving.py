"""`recollect serve`: the server."""

from __future__ import annotations

import argparse
import sys

from recollect.cli.common import Commands, add_command, console, safe
from recollect.settings import place

_EXAMPLES = """\
  recollect serve                                      for this computer, at http://127.0.0.1:8765
  recollect serve --port 9000
  recollect keys add laptop --user ann                 then, for others as well:
  recollect serve --host 0.0.0.0 --allow-host notes.example
  recollect serve --base-url https://notes.example     behind a proxy that speaks TLS

Without a key everybody on this computer comes in. From the first key on
everybody needs one (`recollect keys`). The log goes to standard error.
"""


def register(commands: Commands) -> None:
    command = add_command(
        commands, "serve", "serve REST, the console and metrics over HTTP", run, _EXAMPLES
    )
    command.add_argument(
        "--host", metavar="ADDRESS", help="where to listen (default: RECOLLECT_HOST, or 127.0.0.1)"
    )
    command.add_argument(
        "--port",
        type=int,
        metavar="NUMBER",
        help="the port; 0 for any (default: RECOLLECT_PORT, or 8765)",
    )
    command.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="a name under which the server may be asked; may be repeated",
    )
    command.add_argument(
        "--cors-origin",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="a web page's origin that may ask (https://app.example); may be repeated",
    )
    command.add_argument(
        "--rate-limit",
        type=int,
        metavar="NUMBER",
        help="requests a minute of one user; 0 for no limit (default: 3000)",
    )
    command.add_argument(
        "--base-url",
        metavar="URL",
        help="the public address, where a proxy stands before the server",
    )
    command.add_argument(
        "--log-format", choices=("json", "text"), default="json", help="of the log (default: json)"
    )


def run(given: argparse.Namespace) -> int:
    from recollect.serve.http.service import ServiceConfig
    from recollect.serve.server import serve

    config = ServiceConfig.configured(
        host=given.host,
        port=given.port,
        public_hosts=tuple(given.allow_host),
        cors_origins=tuple(given.cors_origin),
        rate_per_minute=given.rate_limit,
        base_url=given.base_url,
        user=given.user,
    )

    def announce(address: str) -> None:
        if given.json:
            print(f'{{"address": "{address}"}}')
        else:
            console().print(
                f"Recollect is at [bold]{safe(address)}[/]  [dim](Ctrl+C stops it)[/]",
                soft_wrap=True,
            )
        sys.stdout.flush()

    return serve(place(given.home), config, log_format=given.log_format, announce=announce)
