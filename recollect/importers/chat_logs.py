"""Files of other programs with messages as lines or in arrays: one description per program.

A description (see `chats/programs.toml`) says where a record has the role, the text, the time and
so on. A place is a key, or keys separated by dots: `message.content`. A program whose messages have
no ids gets ids made from their contents, which stay the same when a file grows or loses its start.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from recollect.importers import jsonstream
from recollect.importers.chats import own
from recollect.importers.chats.agentlog import first_records, head_text, stem, title_of
from recollect.importers.entries import Entry
from recollect.importers.records import (
    EMPTY_CONVERSATION,
    EMPTY_MESSAGE,
    UNEXPECTED,
    UNKNOWN_CONVERSATION,
    as_list,
    contain_errors,
    failure,
)
from recollect.model.chat_messages import as_mapping
from recollect.model.documents import Document, Json
from recollect.model.receipts import Problem
from recollect.model.sources import Source

Record = dict[str, Any]


@dataclass(eq=False)
class ChatLog:
    """The files of one program; a format, see `recollect.importers`. Lists are separated by
    spaces."""

    SOURCE: Source
    DESCRIPTION: str
    required: str
    """The keys by which a file is recognized: all are in one of its first records."""
    fields: str
    """What a message has, by the names of Recollect's JSON: `role`, or `content=message.text`."""
    suffixes: Sequence[str] = (".jsonl",)
    session: str = ""
    """Where the id of the conversation is. Without it, a file is one conversation."""
    messages: str = ""
    """Where a record has the list of its messages. Without it, each record is a message."""
    about: str = ""
    """What a conversation has, like `fields`: `title=name created_at=started namespace=cwd`."""
    roles: Mapping[str, str] = field(default_factory=dict)
    """The roles of messages, by the program's own names."""
    role: str = ""
    """The role of messages that name none."""
    prefix: str = ""
    """Put before the ids of conversations that another format of the source has in full."""
    is_copy: bool = False
    """Whether something is missing that the source has: such a file replaces nothing."""
    convert: Callable[[Record], None] | None = None
    """Changes a message after its fields were read, if the program has a way of its own."""

    def claims(self, entry: Entry) -> bool:
        if not entry.basename.lower().endswith(tuple(self.suffixes)):
            return False
        keys = set(self.required.split())
        if entry.basename.lower().endswith(".json"):
            return jsonstream.peek(entry) >= keys
        return any(record.keys() >= keys for record in first_records(head_text(entry)))

    def read(self, entry: Entry) -> Iterator[Document | Problem]:
        return contain_errors(self._read)(entry)

    def _read(self, entry: Entry) -> Iterator[Document | Problem]:
        is_json = entry.basename.lower().endswith(".json")
        sessions: dict[str, list[Json]] = {}
        for item in jsonstream.records(entry) if is_json else jsonstream.lines(entry):
            if isinstance(item, Problem):
                yield item
                continue
            _, record = item
            id_ = str(value_at(record, self.session) or "") if self.session else stem(entry)
            if self.messages:
                yield from self._conversation(id_, record, as_list(value_at(record, self.messages)))
            else:
                sessions.setdefault(id_, []).append(record)
        for id_, records in sessions.items():
            yield from self._conversation(id_, records[0], records)

    def _conversation(
        self, id_: str, about: Json, records: list[Json]
    ) -> Iterator[Document | Problem]:
        """A conversation, read by the same code as one in Recollect's JSON."""
        skipped: Counter[str] = Counter()
        repetitions: Counter[str] = Counter()
        messages: list[Record] = []
        try:
            for record in map(as_mapping, records):
                message = pick(record, self.fields)
                role = str(message.get("role") or self.role)
                message["role"] = self.roles.get(role, role)
                if self.convert is not None:
                    self.convert(message)
                content = message.get("content")
                text = content.strip() if isinstance(content, str) else content
                if not text and not message.get("tool_calls"):
                    skipped[EMPTY_MESSAGE] += 1
                    continue
                if not message.get("id"):
                    parts = [id_, message.get("timestamp"), message["role"], content]
                    digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]
                    number = repetitions[digest]
                    repetitions[digest] += 1
                    message["id"] = f"{digest}:{number}" if number else digest
                messages.append(message)
            for reason, count in skipped.items():
                yield Problem(reason, id_, count=count)
            if not messages or not id_:
                yield Problem(EMPTY_CONVERSATION, id_, unit="conversations")
                return
            conversation: Record = {
                "id": self.prefix + id_,
                "source": self.SOURCE.name,
                "messages": messages,
                "partial": self.is_copy,
                **pick(about, self.about),
            }
            for item in own.conversation(conversation, id_):
                if isinstance(item, Document) and not item.title:
                    item = replace(item, title=title_of(item.passages))
                yield item
        except UNEXPECTED:
            yield failure(UNKNOWN_CONVERSATION, id_)


def value_at(record: Json, place: str) -> Json:
    """The value at a place in a record; None if there is none."""
    for key in place.split("."):
        record = as_mapping(record).get(key)
    return record


def pick(record: Json, fields: str) -> Record:
    """The fields of a record that have a value, by the names given to them."""
    pairs = (field.partition("=") for field in fields.split())
    values = {name: value_at(record, place or name) for name, _, place in pairs}
    return {name: value for name, value in values.items() if value is not None}
