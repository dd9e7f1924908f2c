"""No regular expression of the package takes more than linear time, whatever the text is.

`re` holds the interpreter lock while it matches, so one slow match stops the whole server.
"""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from regular_expressions import PACKAGE, Expression, attacks, expressions

SIZE = 8_000
FACTOR = 8
MAX_RATIO = 3  # of the times for one long text and for as many short ones: 1 is linear, 8 quadratic
NEGLIGIBLE_SECONDS = 0.04  # some clocks tick every 10 ms
LIMIT_SECONDS = 0.5
ATTEMPTS = 3


PACKAGES = sorted(path.stem for path in PACKAGE.iterdir() if not path.name.startswith("_"))
BOUNDED = {
    "recollect.capture.discovery._EXPORTS": "names of files",
    "recollect.language.transcript._COMMA": "only matched at the start of a line",
    "recollect.serve.console.markup.": "a bounded process, and short snippets",
}
"""Where patterns see only what is short, or run, and why that is enough."""
all_expressions = cache(expressions)


class TooSlow(BaseException):
    pass


def stop(*_: object) -> None:
    raise TooSlow


def seconds(work: Callable[[Any], object], text: Any) -> float:
    """The CPU time of a match; it is stopped at the limit."""
    previous = signal.signal(signal.SIGPROF, stop)
    start = time.process_time()
    try:
        signal.setitimer(signal.ITIMER_PROF, LIMIT_SECONDS)
        work(text)
        return time.process_time() - start
    except TooSlow:
        return LIMIT_SECONDS
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)


def matcher(expression: Expression) -> Callable[[Any], object]:
    pattern, methods = expression.pattern, expression.methods
    for method in ("match", "fullmatch", "search"):
        if methods and methods <= {method}:
            return getattr(pattern, method)  # type: ignore[no-any-return]
    if methods and methods <= {"match", "fullmatch"}:
        return lambda text: (pattern.match(text), pattern.fullmatch(text))
    return lambda text: sum(1 for _ in pattern.finditer(text))


def slow_text(expression: Expression) -> tuple[str, str, str] | None:
    """A beginning, a part to repeat, and an end that make the expression slow."""
    work = matcher(expression)

    def build(attack: tuple[str, str, str], size: int) -> Any:
        before, pump, after = attack
        text = before + pump * (size // len(pump) + 1) + after
        return text.encode() if isinstance(expression.pattern.pattern, bytes) else text

    def repeatedly(text: Any) -> None:
        for _ in range(FACTOR):
            work(text)

    for attack in attacks(expression.pattern):
        small, large = build(attack, SIZE), build(attack, SIZE * FACTOR)
        if seconds(work, large) <= NEGLIGIBLE_SECONDS:
            continue
        for _ in range(ATTEMPTS):  # another process may disturb it
            spent = seconds(work, large)
            if spent < LIMIT_SECONDS and spent <= MAX_RATIO * seconds(repeatedly, small):
                break
        else:
            return attack
    return None


@pytest.mark.full
@pytest.mark.parametrize("package", PACKAGES)
def test_the_time_of_a_pattern_grows_linearly(package: str) -> None:
    slow = {
        expression.place: (expression.pattern.pattern[:200], attack)
        for expression in all_expressions()
        if expression.place.startswith(f"recollect.{package}.")
        and not expression.place.startswith(tuple(BOUNDED))
        and (attack := slow_text(expression)) is not None
    }
    assert not slow


@pytest.mark.full
def test_the_patterns_of_the_package_are_found() -> None:
    places = {expression.place for expression in all_expressions()}
    assert len(places) > 200
    for beginning in BOUNDED:
        assert any(place.startswith(beginning) for place in places), beginning


@pytest.mark.full
def test_the_tool_finds_slow_expressions() -> None:
    for pattern in (r"(a+)+$", r"\s*#[ ]*([^\n]*?)[ ]*\n", r"<b\b[^>]*>", r"\s+$", r"x\w*y"):
        assert slow_text(Expression(re.compile(pattern), "", frozenset())), pattern
