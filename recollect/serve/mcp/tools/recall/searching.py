"""The answer of `recall_search`: conversations with the lines that matter, or why none match."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from recollect.language.queries.intent import IDENTIFIER, classify
from recollect.library import Library
from recollect.model.kinds import CONVERSATION
from recollect.model.search import Filter, Hit, Page, SearchOptions
from recollect.search.candidates.pool import NEAREST
from recollect.search.evidence import UNRELATED
from recollect.serve.mcp.client_sessions import Session
from recollect.serve.mcp.context import Context
from recollect.serve.mcp.tools.recall.budget import Budget
from recollect.serve.mcp.tools.recall.conversation_lines import (
    BY_MEANING,
    SNIPPET_LENGTH,
    ConversationLines,
)
from recollect.serve.mcp.tools.recall.labels import one_line

_CONVERSATIONS = 5
"""The most in one answer, as long as the budget suffices. The next ones rarely have the answer."""
_DETAILED = 3
"""The first conversations, which are shown with longer snippets and several messages."""
_CLOSE = 0.75
"""The reply to a message is shown if its score is at least this share of the best one."""
_REMARKS = 110
"""Tokens for what is said at the end."""


@dataclass(frozen=True, slots=True)
class _Listing:
    """The hits of a page that fit into an answer."""

    budget: Budget
    lines: ConversationLines
    is_shown: list[bool]
    """Whether each hit of the page is in the answer."""

    @property
    def count(self) -> int:
        return sum(self.is_shown)

    @property
    def is_complete(self) -> bool:
        """Whether the answer has the first hits of the page, and the next page all others."""
        return self.count > 0 and all(self.is_shown[: self.count])


class RecallSearch:
    """One search and its answer."""

    def __init__(self, context: Context, library: Library, query: str, filter: Filter) -> None:
        self._context = context
        self._library = library
        self._query = query
        self._filter = filter

    def answer(self, offset: int, max_tokens: int, repeat: bool) -> str:
        page = self._page(self._filter, offset, _CONVERSATIONS)
        if page.weak:
            note = page.note.replace(UNRELATED, "").strip()
            page = replace(page, hits=(), nearest=page.hits[:NEAREST], note=note)
        if not page.hits:
            return self._explain_nothing(page, Budget(max_tokens, _REMARKS))
        session = self._context.session
        if repeat:
            session = None
        listing = self._list(page, self._later_first(page), max_tokens, session)
        if not listing.is_complete:
            listing = self._list(page, page.hits, max_tokens, session)
        lines = listing.lines
        if self._context.session is not None:
            self._context.session.returned(lines.uris)
        rest = self._remark_on_rest(page, offset + listing.count)
        return listing.budget.close(lines.remark(), rest)

    def _list(
        self, page: Page, hits: Sequence[Hit], max_tokens: int, session: Session | None
    ) -> _Listing:
        """As many hits of a page as fit, in this order."""
        budget = Budget(max_tokens, _REMARKS)
        if page.note:
            budget.add_remark(page.note)
        lines = ConversationLines(self._context, self._library, session)
        conversations = set()
        for number, hit in enumerate(hits):
            is_detailed = page.offset + number < _DETAILED
            if not page.offset and not is_detailed and hit.arms == BY_MEANING:
                break  # what follows is rarely about the query, and there on request
            is_close = hit.score >= _CLOSE * page.hits[0].score
            if not lines.add(budget, hit, is_detailed, with_reply=is_close):
                break
            conversations.add(hit.conversation_id)
        return _Listing(budget, lines, [hit.conversation_id in conversations for hit in page.hits])

    def _later_first(self, page: Page) -> tuple[Hit, ...]:
        """The hits, but later decisions before those that they supersede."""
        if page.offset or CONVERSATION not in self._filter.kinds:
            return page.hits
        if classify(self._query) == IDENTIFIER:  # whoever names a commit wants that commit
            return page.hits
        first = page.hits[:_DETAILED]
        first = self._library.memory.later_first(first, self._filter, self._context.audience)
        conversations = {hit.conversation_id for hit in first}
        return first + tuple(h for h in page.hits if h.conversation_id not in conversations)

    def _page(self, filter: Filter, offset: int, limit: int) -> Page:
        options = SearchOptions(
            group="conversation",
            offset=offset,
            limit=limit,
            snippet_length=SNIPPET_LENGTH,
            observations=True,
        )
        return self._library.search(self._query, filter, options, audience=self._context.audience)

    # -- nothing found ---

    def _explain_nothing(self, page: Page, budget: Budget) -> str:
        if page.offset and page.total and not page.weak:
            budget.add_remark(f"No more results: there are {page.total}.")
            return budget.close()
        budget.add_remark(f"Nothing found for {one_line(self._query, 200)!r}.")
        remarks = [self._remark_on_filter()]
        if page.nearest:
            remarks = [page.note, *remarks, "Closest, but probably unrelated:"]
        elif page.note:
            budget.add(page.note)  # it may list names from the library, which are stored text
        for remark in filter(None, remarks):
            budget.add_remark(remark)
        lines = ConversationLines(self._context, self._library, None)
        for hit in page.nearest:
            lines.add(budget, hit)
        return budget.close()

    def _remark_on_filter(self) -> str:
        """What the filter hides, if it hides everything."""
        names = [name for name in ("projects", "after", "before") if getattr(self._filter, name)]
        if not names:
            return ""
        page = self._page(replace(self._filter, projects=(), after=None, before=None), 0, 1)
        if not page.hits:
            return "Without the filters there is nothing either."
        filters = " and ".join(names).replace("projects", "project")
        return f"Without the filter {filters} there are results in {self._count(page)}."

    # -- totals ---

    def _remark_on_rest(self, page: Page, end: int) -> str:
        """How many results there are, and how to get the next ones."""
        is_last = end == page.offset + len(page.hits) and len(page.hits) < page.limit
        if is_last or (page.exact and end >= page.total):
            return ""
        return f"This is {end} of {self._count(page)}. More: offset {end}, or a narrower query."

    def _count(self, page: Page) -> str:
        unit = "item"
        if self._filter.kinds == (CONVERSATION,):
            unit = "conversation"
        if page.total != 1:
            unit += "s"
        at_least = "" if page.exact else "at least "
        return f"{at_least}{page.total} {unit}"
