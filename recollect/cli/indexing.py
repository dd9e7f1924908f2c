"""`recollect index` and `recollect model`: build the index, and manage the embedding model."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from recollect.cli.common import (
    add_flag,
    console,
    define,
    existing,
    plural,
    print_json,
    safe,
)
from recollect.cli.terminal import ProgressBar
from recollect.errors import InvalidInput, RecollectError
from recollect.library import Library
from recollect.models import embeddings as models
from recollect.places import open_existing
from recollect.settings import INDEXING

_INDEX_EXAMPLES = """\
  recollect index
  recollect index --json
  recollect index --pause                              not in the background, until --resume
  recollect index --resume
"""
_MODEL_EXAMPLES = """\
  recollect model                                      which model embeds messages, and its progress
  recollect model fetch gte-small                      download a better one (160 MB)
"""
_INTERRUPTED = "Indexing was interrupted. Run `recollect index` to resume it."
_PAUSED = "Background indexing is paused. Resume it with `recollect index --resume`."
_WAITING = "Another process is indexing this library; waiting for it to finish."


def define_index(command: argparse.ArgumentParser) -> None:
    define(command, index, _INDEX_EXAMPLES)
    switch = command.add_mutually_exclusive_group()
    add_flag(switch, "--pause", "stop indexing in the background, in every program")
    add_flag(switch, "--resume", "index in the background again")


def define_model(command: argparse.ArgumentParser) -> None:
    define(command, model, _MODEL_EXAMPLES)
    command.add_argument("action", nargs="?", choices=("fetch",), help="download a model")
    command.add_argument("name", nargs="?", metavar="NAME", help=", ".join(models.DOWNLOADABLE))


# -- indexing ----------------------------------------------------------------


def index(arguments: argparse.Namespace) -> int:
    if arguments.pause or arguments.resume:
        return _switch(arguments)
    with existing(arguments) as library:
        try:
            result = _index(library)
        except KeyboardInterrupt:
            print(f"recollect: {_INTERRUPTED}", file=sys.stderr)
            return 130
        result["paused"] = library.index_status().paused_since is not None
    if arguments.json:
        print_json(result)
        return 0
    console().print(summary(result), soft_wrap=True)
    if result["paused"]:
        console().print(_PAUSED, soft_wrap=True)
    return 0


def _switch(arguments: argparse.Namespace) -> int:
    """Pause or resume indexing in the background."""
    with existing(arguments) as library:
        if arguments.pause:
            library.pause_indexing()
        else:
            library.pause_indexing(False)
    if arguments.json:
        print_json({"paused": arguments.pause})
    elif arguments.pause:
        console().print(
            "Background indexing of this library is paused. New messages can be found by words, "
            "but not by meaning.",
            soft_wrap=True,
        )
    else:
        console().print(
            "Background indexing is resumed. Running programs continue within seconds; "
            "`recollect index` indexes everything now.",
            soft_wrap=True,
        )
    return 0


def index_after_import(
    library: Library, arguments: argparse.Namespace, action: str = "import"
) -> int:
    """Index what an import or a move has added, unless the user does not want that.

    The import itself is complete, whatever happens here.
    """
    if arguments.no_index or INDEXING.get() == "manual":
        return 0
    if library.index_status().paused_since is not None:
        if not arguments.json:
            console().print(_PAUSED, soft_wrap=True)
        return 0
    try:
        result = _index(library)
    except KeyboardInterrupt:
        print(f"recollect: The {action} is complete. {_INTERRUPTED}", file=sys.stderr)
        return 130
    except RecollectError as error:
        print(
            f"recollect: The {action} is complete, but not all of it is indexed: {error}",
            file=sys.stderr,
        )
        return 0
    if not arguments.json:
        console().print(summary(result), soft_wrap=True)
    return 0


def _index(library: Library) -> dict[str, Any]:
    counts = {"Sealing": 0, "Embedding": 0}
    waits: list[bool] = []
    with ProgressBar("Indexing") as bar:

        def report(step: str, done: int, total: int) -> None:
            counts[step] = done
            bar.report(step, done, total)

        def report_wait() -> None:
            if not waits:
                bar.print(_WAITING)
            waits.append(True)

        library.index(report, report_wait)
    return {
        "waited": bool(waits),
        "sealed": counts["Sealing"],
        "embedded": counts["Embedding"],
        "messages": library.size(),
        "vectors": space_records(library),
    }


def summary(result: dict[str, Any]) -> str:
    if result["embedded"]:
        return f"Indexed {plural(result['embedded'], 'passage')} by meaning. The index is complete."
    if models.embedding_setting() == models.OFF:
        return "The index is up to date. Vectors are off (RECOLLECT_EMBEDDINGS)."
    return "The index is up to date."


# -- vector spaces -------------------------------------------------------------


def space_records(library: Library) -> list[dict[str, Any]]:
    """The vector spaces of a library: each model, and the share of messages it has embedded."""
    return [asdict(status) for status in library.embedding_status()]


def space_summary(space: dict[str, Any]) -> str:
    return f"{model_name(space)}: {int(100 * space['share'])} %"


def model_name(space: dict[str, Any]) -> str:
    return f"{safe(space['name'])} ({space['dimensions']} dimensions)"


# -- models ------------------------------------------------------------------


def model(arguments: argparse.Namespace) -> int:
    if arguments.action == "fetch":
        return download(arguments)
    return show(arguments)


def show(arguments: argparse.Namespace) -> int:
    library = open_existing(arguments.home, arguments.user, background=False)
    spaces = []
    if library is not None:
        with library:
            spaces = space_records(library)
    downloads = [name for name in models.DOWNLOADABLE if models.model_folder(name).is_dir()]
    setting = models.embedding_setting()
    if arguments.json:
        print_json({"setting": setting, "fetched": downloads, "vectors": spaces})
        return 0
    out = console()
    out.print(f"embedding model: [bold]{safe(setting)}[/]")
    out.print(f"downloaded: {', '.join(downloads) or 'none; the static model is built in'}")
    if not spaces:
        out.print("There are no vectors yet.")
        return 0
    table = Table("model", "dimensions", "embedded", "", box=SIMPLE_HEAD, pad_edge=False)
    for space in spaces:
        note = "in use" if space["searched"] else ""
        share = f"{int(100 * space['share'])} %"
        table.add_row(safe(space["name"]), str(space["dimensions"]), share, note)
    out.print(table)
    if setting not in (models.OFF, *(space["name"] for space in spaces)):
        out.print("The setting names another model. Run `recollect index` to embed with it.")
    return 0


def download(arguments: argparse.Namespace) -> int:
    from recollect.models.download import MODELS, download_model

    if arguments.name is None:
        raise InvalidInput(f"Name a model: recollect model fetch {' | '.join(MODELS)}")
    with ProgressBar("downloading", "percent") as bar:
        folder = download_model(
            arguments.name, models.model_folder(arguments.name).parent, bar.report
        )
    if arguments.json:
        print_json({"name": arguments.name, "folder": str(folder)})
        return 0
    out = console()
    out.print(f"{arguments.name} is in {safe(str(folder))}", soft_wrap=True)
    if models.embedding_setting() != arguments.name:
        out.print(f"To use it: [bold]recollect config set embeddings {arguments.name}[/]")
    out.print(
        "Then run `recollect index` to embed with it. Search uses the old vectors until the new "
        "ones are complete.",
        soft_wrap=True,
    )
    return 0
