"""`recollect serve`, `worker` and `mcp`: programs that run until they are stopped."""

from __future__ import annotations

import argparse
import gc
import sys
import threading
from contextlib import closing
from functools import partial
from pathlib import Path

from recollect.cli.commands import command, together
from recollect.cli.common import plural, print_json, safe, show
from recollect.errors import InvalidInput, RecollectError, StoreUnavailable
from recollect.settings import READ_ONLY, WORKERS, place
from recollect.stop_signal import StopSignal

_LOG_FORMAT = "--log-format json|text =json  format of the log"
_LANES = ("imports", "index", "tasks")


@command(
    "serve",
    together(
        """
        --open              open the console in the browser
        --host ADDRESS      address to listen on (default: RECOLLECT_HOST, or 127.0.0.1)
        --port 0..65535     port; 0 picks a free one (default: RECOLLECT_PORT, or 8765)
        --allow-host NAME...  another host name the server answers to; may be repeated
        --cors-origin ORIGIN...  a web site that may call the API (https://app.example);
                            may be repeated
        --rate-limit 0..    requests per minute for each user; 0 means no limit (default: 3000)
        --base-url URL      public address, if the server is behind a reverse proxy
        --workers 0..       processes that share the port, for more searches at once
                            (default: RECOLLECT_WORKERS, or 1)
        --no-jobs           leave imports and indexing to `recollect worker`
                            (default: RECOLLECT_JOBS)
        """,
        _LOG_FORMAT,
    ),
    """
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
    """,
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
    workers = WORKERS.get() if arguments.workers is None else arguments.workers
    options = ServeOptions(arguments.log_format, workers)
    return serve(place(arguments.home), config, options, announce=partial(announce, arguments))


def announce(arguments: argparse.Namespace, address: str) -> None:
    if arguments.json:
        print(f'{{"address": "{address}"}}')
    else:
        show(f"Recollect is at [bold]{safe(address)}[/]  [dim](Ctrl+C stops it)[/]")
    sys.stdout.flush()
    if arguments.open:
        threading.Thread(target=open_console, args=[address], daemon=True).start()


def open_console(address: str) -> None:
    from recollect.cli.reading import open_browser

    if not open_browser(address):
        print(f"recollect: There is no browser here. Open {address} yourself.", file=sys.stderr)


@command("mcp")
def mcp(arguments: argparse.Namespace) -> int:
    """`__main__` handles `mcp` before this, unless it cannot find the command."""
    from recollect.serve.mcp.stdio import main as serve_agents

    options = {"--home": arguments.home, "--user": arguments.user}
    return serve_agents([f"{flag}={value}" for flag, value in options.items() if value is not None])


@command(
    "worker",
    together(
        f"""
        --jobs KINDS ={",".join(_LANES)}  what to run, separated by commas
        --concurrency 0..  how many jobs of each kind to run at a time (default: 4)
        --once             run what waits now, then exit
        --ready-file FILE  create this file once the worker runs jobs; it is removed when the
                           worker ends
        """,
        _LOG_FORMAT,
    ),
    """
    recollect serve --no-jobs --home postgresql://…      servers that leave the work to workers
    recollect worker --home postgresql://…               import and index what they receive
    recollect worker --jobs imports --concurrency 8
    recollect worker --once                              run what waits, then exit (for cron)

    Any number of workers can share a database: each job is run by one of them. If a worker dies,
    another one takes over its jobs after 15 seconds. On SIGTERM, a worker puts its jobs back into
    the queue and ends. The log goes to standard error. Tasks are scans and backups.
    """,
)
def worker(arguments: argparse.Namespace) -> int | None:
    from recollect.jobs.system import JobSystem
    from recollect.places import change_signals, shared_database
    from recollect.serve.http import logs
    from recollect.serve.http.libraries import Libraries

    lanes = [name.strip() for name in arguments.jobs.split(",") if name.strip()]
    for name in lanes:
        if name not in _LANES:
            raise InvalidInput(
                f"--jobs: {name!r} is none of {', '.join(_LANES)}. Separate several with commas."
            )
    if not lanes:
        raise InvalidInput(f"--jobs: name at least one of {', '.join(_LANES)}.")
    if arguments.concurrency == 0:
        raise InvalidInput("--concurrency must be at least 1.")
    if READ_ONLY.get():
        raise InvalidInput(f"A worker writes, and {READ_ONLY.name} is on.")
    where = place(arguments.home)
    logs.start_logging(arguments.log_format)
    logs.log_jobs()
    count = 0
    with closing(shared_database(where)) as database, closing(change_signals(where)) as signals:
        stop = StopSignal(database.stop_waiting)
        system = JobSystem(where, database, signals, queues_indexing=True)
        libraries = Libraries(where, open_library=system.open_library)
        runner = system.runner(libraries.borrow, lanes, arguments.concurrency)
        try:
            if arguments.once:
                count = runner.run_due()
                system.flush()  # index what was imported
                count += runner.run_due()
            else:
                try:
                    system.jobs.counts()  # a database that cannot be reached is reported now
                except StoreUnavailable:
                    if not stop.is_set():
                        raise
                runner.start()
                wait(stop, lanes, arguments)
        finally:
            system.stop_waiting()
            runner.close()
            system.close()
            libraries.close()
    if not arguments.once:
        return None
    if arguments.json:
        return print_json({"jobs": count})
    show(f"Ran {plural(count, 'job')}.")
    return None


def wait(stop: StopSignal, lanes: list[str], arguments: argparse.Namespace) -> None:
    """Wait for a signal, and say before that the worker is ready."""
    if arguments.json:
        print_json({"jobs": lanes})
    else:
        show(f"This worker runs {', '.join(lanes)}  [dim](Ctrl+C stops it)[/]")
    sys.stdout.flush()
    ready_file = Path(arguments.ready_file) if arguments.ready_file else None
    if ready_file is not None:
        ready_file.touch()
    try:
        stop.wait()
    finally:
        if ready_file is not None:
            ready_file.unlink(missing_ok=True)
