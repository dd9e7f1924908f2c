"""The rules that find secrets: those of gitleaks (rules.json) and some of our own.

RE2 matches them in time linear in the length of the text, whatever the text is. First, one
automaton finds the keywords of all rules. Only rules whose keywords occur are tried, in most texts
few or none.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from recollect.redact.extra_rules import EXTRA_ALLOWLISTS, EXTRA_RULES

Span = tuple[int, int, str]
"""The start and end of a secret in the bytes of a text, and its kind."""

_MARKS = re.compile(rb"\[redacted:[a-z0-9-]+\]")
_MIN_UNMARKED = 4  # bytes that a secret must have besides marks in it
_LINE_BYTES = 1_000  # of a line before and after a secret that an allowlist sees
_GENERIC_KINDS = ("password", "authorization", "api-key", "generic-api-key")
"""The least specific kinds, the most specific of them first."""


def match_rules(text: bytes) -> list[Span]:
    """The secrets in a plain text in order, without overlaps."""
    return _rule_set().find(text)


class _RuleSet:
    """All rules. Each is compiled when it is first needed."""

    def __init__(self) -> None:
        import re2

        path = Path(__file__).with_name("rules.json")
        gitleaks = json.loads(path.read_text(encoding="utf-8"))
        self._allowlist = _Allowlist(gitleaks["allowlist"])
        by_keyword: dict[str, list[_Rule]] = {}
        for definition in (*EXTRA_RULES, *gitleaks["rules"]):
            rule = _Rule(definition)
            for keyword in rule.keywords:
                by_keyword.setdefault(keyword, []).append(rule)
        options = re2.Options()
        options.case_sensitive = False
        self._keywords = re2.Set.SearchSet(options)
        self._rules_of_keywords: list[list[_Rule]] = []
        for keyword, rules in by_keyword.items():
            self._keywords.Add(re2.escape(keyword))
            self._rules_of_keywords.append(rules)
        self._keywords.Compile()

    def find(self, text: bytes) -> list[Span]:
        rules: dict[int, _Rule] = {}
        for index in self._keywords.Match(text) or ():
            for rule in self._rules_of_keywords[index]:
                rules[id(rule)] = rule
        spans: list[Span] = []
        for rule in rules.values():
            spans += rule.find(text, self._allowlist)
        return merge_overlaps(spans)


def merge_overlaps(spans: list[Span]) -> list[Span]:
    """Merge overlapping spans into one of the most specific kind."""
    merged: list[Span] = []
    for start, end, kind in sorted(spans):
        if merged and start < merged[-1][1]:
            first_start, first_end, first_kind = merged[-1]
            specific = min(first_kind, kind, key=_generality)
            merged[-1] = (first_start, max(first_end, end), specific)
        else:
            merged.append((start, end, kind))
    return merged


def _generality(kind: str) -> int:
    if kind not in _GENERIC_KINDS:
        return -1
    return _GENERIC_KINDS.index(kind)


@cache
def _rule_set() -> _RuleSet:
    return _RuleSet()


@cache
def _compile(pattern: str) -> Any:
    import re2

    options = re2.Options()
    options.log_errors = False
    return re2.compile(pattern.encode(), options)


class _Rule:
    def __init__(self, definition: Mapping[str, Any]) -> None:
        self.kind: str = definition["id"]
        self.keywords: list[str] = definition["keywords"]
        self._pattern: str = definition["regex"]
        self._min_entropy: float = definition.get("entropy", 0)
        self._group: int = definition.get("secretGroup", 0)
        self._min_length: int = definition.get("least", 1)
        allowlists = [*definition.get("allowlists", ())]
        if self.kind in EXTRA_ALLOWLISTS:
            allowlists.append(EXTRA_ALLOWLISTS[self.kind])
        self._allowlists = [_Allowlist(allowlist) for allowlist in allowlists]

    def find(self, text: bytes, common_allowlist: _Allowlist) -> list[Span]:
        allowlists = (common_allowlist, *self._allowlists)
        spans: list[Span] = []
        for match in _compile(self._pattern).finditer(text):
            group = self._group or _first_group(match)
            secret = match.group(group)
            if not self._is_secret(secret):
                continue
            if not any(allowlist.allows(secret, match, text) for allowlist in allowlists):
                start, end = match.span(group)
                spans.append((start, end, self.kind))
        return spans

    def _is_secret(self, secret: bytes) -> bool:
        length = len(_MARKS.sub(b"", secret))
        has_marks = length < len(secret)
        if length < self._min_length or (has_marks and length < _MIN_UNMARKED):
            return False
        return not self._min_entropy or _entropy(secret) > self._min_entropy


def _first_group(match: Any) -> int:
    """The first group that matched something; 0 for the whole match."""
    for group in range(1, match.re.groups + 1):
        if match.group(group):
            return group
    return 0


class _Allowlist:
    """Text that looks like a secret but is none."""

    def __init__(self, definition: Mapping[str, Any]) -> None:
        self._patterns: list[str] = definition.get("regexes", [])
        self._target: str = definition.get("regexTarget", "secret")
        self._words: list[str] = definition.get("stopwords", [])

    def allows(self, secret: bytes, match: Any, text: bytes) -> bool:
        if self._stopwords is not None and self._stopwords.search(secret):
            return True
        if not self._patterns:
            return False
        target = secret
        if self._target == "match":
            target = match.group(0)
        elif self._target == "line":
            target = _line_around(match, text)
        return any(_compile(pattern).search(target) for pattern in self._patterns)

    @cached_property
    def _stopwords(self) -> Any:
        if not self._words:
            return None
        return _compile("(?i)" + "|".join(map(re.escape, self._words)))


def _line_around(match: Any, text: bytes) -> bytes:
    """The line of a match, cut on both sides if it is long."""
    start = text.rfind(b"\n", 0, match.start()) + 1
    end = text.find(b"\n", match.end())
    if end < 0:
        end = len(text)
    start = max(start, match.start() - _LINE_BYTES)
    end = min(end, match.end() + _LINE_BYTES)
    return text[start:end]


def _entropy(secret: bytes) -> float:
    """The Shannon entropy in bits per byte."""
    size = len(secret)
    return -sum(n / size * math.log2(n / size) for n in Counter(secret).values())
