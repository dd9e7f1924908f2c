"""`recollect completion`: what a shell offers at the cursor.

argcomplete completes commands and options. The names of sources, projects and tags and the ids of
recent conversations come from the library.
"""

from __future__ import annotations

import os
from argparse import Action, Namespace
from collections.abc import Callable, Iterator
from typing import Any

import argcomplete
from argcomplete.shell_integration import shellcode

from recollect.cli import COMMANDS, Command, parser
from recollect.cli.commands import command
from recollect.cli.common import existing, facet_names, short_id
from recollect.errors import RecollectError
from recollect.language.queries.query_tokens import ROLES
from recollect.language.text import printable, printable_line
from recollect.library import Library

_RECENT = 20


@command(
    "completion",
    "shell bash|zsh|fish  the shell",
    """
    recollect completion bash > ~/.local/share/bash-completion/completions/recollect
    recollect completion zsh > ~/.zfunc/_recollect       with `fpath+=~/.zfunc` before compinit
    recollect completion fish > ~/.config/fish/completions/recollect.fish

    Start a new shell afterwards. Commands, options, sources, projects, tags and the
    ids of recent conversations are completed.
    """,
)
def completion(arguments: Namespace) -> None:
    print(shellcode(["recollect"], shell=arguments.shell))


def complete() -> None:
    """Print what fits at the cursor, and end. argcomplete describes the place in variables."""
    # Completing must not change anything, and must not ask for a passphrase.
    os.environ["RECOLLECT_READ_ONLY"] = "on"
    words = os.environ["COMP_LINE"].split()
    top = parser(next((word for word in words[1:] if word in COMMANDS), ""))
    for action in all_actions(top):
        source = _VALUES.get(action.dest)
        if source is not None and action.choices is None:
            action.completer = completer(source)  # type: ignore[attr-defined]
    argcomplete.autocomplete(top, always_complete_options=False)


def all_actions(parser: Any) -> Iterator[Action]:
    if isinstance(parser, Command):
        parser.define()
    for action in parser._actions:
        yield action
        if isinstance(action.choices, dict):
            for other in action.choices.values():
                yield from all_actions(other)


def completer(source: Callable[[Library], dict[str, str]]) -> Callable[..., dict[str, str]]:
    """What argcomplete calls for the values of an argument, with what was typed before."""

    def complete(parsed_args: Namespace, **_: object) -> dict[str, str]:
        try:
            with existing(parsed_args) as library:
                return source(library)
        except RecollectError:  # no library, or a locked one
            return {}

    return complete


def roles(library: Library) -> dict[str, str]:
    counts = library.stats()["roles"]
    assert isinstance(counts, dict)
    return {printable(name): "" for name in (*counts, *ROLES)}


def facets(field: str) -> Callable[[Library], dict[str, str]]:
    return lambda library: {printable_line(name): "" for name in facet_names(library, field)}


def conversations(library: Library) -> dict[str, str]:
    summaries, _ = library.conversation_page(limit=_RECENT)
    return {
        printable(short_id(library, summary.id)): printable_line(
            library.label(summary.id, summary.title)
        )[:60]
        for summary in summaries
    }


_VALUES: dict[str, Callable[[Library], dict[str, str]]] = {
    "role": roles,
    "source": facets("sources"),
    "project": facets("projects"),
    "tag": facets("tags"),
    "tags": facets("tags"),
    "conversation": conversations,
    "conversations": conversations,
}
