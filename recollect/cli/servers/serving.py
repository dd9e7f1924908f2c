"""`recollect serve` and `recollect mcp`: the servers."""

from __future__ import annotations

import argparse
import gc
import sys
import threading
from functools import partial

from recollect.cli.common import console, define, safe
from recollect.errors import RecollectError
from recollect.settings import WORKERS, place

_EXAMPLES = """\
  recollect serve                                      on this computer, at http://127.0.0.1:8765
  recollect serve --open                               and open the console in the browser
  recollect serve --port 9000
  recollect serve --workers 4                          use four processor cores
  recollect keys add laptop --user ann                 for other computers, first add a key:
  recollect serve --host 0.0.0.0 --allow-host notes.example
  recollect serve --base-url https://notes.example     behind a reverse proxy with TLS
  recollect serve --no-jobs                            beside `recollect worker`

Without API keys, everyone on this computer has access. After you add the first
key, every client needs one (`recollect keys`). The log goes to standard error.
"""


def define_serve(command: argparse.ArgumentParser) -> None:
    define(command, run, _EXAMPLES)
    command.add_argument("--open", action="store_true", help="open the console in the browser")
    _add_network_options(command)
    command.add_argument(
        "--workers",
        type=int,
        metavar="NUMBER",
        help="processes that share the port, for more searches at once "
        "(default: RECOLLECT_WORKERS, or 1)",
    )
    command.add_argument(
        "--no-jobs",
        action="store_true",
        help="leave imports and indexing to `recollect worker` (default: RECOLLECT_JOBS)",
    )
    command.add_argument(
        "--log-format",
        choices=("json", "text"),
        default="json",
        help="format of the log (default: json)",
    )


def _add_network_options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--host",
        metavar="ADDRESS",
        help="address to listen on (default: RECOLLECT_HOST, or 127.0.0.1)",
    )
    command.add_argument(
        "--port",
        type=int,
        metavar="NUMBER",
        help="port; 0 picks a free one (default: RECOLLECT_PORT, or 8765)",
    )
    command.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="another host name the server answers to; may be repeated",
    )
    command.add_argument(
        "--cors-origin",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="a web site that may call the API (https://app.example); may be repeated",
    )
    command.add_argument(
        "--rate-limit",
        type=int,
        metavar="NUMBER",
        help="requests per minute for each user; 0 means no limit (default: 3000)",
    )
    command.add_argument(
        "--base-url",
        metavar="URL",
        help="public address, if the server is behind a reverse proxy",
    )


def run(arguments: argparse.Namespace) -> int:
    # Imports create many objects and no garbage: looking for it is a tenth of the start-up time.
    gc.disable()
    try:
        from recollect.serve.http.service import ServiceConfig
        from recollect.serve.server import ServeOptions, serve
    except ModuleNotFoundError as error:
        raise RecollectError(
            f"`recollect serve` needs more packages ({error.name} is missing): "
            "pip install 'recollect[server]'"
        ) from error
    finally:
        gc.freeze()
        gc.enable()

    config = ServiceConfig.configured(
        host=arguments.host,
        port=arguments.port,
        public_hosts=tuple(arguments.allow_host),
        cors_origins=tuple(arguments.cors_origin),
        rate_per_minute=arguments.rate_limit,
        base_url=arguments.base_url,
        user=arguments.user,
        runs_jobs=False if arguments.no_jobs else None,
    )

    workers = arguments.workers
    if workers is None:
        workers = WORKERS.get()
    options = ServeOptions(arguments.log_format, workers)
    return serve(place(arguments.home), config, options, announce=partial(_announce, arguments))


def _announce(arguments: argparse.Namespace, address: str) -> None:
    if arguments.json:
        print(f'{{"address": "{address}"}}')
    else:
        console().print(
            f"Recollect is at [bold]{safe(address)}[/]  [dim](Ctrl+C stops it)[/]",
            soft_wrap=True,
        )
    sys.stdout.flush()
    if arguments.open:
        threading.Thread(target=_open_console, args=[address], daemon=True).start()


def _open_console(address: str) -> None:
    from recollect.cli.content.opening import open_browser

    if not open_browser(address):
        print(f"recollect: There is no browser here. Open {address} yourself.", file=sys.stderr)


def define_mcp(command: argparse.ArgumentParser) -> None:
    """`__main__` handles `mcp` before this parser is used, unless it cannot find the command."""
    command.set_defaults(run=run_mcp)


def run_mcp(arguments: argparse.Namespace) -> int:
    from recollect.serve.mcp.stdio import main as serve_agents

    options = {"--home": arguments.home, "--user": arguments.user}
    return serve_agents([f"{flag}={value}" for flag, value in options.items() if value is not None])
