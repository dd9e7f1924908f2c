"""`recollect worker`: run the jobs of an installation in a process of its own."""

from __future__ import annotations

import argparse
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from recollect.cli.common import console, define, plural, print_json
from recollect.errors import InvalidInput, StoreUnavailable
from recollect.settings import READ_ONLY, place
from recollect.stop_signal import StopSignal

if TYPE_CHECKING:
    from recollect.store.shared.jobs import Jobs

_LANES = ("imports", "index", "tasks")
_EXAMPLES = """\
  recollect serve --no-jobs --home postgresql://…      servers that leave the work to workers
  recollect worker --home postgresql://…               import and index what they receive
  recollect worker --jobs imports --concurrency 8
  recollect worker --once                              run what waits, then exit (for cron)

Any number of workers can share a database: each job is run by one of them. If a worker dies,
another one takes over its jobs after 15 seconds. On SIGTERM, a worker puts its jobs back into the
queue and ends. The log goes to standard error.
"""


def define_worker(command: argparse.ArgumentParser) -> None:
    define(command, run, _EXAMPLES)
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
    command.add_argument("--once", action="store_true", help="run what waits now, then exit")
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


def run(arguments: argparse.Namespace) -> int:
    from recollect.jobs.system import JobSystem
    from recollect.places import change_signals, shared_database
    from recollect.serve.http.libraries import Libraries
    from recollect.serve.http.monitoring import logs

    lanes = _parse_lanes(arguments.jobs)
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
                _require_database(system.jobs, stop)
                runner.start()
                _wait(stop, lanes, arguments)
        finally:
            system.stop_waiting()
            runner.close()
            system.close()
            libraries.close()
    if arguments.once:
        _print_count(count, arguments.json)
    return 0


def _require_database(jobs: Jobs, stop: StopSignal) -> None:
    """Report a database that cannot be reached now."""
    try:
        jobs.counts()
    except StoreUnavailable:
        if not stop.is_set():
            raise


def _wait(stop: StopSignal, lanes: list[str], arguments: argparse.Namespace) -> None:
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


def _print_count(count: int, as_json: bool) -> None:
    if as_json:
        print_json({"jobs": count})
    else:
        console().print(f"Ran {plural(count, 'job')}.")


def _parse_lanes(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in _LANES:
            raise InvalidInput(
                f"--jobs: {name!r} is none of {', '.join(_LANES)}. Separate several with commas."
            )
    if not names:
        raise InvalidInput(f"--jobs: name at least one of {', '.join(_LANES)}.")
    return names
