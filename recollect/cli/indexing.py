"""`recollect index` and `recollect model`: build the index, and manage the embedding model."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from typing import Any

from recollect.cli.commands import command
from recollect.cli.common import existing, plural, print_json, print_table, safe, show
from recollect.cli.terminal import ProgressBar
from recollect.errors import InvalidInput, RecollectError
from recollect.library import Library
from recollect.models import embeddings as models
from recollect.places import open_existing
from recollect.settings import INDEXING

_INTERRUPTED = "Indexing was interrupted. Run `recollect index` to resume it."
_PAUSED = "Background indexing is paused. Resume it with `recollect index --resume`."


@command(
    "index",
    """
    --pause   stop indexing in the background, in every program
    --resume  index in the background again
    """,
    """
    recollect index
    recollect index --json
    recollect index --pause                              not in the background, until --resume
    recollect index --resume
    """,
)
def index(arguments: argparse.Namespace) -> int | None:
    if arguments.pause or arguments.resume:
        return pause(arguments)
    with existing(arguments) as library:
        try:
            result = run_indexing(library)
        except KeyboardInterrupt:
            print(f"recollect: {_INTERRUPTED}", file=sys.stderr)
            return 130
        result["paused"] = library.index_status().paused_since is not None
    if arguments.json:
        return print_json(result)
    show(summary(result))
    if result["paused"]:
        show(_PAUSED)
    return None


def pause(arguments: argparse.Namespace) -> int | None:
    """Pause or resume indexing in the background."""
    if arguments.pause and arguments.resume:
        raise InvalidInput("Use --pause or --resume, not both.")
    with existing(arguments) as library:
        library.pause_indexing(arguments.pause)
    if arguments.json:
        return print_json({"paused": arguments.pause})
    if arguments.pause:
        show(
            "Background indexing of this library is paused. New messages can be found by words, "
            "but not by meaning."
        )
    else:
        show(
            "Background indexing is resumed. Running programs continue within seconds; "
            "`recollect index` indexes everything now."
        )
    return None


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
            show(_PAUSED)
        return 0
    try:
        result = run_indexing(library)
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
        show(summary(result))
    return 0


def run_indexing(library: Library) -> dict[str, Any]:
    counts = {"Sealing": 0, "Embedding": 0}
    has_waited = False
    with ProgressBar("Indexing") as bar:

        def report(step: str, done: int, total: int) -> None:
            counts[step] = done
            bar.report(step, done, total)

        def report_wait() -> None:
            nonlocal has_waited
            if not has_waited:
                bar.print("Another process is indexing this library; waiting for it to finish.")
            has_waited = True

        library.index(report, report_wait)
    return {
        "waited": has_waited,
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


def space_records(library: Library) -> list[dict[str, Any]]:
    """The vector spaces of a library: each model, and the share of messages it has embedded."""
    return [asdict(status) for status in library.index_status().models]


def space_summary(space: dict[str, Any]) -> str:
    name = f"{safe(space['name'])} ({space['dimensions']} dimensions)"
    return f"{name}: {int(100 * space['share'])} %"


# -- models ------------------------------------------------------------------


@command(
    "model",
    f"""
    action? ACTION  fetch: download a model
    name? NAME      {", ".join(models.DOWNLOADABLE)}
    """,
    """
    recollect model                                      what embeds messages, and its progress
    recollect model fetch gte-small                      download a better one (160 MB)
    """,
)
def model(arguments: argparse.Namespace) -> int | None:
    setting = models.embedding_setting()
    if arguments.action is not None:
        return download(arguments, setting)
    library = open_existing(arguments.home, arguments.user, background=False)
    spaces = []
    if library is not None:
        with library:
            spaces = space_records(library)
    downloads = [name for name in models.DOWNLOADABLE if models.model_folder(name).is_dir()]
    if arguments.json:
        return print_json({"setting": setting, "fetched": downloads, "vectors": spaces})
    show(f"embedding model: [bold]{safe(setting)}[/]")
    show(f"downloaded: {', '.join(downloads) or 'none; the static model is built in'}")
    if not spaces:
        show("There are no vectors yet.")
        return None
    rows = [
        (
            safe(space["name"]),
            str(space["dimensions"]),
            f"{int(100 * space['share'])} %",
            "in use" if space["searched"] else "",
        )
        for space in spaces
    ]
    print_table("model, dimensions, embedded, ", rows)
    if setting not in (models.OFF, *(space["name"] for space in spaces)):
        show("The setting names another model. Run `recollect index` to embed with it.")
    return None


def download(arguments: argparse.Namespace, setting: str) -> int | None:
    from recollect.models.download import MODELS, download_model

    name = arguments.name
    if arguments.action != "fetch" or name is None:
        raise InvalidInput(f"Name a model: recollect model fetch {' | '.join(MODELS)}")
    with ProgressBar("downloading", "percent") as bar:
        folder = download_model(name, models.model_folder(name).parent, bar.report)
    if arguments.json:
        return print_json({"name": name, "folder": str(folder)})
    show(f"{name} is in {safe(str(folder))}")
    if setting != name:
        show(f"To use it: [bold]recollect config set embeddings {name}[/]")
    show(
        "Then run `recollect index` to embed with it. Search uses the old vectors until the new "
        "ones are complete."
    )
    return None
