"""Notes, media, characters and prompts are stored as passages and restored from them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from recollect import Document
from recollect.cli import common, knowledge_editing
from recollect.importers.items import (
    Cue,
    cues_of,
    fields_of,
    page_at,
    seconds_at,
    text_of,
    with_cues,
    with_fields,
    with_text,
)
from recollect.knowledge import exporting
from recollect.knowledge.results import SOURCES
from recollect.model.kinds import CHARACTER, MEDIA, NOTE, PROMPT

NOW = datetime(2026, 1, 2, tzinfo=UTC)
WORDS = st.text(st.characters(exclude_categories=["Cc", "Cs", "Z"]), min_size=1, max_size=12)
SENTENCES = st.lists(WORDS, min_size=1, max_size=12).map(" ".join)
CUES = st.lists(st.tuples(SENTENCES, st.sampled_from([None, "Ada", "Grace"])), max_size=60).map(
    lambda texts: [
        Cue(n * 2.0, n * 2.0 + 1.5, text, speaker) for n, (text, speaker) in enumerate(texts)
    ]
)


def document(kind: str, **more: object) -> Document:
    return Document("here", "it", kind=kind, created_at=NOW, **more)  # type: ignore[arg-type]


@given(st.text(max_size=4_000))
def test_a_text_is_restored_from_its_chunks(text: str) -> None:
    note = with_text(document(NOTE), text)
    assert text_of(note.passages) == text
    assert [p.metadata["start"] for p in note.passages] == [
        sum(len(q.content) for q in note.passages[:n]) for n in range(len(note.passages))
    ]
    assert len({p.id for p in note.passages}) == len(note.passages)


@given(CUES)
def test_the_cues_of_a_transcript_are_restored(cues: list[Cue]) -> None:
    media = with_cues(document(MEDIA), cues)
    assert list(cues_of(media.passages)) == cues


def test_each_offset_in_a_transcript_has_a_time() -> None:
    cues = [Cue(n, n + 1, f"This is what is said at {n}, and a little more.") for n in range(200)]
    media = with_cues(document(MEDIA), cues)
    assert len(media.passages) > 5
    for passage in media.passages:
        for second in range(200):
            offset = passage.content.find(f"at {second},")
            if offset >= 0:
                assert seconds_at(passage, offset) == second


def test_a_chunk_with_one_speaker_has_an_author() -> None:
    media = with_cues(
        document(MEDIA), [Cue(0, 1, "Hello there.", "Ada"), Cue(1, 2, "And more.", "Ada")]
    )
    assert media.passages[0].author == "Ada"
    both = with_cues(
        document(MEDIA), [Cue(0, 1, "Hello there.", "Ada"), Cue(1, 2, "And more.", "Grace")]
    )
    assert both.passages[0].author is None


def test_chunks_have_page_numbers() -> None:
    text = "".join(f"This is page {n}. " * 100 for n in range(1, 4))
    pages = [text.index(f"This is page {n}") for n in range(1, 4)]
    chunks = with_text(document(MEDIA), text, pages).passages
    assert [p.metadata["page"] for p in chunks] == sorted(p.metadata["page"] for p in chunks)
    assert {p.metadata["page"] for p in chunks} == {1, 2, 3}
    assert all(a.metadata["end"] == b.metadata["start"] for a, b in pairwise(chunks))
    for chunk in chunks:
        for match in re.finditer(r"page (\d)", chunk.content):
            assert page_at(chunk, match.start()) == int(match[1])


@given(
    st.dictionaries(
        st.sampled_from(["details", "system_prompt", "user_prompt"]),
        st.text(min_size=1),
        max_size=3,
    )
)
def test_fields_are_restored_from_their_passages(fields: dict[str, str]) -> None:
    prompt = with_fields(document(PROMPT), {"name": "A prompt", **fields})
    assert fields_of(prompt.passages) == {"name": "A prompt", **fields}
    assert prompt.title == "A prompt"
    assert len({p.id for p in prompt.passages}) == len(prompt.passages)


def test_the_same_text_in_two_fields_becomes_two_passages() -> None:
    character = with_fields(
        document(CHARACTER), {"name": "Robin", "description": "calm", "personality": "calm"}
    )
    assert [p.role for p in character.passages] == ["name", "description", "personality"]
    assert len({p.id for p in character.passages}) == 3


def test_the_command_line_has_all_kinds_formats_and_modes() -> None:
    assert set(SOURCES) == set(common.KNOWLEDGE_KINDS)
    assert {
        SOURCES[name]: formats for name, formats in knowledge_editing.FORMATS.items()
    } == exporting.FORMATS
