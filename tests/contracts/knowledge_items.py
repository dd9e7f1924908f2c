"""Notes, media, chats, characters and prompts for the Knowledge API, and searches in them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from states import settle

from recollect import Audience, Document, Library
from recollect.importers.items import Cue, with_cues, with_fields, with_text
from recollect.knowledge.result_pages import ResultHistory
from recollect.knowledge.retrieval import parse_retrieval
from recollect.language.chunking import count_tokens
from recollect.model.kinds import CHARACTER, MEDIA, NOTE, PROMPT
from recollect.serve.mcp.client_sessions import Session

__all__ = ["Audience", "Cue", "Session", "count_tokens"]

NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)
FIELDS = {
    "id",
    "source",
    "title",
    "snippet",
    "uri",
    "score",
    "score_type",
    "created_at",
    "last_modified",
    "version",
    "tags",
    "media_type",
    "url",
    "conversation_id",
    "message_id",
    "sender",
    "loc",
}
SECTION = (
    "This is section {n}. It says little of note. "
    "The lighthouse keeper wrote page{n} that night.\n\n"
)
COAST = "".join(SECTION.format(n=n) for n in range(40))
ITEMS = (
    ("notes", "Coast"),
    ("media", "talk.mp4"),
    ("chats", "chat"),
    ("characters", "Ada"),
    ("prompts", "Keeper"),
)
"""One item of each source in the collection."""


def note(
    item_id: str, text: str, title: str = "", days: int = 0, tags: tuple[str, ...] = ()
) -> Document:
    at = NOW - timedelta(days=days)
    metadata = {}
    if tags:
        metadata["tags"] = list(tags)
    times = {"created_at": at, "updated_at": at}
    document = Document("notes", item_id, title or item_id, NOTE, metadata=metadata, **times)
    return with_text(document, text)


def media(
    item_id: str, text: str, kind: str = "pdf", days: int = 0, pages: Sequence[int] = ()
) -> Document:
    at = NOW - timedelta(days=days)
    metadata = {"media_type": kind, "url": "https://example.org/x"}
    times = {"created_at": at, "updated_at": at}
    document = Document("media", item_id, item_id, MEDIA, metadata=metadata, **times)
    return with_text(document, text, pages)


def video(item_id: str, cues: list[Cue]) -> Document:
    metadata = {"media_type": "video"}
    document = Document("media", item_id, item_id, MEDIA, created_at=NOW, metadata=metadata)
    return with_cues(document, cues)


def prompt(name: str, **fields: str) -> Document:
    return with_fields(Document("prompts", name, kind=PROMPT), {"name": name, **fields})


def character(name: str, **fields: str) -> Document:
    return with_fields(Document("characters", name, kind=CHARACTER), {"name": name, **fields})


def save(library: Library, *documents: Document) -> None:
    """Save documents at once, and wake the background thread, which the store does not."""
    library._store.save(documents)
    library.wake_indexer()


def search_page(
    library: Library,
    query: str,
    audience: Audience = Audience.PERSON,
    history: ResultHistory | None = None,
    **options: Any,
) -> dict[str, Any]:
    settle(library)
    return library.knowledge.search(query, audience=audience, history=history, **options)


def search(library: Library, query: str, **options: Any) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = search_page(library, query, **options)["results"]
    return results


def uris(library: Library, query: str, **options: Any) -> list[str]:
    return [result["uri"] for result in search(library, query, **options)]


def get(library: Library, source: str, item_id: str, **options: Any) -> dict[str, Any]:
    settle(library)
    return library.knowledge.get(source, item_id, parse_retrieval(options, {}))


def fill(library: Library) -> None:
    """Save items of every source that mention a lighthouse."""
    save(
        library,
        note(
            "Coast",
            COAST,
            "The coast",
            days=3,
            tags=("Sea", "work"),
        ),
        note("Bread", "Bake for an hour. The lighthouse has no oven.", days=30),
        media("paper.pdf", "On the optics of the lighthouse. " * 3, days=10),
        video(
            "talk.mp4",
            [Cue(n * 2, n * 2 + 2, f"we come to lighthouse number {n}.") for n in range(150)],
        ),
        prompt(
            "Keeper",
            system_prompt="You keep a lighthouse.",
            user_prompt="What do you see?",
            keywords="sea, light",
        ),
        character("Ada", description="She lives in a lighthouse by the sea.", tags="sailor, calm"),
    )
    library.add_conversation(
        "chat",
        "About towers",
        created_at=NOW,
        messages=[
            {
                "role": "user",
                "content": "Who built the lighthouse?",
                "author": "Kim",
                "created_at": NOW,
            },
            {"role": "assistant", "content": "Nobody knows who built it.", "created_at": NOW},
            {
                "role": "user",
                "content": "Then tell me of the foghorn.",
                "author": "Kim",
                "created_at": NOW,
            },
        ],
    )
    library.add_conversation(
        "titled",
        "The lighthouse plan",
        created_at=NOW - timedelta(days=1),
        messages=[
            {
                "role": "user",
                "content": "Hello, where do we begin?",
                "created_at": NOW - timedelta(days=1),
            }
        ],
    )
