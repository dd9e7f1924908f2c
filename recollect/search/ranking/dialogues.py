"""Who speaks: dialogues between people, and whom a query is about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from recollect.language.detection import language_of
from recollect.language.queries.addressee import is_about_user
from recollect.language.text import is_unspaced, tokens
from recollect.language.words.names import names_in
from recollect.language.words.umlauts import transcriptions
from recollect.model.kinds import CONVERSATION
from recollect.search.queries.ranking_query import RankingQuery
from recollect.search.ranking.scored import ScoredCandidate

_MIN_NAME = 2  # letters; shorter ones are initials


def mark_dialogues(pool: Sequence[ScoredCandidate]) -> None:
    """Mark the messages of dialogues between people.

    Their messages name their authors. Chats with an assistant have roles instead, at most with
    the name of the one user.
    """
    authors: dict[str, set[str]] = {}
    for scored in pool:
        candidate = scored.candidate
        if candidate.author and candidate.kind == CONVERSATION:
            authors.setdefault(candidate.document, set()).add(candidate.author)
    has_several = len(set().union(*authors.values())) > 1
    for scored in pool:
        scored.is_between_people = has_several and scored.candidate.document in authors


def prefers_person(query: RankingQuery, roles: Set[str | None]) -> bool:
    """Whether the user's own messages should rank higher.

    Only if the user and others wrote the candidates, and the query is about the user.
    """
    if not query.by_person or "user" not in roles or len(roles) < 2:
        return False
    return is_about_user(query.text)


def speaker_in_query(query: RankingQuery, authors: Set[str | None]) -> str | None:
    """The author whom the query names, if it names exactly one."""
    speakers = authors_in_query(query.text, filter(None, authors))
    if len(speakers) != 1:
        return None
    return speakers[0]


def authors_in_query(text: str, authors: Iterable[str]) -> list[str]:
    """The authors whom a plain query names.

    A stop word is a name only if it has a capital letter: "What did Will plant?" Without spaces
    between words, the whole name must be in the query, because many words share a character.
    """
    words = {word for word in tokens(text) if len(word) >= _MIN_NAME}
    words -= language_of(text).stop_words - names_in(text)
    words.update(transcriptions(text).values())
    return [
        author
        for author in authors
        if not words.isdisjoint([*tokens(author), *transcriptions(author).values()])
        or _is_unspaced_name(author, text)
    ]


def _is_unspaced_name(author: str, text: str) -> bool:
    return is_unspaced(author) and len(author) >= _MIN_NAME and author in text
