"""The Knowledge API: find, read and write items of every kind (see docs/contracts)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from recollect.errors import NotFound
from recollect.index.meaning import Meaning
from recollect.knowledge import editing, exporting
from recollect.knowledge.item_search import ItemSearch
from recollect.knowledge.options import KnowledgeOptions, kind_of, parse_texts
from recollect.knowledge.reading import PAGE_SIZE, Reading, transcript_page, whole_transcript
from recollect.knowledge.result_pages import ResultHistory
from recollect.knowledge.retrieval import Retrieval, parse_retrieval
from recollect.knowledge.units import StoredChunks, read_passages
from recollect.language import transcript
from recollect.language.text import storable, truncate
from recollect.model.arguments import require_choice, with_arguments
from recollect.model.audience import Audience
from recollect.model.documents import Document, Json, Summary
from recollect.model.kinds import CHARACTER, MEDIA, PROMPT
from recollect.model.search import Filter
from recollect.settings import LIMITS
from recollect.store.base import Store


class Knowledge:
    """A library's notes, media, conversations, characters and prompts."""

    def __init__(self, store: Store, meaning: Meaning, on_change: Callable[[], None]) -> None:
        """`on_change` is called after every change, so that it gets indexed."""
        self._store = store
        self._on_change = on_change
        self._meaning = meaning
        self._item_search = ItemSearch(store, meaning)

    def search(
        self,
        query: str,
        options: KnowledgeOptions | None = None,
        *,
        audience: Audience = Audience.PERSON,
        history: ResultHistory | None = None,
        **arguments: Any,
    ) -> dict[str, Json]:
        """A page of one list of everything that matches. Raises InvalidInput.

        The other arguments are those of KnowledgeOptions: `search("tram", sources=["notes"],
        limit=5)`. With a `history`, results that it contains are skipped. If there are no others,
        they are returned again.
        """
        options = with_arguments(options or KnowledgeOptions(), arguments)
        return self._item_search.search(query, options, audience, history)

    # -- reading ---

    def get(
        self,
        source: str,
        id: str | int,
        retrieval: Retrieval | None = None,
        *,
        audience: Audience = Audience.PERSON,
        page: int = 1,
        page_size: int = PAGE_SIZE,
        whole_answer: bool = False,
        **options: Any,
    ) -> dict[str, Json]:
        """An item and as much of its text as `retrieval` asks for; by default all of it.

        The other arguments are those of Retrieval: `get("notes", id, mode="chunk")`. `page` and
        `page_size` are for the messages of a conversation. `max_tokens` is the budget of the text;
        with `whole_answer`, of the answer as JSON, except that it always has some text. Raises
        NotFound, InvalidInput.
        """
        about = self.find(source, id)
        retrieval = retrieval or parse_retrieval(options, {}, "full")
        reading = Reading(self._store, self._meaning, about, retrieval, audience, whole_answer)
        return reading.answer(page, page_size)

    def find(self, source: str, id: str | int) -> Summary:
        """The item with this id, or the prompt or character with this name. Raises NotFound."""
        kind = kind_of(source)
        by_id: Summary | None = None
        with suppress(NotFound):
            by_id = self._store.summary(str(id))
        if by_id is not None and by_id.kind != kind:
            by_id = None
        is_abbreviated = by_id is None or by_id.id != str(id)
        if is_abbreviated and kind in (PROMPT, CHARACTER):
            match = self._find_by_name(kind, str(id))
            if match is not None:
                return match
        if by_id is not None:
            return by_id
        raise NotFound(f"{kind.capitalize()} not found: {truncate(str(id), 80)}")

    def _find_by_name(self, kind: str, name: str) -> Summary | None:
        """The item with exactly this name that changed last. Others may contain the name."""
        text = storable(name)
        if not text.strip():
            return None
        start, total = 0, 1
        while start < total:
            summaries, total = self._store.summaries(
                Filter(kinds=(kind,)), text, LIMITS.page_size, start
            )
            for summary in summaries:
                if summary.title.casefold() == name.casefold():
                    return summary
            start += LIMITS.page_size
        return None

    def document(self, source: str, id: str | int) -> Document:
        """An item with its whole content. Raises NotFound."""
        return self._store.document(self.find(source, id).id)

    # -- writing ---

    def create(self, source: str, fields: Mapping[str, Any]) -> Summary:
        """Create a note, media item, character or prompt. Raises InvalidInput."""
        document = editing.new_document(kind_of(source), fields)
        (outcome,) = self._store.save([document])
        self._on_change()
        return self._store.summary(outcome.id)

    def edit(
        self, source: str, id: str | int, fields: Mapping[str, Any], version: int | None = None
    ) -> Summary:
        """Change the given fields and nothing else.

        Raises NotFound, InvalidInput, or Conflict if the item is no longer at `version`.
        """
        document = self._store.document(self.find(source, id).id)
        if version is None:
            version = document.version
        self._store.rewrite(document.id, editing.edit_document(document, fields), version)
        self._on_change()
        return self._store.summary(document.id)

    def delete(self, source: str, id: str | int) -> Document:
        """Delete an item permanently. Returns the only copy of it. Raises NotFound."""
        document = self._store.delete(self.find(source, id).id)
        self._on_change()
        return document

    def export(self, source: str, id: str | int, format: str) -> exporting.Export:
        """An item as a file, in one of `exporting.FORMATS`. Raises NotFound or InvalidInput."""
        return exporting.export(self._store.document(self.find(source, id).id), format)

    # -- media ---

    def media_types(self) -> list[tuple[str, int]]:
        """The types of the library's media with the number of items, most frequent first."""
        return self._store.facet_names("media_types", kinds=(MEDIA,))

    def transcript(
        self,
        id: str | int,
        format: str = "text",
        timestamps: bool = False,
        audience: Audience = Audience.PERSON,
    ) -> Json:
        """The transcript of a recording as text, SRT, VTT or JSON.

        Raises NotFound or InvalidInput.
        """
        chunks = self._recording(id, format, audience)
        return whole_transcript(chunks, format, timestamps)

    def transcript_page(
        self,
        id: str | int,
        retrieval: Retrieval,
        format: str = "text",
        timestamps: bool = False,
        audience: Audience = Audience.PERSON,
    ) -> dict[str, Json]:
        """A page of a transcript: its `content`, and the `next_offset` if it is not the last.

        Raises NotFound or InvalidInput.
        """
        chunks = self._recording(id, format, audience)
        return transcript_page(chunks, retrieval, format, timestamps)

    def _recording(self, id: str | int, format: str, audience: Audience) -> StoredChunks:
        about = self.find("media", id)
        require_choice("format", format, transcript.FORMATS)
        return StoredChunks(read_passages(self._store, about, audience))

    # -- lists (last, because the name hides the built-in `list` below it) ---

    def list(
        self,
        source: str,
        *,
        search: str = "",
        tags: Sequence[str] = (),
        media_types: Sequence[str] = (),
        limit: int = 50,
        offset: int = 0,
    ) -> tuple[list[Summary], int]:
        """The items of a kind, last changed first, and how many there are in all.

        `search` is a text that the title or the id must contain.
        """
        filter_ = Filter(
            kinds=(kind_of(source),),
            tags=parse_texts("tags", tags),
            media_types=parse_texts("media_types", media_types),
        )
        limit = max(1, min(limit, LIMITS.page_size))
        offset = max(0, min(offset, LIMITS.page_offset))
        return self._store.summaries(filter_, storable(search), limit, offset)
