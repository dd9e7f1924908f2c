"""The messages around one of them that fit into an answer."""

from __future__ import annotations

from collections.abc import Sequence


def span_that_fits(costs: Sequence[int], middle: int, room: int) -> tuple[int, int]:
    """The first and the last message of a span around the middle that costs at most `room`.

    It grows in both directions in turn, and forward first.
    """
    first = last = middle
    room -= costs[middle]
    while True:
        has_grown = False
        if last + 1 < len(costs) and costs[last + 1] <= room:
            last += 1
            room -= costs[last]
            has_grown = True
        if first > 0 and costs[first - 1] <= room:
            first -= 1
            room -= costs[first]
            has_grown = True
        if not has_grown:
            return first, last
