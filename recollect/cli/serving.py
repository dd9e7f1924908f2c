"""`recollect serve`, `worker` and `mcp`: programs that run until they are stopped."""

from __future__ import annotations

import argparse
import gc
import sys
import threading
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from recollect.cli.common import add_flag, add_list, console, define, plural, print_json, safe
from recollect.errors import InvalidInput, RecollectError, StoreUnavailable
from recollect.settings import READ_ONLY, WORKERS, place
from recollect.stop_signal import StopSignal

if TYPE_CHECKING:
    from recollect.store.shared.jobs import Jobs

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
    add_flag(command, "--open", "open the console in the browser")
    add_network_options(command)
    command.add_argument(
        "--workers",
        type=int,
        metavar="NUMBER",
        help="processes that share the port, for more searches at once "
        "(default: RECOLLECT_WORKERS, or 1)",
    )
    add_flag(
        command,
        "--no-jobs",
        "leave imports and indexing to `recollect worker` (default: RECOLLECT_JOBS)",
    )
    command.add_argument(
        "--log-format",
        choices=("json", "text"),
        default="json",
        help="format of the log (default: json)",
    )


def add_network_options(command: argparse.ArgumentParser) -> None:
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
    add_list(
        command,
        "--allow-host",
        "another host name the server answers to; may be repeated",
        metavar="NAME",
    )
    add_list(
        command,
        "--cors-origin",
        "a web site that may call the API (https://app.example); may be repeated",
        metavar="ORIGIN",
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
    return serve(place(arguments.home), config, options, announce=partial(announce, arguments))


def announce(arguments: argparse.Namespace, address: str) -> None:
    if arguments.json:
        print(f'{{"address": "{address}"}}')
    else:
        console().print(
            f"Recollect is at [bold]{safe(address)}[/]  [dim](Ctrl+C stops it)[/]",
            soft_wrap=True,
        )
    sys.stdout.flush()
    if arguments.open:
        threading.Thread(target=open_console, args=[address], daemon=True).start()


def open_console(address: str) -> None:
    from recollect.cli.reading import open_browser

    if not open_browser(address):
        print(f"recollect: There is no browser here. Open {address} yourself.", file=sys.stderr)


def define_mcp(command: argparse.ArgumentParser) -> None:
    """`__main__` handles `mcp` before this parser is used, unless it cannot find the command."""
    command.set_defaults(run=run_mcp)


def run_mcp(arguments: argparse.Namespace) -> int:
    from recollect.serve.mcp.stdio import main as serve_agents

    options = {"--home": arguments.home, "--user": arguments.user}
    return serve_agents([f"{flag}={value}" for flag, value in options.items() if value is not None])


_LANES = ("imports", "index", "tasks")
_WORKER_EXAMPLES = """\
  recollect serve --no-jobs --home postgresql://…      servers that leave the work to workers
  recollect worker --home postgresql://…               import and index what they receive
  recollect worker --jobs imports --concurrency 8
  recollect worker --once                              run what waits, then exit (for cron)

Any number of workers can share a database: each job is run by one of them. If a worker dies,
another one takes over its jobs after 15 seconds. On SIGTERM, a worker puts its jobs back into the
queue and ends. The log goes to standard error.
"""


def define_worker(command: argparse.ArgumentParser) -> None:
    define(command, run_worker, _WORKER_EXAMPLES)
    command.add_argument(
        "--jobs",
        default=",".join(_LANES),
        metavar="KINDS",
        help="what to run: imports, index, tasks (scans and backups); separated by commas "
        "(default: all)",
    )
    command.add_argument(
        "--concurrency",
        type=int,
        metavar="NUMBER",
        help="how many jobs of each kind to run at a time (default: 4)",
    )
    add_flag(command, "--once", "run what waits now, then exit")
    command.add_argument(
        "--ready-file",
        metavar="FILE",
        help="create this file once the worker runs jobs; it is removed when the worker ends",
    )
    command.add_argument(
        "--log-format",
        choices=("json", "text"),
        default="json",
        help="format of the log (default: json)",
    )


def run_worker(arguments: argparse.Namespace) -> int:
    from recollect.jobs.system import JobSystem
    from recollect.places import change_signals, shared_database
    from recollect.serve.http import logs
    from recollect.serve.http.libraries import Libraries

    lanes = parse_lanes(arguments.jobs)
    if arguments.concurrency is not None and arguments.concurrency < 1:
        raise InvalidInput("--concurrency must be at least 1.")
    if READ_ONLY.get():
        raise InvalidInput(f"A worker writes, and {READ_ONLY.name} is on.")
    where = place(arguments.home)
    logs.start_logging(arguments.log_format)
    logs.log_jobs()
    with closing(shared_database(where)) as database, closing(change_signals(where)) as signals:
        stop = StopSignal(database.stop_waiting)
        system = JobSystem(where, database, signals, queues_indexing=True)
        libraries = Libraries(where, open_library=system.open_library)
        runner = system.runner(libraries.borrow, lanes, arguments.concurrency)
        count = 0
        try:
            if arguments.once:
                count = runner.run_due()
                system.flush()  # index what was imported
                count += runner.run_due()
            else:
                require_database(system.jobs, stop)
                runner.start()
                wait(stop, lanes, arguments)
        finally:
            system.stop_waiting()
            runner.close()
            system.close()
            libraries.close()
    if arguments.once:
        print_count(count, arguments.json)
    return 0


def require_database(jobs: Jobs, stop: StopSignal) -> None:
    """Report a database that cannot be reached now."""
    try:
        jobs.counts()
    except StoreUnavailable:
        if not stop.is_set():
            raise


def wait(stop: StopSignal, lanes: list[str], arguments: argparse.Namespace) -> None:
    """Wait for a signal, and say before that the worker is ready."""
    if arguments.json:
        print_json({"jobs": lanes})
    else:
        console().print(
            f"This worker runs {', '.join(lanes)}  [dim](Ctrl+C stops it)[/]", soft_wrap=True
        )
    sys.stdout.flush()
    ready_file = None
    if arguments.ready_file:
        ready_file = Path(arguments.ready_file)
        ready_file.touch()
    try:
        stop.wait()
    finally:
        if ready_file is not None:
            ready_file.unlink(missing_ok=True)


def print_count(count: int, as_json: bool) -> None:
    if as_json:
        print_json({"jobs": count})
    else:
        console().print(f"Ran {plural(count, 'job')}.")


def parse_lanes(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in _LANES:
            raise InvalidInput(
                f"--jobs: {name!r} is none of {', '.join(_LANES)}. Separate several with commas."
            )
    if not names:
        raise InvalidInput(f"--jobs: name at least one of {', '.join(_LANES)}.")
    return names
