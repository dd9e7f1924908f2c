"""Searching: by words and meaning, by literal text, and by resemblance."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Unpack

from recollect.language.text import storable
from recollect.library.core import LibraryCore
from recollect.model.arguments import page_offset, page_size, parse_names
from recollect.model.audience import Audience
from recollect.model.kinds import CONVERSATION, KINDS
from recollect.model.search import (
    Filter,
    FilterArguments,
    MatchCounts,
    Page,
    SearchArguments,
    SearchOptions,
    filter_with,
    options_with,
    require_filter,
)
from recollect.store.abbreviations import expand_filter
from recollect.store.values import Candidate

if TYPE_CHECKING:
    from recollect.search.recent_searches import RecentSearches
    from recollect.search.variants.literal import TextMatches


class Searching(LibraryCore):
    def search(
        self,
        text: str | Sequence[str],
        filter: Filter | None = None,
        options: SearchOptions | None = None,
        *,
        audience: Audience = Audience.PERSON,
        **arguments: Unpack[SearchArguments],
    ) -> Page:
        """Search for messages, best first: `search("trams", limit=5, role="user")`.

        `text` is a question, or words, "phrases", prefix*, AND, OR, NOT, NEAR, parentheses, and the
        fields role: from: in: tag: title: before: after:. A list of two to five texts finds the
        conversations that have all of them; a list of one text is that query.
        """
        from recollect.search.variants.concepts import search_concepts

        options, filters = options_with(options, arguments)
        filter = expand_filter(self._store, filter_with(filter, filters))
        if filter.hidden:
            filter = filter.with_default_kinds(KINDS)  # Observations are hidden, too.
        store = self._visible_store(audience)
        concepts = parse_names(text, "text")
        try:
            if isinstance(text, str) or len(concepts) == 1:
                return self._recent_searches.page(
                    store, self._meaning, concepts[0], filter, options, audience
                )
            with store.snapshot():
                return search_concepts(store, self._meaning, concepts, filter, options)
        finally:
            if self._background is not None:
                self._background.check()  # not before the search, which would share its time

    @cached_property
    def _recent_searches(self) -> RecentSearches:
        from recollect.search.recent_searches import RecentSearches

        return RecentSearches()

    def count_matches(
        self,
        text: str,
        filter: Filter | None = None,
        options: SearchOptions | None = None,
        *,
        audience: Audience = Audience.PERSON,
    ) -> MatchCounts | None:
        """Count all messages that contain the words of a search, by source, month and so on.

        None if the search has no words to count. Raises SearchTimeout if there are too many.
        """
        from recollect.search.variants.match_counts import count_matches

        return count_matches(
            self._visible_store(audience),
            self._meaning,
            storable(text),
            require_filter(filter).with_default_kinds(KINDS),
            options or SearchOptions(),
        )

    def related(
        self,
        conversation_id: str,
        message_id: str,
        options: SearchOptions | None = None,
        *,
        kinds: Sequence[str] = (),
        audience: Audience = Audience.PERSON,
    ) -> Page:
        """Messages that resemble a message, in words and in meaning. Raises NotFound."""
        from recollect.search.variants.similar import related

        store = self._visible_store(audience)
        filter = Filter.of(kinds=kinds)
        options = options or SearchOptions()
        with store.snapshot():
            return related(store, self._meaning, conversation_id, message_id, filter, options)

    def recent(
        self,
        text: str | None = None,
        filter: Filter | None = None,
        *,
        limit: int = 50,
        audience: Audience = Audience.PERSON,
        **arguments: Unpack[FilterArguments],
    ) -> list[Candidate]:
        """The newest messages that contain the text, in content or title.

        If there are none, those that contain all its words. Without a text, simply the newest.
        """
        from recollect.search.variants import literal

        filter = self._complete_filter(filter_with(filter, arguments), (CONVERSATION,))
        return literal.recent(self._store, text, filter, limit, audience)

    def find_text(
        self,
        text: str,
        conversation_id: str | None = None,
        limit: int = 50,
        offset: int = 0,
        *,
        audience: Audience = Audience.PERSON,
    ) -> TextMatches:
        """One page of the messages that contain a text, newest first, and the total number.

        Case does not matter. Each message comes with the id of its conversation. Raises NotFound,
        or SearchTimeout if there are too many messages to read all that may contain the text.
        """
        from recollect.search.variants import literal

        store = self._visible_store(audience)
        return literal.find_text(
            store, text, conversation_id, page_size(limit), page_offset(offset)
        )

    def match_expression(
        self,
        expression: str,
        *,
        conversations: Sequence[str] = (),
        sources: Sequence[str] = (),
        limit: int = 50,
        audience: Audience = Audience.PERSON,
    ) -> Page:
        """Messages whose content matches an expression in the query language of SQLite's FTS5.

        They are in the order of the text engine, with excerpts of twenty words. Raises
        MalformedQuery.
        """
        from recollect.search.variants.expression import match_expression

        filter = Filter.of(conversations=conversations, sources=sources, kinds=CONVERSATION)
        filter = expand_filter(self._store, filter)
        return match_expression(self._visible_store(audience), storable(expression), filter, limit)
