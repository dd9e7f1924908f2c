"""The regular expressions of the package, and texts that could make each of them slow."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from itertools import product
from pathlib import Path
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from types import ModuleType
from typing import Any, NamedTuple

import recollect
from recollect.language.languages import ALL
from recollect.language.periods import english_rules
from recollect.language.when import translated_rules
from recollect.memory.observe import cues

PACKAGE = Path(recollect.__file__).parent
PHRASES = """
    frames questions no_questions to_assistant requests asks_assistant asks_time asks_number
    asks_future asks_rule standing_instructions dates fragments nouns
"""
STARTS = """
    empty step request polite lead asks accepts trivial trivial_end pleasantry context new_topic
    advice run_tests
""".split()
"""The cues that are only matched at the beginning of a sentence or a message."""
METHODS = {"match", "fullmatch", "search", "sub", "subn", "finditer", "findall", "split"}
MANY = 100
"""A repetition with a smaller bound costs a constant factor at most."""
MOST = 300
"""Texts for one expression."""
CHARACTERS = " a0\n-.#*[(<\"'`\\/_|:,={$>!@\t中A\u00a0"
SUFFIXES = ("", "\0", "\n\0", "a!")


class Expression(NamedTuple):
    pattern: re.Pattern[Any]
    place: str
    methods: frozenset[str]
    """How it is used; empty if that cannot be seen."""


# -- collecting --------------------------------------------------------------


def expressions() -> list[Expression]:
    """All expressions in the code and in the values of modules."""
    places: dict[re.Pattern[Any], str] = {}
    uses: dict[str, set[str]] = defaultdict(set)
    names: dict[re.Pattern[Any], set[str]] = defaultdict(set)
    for module in modules():
        tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
        for name, value in vars(module).items():
            for attribute, pattern in patterns_in(name, value):
                places.setdefault(pattern, f"{module.__name__}.{attribute}")
                names[pattern].add(attribute)
                names[pattern].add(f"{module.__name__}.{attribute}")
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in METHODS:
                name = getattr(node.value, "id", getattr(node.value, "attr", ""))
                uses[name].add(node.attr)
                uses[f"{module.__name__}.{name}"].add(node.attr)
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("re."):
                for pattern in compiled(node, module):
                    place = f"{module.__name__}:{node.lineno}"
                    places.setdefault(pattern, place)
                    if places[pattern] == place:
                        names[pattern].add(place)
                        uses[place].add(ast.unparse(node.func).removeprefix("re."))
    results = list(expressions_of_languages())
    for pattern, place in sorted(places.items(), key=lambda pair: pair[1]):
        own = {name for name in names[pattern] if "." in name and uses[name]}
        methods = {method for name in own or names[pattern] for method in uses[name]}
        results.append(Expression(pattern, place, frozenset(methods & METHODS)))
    return results


def expressions_of_languages() -> Iterator[Expression]:
    """The patterns in the files of the languages, and the rules for dates made of them."""
    for language in ALL:
        place = f"recollect.language.languages.{language.code}"
        for name in PHRASES.split():
            yield Expression(language._pattern(name), f"{place}.{name}", frozenset(["finditer"]))
        observer = language.fields.table("observer")
        for name in observer._values:
            if not name.endswith(("_words", "_verbs")):
                flags = re.IGNORECASE | re.DOTALL if name in STARTS else 0
                pattern = re.compile("|".join(observer.lines(name)), flags)
                method = "match" if name in STARTS else "finditer"
                yield Expression(pattern, f"{place}.observer.{name}", frozenset([method]))
        replies = f"{place}.observer.replies"
        yield Expression(cues.trivial(language), replies, frozenset(["fullmatch"]))
        rules = english_rules() if language.code == "en" else translated_rules(language)
        for number, (pattern, _) in enumerate(rules):
            yield Expression(pattern, f"{place}.rules.{number}", frozenset(["finditer"]))


def modules() -> Iterator[ModuleType]:
    for info in pkgutil.walk_packages([str(PACKAGE)], "recollect."):
        if not info.name.endswith("__main__"):
            with suppress(ImportError):  # it needs an extra that is not installed
                yield importlib.import_module(info.name)


def patterns_in(name: str, value: object, depth: int = 3) -> Iterator[tuple[str, re.Pattern[Any]]]:
    """The expressions in a value, and the name of the variable or attribute of each."""
    if isinstance(value, re.Pattern):
        yield name, value
    elif isinstance(value, (tuple, list, set, frozenset)) and depth:
        for part in value:
            yield from patterns_in(name, part, depth - 1)
    elif isinstance(value, dict) and depth:
        yield from patterns_in(name, [*value.keys(), *value.values()], depth - 1)
    elif type(value).__module__.startswith("recollect.") and depth:
        for attribute, member in vars(type(value)).items():
            if isinstance(member, cached_property):
                yield from patterns_in(attribute, getattr(value, attribute), depth - 1)
        for attribute, part in getattr(value, "__dict__", {}).items():
            yield from patterns_in(attribute, part, depth - 1)


def compiled(call: ast.Call, module: ModuleType) -> Iterator[re.Pattern[Any]]:
    """The expression of a call, if its arguments need no local variables."""
    arguments = call.args[:1] + call.args[-1:] * (len(call.args) > 1)
    flags = [keyword.value for keyword in call.keywords if keyword.arg == "flags"]
    is_flag = len(arguments) == 2 and ast.unparse(arguments[1]).startswith("re.")
    try:
        values = [
            eval(compile(ast.Expression(part), "", "eval"), dict(vars(module)))
            for part in (*arguments[: 1 + is_flag], *flags)
        ]
        yield re.compile(*values)
    except Exception:  # it has local variables: the value is found elsewhere
        pass


# -- attacking ---------------------------------------------------------------


def attacks(pattern: re.Pattern[Any]) -> list[tuple[str, str, str]]:
    """Beginnings, what to repeat after them, and ends at which a match may fail."""
    tree = list(parser.parse(pattern.pattern, pattern.flags))
    pumps: dict[tuple[str, str], None] = dict.fromkeys(("", each) for each in CHARACTERS)
    for befores, body in repetitions(tree, [""]):
        for before, pump in product(dict.fromkeys(["", *befores]), samples(body, 6)):
            pumps[before, pump] = None
            pumps["", before + pump] = None
        for before, pump in product(dict.fromkeys(befores), CHARACTERS):
            pumps[before, pump] = None
    pumps |= dict.fromkeys(("", whole) for whole in samples(tree, 3))
    texts = [(*pair, suffix) for pair, suffix in product(pumps, SUFFIXES) if pair[1]]
    return texts[:: len(texts) // MOST + 1]


def repetitions(tree: list[Any], befores: list[str]) -> Iterator[tuple[list[str], list[Any]]]:
    """Repetitions without a small bound: some texts that match what is before, and the body."""
    for index, (code, value) in enumerate(tree):
        prefixes = [a + b for a in befores for b in dict.fromkeys(samples(tree[:index], 2))][:4]
        if code in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
            if value[1] > MANY:
                yield prefixes, list(value[2])
            yield from repetitions(list(value[2]), prefixes)
        else:
            for branch in branches(code, value):
                yield from repetitions(branch, prefixes)


def branches(code: Any, value: Any) -> list[list[Any]]:
    if code is op.BRANCH:
        return [list(branch) for branch in value[1]]
    if code is op.SUBPATTERN:
        return [list(value[3])]
    if code is op.ATOMIC_GROUP:
        return [list(value)]
    if code in (op.ASSERT, op.ASSERT_NOT):
        return [list(value[1])]
    return []


def samples(tree: list[Any], count: int) -> list[str]:
    """Texts that a part of an expression probably matches."""
    texts = [""] * count
    for code, value in tree:
        pieces = piece(code, value, count) or [""]
        texts = [text + pieces[n % len(pieces)] for n, text in enumerate(texts)]
    return list(dict.fromkeys(texts))


def piece(code: Any, value: Any, count: int) -> list[str]:
    if code is op.LITERAL:
        return [chr(value)]
    if code in (op.ANY, op.NOT_LITERAL, op.IN):
        return characters([(code, value)])[:count]
    if code in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
        return [text * max(value[0], 1) for text in samples(list(value[2]), count)]
    if code in (op.ASSERT, op.ASSERT_NOT):
        return []
    return [text for branch in branches(code, value) for text in samples(branch, count)]


def characters(tree: list[Any]) -> list[str]:
    """Characters that a set of characters contains."""
    state = parser.State()
    state.str = ""
    one = re._compiler.compile(parser.SubPattern(state, tree))  # type: ignore[attr-defined]
    return [char for char in (*CHARACTERS, *map(chr, range(128))) if one.fullmatch(char)]
