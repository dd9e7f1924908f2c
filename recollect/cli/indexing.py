"""`recollect index` and `recollect model`: what makes searching fast, and what lets it find by meaning."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from recollect.cli.common import Commands, add_command, console, existing, print_json, safe
from recollect.errors import InvalidInput, RecollectError
from recollect.library import Library
from recollect.models import embeddings as models
from recollect.places import open_existing
from recollect.settings import INDEXING
from recollect.store.base import Space, Store

_INDEX_EXAMPLES = """\
  recollect index
  recollect index --json
"""
_MODEL_EXAMPLES = """\
  recollect model                                      which model makes the vectors, and how far it is
  recollect model fetch gte-small                      download a better one (160 MB, once)
"""
_STOPPED = "Indexing was stopped. What is indexed stays; the next `recollect index` or import goes on from there."

_WAITING = "Another process is indexing this library; waiting for it to finish."


def register(commands: Commands) -> None:
    add_command(commands, "index", "index and embed everything that waits", index, _INDEX_EXAMPLES)
    command = add_command(
        commands, "model", "show or fetch the model that makes the vectors", model, _MODEL_EXAMPLES
    )
    command.add_argument("action", nargs="?", choices=("fetch",), help="download a model")
    command.add_argument("name", nargs="?", metavar="NAME", help=", ".join(models.DOWNLOADABLE))


# -- indexing ----------------------------------------------------------------


def index(given: argparse.Namespace) -> int:
    with existing(given) as library:
        try:
            done = _index(library)
        except KeyboardInterrupt:
            print(f"recollect: {_STOPPED}", file=sys.stderr)
            return 130
    if given.json:
        print_json(done)
    else:
        console().print(_told(done), soft_wrap=True)
    return 0


def index_after_import(library: Library, given: argparse.Namespace, what: str = "import") -> int:
    """The same at the end of an import or a move, unless told not to. That stands, whatever becomes of this."""
    if given.no_index or INDEXING.get() == "manual":
        return 0
    try:
        done = _index(library)
    except KeyboardInterrupt:
        print(f"recollect: The {what} is complete. {_STOPPED}", file=sys.stderr)
        return 130
    except RecollectError as error:
        print(
            f"recollect: The {what} is complete, but not all of it is indexed: {error}",
            file=sys.stderr,
        )
        return 0
    if not given.json:
        console().print(_told(done), soft_wrap=True)
    return 0


def _index(library: Library) -> dict[str, Any]:
    done = {"Sealing": 0, "Embedding": 0}
    waited = False
    bar = Progress(
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task("Indexing", total=None)

        def report(what: str, count: int, total: int) -> None:
            done[what] = count
            bar.update(task, description=what, completed=count, total=total)

        def report_wait() -> None:
            nonlocal waited
            if not waited:
                bar.console.print(_WAITING, soft_wrap=True)
            waited = True

        library.index(report, report_wait)
    return {
        "waited": waited,
        "sealed": done["Sealing"],
        "embedded": done["Embedding"],
        "messages": library.store.size(),
        "vectors": vectors(library),
    }


def _told(done: dict[str, Any]) -> str:
    parts = []
    if done["sealed"]:
        parts.append(f"sealed {done['sealed']:,} messages")
    if done["embedded"]:
        space = done["vectors"][-1]
        parts.append(f"embedded {done['embedded']:,} passages with {_named(space)}")
    if parts:
        return f"Indexed: {', '.join(parts)}."
    off = (
        " Vectors are off (RECOLLECT_EMBEDDINGS)."
        if models.embedding_setting() == models.OFF
        else ""
    )
    return f"Everything is indexed; nothing was waiting.{off}"


# -- vectors, for whoever shows them ------------------------------------------


def vectors(library: Library) -> list[dict[str, Any]]:
    """The spaces of the library: which model made each, and the share of the messages that it has."""
    used = models.space_to_search(spaces := library.store.spaces())
    return [
        {
            "name": space.name,
            "version": space.version,
            "dimensions": space.dimensions,
            "share": _share(library.store, space),
            "searched": used is not None and space.id == used.id,
        }
        for space in spaces
    ]


def _share(store: Store, space: Space) -> float:
    some, waiting = store.unembedded(space, 1)
    if not some:  # what seems to wait was deleted
        return 1.0
    return round(max(0.0, 1 - waiting / max(store.size(), 1)), 4)


def described(space: dict[str, Any]) -> str:
    return f"{_named(space)}: {int(100 * space['share'])} %"


def _named(space: dict[str, Any]) -> str:
    return f"{safe(space['name'])} ({space['dimensions']} dimensions)"


# -- models ------------------------------------------------------------------


def model(given: argparse.Namespace) -> int:
    return _fetch(given) if given.action else _show(given)


def _show(given: argparse.Namespace) -> int:
    library = open_existing(given.home, given.user, background=False)
    spaces = []
    if library is not None:
        with library:
            spaces = vectors(library)
    fetched = [name for name in models.DOWNLOADABLE if models.model_folder(name).is_dir()]
    setting = models.embedding_setting()
    if given.json:
        print_json({"setting": setting, "fetched": fetched, "vectors": spaces})
        return 0
    out = console()
    out.print(f"RECOLLECT_EMBEDDINGS: [bold]{safe(setting)}[/]")
    out.print(f"fetched: {', '.join(fetched) or 'none; the static table comes with Recollect'}")
    if not spaces:
        out.print("There are no vectors yet.")
        return 0
    table = Table("vectors of", "dimensions", "done", "", box=SIMPLE_HEAD, pad_edge=False)
    for space in spaces:
        done = f"{int(100 * space['share'])} %"
        table.add_row(
            safe(space["name"]),
            str(space["dimensions"]),
            done,
            "searched now" if space["searched"] else "",
        )
    out.print(table)
    if setting not in (models.OFF, *(s["name"] for s in spaces)):
        out.print("The setting names another model: `recollect index` makes its vectors.")
    return 0


def _fetch(given: argparse.Namespace) -> int:
    from recollect.models import download as fetching

    if given.name is None:
        raise InvalidInput(f"Which model? recollect model fetch {' | '.join(fetching.MODELS)}")
    bar = Progress(
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task("downloading", total=None)

        def report(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total)

        folder: Path = fetching.download_model(
            given.name, models.model_folder(given.name).parent, report
        )
    if given.json:
        print_json({"name": given.name, "folder": str(folder)})
        return 0
    out = console()
    out.print(f"{given.name} is in {safe(str(folder))}", soft_wrap=True)
    use = (
        ""
        if models.embedding_setting() == given.name
        else f"Set [bold]RECOLLECT_EMBEDDINGS={given.name}[/] to use it. "
    )
    out.print(
        f"{use}`recollect index` makes its vectors; until they are done, the ones there are stay in use.",
        soft_wrap=True,
    )
    return 0
