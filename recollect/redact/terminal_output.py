"""Secrets in the output of programs, which may have colours before, after or inside them."""

from __future__ import annotations

from bisect import bisect
from itertools import accumulate, pairwise

from recollect.language.terminal_codes import CODE_STARTS, code_spans
from recollect.redact.secret_rules import Span, match_rules, merge_overlaps

_STARTS = tuple(start.encode() for start in CODE_STARTS)


def find_secrets(text: bytes) -> list[Span]:
    """The secrets in a text in order, without overlaps."""
    codes = _code_spans(text)
    if not codes:
        return match_rules(text)
    bounds = [0, *(place for span in codes for place in span), len(text)]
    # Texts and codes in turn.
    parts = [text[start:end] for start, end in pairwise(bounds)]
    joined = b"".join(parts[::2])
    parts[1::2] = [b" " * len(code) for code in parts[1::2]]
    separated = b"".join(parts)
    ends = list(accumulate(map(len, parts[::2])))

    def place(position: int) -> int:
        """Where a byte of the joined texts is."""
        number = min(bisect(ends, position), len(ends) - 1)
        return bounds[2 * number + 1] - (ends[number] - position)

    spans = match_rules(separated)
    spans += [(place(start), place(end - 1) + 1, kind) for start, end, kind in match_rules(joined)]
    return merge_overlaps(spans)


def _code_spans(text: bytes) -> list[tuple[int, int]]:
    """Where the codes of a text start and end, in bytes."""
    if not any(start in text for start in _STARTS):
        return []
    characters = text.decode("utf-8", "surrogatepass")
    spans = []
    previous = position = 0
    for start, end in code_spans(characters):
        first = position + len(characters[previous:start].encode("utf-8", "surrogatepass"))
        position = first + len(characters[start:end].encode())
        previous = end
        spans.append((first, position))
    return spans
