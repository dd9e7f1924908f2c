"""Random libraries, queries and filters, for comparing stores."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

from messages import NOON, message

from recollect import Document, Filter, Passage
from recollect.language.queries.query_tree import And, Near, Node, Not, Or, Word


def conversation(id: str, *passages: Passage, **fields: Any) -> Document:
    return Document("test", id, passages=passages, created_at=NOON, updated_at=NOON, **fields)


WORDS = [
    "walrus",
    "Tusk",
    "tusks",
    "café",
    "cafe",
    "naïve",
    "日本",
    "本日",
    "a.b",
    "x_y",
    "0x80",
    "ภาษา",
    "over",
]


def random_documents(rng: random.Random, count: int) -> list[Document]:
    documents = []
    for d in range(count):
        passages = [
            message(
                f"p{d}-{n}",
                " ".join(rng.choices(WORDS, k=rng.randrange(9))),
                rng.choice(["user", "assistant", "tool"]),
                rng.randrange(1_000),
                author=rng.choice([None, "Ann", "Bob"]),
                visibility=rng.choice(["all", "all", "all", "hidden"]),
            )._replace(
                created_at=rng.choice([NOON + timedelta(minutes=rng.randrange(1_000))] * 5 + [None])
            )
            for n in range(rng.randrange(1, 7))
        ]
        documents.append(
            conversation(
                f"d{d}",
                *passages,
                title=" ".join(rng.choices(WORDS, k=2)),
                project=rng.choice(["work", "home"]),
                metadata={
                    "tags": rng.sample(["idea", "todo"], k=rng.randrange(3)),
                    "character_id": rng.randrange(3),
                    "media_type": rng.choice(["pdf", "Video"]),
                },
                kind=rng.choice(["conversation"] * 3 + ["note"]),
            )
        )
    return documents


def random_tree(rng: random.Random, depth: int = 0) -> Node:
    kind = rng.choice(
        ["word", "word", "phrase", "prefix", "near", *(["and", "or", "not"] if depth < 2 else [])]
    )
    match kind:
        case "phrase":
            return Word(" ".join(rng.choices(WORDS, k=2)))
        case "prefix":
            return Word(rng.choice(WORDS)[: rng.randrange(1, 4)], prefix=True)
        case "near":
            return Near(tuple(Word(w) for w in rng.choices(WORDS, k=2)), rng.randrange(4))
        case "and":
            return And((random_tree(rng, depth + 1), random_tree(rng, depth + 1)))
        case "or":
            return Or((random_tree(rng, depth + 1), random_tree(rng, depth + 1)))
        case "not":
            return And((random_tree(rng, depth + 1), Not(random_tree(rng, depth + 1))))
    return Word(rng.choice(WORDS))


def random_filter(rng: random.Random) -> Filter:
    def some(*values: str) -> tuple[str, ...]:
        return tuple(rng.sample(values, k=rng.choice([0, 0, 0, 1, 2])))

    return Filter(
        roles=some("user", "assistant", "tool"),
        authors=some("Ann", "Bob", "Eve"),
        not_roles=some("tool", "user"),
        not_authors=some("Ann", "Eve"),
        projects=some("work", "play"),
        not_projects=some("home", "play"),
        tags=some("idea", "todo"),
        not_tags=some("idea", "none"),
        titles=some("walrus", "tusk")[:1],
        not_titles=some("cafe", "over")[:1],
        conversations=tuple(f"d{rng.randrange(40)}" for _ in range(9))
        if rng.random() < 0.2
        else (),
        senders=some("USER", "ann", "tool"),
        media_types=some("PDF", "video"),
        characters=some("1", "2"),
        sources=some("test", "other"),
        kinds=some("conversation", "note"),
        after=rng.choice([None, None, NOON + timedelta(minutes=rng.randrange(600))]),
        before=rng.choice([None, None, NOON + timedelta(minutes=rng.randrange(400, 1_000))]),
        hidden=rng.random() < 0.4,
    )
