"""Messages of OpenAI's chat protocol as passages with ids that identify a conversation.

The protocol has no conversations: a client sends the whole history with every request. The id of a
message is therefore a hash of its content and of everything before it, so that the history of the
next request leads to what was recorded of the last one. System prompts do not count, because they
change between requests. An answer that was recorded here has another id than one that a client only
claims: examples that a program sends with every question continue nothing.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from recollect.language.text import truncate
from recollect.model.chat_messages import as_mapping, as_text, calls_in, message_parts
from recollect.model.documents import Json, Passage

ANSWER_PREFIX = "a_"
"""Ids of answers that were recorded here."""
CLIENT_PREFIX = "m_"
"""Ids of messages that a client sent."""
SYSTEM_PREFIX = "s_"
"""Ids of system prompts."""

_TITLE_LENGTH = 50
_MAX_URL_LENGTH = 2_000
_FILE_KINDS = ("image", "audio", "file", "video")
_THOUGHTS = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of the protocol and its passages, the last of which has the id of the turn."""

    role: str
    key: str
    """The hash of the content."""
    passages: tuple[Passage, ...]
    """Without ids and parents, which depend on the messages before."""

    @property
    def is_system(self) -> bool:
        return self.role == "system"


def parse_turns(messages: Iterable[Json]) -> list[Turn]:
    """The turns of a request. Invalid messages are skipped; the model server will report them."""
    tools: dict[str, str] = {}
    return [_turn(message, tools) for message in messages if isinstance(message, dict)]


def parse_answer(message: Mapping[str, Json]) -> Turn:
    return _turn({**message, "role": "assistant"}, {})


def _turn(message: Mapping[str, Json], tools: dict[str, str]) -> Turn:
    role = as_text(message.get("role"))
    passages = message_parts(message, tools)
    if not any(passage.type != "thinking" for passage in passages):
        passages.append(Passage("", role, ""))
    texts = [passage for passage in passages if passage.type in ("message", "tool_result")]
    text = "\n".join(passage.content for passage in texts).strip()
    files = [file for passage in texts for file in passage.attachments]
    if role == "assistant":
        audio = as_mapping(message.get("audio"))
        if audio.get("data"):
            files.pop()
        # Clients omit thoughts when they send an answer back, and refer to audio by its id.
        text = as_text(audio.get("id")) or _THOUGHTS.sub("", text).strip()
        calls = [[call.id, call.name, call.canonical_arguments] for call in calls_in(message)]
        return Turn(role, _hash(role, text, files, calls), tuple(passages))
    if role in ("tool", "function"):
        call = as_text(message.get("tool_call_id"))
        return Turn("tool", _hash("tool", text, files, call), tuple(passages))
    if role == "user":
        return Turn(role, _hash(role, text, files), tuple(passages))
    hidden = "hidden" if role in ("system", "developer") else "all"
    metadata = {} if role == "system" else {"role": role[:100]}
    prompt = Passage("", "system", text, "context", visibility=hidden, metadata=metadata)
    author = next((passage.author for passage in passages if passage.author), None)
    prompt = prompt._replace(author=author, attachments=tuple(files))
    return Turn("system", _hash(role, text, files), (prompt,))


def conversation_title(text: str) -> str:
    """The title of a new conversation (Persistence API): the start of the first question."""
    return truncate(text, _TITLE_LENGTH)


# -- ids -----------------------------------------------------------------------


def chain_hash(previous: str, turn: Turn) -> str:
    """The hash of a turn and of everything before it, whose hash is `previous`."""
    return _hash(previous, turn.key)


def hash_of_id(id: str) -> str:
    """The hash in an id. An id from elsewhere stands for itself."""
    if id.startswith((ANSWER_PREFIX, CLIENT_PREFIX)):
        return id[2:]
    return id


def system_prompt_id(conversation: str, turn: Turn) -> str:
    """The id of a system prompt, which is unique to the conversation.

    The same id in the whole library would be found in thousands of conversations.
    """
    return SYSTEM_PREFIX + _hash(conversation, turn.key)


def _hash(*parts: Json) -> str:
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
