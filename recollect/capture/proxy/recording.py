"""Requests to a model and its answers, kept as conversations.

What was said is saved before the model is asked, and the answer when it has
been seen. Which conversation a request belongs to is said by its session, or
else by the history that comes with it (see capture.turns).
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from recollect.capture.proxy.tape import Answer, Choice
from recollect.capture.proxy.turns import (
    ANSWER,
    TOLD,
    Turn,
    answer_of,
    hash_in,
    linked_to,
    placed,
    system_id,
    title_of,
    turns_of,
)
from recollect.library import PROXY, Library
from recollect.model.documents import Json, Passage

_LOOKED_FOR = 100  # a request's last answers; one of them is known if any is
_TAIL = 200  # messages in which a shortened history is looked for
_REPEATED_WITHIN = 600.0  # seconds
_REMEMBERED = 1_000


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, as far as it matters here."""

    messages: Sequence[Json]
    session: str | None = None
    namespace: str = "default"
    again: bool = False
    """The client says that it sent this before."""


@dataclass(frozen=True, slots=True)
class Recording:
    """A request in its conversation, and what its answer hangs on."""

    user: str
    conversation: str
    passages: tuple[Passage, ...]
    chain: str
    """The hash of what was asked and of all before it."""
    parent: str | None


class Recorder:
    """Saves requests and answers. One for a server; its methods block, and may be called from any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._unanswered: OrderedDict[tuple[str, str], _Unanswered] = OrderedDict()

    def begin(self, library: Library, user: str, asked: Asked) -> Recording | None:
        """Find or make the conversation of a request, to be followed by `keep`; None where it says nothing."""
        turns = turns_of(asked.messages)
        if not turns:
            return None
        request = _Request(turns, _chains(turns))
        if asked.session is not None:
            conversation = _created(library, turns, asked)
            known = request.known(library, conversation) or request.fitted(library, conversation)
        elif known := request.known(library):
            conversation = known.conversation
        else:
            conversation = self._new(library, user, request, asked)
        return request.recording(library, user, conversation, known)

    def keep(self, library: Library, recording: Recording) -> int:
        """Save what was asked; says how many messages were new."""
        return library.record(recording.conversation, recording.passages)

    def save(
        self, library: Library, recording: Recording, answer: Answer, model: str | None = None
    ) -> list[str]:
        """Save an answer, and what was asked where that is missing. Returns the ids of the choices.

        Several choices are branches. The first is saved last, for the conversation goes on from what was last said.
        """
        now = datetime.now(UTC)
        passages: list[Passage] = []
        ids: list[str] = []
        for number, choice in enumerate(reversed(answer.choices)):
            turn = answer_of(choice.message)
            ids.insert(0, ANSWER + linked_to(recording.chain, turn))
            made = placed(turn, ids[0], recording.parent)
            made[-1] = made[-1]._replace(metadata={**made[-1].metadata, **notes_of(answer, choice)})
            passages += _timed(made, now + timedelta(milliseconds=number))
        told = [p._replace(model=answer.model or model) for p in passages]
        library.record(recording.conversation, [*recording.passages, *told])
        return ids

    def end(self, recording: Recording, *, answered: bool) -> None:
        """The request is over. Without an answer, an equal one is the same request sent again."""
        key = (recording.user, recording.chain)
        with self._lock:
            was = self._unanswered.get(key)
            if was is not None and was.conversation == recording.conversation:
                was.underway = False
                if answered:
                    del self._unanswered[key]

    def _new(self, library: Library, user: str, request: _Request, asked: Asked) -> str:
        """A new conversation, unless an equal request got no answer. One that still waits for its answer is
        another conversation that begins alike, if the client does not say otherwise."""
        key, now = (user, request.chains[-1]), self._clock()
        with self._lock:
            was = self._unanswered.get(key)
            if (
                was is not None
                and (asked.again or not was.underway)
                and now - was.at < _REPEATED_WITHIN
            ):
                was.underway = True
                return was.conversation
        conversation = _created(library, request.turns, asked)
        with self._lock:
            self._unanswered[key] = _Unanswered(conversation, now)
            self._unanswered.move_to_end(key)
            if len(self._unanswered) > _REMEMBERED:
                self._unanswered.popitem(last=False)
        return conversation


@dataclass(slots=True)
class _Unanswered:
    conversation: str
    at: float
    underway: bool = True


@dataclass(frozen=True, slots=True)
class _Known:
    """How much of a request is there already: the turns before `until`. The next one hangs on the passage `id`,
    and `chain` is the hash of all up to that; None where the request's own is."""

    conversation: str
    until: int
    id: str | None
    chain: str | None = None


@dataclass(frozen=True, slots=True)
class _Request:
    turns: Sequence[Turn]
    chains: Sequence[str]

    def known(self, library: Library, conversation: str | None = None) -> _Known | None:
        """Up to the deepest answer that was seen here; where several conversations have it, in the one that
        changed last."""
        places = {
            ANSWER + self.chains[n]: n
            for n, turn in enumerate(self.turns)
            if turn.role == "assistant"
        }
        asked = list(places)[-_LOOKED_FOR:]
        held = library.recordings(asked) if asked else []
        found = [(c, id_) for c, id_ in held if conversation in (None, c)]
        if not found:
            return None
        where, id_ = max(found, key=lambda f: places[f[1]])  # of equal ones, max takes the first
        return _Known(where, places[id_] + 1, id_)

    def fitted(self, library: Library, conversation: str) -> _Known | None:
        """Where a request of a session goes on whose history says nothing: many clients send the last
        messages only, or no history."""
        length = library.view(conversation, limit=1).total
        tail = (
            library.view(conversation, start=length - _TAIL, limit=_TAIL).messages if length else ()
        )
        said = [s.passage for s in tail if s.passage.role != "system" and "." not in s.passage.id]
        mine = [n for n, turn in enumerate(self.turns) if not turn.system]
        if not said or not mine or (length <= _TAIL and said[0].id == TOLD + self.chains[mine[0]]):
            return None  # it begins as the conversation does
        wanted = [_plain(self.turns[n].passages[-1]) for n in mine]
        at, length = _overlap([_plain(p) for p in said], wanted)
        last = said[at + length - 1] if length else said[-1]
        return _Known(
            conversation, mine[length - 1] + 1 if length else 0, last.id, hash_in(last.id)
        )

    def recording(
        self, library: Library, user: str, conversation: str, known: _Known | None
    ) -> Recording:
        """The passages that may be missing, each with its parent."""
        known = known or _Known(conversation, 0, None)
        chains, parent = self.chains, known.id
        if known.chain is not None:
            chains = [*self.chains[: known.until], *_chains(self.turns[known.until :], known.chain)]
        systems = {
            n: system_id(conversation, turn) for n, turn in enumerate(self.turns) if turn.system
        }
        there = (
            {id_ for c, id_ in library.recordings(list(systems.values())) if c == conversation}
            if systems
            else set()
        )
        passages: list[Passage] = []
        for number, turn in enumerate(self.turns):
            id_ = systems.get(number) or TOLD + chains[number]
            if id_ not in there if turn.system else number >= known.until:
                there.add(id_)
                passages += placed(turn, id_, parent)
                parent = id_
        last = chains[-1] if known.chain is None or known.until < len(self.turns) else known.chain
        return Recording(
            user, conversation, tuple(_timed(passages, datetime.now(UTC))), last, parent
        )


def _chains(turns: Sequence[Turn], before: str = "") -> list[str]:
    """For every turn the hash of it and of what stands before it; a system prompt adds nothing."""
    found: list[str] = []
    for turn in turns:
        before = before if turn.system else linked_to(before, turn)
        found.append(before)
    return found


def _overlap(said: Sequence[object], wanted: Sequence[object]) -> tuple[int, int]:
    """Where the longest beginning of `wanted` lies in `said`, the last such place; and how long it is. Words alone
    that were said before prove nothing, so an answer must be among them, or nothing may follow them."""
    best = (0, 0)
    for at in range(len(said)):
        length = 0
        while (
            at + length < len(said) and length < len(wanted) and said[at + length] == wanted[length]
        ):
            length += 1
        proved = at + length == len(said) or any(_is_answer(w) for w in wanted[:length])
        if proved and length and length >= best[1]:
            best = (at, length)
    return best


def _plain(passage: Passage) -> tuple[str | None, str, str]:
    return passage.role, passage.type, passage.content.strip()


def _is_answer(plain: object) -> bool:
    return isinstance(plain, tuple) and plain[0] == "assistant"


def _created(library: Library, turns: Sequence[Turn], asked: Asked) -> str:
    """The conversation of the session; a new one where there is none."""
    first = next((t for t in turns if t.role == "user"), turns[0])
    made = library.create_conversation(
        session_id=asked.session,
        title=title_of(first.passages[-1].content),
        namespace=asked.namespace,
        origin=PROXY,
    )
    return str(made["id"])


def _timed(passages: Sequence[Passage], start: datetime) -> list[Passage]:
    """Each a moment after the one before, so that their order is that of their times too."""
    return [
        p._replace(created_at=start + timedelta(microseconds=n)) for n, p in enumerate(passages)
    ]


def notes_of(answer: Answer, choice: Choice) -> dict[str, Json]:
    """What is said about an answer, for its metadata."""
    found: dict[str, Json] = {
        "finish_reason": choice.finish_reason,
        "usage": dict(answer.usage) if answer.usage else None,
        "response_id": answer.id,
        "choice": choice.index if len(answer.choices) > 1 else None,
        "interrupted": None if answer.whole else True,
    }
    return {name: value for name, value in found.items() if value is not None}
