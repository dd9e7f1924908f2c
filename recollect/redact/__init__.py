"""Secrets taken out of text: keys, tokens, passwords, private keys.

They are known by the rules of gitleaks (rules.json) and some of our own. The
rules are looked for by RE2, whose time grows with the text alone, whatever the
text is. One automaton over the keywords of all rules says first which rules
could have anything to find, which in most texts is none or few.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from recollect.redact.own import NO_KEYS, OWN

Found = Counter[str]
"""How many secrets of each kind there were."""

MARK = "[redacted:{}]"
_MARKED = re.compile(rb"\[redacted:[a-z0-9-]+\]")
_LEFT = 4  # bytes that a secret must have beside marks in it
_ROUNDS = 16


def redacted(text: str) -> tuple[str, Found]:
    """The text with `[redacted:<kind>]` in the place of every secret, and how many there were of each kind."""
    (made,), found = redacted_parts([text])
    return made, found


def redacted_parts(texts: Sequence[str]) -> tuple[list[str], Found]:
    """The same for parts of one text: a secret that goes through several is marked where it begins."""
    found: Found = Counter()
    parts = [text.encode("utf-8", "surrogatepass") for text in texts]
    for _ in range(_ROUNDS):  # what stood beside a secret may be told by what is left
        spans = _rules().spans(b"".join(parts))
        if not spans:
            break
        found.update(kind for _, _, kind in spans)
        parts = _marked(parts, spans)
    return (
        [part.decode("utf-8", "surrogatepass") for part in parts] if found else list(texts)
    ), found


def redacted_value(value: Any, found: Found, name: str = "") -> Any:
    """The same in every text of a JSON value, counted into `found`; the value itself where there is none. A text
    may be a secret for the `name` that it has: {"api_key": "…"}."""
    if isinstance(value, str):
        return _named(value, name, found)
    if isinstance(value, Mapping):
        items = {
            k: redacted_value(v, found, k if isinstance(k, str) else "") for k, v in value.items()
        }
        return value if all(items[k] is v for k, v in value.items()) else items
    if isinstance(value, (list, tuple)):
        given = [redacted_value(v, found, name) for v in value]
        return value if all(map(_is, given, value)) else type(value)(given)
    return value


_SAYING = re.compile(r"(?i)key|token|secret|pass|pwd|auth|cred")
_NAMED = 4_096  # characters of a text that its name may make a secret


def _named(text: str, name: str, found: Found) -> str:
    made, here = redacted(text)
    found.update(here)
    if name and len(made) <= _NAMED and _SAYING.search(name) and not _quoted(made):
        before = f'{name}: "'
        whole, here = redacted(f'{before}{made}"')
        if here and whole.startswith(before):
            found.update(here)
            return whole[len(before) : -1]
    return made


def _quoted(text: str) -> bool:
    return '"' in text or "\n" in text


def _is(one: object, other: object) -> bool:
    return one is other


Span = tuple[int, int, str]
"""Where a secret lies in the bytes of a text, and of which kind it is."""


def _marked(parts: Sequence[bytes], spans: Iterable[Span]) -> list[bytes]:
    made: list[bytes] = []
    waiting = iter((*spans, None))
    span = next(waiting)
    first = 0  # where the part begins in the text
    for part in parts:
        last, at = first + len(part), first
        kept: list[bytes] = []
        while span is not None and span[0] < last:
            start, end, kind = span
            if start >= first:
                kept += (part[at - first : start - first], MARK.format(kind).encode())
            at = min(end, last)
            if end > last:
                break
            span = next(waiting)
        made.append(b"".join((*kept, part[at - first :])))
        first = last
    return made


class _Rules:
    """Every rule, each made ready when it is first needed."""

    def __init__(self) -> None:
        import re2

        given = json.loads(Path(__file__).with_name("rules.json").read_text(encoding="utf-8"))
        self._rules = [_Rule(rule, NO_KEYS.get(rule["id"])) for rule in (*OWN, *given["rules"])]
        self._allowed = _Allowlist(given["allowlist"])
        self._keywords: list[tuple[_Rule, ...]] = []
        options = re2.Options()
        options.case_sensitive = False
        self._set = re2.Set.SearchSet(options)
        by_keyword: dict[str, list[_Rule]] = {}
        for rule in self._rules:
            for keyword in rule.keywords:
                by_keyword.setdefault(keyword, []).append(rule)
        for keyword, rules in by_keyword.items():
            self._set.Add(re2.escape(keyword))
            self._keywords.append(tuple(rules))
        self._set.Compile()

    def spans(self, text: bytes) -> list[Span]:
        """The secrets of a text in their order; of those that overlap, one for all of them."""
        hits = self._set.Match(text)
        if not hits:
            return []
        rules = {id(rule): rule for hit in hits for rule in self._keywords[hit]}
        found = [span for rule in rules.values() for span in rule.spans(text, self._allowed)]
        return _apart(found)


def _apart(found: list[Span]) -> list[Span]:
    """Spans that overlap become one, of the kind that says most."""
    apart: list[Span] = []
    for start, end, kind in sorted(found):
        if apart and start < apart[-1][1]:
            first, last, before = apart[-1]
            apart[-1] = (first, max(last, end), min(before, kind, key=_vagueness))
        else:
            apart.append((start, end, kind))
    return apart


_VAGUE = ("password", "authorization", "api-key", "generic-api-key")


def _vagueness(kind: str) -> int:
    return _VAGUE.index(kind) if kind in _VAGUE else -1


@cache
def _rules() -> _Rules:
    return _Rules()


@cache
def _compiled(pattern: str) -> Any:
    import re2

    options = re2.Options()
    options.log_errors = False
    return re2.compile(pattern.encode(), options)


class _Rule:
    def __init__(self, given: Mapping[str, Any], more: Mapping[str, Any] | None) -> None:
        self.kind: str = given["id"]
        self.keywords: list[str] = given["keywords"]
        self._pattern: str = given["regex"]
        self._entropy: float = given.get("entropy", 0)
        self._group: int = given.get("secretGroup", 0)
        self._least: int = given.get("least", 1)
        self._allowed = [
            _Allowlist(allowed)
            for allowed in (*given.get("allowlists", ()), *([more] if more else []))
        ]

    def spans(self, text: bytes, allowed: _Allowlist) -> list[Span]:
        found: list[Span] = []
        for match in _compiled(self._pattern).finditer(text):
            group = self._group or next(
                (n for n in range(1, match.re.groups + 1) if match.group(n)), 0
            )
            secret = match.group(group)
            if self._is_secret(secret) and not any(
                a.lets(secret, match, text) for a in (allowed, *self._allowed)
            ):
                found.append((*match.span(group), self.kind))
        return found

    def _is_secret(self, secret: bytes) -> bool:
        left = len(_MARKED.sub(b"", secret))
        if left < self._least or (left < len(secret) and left < _LEFT):
            return False
        return not self._entropy or _entropy(secret) > self._entropy


class _Allowlist:
    """What looks like a secret and is none."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._patterns: list[str] = given.get("regexes", [])
        self._target: str = given.get("regexTarget", "secret")
        self._words: list[str] = given.get("stopwords", [])

    def lets(self, secret: bytes, match: Any, text: bytes) -> bool:
        if self._stopwords is not None and self._stopwords.search(secret):
            return True
        if not self._patterns:
            return False
        target = secret
        if self._target == "match":
            target = match.group(0)
        elif self._target == "line":
            start = text.rfind(b"\n", 0, match.start()) + 1
            end = text.find(b"\n", match.end())
            target = text[
                max(start, match.start() - _LINE) : min(
                    len(text) if end < 0 else end, match.end() + _LINE
                )
            ]
        return any(_compiled(pattern).search(target) for pattern in self._patterns)

    @cached_property
    def _stopwords(self) -> Any:
        return _compiled("(?i)" + "|".join(map(re.escape, self._words))) if self._words else None


_LINE = 1_000  # bytes of a line before and after a secret that are looked at


def _entropy(secret: bytes) -> float:
    """How many bits each byte says, as Shannon counts them."""
    size = len(secret)
    return -sum(n / size * math.log2(n / size) for n in Counter(secret).values())
