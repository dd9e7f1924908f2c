"""References to messages, as answers show them and `recall_read` accepts them.

`3f2a9b` is a conversation or item, `3f2a9b#14` its 14th message, `3f2a9b#10-20` a span, and
`3f2a9b#14+4000` a message from its 4,000th character on. The id may be shortened as long as it is
unique. Nothing is remembered between calls, so a reference works over every transport.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from recollect.errors import InvalidInput, NotFound
from recollect.library import Library
from recollect.model.audience import Audience
from recollect.model.search import Hit
from recollect.serve.mcp.addresses import parse_address

_NUMBERS = re.compile(r"(.+)#([0-9]{1,9})(?:-([0-9]{1,9})|\+([0-9]{1,9}))?")
_OBSERVATION = re.compile(r"obs-\S{1,100}")
_FAR = 1_000
"""A match this many characters into a message is worth a reference of its own."""


class Reference(NamedTuple):
    """A place in a conversation or item. Messages are numbered from 1."""

    id: str
    first: int | None = None
    last: int | None = None
    offset: int = 0


def parse_reference(library: Library, text: str, audience: Audience) -> Reference:
    """The place that a text refers to. Raises NotFound, or InvalidInput if it is ambiguous."""
    text = text.strip().strip("[]`")
    if _OBSERVATION.fullmatch(text):
        return _observed_span(library, text, audience)
    address = parse_address(text)
    if address is not None:
        return _message(library, address.id, address.message)
    match = _NUMBERS.fullmatch(text)
    if match is None:
        return Reference(library.resolve_id(text))
    id_, first, last, offset = match.groups()
    last_number = None
    if last is not None:
        last_number = int(last)
        if last_number < int(first):
            raise InvalidInput(
                f"#{first}-{last} ends before it begins. "
                f"Give the first message first, such as #{last}-{first}."
            )
    return Reference(library.resolve_id(id_), int(first), last_number, int(offset or 0))


def _observed_span(library: Library, observation: str, audience: Audience) -> Reference:
    """The messages that an observation was made of."""
    (hit,) = library.memory.get([observation], audience=audience)
    conversation = hit.observation.conversation
    numbers = []
    for message in hit.observation.passages:
        try:
            numbers.append(library.message(conversation, message).position + 1)
        except NotFound:
            continue
    if not numbers:
        return Reference(conversation)
    return Reference(conversation, min(numbers), max(numbers))


def _message(library: Library, id_: str, message: str) -> Reference:
    if not message:
        return Reference(library.resolve_id(id_))
    return Reference(id_, library.message(id_, message).position + 1)


def hit_reference(hit: Hit) -> str:
    """The part of a reference after the id: the message, and where in it the match is."""
    reference = f"#{hit.position + 1}"
    if hit.start > _FAR:
        reference += f"+{hit.start}"
    return reference
