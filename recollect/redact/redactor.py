"""Redact secrets in texts and JSON values."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from recollect.redact.secret_rules import Span
from recollect.redact.terminal_output import find_secrets

SecretCounts = Counter[str]
"""The number of secrets of each kind."""

MARK = "[redacted:{}]"
_MAX_ROUNDS = 16
_SECRET_NAME = re.compile(r"(?i)key|token|secret|pass|pwd|auth|cred")
_NAMED_CHARACTERS = 4_096  # a longer value is not a secret because of its name


def redact_text(text: str) -> tuple[str, SecretCounts]:
    """The text with every secret replaced by `[redacted:<kind>]`, and the secrets' counts."""
    (clean,), counts = redact_parts([text])
    return clean, counts


def redact_parts(texts: Sequence[str]) -> tuple[list[str], SecretCounts]:
    """Redact the parts of one text. A secret in several parts is marked where it begins."""
    counts: SecretCounts = Counter()
    parts = [text.encode("utf-8", "surrogatepass") for text in texts]
    for _ in range(_MAX_ROUNDS):  # removing a secret can reveal another one next to it
        spans = find_secrets(b"".join(parts))
        if not spans:
            break
        counts.update(kind for _, _, kind in spans)
        parts = _replace_spans(parts, spans)
    if not counts:
        return list(texts), counts
    return [part.decode("utf-8", "surrogatepass") for part in parts], counts


def redact_value(value: Any, counts: SecretCounts, name: str = "") -> Any:
    """Redact every text in a JSON value and add to `counts`; returns the same object if clean.

    A text may be a secret because of its `name`: {"api_key": "…"}.
    """
    if isinstance(value, str):
        return _redact_named(value, name, counts)
    if isinstance(value, Mapping):
        clean = {key: redact_value(item, counts, str(key)) for key, item in value.items()}
        if all(clean[key] is item for key, item in value.items()):
            return value
        return clean
    if isinstance(value, (list, tuple)):
        items = [redact_value(item, counts, name) for item in value]
        if all(item is original for item, original in zip(items, value, strict=True)):
            return value
        return type(value)(items)
    return value


def _redact_named(text: str, name: str, counts: SecretCounts) -> str:
    clean, secrets = redact_text(text)
    counts.update(secrets)
    if len(clean) > _NAMED_CHARACTERS or not _SECRET_NAME.search(name):
        return clean
    if '"' in clean or "\n" in clean:
        return clean
    prefix = f'{name}: "'
    assignment, secrets = redact_text(f'{prefix}{clean}"')
    if not secrets or not assignment.startswith(prefix):
        return clean
    counts.update(secrets)
    return assignment[len(prefix) : -1]


def _replace_spans(parts: Sequence[bytes], spans: Iterable[Span]) -> list[bytes]:
    """The parts of a text with marks in the place of the spans, which are sorted and disjoint."""
    replaced: list[bytes] = []
    remaining = iter((*spans, None))
    span = next(remaining)
    part_start = 0
    for part in parts:
        part_end = part_start + len(part)
        position = part_start
        pieces: list[bytes] = []
        while span is not None and span[0] < part_end:
            start, end, kind = span
            if start >= part_start:
                pieces.append(part[position - part_start : start - part_start])
                pieces.append(MARK.format(kind).encode())
            position = min(end, part_end)
            if end > part_end:  # the span continues in the next part
                break
            span = next(remaining)
        pieces.append(part[position - part_start :])
        replaced.append(b"".join(pieces))
        part_start = part_end
    return replaced
