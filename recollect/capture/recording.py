"""Record requests to a model and its answers as conversations.

The messages of a request are saved before they are sent to the model, and the answer when it has
arrived. A request belongs to the conversation that its session names, or else to the one with the
response or the history that it continues.

OpenAI's chat protocol has no conversations: a client sends the whole history with every request.
The id of a message is therefore a hash of its content and of everything before it, so that the
history of the next request leads to what was recorded of the last one. System prompts do not count,
because they change between requests. An answer that was recorded here has another id than one that
a client only claims: examples that a program sends with every question continue nothing.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from recollect.capture.model_answers import Answer, Choice
from recollect.language.text import truncate
from recollect.library import Library
from recollect.model.chat_messages import as_mapping, as_text, calls_in, link_parts, message_parts
from recollect.model.documents import Document, Json, Passage
from recollect.model.search import Filter
from recollect.model.sources import PROXY

ANSWER_PREFIX = "a_"
"""Ids of answers that were recorded here."""
CLIENT_PREFIX = "m_"
"""Ids of messages that a client sent."""
SYSTEM_PREFIX = "s_"
"""Ids of system prompts."""

_TITLE_LENGTH = 50


# -- messages of the protocol, as passages whose ids identify a conversation ------


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
        if text.startswith("<think>"):
            text = text.partition("</think>")[2].strip() or text
        text = as_text(audio.get("id")) or text
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


_MAX_LOOKUPS = 100  # the last answers of a request that are looked up
_TAIL = 200  # messages that are searched for a shortened history
_RECENT_CONVERSATIONS = 100  # those in which an earlier response is searched,
_RECENT_MESSAGES = 20  # and how many of their last messages
_RETRY_SECONDS = 600.0
_MAX_UNANSWERED = 1_000


# -- recording ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """The parts of a request that matter for recording."""

    messages: Sequence[Json]
    session: str | None = None
    project: str = "default"
    is_retry: bool = False
    """Whether the client says that it has sent this before."""
    previous_response: str | None = None
    """The id of the response that the messages continue, if they have no history."""


@dataclass(frozen=True, slots=True)
class Recording:
    """A request in its conversation."""

    user: str
    conversation: str
    passages: tuple[Passage, ...]
    chain: str
    """The hash of the request and of everything before it."""
    parent: str | None
    """The id of the passage that the answer follows."""


class Recorder:
    """Saves requests and answers. A server has one; its methods block and are thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._unanswered: dict[tuple[str, str], tuple[str, float, bool]] = {}
        """For a request of a user: its conversation, its time, and whether it still waits."""

    def begin(self, library: Library, user: str, request: ChatRequest) -> Recording | None:
        """Find or create the conversation of a request; None if the request has no messages.

        Call `save_request` next.
        """
        turns = parse_turns(request.messages)
        if not turns:
            return None
        history = _History(turns, chain_hashes(turns))
        if request.session is not None:
            conversation = create_conversation(library, turns, request)
            start = history.find(library, conversation)
            if start is None:
                start = history.find_tail(library, conversation)
        else:
            start = find_response(library, request.previous_response) or history.find(library)
            if start is not None:
                conversation = start.conversation
            else:
                conversation = self._new_conversation(library, user, history, request)
        return history.recording(library, user, conversation, start)

    def save_request(self, library: Library, recording: Recording) -> int:
        """Save the messages of the request; return how many were new."""
        return library.add_messages(recording.conversation, recording.passages)

    def save_answer(self, library: Library, recording: Recording, answer: Answer) -> list[str]:
        """Save an answer, and the request if it is missing. Returns the ids of the choices.

        Several choices are branches. The first is saved last, because a conversation continues from
        its last message.
        """
        now = datetime.now(UTC)
        passages: list[Passage] = []
        ids: list[str] = []
        for number, choice in enumerate(reversed(answer.choices)):
            turn = parse_answer(choice.message)
            id_ = ANSWER_PREFIX + chain_hash(recording.chain, turn)
            ids.insert(0, id_)
            branch = link_parts(turn.passages, id_, recording.parent)
            metadata = {**branch[-1].metadata, **answer_metadata(answer, choice)}
            branch[-1] = branch[-1]._replace(metadata=metadata)
            passages += with_times(branch, now + timedelta(milliseconds=number))
        passages = [passage._replace(model=answer.model or None) for passage in passages]
        library.add_messages(recording.conversation, [*recording.passages, *passages])
        return ids

    def end(self, recording: Recording, *, has_answer: bool) -> None:
        """End a request. If it got no answer, an equal request counts as its retry."""
        key = (recording.user, recording.chain)
        with self._lock:
            conversation, at, _ = self._unanswered.get(key, ("", 0.0, False))
            if conversation == recording.conversation:
                self._unanswered[key] = (conversation, at, False)
                if has_answer:
                    del self._unanswered[key]

    def _new_conversation(
        self, library: Library, user: str, history: _History, request: ChatRequest
    ) -> str:
        """A new conversation, unless this is the retry of a request without an answer.

        An equal request that still waits for its answer is another conversation with the same
        beginning, unless the client says that it retries.
        """
        key, now = (user, history.chains[-1]), self._clock()
        with self._lock:
            conversation, at, is_waiting = self._unanswered.pop(key, ("", -_RETRY_SECONDS, True))
            if now - at >= _RETRY_SECONDS or (is_waiting and not request.is_retry):
                conversation, at = "", now
        conversation = conversation or create_conversation(library, history.turns, request)
        with self._lock:
            self._unanswered[key] = (conversation, at, True)
            if len(self._unanswered) > _MAX_UNANSWERED:
                del self._unanswered[next(iter(self._unanswered))]
        return conversation


@dataclass(frozen=True, slots=True)
class _Start:
    """Where a request continues a conversation."""

    conversation: str
    turn: int
    """The turns before this one are stored already."""
    parent: str | None
    """The id of the passage that the next turn follows."""
    chain: str | None = None
    """The hash of everything up to the parent; None if it is that of the request itself."""


@dataclass(frozen=True, slots=True)
class _History:
    """The turns of a request, with the hash of each and of everything before it."""

    turns: Sequence[Turn]
    chains: Sequence[str]

    def find(self, library: Library, conversation: str | None = None) -> _Start | None:
        """Start after the last answer that was recorded here.

        If several conversations have it, the one that changed last counts.
        """
        turn_numbers = {
            ANSWER_PREFIX + self.chains[number]: number
            for number, turn in enumerate(self.turns)
            if turn.role == "assistant"
        }
        ids = list(turn_numbers)[-_MAX_LOOKUPS:]
        found = library.conversations_with(PROXY.name, ids) if ids else ()
        matches = [(id_, match) for match, id_ in found if conversation in (None, match)]
        if not matches:
            return None
        # If the numbers are equal, max returns the first.
        id_, match = max(matches, key=lambda pair: turn_numbers[pair[0]])
        return _Start(match, turn_numbers[id_] + 1, id_)

    def find_tail(self, library: Library, conversation: str) -> _Start | None:
        """Where a request of a session continues if its history was not found.

        Many clients send only the last messages, or no history.
        """
        total = library.view(conversation, limit=1).total
        if not total:
            return None
        page = library.view(conversation, start=total - _TAIL, limit=_TAIL)
        stored = [view.passage for view in page.messages]
        stored = [p for p in stored if p.role != "system" and "." not in p.id]
        numbers = [number for number, turn in enumerate(self.turns) if not turn.is_system]
        if not stored or not numbers:
            return None
        if total <= _TAIL and stored[0].id == CLIENT_PREFIX + self.chains[numbers[0]]:
            return None  # both begin alike
        request_messages = [comparable(self.turns[number].passages[-1]) for number in numbers]
        position, length = find_overlap([comparable(p) for p in stored], request_messages)
        if not length:
            last = stored[-1]
            return _Start(conversation, 0, last.id, hash_of_id(last.id))
        last = stored[position + length - 1]
        return _Start(conversation, numbers[length - 1] + 1, last.id, hash_of_id(last.id))

    def recording(
        self, library: Library, user: str, conversation: str, start: _Start | None
    ) -> Recording:
        """The recording with the passages that may be missing, each with its parent."""
        start = start or _Start(conversation, 0, None)
        chains = self.chains
        last_chain = chains[-1]
        if start.chain is not None:
            new_chains = chain_hashes(self.turns[start.turn :], start.chain)
            chains = [*self.chains[: start.turn], *new_chains]
            last_chain = [start.chain, *new_chains][-1]
        ids = [system_prompt_id(conversation, turn) for turn in self.turns if turn.is_system]
        matches = library.conversations_with(PROXY.name, ids) if ids else ()
        stored_prompts = {id_ for match, id_ in matches if match == conversation}
        parent = start.parent
        passages: list[Passage] = []
        for number, turn in enumerate(self.turns):
            if turn.is_system:
                id_ = system_prompt_id(conversation, turn)
                if id_ in stored_prompts:
                    continue
                stored_prompts.add(id_)
            else:
                id_ = CLIENT_PREFIX + chains[number]
                if number < start.turn:
                    continue
            passages += link_parts(turn.passages, id_, parent)
            parent = id_
        new = tuple(with_times(passages, datetime.now(UTC)))
        return Recording(user, conversation, new, last_chain, parent)


def find_response(library: Library, response: str | None) -> _Start | None:
    """Start after a response that was recorded in one of the latest conversations."""
    if response is None:
        return None
    filter = Filter.of(sources=PROXY.name)
    for summary in library.conversation_page(filter, limit=_RECENT_CONVERSATIONS)[0]:
        first = max(0, summary.message_count - _RECENT_MESSAGES)
        messages, _ = library.messages(summary.id, first, _RECENT_MESSAGES)
        for message in messages:
            if message.metadata.get("response_id") == response:
                return _Start(summary.id, 0, message.id, hash_of_id(message.id))
    return None


def chain_hashes(turns: Sequence[Turn], start: str = "") -> list[str]:
    """For each turn, the hash of it and of everything before it. System prompts do not count."""
    hashes: list[str] = []
    current = start
    for turn in turns:
        if not turn.is_system:
            current = chain_hash(current, turn)
        hashes.append(current)
    return hashes


_Comparable = tuple[str | None, str, str]


def comparable(passage: Passage) -> _Comparable:
    return passage.role, passage.type, passage.content.strip()


def find_overlap(stored: Sequence[_Comparable], request: Sequence[_Comparable]) -> tuple[int, int]:
    """The last position of the longest beginning of `request` in `stored`, and its length.

    A repeated user message proves nothing: the beginning must contain an answer or reach the end of
    what is stored.
    """
    best = (0, 0)
    for position in range(len(stored)):
        length = 0
        for message, other in zip(stored[position:], request, strict=False):
            if message != other:
                break
            length += 1
        has_answer = any(role == "assistant" for role, _, _ in request[:length])
        is_proof = has_answer or position + length == len(stored)
        if is_proof and length and length >= best[1]:
            best = (position, length)
    return best


def create_conversation(library: Library, turns: Sequence[Turn], request: ChatRequest) -> str:
    """The conversation of the session; a new one if there is none."""
    if request.session is not None:
        existing = library.find_session(request.session)
        if existing is not None:
            return existing.id
    first = next((turn for turn in turns if turn.role == "user"), turns[0])
    title = conversation_title(first.passages[-1].content)
    id_ = str(uuid.uuid4())
    source_id = request.session or id_
    conversation = Document(PROXY.name, source_id, title, project=request.project, id=id_)
    return library.ensure_conversation(conversation).id


def with_times(passages: Sequence[Passage], start: datetime) -> list[Passage]:
    """The passages, each a microsecond after the one before, so that times give their order."""
    return [
        passage._replace(created_at=start + timedelta(microseconds=number))
        for number, passage in enumerate(passages)
    ]


def answer_metadata(answer: Answer, choice: Choice) -> dict[str, Json]:
    """The metadata of a stored answer."""
    metadata: dict[str, Json] = {
        "finish_reason": choice.finish_reason,
        "response_id": answer.id,
        "usage": dict(answer.usage) if answer.usage else None,
        "choice": choice.index if len(answer.choices) > 1 else None,
        "interrupted": None if answer.is_complete else True,
    }
    return {name: value for name, value in metadata.items() if value is not None}
