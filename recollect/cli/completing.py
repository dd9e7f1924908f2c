"""`recollect completion`: scripts for bash, zsh and fish, and the words that they offer.

The scripts ask `recollect completion words` what fits at the cursor. So they offer what this
version has, and the sources, projects and tags of the library.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from recollect.cli import define_all
from recollect.cli.common import KNOWLEDGE_KINDS, define, existing, short_id
from recollect.errors import RecollectError
from recollect.language.text import printable, printable_line
from recollect.library import Library

SHELLS = ("bash", "zsh", "fish")
_EXAMPLES = """\
  recollect completion bash > ~/.local/share/bash-completion/completions/recollect
  recollect completion zsh > ~/.zfunc/_recollect       with `fpath+=~/.zfunc` before compinit
  recollect completion fish > ~/.config/fish/completions/recollect.fish

Start a new shell afterwards. Commands, options, sources, projects, tags and the
ids of recent conversations are completed.
"""
_BASH = """\
# bash completion of recollect
_recollect() {
    local line current="${COMP_WORDS[COMP_CWORD]}"
    COMPREPLY=()
    while IFS= read -r line; do
        COMPREPLY+=("$(printf '%q' "${line%%$'\\t'*}")")
    done < <(recollect completion words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    if [[ ${#COMPREPLY[@]} -eq 1 && "${COMPREPLY[0]}" == --*= ]]; then
        compopt -o nospace
    fi
}
complete -o default -F _recollect recollect
"""
_ZSH = """\
#compdef recollect
# zsh completion of recollect
_recollect() {
    local line
    local -a values descriptions
    while IFS= read -r line; do
        values+=("${line%%$'\\t'*}")
        descriptions+=("${line/$'\\t'/  }")
    done < <(recollect completion words -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)
    if (( ${#values} )); then
        compadd -l -d descriptions -a values
    else
        _files
    fi
}
if [[ "$funcstack[1]" == "_recollect" ]]; then
    _recollect "$@"
else
    compdef _recollect recollect
fi
"""
_FISH = """\
# fish completion of recollect
function __recollect_complete
    set -l words (commandline --tokens-expanded --current-process --cut-at-cursor 2>/dev/null)
    or set words (commandline -opc)
    set -l found (recollect completion words -- $words[2..] (commandline -ct) 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c recollect -f -a '(__recollect_complete)'
"""
_SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
_RECENT = 20


class Candidate(NamedTuple):
    text: str
    description: str = ""


def define_completion(command: argparse.ArgumentParser) -> None:
    define(command, run, _EXAMPLES)
    command.add_argument("shell", choices=SHELLS, help="the shell")


def run(arguments: argparse.Namespace) -> int:
    print(_SCRIPTS[arguments.shell], end="")
    return 0


def print_candidates(words: Sequence[str]) -> int:
    """Print what fits at the last word, one candidate per line, each with a description."""
    # Completing must not change anything, and must not ask for a passphrase.
    os.environ["RECOLLECT_READ_ONLY"] = "on"
    for candidate in candidates(list(words) or [""]):
        print(f"{candidate.text}\t{candidate.description}".rstrip())
    return 0


def candidates(words: Sequence[str]) -> list[Candidate]:
    """What can stand at the last word, which may be incomplete or empty."""
    # bash splits `--tag=idea` into three words.
    *before, current = [word for word in words if word != "="] or [""]
    if words[-1] == "=":
        before, current = [*before, current], ""
    place = _Place(define_all(before), before)
    option, equals, value = current.partition("=")
    if equals and option.startswith("--"):
        action = place.option(option)
        if action is None:
            return []
        values = begins_with(value, place.values(action))
        return [Candidate(f"{option}={each.text}", each.description) for each in values]
    if place.waiting is not None:
        return begins_with(current, place.values(place.waiting))
    if current.startswith("-"):
        return begins_with(current, place.options())
    return begins_with(current, place.positionals())


def begins_with(prefix: str, candidates: Iterator[Candidate]) -> list[Candidate]:
    try:
        return [each for each in candidates if each.text.startswith(prefix)]
    except RecollectError:  # no library, or a locked one
        return []


class _Place:
    """Where the cursor is: the parser of the command, and what was typed before."""

    def __init__(self, parser: argparse.ArgumentParser, before: Sequence[str]) -> None:
        self._parser = parser
        self._home: str | None = None
        self._user: str | None = None
        self._position = 0
        self.waiting: argparse.Action | None = None
        """The option whose value comes next."""
        for word in before:
            self._read(word)

    def _read(self, word: str) -> None:
        if self.waiting is not None:
            self._take(self.waiting, word)
            self.waiting = None
            return
        if word.startswith("-") and word != "-":
            name, equals, value = word.partition("=")
            action = self.option(name)
            if action is not None and action.nargs is None:
                if equals:
                    self._take(action, value)
                else:
                    self.waiting = action
            return
        for action in self._parser._get_positional_actions():
            if isinstance(action.choices, dict) and word in action.choices:
                self._parser = action.choices[word]
                self._position = 0
                return
        self._position += 1

    def _take(self, action: argparse.Action, value: str) -> None:
        if action.dest == "home":
            self._home = value
        elif action.dest == "user":
            self._user = value

    def option(self, name: str) -> argparse.Action | None:
        return self._parser._option_string_actions.get(name)

    def options(self) -> Iterator[Candidate]:
        for action in self._parser._get_optional_actions():
            if action.help == argparse.SUPPRESS:
                continue
            for name in action.option_strings:
                if name.startswith("--"):
                    yield Candidate(name, _summary(action.help))

    def positionals(self) -> Iterator[Candidate]:
        actions = self._parser._get_positional_actions()
        if not actions:
            return
        action = actions[min(self._position, len(actions) - 1)]
        if self._position >= len(actions) and action.nargs not in ("*", "+"):
            return
        yield from self.values(action)

    def values(self, action: argparse.Action) -> Iterator[Candidate]:
        """The values of an option or of a positional argument."""
        if isinstance(action.choices, dict):
            for name, parser in action.choices.items():
                yield Candidate(name, _summary(parser.description))
            return
        if action.choices is not None:
            for choice in action.choices:
                yield Candidate(str(choice))
            return
        for name in _FIXED_VALUES.get(action.dest, ()):
            yield Candidate(name)
        source = _VALUES.get(action.dest)
        if source is None:
            return
        with existing(argparse.Namespace(home=self._home, user=self._user)) as library:
            yield from source(library)


def _summary(help_: str | None) -> str:
    return " ".join((help_ or "").replace("%(default)s", "").split())[:60]


def roles(library: Library) -> Iterator[Candidate]:
    from recollect.language.queries.query_tokens import ROLES

    counts = library.stats()["roles"]
    assert isinstance(counts, dict)
    for name in dict.fromkeys([*counts, *ROLES]):
        yield Candidate(printable(name))


def facets(field: str) -> Callable[[Library], Iterator[Candidate]]:
    def names(library: Library) -> Iterator[Candidate]:
        from recollect.cli.common import facet_names

        for name in facet_names(library, field):
            yield Candidate(printable_line(name))

    return names


def conversations(library: Library) -> Iterator[Candidate]:
    summaries, _ = library.conversation_page(limit=_RECENT)
    for summary in summaries:
        label = printable_line(library.label(summary.id, summary.title))
        yield Candidate(printable(short_id(library, summary.id)), label[:60])


_FIXED_VALUES = {"kind": KNOWLEDGE_KINDS, "kinds": KNOWLEDGE_KINDS, "shell": SHELLS}
_VALUES: dict[str, Callable[[Library], Iterator[Candidate]]] = {
    "role": roles,
    "source": facets("sources"),
    "project": facets("projects"),
    "tag": facets("tags"),
    "tags": facets("tags"),
    "conversation": conversations,
    "conversations": conversations,
}
