"""The synthetic sessions of the memory benchmark."""

from __future__ import annotations

from functools import cache

from bench import memory_set
from recollect.language.text import fold


def text_of(session: memory_set.Session) -> str:
    parts = []
    for turn in session.turns:
        parts += [f"{call.input} {call.result}" for call in turn.calls]
        parts.append(turn.text)
    return "\n".join(parts)


@cache
def texts() -> list[tuple[memory_set.Session, str]]:
    return [(each, " ".join(fold(text_of(each)).split())) for each in memory_set.build().sessions]


def sessions_with(key: str) -> list[memory_set.Session]:
    folded = " ".join(fold(key).split())
    return [session for session, text in texts() if folded in text]


def test_each_key_occurs_in_its_session_only() -> None:
    for question in memory_set.build().questions:
        assert [each.id for each in sessions_with(question.key)] == [question.session]
