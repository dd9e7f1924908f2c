"""The values that flow through Recollect: frozen, without I/O.

A *document* is a conversation, a note, a media item, a character or a prompt; a
*passage* is what is searched, ranked and shown inside it: a message, a chunk of
a text, a field. Conversations are trees: a passage names its parent, every
branch is kept, and `head` names the leaf whose ancestors are the canonical
path, the one the person last saw. Everything else is rewritten as a whole (see
`recollect.items`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple

Json = Any

CONVERSATION = "conversation"
NOTE = "note"
MEDIA = "media"
CHARACTER = "character"
PROMPT = "prompt"
SOURCES = (CONVERSATION, NOTE, MEDIA, CHARACTER, PROMPT)
OBSERVATION = "observation"
"""The source of what was observed in a conversation, which is derived and no source of its own."""
OBSERVATIONS = "observations"
"""Their origin; each document of them is known by its conversation."""

ROLES = ("user", "assistant", "system", "tool")
KINDS = ("message", "thinking", "tool_call", "tool_result", "summary", "context", "chunk", "field")
HUMAN_ONLY = "human_only"
VISIBILITIES = ("all", "hidden", HUMAN_ONLY)
MASK = "[human-only content hidden]"
"""What an agent sees instead of a message that only people may see."""


class Passage(NamedTuple):
    """One message of a conversation, or one part of a note.

    `id` is the origin's own id and unique within its document. Fields that
    this class does not name live in `metadata`, as the origin wrote them.
    A named tuple, because an import makes one for every message and a frozen
    dataclass takes three times as long to make.
    """

    id: str
    role: str | None
    content: str
    kind: str = "message"
    author: str | None = None
    model: str | None = None
    tool: str | None = None
    parent: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    visibility: str = "all"
    attachments: tuple[Json, ...] = ()
    citations: tuple[Json, ...] = ()
    metadata: Mapping[str, Json] = MappingProxyType({})
    position: int = 0
    canonical: bool = True


@dataclass(frozen=True, slots=True)
class Document:
    """A conversation or note, with its passages in reading order.

    `origin` and `origin_id` say where it came from; together they are its
    identity, so importing it twice changes nothing. `id` is its name inside
    one library: the origin's id unless another origin took that name first.
    """

    origin: str
    origin_id: str
    title: str = ""
    source: str = CONVERSATION
    namespace: str = "default"
    created_at: datetime | None = None
    updated_at: datetime | None = None
    head: str | None = None
    passages: tuple[Passage, ...] = ()
    metadata: Mapping[str, Json] = field(default_factory=dict)
    id: str = ""
    partial: bool = False
    """A lossy copy of the origin: it adds what is missing, it never replaces."""
    shared_ids: bool = False
    """Passage ids are unique across the origin, so one seen in another document is a copy."""
    version: int = field(default=0, compare=False)
    """Counts up with every change of what is stored; 0 of what is not stored yet."""

    @property
    def messages(self) -> tuple[Passage, ...]:
        """The passages of a conversation, by the name its users know."""
        return self.passages

    @property
    def canonical(self) -> tuple[Passage, ...]:
        """The path from the root to the head: the conversation as last seen."""
        return tuple(p for p in self.passages if p.canonical)


@dataclass(frozen=True, slots=True)
class Summary:
    """A document without its passages, as lists show it."""

    id: str
    origin: str
    origin_id: str
    source: str
    title: str
    namespace: str
    created_at: datetime | None
    updated_at: datetime | None
    message_count: int
    metadata: Mapping[str, Json]
    version: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Observation:
    """What one stretch of a conversation is worth remembering for, in its own words.

    Derived from the conversation: `maker` names what made it, and making it anew from the same words gives the same id.
    """

    id: str
    type: str
    title: str
    conversation: str
    """The id of the conversation."""
    passages: tuple[str, ...]
    """The messages that it was made of, in their order."""
    subtitle: str = ""
    narrative: str = ""
    facts: tuple[str, ...] = ()
    """Sentences of the source, or what its structure says ("Modified auth.ts (+12 -3)"); the best first."""
    concepts: tuple[str, ...] = ()
    files_read: tuple[str, ...] = ()
    files_modified: tuple[str, ...] = ()
    project: str = "default"
    created_at: datetime | None = None
    lines: tuple[int, int] = (1, 1)
    """The first and the last of its lines in the conversation as it is read, counted from 1."""
    asked: tuple[int, int] | None = None
    """Those of the message that it begins with, which is the person's: often that is all one needs to read."""
    maker: str = ""


class Bone(NamedTuple):
    """Where a passage stands in its document: enough to find a way through a tree without reading it."""

    key: int
    id: str
    parent: str | None
    position: int
    canonical: bool


@dataclass(frozen=True, slots=True)
class Shown:
    """A passage on the way through a conversation, and what stands beside it at its fork."""

    passage: Passage
    siblings: tuple[str, ...]
    """The messages among which the way chose, oldest first; just itself where there is no fork."""
    index: int
    """The place of this one among them."""


@dataclass(frozen=True, slots=True)
class View:
    """A part of one way through a conversation."""

    document: Document
    """Without its passages."""
    messages: tuple[Shown, ...]
    start: int
    """The place on the way of the first of them."""
    total: int
    """How many messages the way has."""


@dataclass(frozen=True, slots=True)
class Filter:
    """What may be found. Empty means no restriction; dates are inclusive."""

    roles: tuple[str, ...] = ()
    authors: tuple[str, ...] = ()
    after: datetime | None = None
    before: datetime | None = None
    namespaces: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    conversations: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    titles: tuple[str, ...] = ()
    """Words or phrases that the title must have, all of them; a star at the end of one stands for more."""
    not_roles: tuple[str, ...] = ()
    not_authors: tuple[str, ...] = ()
    not_namespaces: tuple[str, ...] = ()
    not_tags: tuple[str, ...] = ()
    not_titles: tuple[str, ...] = ()
    hidden: bool = False
    senders: tuple[str, ...] = ()
    """Roles or authors, without regard to case: a passage must have one of them as either."""
    media_types: tuple[str, ...] = ()
    """Of media items, without regard to case."""
    characters: tuple[str, ...] = ()
    """The ids of characters that conversations are with, as text."""

    @property
    def of_passages(self) -> bool:
        """Whether it says something of passages, not only of their documents."""
        return bool(
            self.roles
            or self.authors
            or self.after
            or self.before
            or self.not_roles
            or self.not_authors
            or self.senders
        )


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that was found: where it is, why, and a look at it."""

    message_id: str
    conversation_id: str
    title: str
    role: str | None
    author: str | None
    kind: str
    created_at: datetime | None
    origin: str
    source: str
    namespace: str
    position: int
    canonical: bool
    score: float
    snippet: str
    marks: tuple[tuple[int, int], ...] = ()
    """Where the matched words lie in `snippet`, as (start, end)."""
    arms: tuple[str, ...] = ("text",)
    """What found it: its words ("text"), its meaning ("vector"), or both."""
    terms: tuple[str, ...] = ()
    """The words of the query that it has, in any of their forms."""
    parts: Mapping[str, float] = field(default_factory=dict)
    """The parts of its score, as shares that add up to it."""
    copies: int = 0
    """Messages with the same text that this one stands for."""
    also: tuple[Hit, ...] = ()
    """Of hits by conversation: its next best messages."""
    visibility: str = "all"
    metadata: Mapping[str, Json] = field(default_factory=dict)
    """What the origin says of the message; of hits of `Library.exact` alone."""


@dataclass(frozen=True, slots=True)
class Page:
    """One page of hits, and how many matches stand behind it."""

    hits: tuple[Hit, ...]
    total: int
    """How many messages match (of hits by conversation: how many conversations)."""
    offset: int
    limit: int
    matched: str = "all"
    """"all": every part of the query is in every hit; "any": a hit has at least one of the words,
    or is near in meaning; "literal": the query was looked for as plain text."""
    exact: bool = True
    """Whether `total` is all of them, or only at least so many."""
    score_type: str = "rank"
    """"rank": scores are Recollect's own; "fts": those of the text engine, divided by the best of them."""
    mode: str = "text"
    """What answered: "text", "vector" or "both"."""
    embedded: float = 0.0
    """The share of the library that has vectors."""
    note: str = ""
    """What the person should know, as why vectors were not used."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A record that an importer could not use, or left out on purpose.

    `failed` means that something was lost and the person should know;
    otherwise the record was skipped for the reason given.
    """

    reason: str
    where: str = ""
    failed: bool = False
    unit: str = "messages"
    count: int = 1


@dataclass(slots=True)
class Counts:
    """What an import did with the conversations or messages of one file."""

    new: int = 0
    same: int = 0
    changed: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    failed: dict[str, int] = field(default_factory=dict)

    def note(self, problem: Problem) -> None:
        bucket = self.failed if problem.failed else self.skipped
        bucket[problem.reason] = bucket.get(problem.reason, 0) + problem.count


@dataclass(slots=True)
class FileReceipt:
    """What an import did with one file. `samples` says where problems were met, a few of each reason."""

    name: str
    format: str
    conversations: Counts = field(default_factory=Counts)
    messages: Counts = field(default_factory=Counts)
    samples: dict[str, list[str]] = field(default_factory=dict)
    redacted: dict[str, int] = field(default_factory=dict)
    """Secrets that were taken out, by kind."""

    @property
    def units(self) -> tuple[str, str]:
        """What its two counts are of, for people to read."""
        return ("items", "parts") if self.format in _OF_ITEMS else ("conversations", "messages")


_OF_ITEMS = ("notes", "media", "transcripts", "characters", "prompts")


@dataclass(slots=True)
class Receipt:
    """The record of one import, by which it can be taken back."""

    id: int
    path: str
    started_at: datetime
    finished_at: datetime | None = None
    undone_at: datetime | None = None
    files: list[FileReceipt] = field(default_factory=list)
    left_out: Counts = field(default_factory=Counts)
    """Files that were not read, by reason."""

    @property
    def units(self) -> tuple[str, str]:
        """What the counts of its files are of, taken together."""
        units = {file.units for file in self.files} or {("conversations", "messages")}
        return units.pop() if len(units) == 1 else ("items", "parts")


def only_for_people(message: Passage | Hit) -> bool:
    """Whether only people may see what a message says."""
    return message.visibility == HUMAN_ONLY or for_people(message.metadata)


def for_people(metadata: Mapping[str, Json]) -> bool:
    """Whether a message's metadata says that only people may see it."""
    visibility, audience = metadata.get("visibility"), metadata.get("audience")
    return _said(visibility) == HUMAN_ONLY or _said(audience) == "human"


def _said(value: Json) -> str:
    return value.strip().lower() if isinstance(value, str) else ""


def arrange(document: Document) -> Document:
    """The document with its passages in reading order, numbered, the canonical path marked."""
    head, order = places(document.passages, document.head)
    passages = tuple(
        document.passages[index]._replace(position=position, canonical=canonical)
        for position, (index, canonical) in enumerate(order)
    )
    return replace(document, head=head, passages=passages)


def places(
    passages: Sequence[Passage], head: str | None
) -> tuple[str | None, list[tuple[int, bool]]]:
    """The head, and for every place in reading order: which passage, and whether it is canonical.

    Parents come before children and siblings keep the order given. A parent
    that is missing, or that would close a circle, is cut: its child becomes a
    root. Without a `head`, the newest leaf is it.
    """
    if _is_chain(passages, head):
        return passages[-1].id, [(n, True) for n in range(len(passages))]
    at = {p.id: n for n, p in enumerate(passages)}
    parent = {p.id: p.parent if p.parent in at else None for p in passages}
    _cut_circles(parent)
    children: dict[str | None, list[str]] = {}
    for passage in passages:
        children.setdefault(parent[passage.id], []).append(passage.id)
    if head not in at:
        head = _newest_leaf(passages, children)
    path = set()
    walk = head
    while walk is not None:
        path.add(walk)
        walk = parent[walk]
    linked = len(children) > 1
    branched = any(len(c) > 1 for p, c in children.items() if p is not None)
    order = list(at) if not branched and _in_order(passages, parent) else _depth_first(children)
    return head, [(at[i], i in path or not linked) for i in order]


def _is_chain(passages: Sequence[Passage], head: str | None) -> bool:
    """Whether each passage answers the one before it, as in most conversations; then nothing has to be worked out."""
    above = None
    for passage in passages:
        if passage.parent != above:
            return False
        above = passage.id
    return above is not None and head in (None, above)


def _cut_circles(parent: dict[str, str | None]) -> None:
    safe: set[str] = set()
    for start in parent:
        trail: set[str] = set()
        walk: str | None = start
        while walk is not None and walk not in safe:
            if walk in trail:
                parent[walk] = None
                break
            trail.add(walk)
            walk = parent[walk]
        safe |= trail


def _newest_leaf(
    passages: Sequence[Passage], children: Mapping[str | None, list[str]]
) -> str | None:
    leaves = [
        (p.created_at.timestamp() if p.created_at else float("-inf"), n, p.id)
        for n, p in enumerate(passages)
        if p.id not in children
    ]
    return max(leaves)[2] if leaves else None


def _in_order(passages: Sequence[Passage], parent: Mapping[str, str | None]) -> bool:
    seen: set[str | None] = {None}
    for passage in passages:
        if parent[passage.id] not in seen:
            return False
        seen.add(passage.id)
    return True


def _depth_first(children: Mapping[str | None, list[str]]) -> list[str]:
    order: list[str] = []
    stack = list(reversed(children.get(None, [])))
    while stack:
        current = stack.pop()
        order.append(current)
        stack.extend(reversed(children.get(current, [])))
    return order
