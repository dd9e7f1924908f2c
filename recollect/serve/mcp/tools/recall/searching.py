"""The answer of `recall_search`: conversations with the lines that matter, or why none match."""

from __future__ import annotations

from dataclasses import replace

from recollect.library import Library
from recollect.model.kinds import CONVERSATION
from recollect.model.search import Filter, Hit, Page, SearchOptions
from recollect.serve.masking import mask_hit
from recollect.serve.mcp.context import Context
from recollect.serve.mcp.sessions import Session
from recollect.serve.mcp.tools.recall.budget import Budget
from recollect.serve.mcp.tools.recall.labels import heading, one_line, speaker
from recollect.serve.mcp.tools.recall.references import hit_reference

_CONVERSATIONS = 20
"""The most that one answer looks at. Usually the budget is used up earlier."""
_SNIPPET_LENGTH = 300
_SHORT_SNIPPET_LENGTH = 140
"""Of the next best messages of a conversation."""
_REMARKS = 110
"""Tokens for what is said at the end."""
_BY_MEANING = "~"


class RecallSearch:
    """One search and its answer."""

    def __init__(self, context: Context, library: Library, query: str, filter: Filter) -> None:
        self._context = context
        self._library = library
        self._query = query
        self._filter = filter

    def answer(self, offset: int, max_tokens: int, repeat: bool) -> str:
        budget = Budget(max_tokens, _REMARKS)
        page = self._page(self._filter, offset, _CONVERSATIONS)
        if not page.hits:
            return self._explain_nothing(page, budget)
        session = self._context.session
        if repeat:
            session = None
        lines = _Lines(self._library, session)
        count = 0
        for hit in page.hits:
            if not lines.add(budget, mask_hit(hit, self._context.audience)):
                break
            count += 1
        if self._context.session is not None:
            self._context.session.returned(lines.uris)
        return budget.close(
            page.note,
            lines.remark(),
            _remark_on_rest(page, offset + count),
        )

    def _page(self, filter: Filter, offset: int, limit: int) -> Page:
        options = SearchOptions(
            group="conversation", offset=offset, limit=limit, snippet_length=_SNIPPET_LENGTH
        )
        return self._library.search(self._query, filter, options, audience=self._context.audience)

    # -- nothing found ---

    def _explain_nothing(self, page: Page, budget: Budget) -> str:
        if page.offset and page.total:
            budget.add(f"No more results: there are {page.total}.")
            return budget.close()
        budget.add(f"Nothing found for {one_line(self._query, 200)!r}.")
        for remark in (page.note, self._remark_on_filter(), _remark_on_operators(page)):
            if remark:
                budget.add(remark)
        if page.nearest:
            budget.add("Closest in meaning, but probably unrelated:")
            lines = _Lines(self._library, None)
            for hit in page.nearest:
                lines.add(budget, mask_hit(hit, self._context.audience))
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
        return f"Without the filter {filters} there are results in {_count(page)}."


class _Lines:
    """The lines of an answer. Lines that the session has shown before are only referred to."""

    def __init__(self, library: Library, session: Session | None) -> None:
        self._library = library
        self._session = session
        self._repeated = 0
        self._by_meaning = False
        self.uris: list[str] = []
        """What this answer shows."""

    def add(self, budget: Budget, hit: Hit) -> bool:
        """Add a conversation with its best message, and its next ones if there is room."""
        first, *others = self._messages(hit)
        short_id = self._library.short_id(hit.conversation_id)
        if not budget.add(f"{heading(self._library, short_id, hit, hit.created_at)}\n{first}"):
            return False
        for line in others:
            budget.add(line)
        return True

    def _messages(self, hit: Hit) -> list[str]:
        hits = (hit, *hit.also)
        new_uris = [_uri(each) for each in hits]
        if self._session is not None:
            new_uris = self._session.unseen(new_uris)
        self.uris += new_uris
        lines = []
        length = _SNIPPET_LENGTH
        for each in hits:
            if _uri(each) in new_uris:
                lines.append(self._line(each, length))
                length = _SHORT_SNIPPET_LENGTH
        repeated = [hit_reference(each) for each in hits if _uri(each) not in new_uris]
        if repeated:
            self._repeated += len(repeated)
            lines.append(f"{', '.join(repeated)} shown before")
        return lines

    def _line(self, hit: Hit, length: int) -> str:
        mark = ""
        if hit.arms == ("vector",):
            mark = _BY_MEANING
            self._by_meaning = True
        place = f"{mark}{hit_reference(hit)}"
        if hit.kind == CONVERSATION:
            place += f" {speaker(hit.author, hit.role)}"
        return f"{place}: {_part_with_match(hit, length)}"

    def remark(self) -> str:
        remarks = []
        if self._by_meaning:
            remarks.append(f"{_BY_MEANING} was found by meaning, the rest by words.")
        if self._repeated:
            lines = "line was" if self._repeated == 1 else "lines were"
            remarks.append(f"{self._repeated} {lines} shown before; repeat: true shows all.")
        return " ".join(remarks)


def _part_with_match(hit: Hit, length: int) -> str:
    """The snippet, or the part of it that begins shortly before the first match."""
    snippet = hit.snippet
    if len(snippet) > length + 2 and hit.marks:
        start = snippet.rfind(" ", 0, max(hit.marks[0][0] - length // 4, 0)) + 1
        if start:
            snippet = f"…{snippet[start:]}"
    text = one_line(snippet, length + 2)
    return text.replace("...", "…")


def _uri(hit: Hit) -> str:
    return f"{hit.conversation_id}#{hit.message_id}"


def _count(page: Page) -> str:
    at_least = "" if page.exact else "at least "
    unit = "conversation" if page.total == 1 else "conversations"
    return f"{at_least}{page.total} {unit}"


def _remark_on_rest(page: Page, end: int) -> str:
    """How many results there are, and how to get the next ones."""
    is_last = end == page.offset + len(page.hits) and len(page.hits) < page.limit
    if is_last or (page.exact and end >= page.total):
        return ""
    return f"This is {end} of {_count(page)}. More: offset {end}, or a narrower query."


def _remark_on_operators(page: Page) -> str:
    if page.matched != "literal":
        return ""
    return "The operators in the query do not fit together, so it was searched for as plain words."
