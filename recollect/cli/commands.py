"""Commands and their arguments, declared as text.

    @command("pin", "conversations+ CONVERSATION  what to pin", "recollect pin 1")
    def pin(arguments): …

Each line of the declaration is an argument, and after two spaces its help; lines that are indented
more continue the help:

    name            must be given (`name?` may be, `name*` any number, `name+` at least one)
    name NAME       the same; people read NAME
    --flag          a switch (`--[no-]flag`: yes, no, or neither)
    -n --limit N    an option with a value
    --tag NAME...   an option that may be repeated
    --by a|b =a     one of these words, and the default
    --limit 1..9    a whole number within bounds; `0..` has no upper bound
"""

from __future__ import annotations

import argparse
import keyword
from collections.abc import Callable, Iterator, Sequence
from inspect import cleandoc
from typing import Any, NamedTuple, TypeVar

from recollect.cli import add_library

Run = Callable[[argparse.Namespace], "int | None"]
R = TypeVar("R", bound=Run)


class Declaration(NamedTuple):
    run: Run | None
    summary: str
    arguments: str
    examples: str


DECLARATIONS: dict[str, Declaration] = {}
"""The commands of the modules that are loaded, by their words: `knowledge add`."""
TYPES = {"SECONDS": float}


def command(name: str, arguments: str = "", examples: str = "") -> Callable[[R], R]:
    """Declare a command. The docstring of its function is its summary."""

    def declare(run: R) -> R:
        DECLARATIONS[name] = Declaration(run, cleandoc(run.__doc__ or ""), arguments, examples)
        return run

    return declare


def command_group(name: str, examples: str) -> None:
    """Declare a command that only has others, such as `knowledge`."""
    DECLARATIONS[name] = Declaration(None, "", "", examples)


def together(*parts: str) -> str:
    """One declaration of several."""
    return "\n".join(map(cleandoc, parts))


def define(parser: argparse.ArgumentParser, name: str) -> None:
    """Give a parser what was declared: arguments, help, and the commands of a group."""
    declaration = DECLARATIONS[name]
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    if declaration.examples:
        lines = cleandoc(declaration.examples).splitlines()
        examples = (f"  {line}" if line.startswith("recollect ") else line for line in lines)
        parser.epilog = "examples:\n" + "\n".join(examples) + "\n"
    if declaration.run is not None:
        parser.set_defaults(run=declaration.run)
        add_library(parser, after_command=True)
        parser.add_argument("--json", action="store_true", help="print JSON for programs")
        for head, help in argument_lines(declaration.arguments):
            add_argument(parser, head, help)
    names = [other for other in DECLARATIONS if other.rpartition(" ")[0] == name]
    if not names:
        return
    group = parser.add_subparsers(
        metavar="[ACTION]" if declaration.run else "ACTION", required=not declaration.run
    )
    for other in names:
        summary = DECLARATIONS[other].summary
        help = f"{summary[0].lower()}{summary[1:]}".rstrip(".")
        action = group.add_parser(other.rpartition(" ")[2], help=help, description=summary)
        define(action, other)
        for argument in action._actions:  # `backup --folder X list` is `backup list --folder X`
            if any(argument.dest == each.dest for each in parser._actions):
                argument.default = argparse.SUPPRESS


def argument_lines(text: str) -> Iterator[tuple[str, str]]:
    head, help = "", ""
    for line in cleandoc(text).splitlines():
        if line.startswith(" "):
            help += f" {line.strip()}"
            continue
        if head:
            yield head, help
        head, _, help = line.partition("  ")
        help = help.strip()
    if head:
        yield head, help


def add_argument(parser: argparse.ArgumentParser, head: str, help: str) -> None:
    words, _, default = head.partition(" =")
    names = words.split()
    options: dict[str, Any] = {"help": help}
    if default:
        options["help"] = f"{help} (default: {default})".strip()
    flags = [name for name in names if name.startswith("-")]
    value = " ".join(names[len(flags) or 1 :])
    if not flags:
        name = names[0].rstrip("?*+")
        options |= value_options(value) if value else {}
        if name != names[0]:
            options["nargs"] = names[0][-1]
        if default:
            options["default"] = default
        parser.add_argument(name, **options)
        return
    name = flags[-1].replace("[no-]", "")
    flags[-1] = name
    if words.startswith("--[no-]"):
        options["action"] = argparse.BooleanOptionalAction
    elif not value:
        options["action"] = "store_true"
    else:
        if value.endswith("..."):
            value = value.removesuffix("...")
            options |= {"action": "append", "default": []}
        options |= value_options(value)
        if default:
            options["default"] = options.get("type", str)(default)
    dest = name.lstrip("-").replace("-", "_")
    if keyword.iskeyword(dest):
        dest += "_"  # arguments.from_
    parser.add_argument(*flags, dest=dest, **options)


def value_options(value: str) -> dict[str, Any]:
    least, dots, most = value.partition("..")
    if dots and least.isdecimal():
        return {"type": whole_number(int(least), int(most) if most else None), "metavar": "N"}
    if "|" in value:
        choices = tuple(value.split("|"))
        return {"type": one_of(choices), "choices": choices}
    return {"type": TYPES.get(value, str), "metavar": value}


def one_of(names: Sequence[str]) -> Callable[[str], str]:
    """The type of an argument that is one of some words; `note` means `notes`."""

    def parse(text: str) -> str:
        for name in names:
            if text in (name, name.removesuffix("s")):
                return name
        from recollect.cli.suggestions import describe_unknown

        raise argparse.ArgumentTypeError(describe_unknown("value", text, names))

    return parse


def whole_number(least: int, most: int | None = None) -> Callable[[str], int]:
    """The type of an option that takes a number within bounds."""
    bounds = f"of at least {least}" if most is None else f"from {least} to {most}"

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if number < least or (most is not None and number > most):
            raise argparse.ArgumentTypeError(f"must be a whole number {bounds}, not '{text}'")
        return number

    return parse
