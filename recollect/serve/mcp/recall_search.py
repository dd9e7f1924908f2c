"""The answer of `recall_search`: conversations with the lines that matter, or why none match."""

from __future__ import annotations

from dataclasses import replace

from recollect.library import Library
from recollect.model.documents import Passage
from recollect.model.kinds import CONVERSATION
from recollect.model.search import Filter, Hit, Page, SearchOptions
from recollect.search.candidates import NEAREST
from recollect.search.evidence import UNRELATED
from recollect.serve.masking import mask_hit, mask_passage
from recollect.serve.mcp.client_sessions import Session
from recollect.serve.mcp.context import Context
from recollect.serve.mcp.recall_lines import (
    Budget,
    heading,
    hit_reference,
    one_line,
    speaker,
)

_CONVERSATIONS = 5
"""The most in one answer, as long as the budget suffices. The next ones rarely have the answer."""
_DETAILED = 3
"""The first conversations, which are shown with longer snippets and several messages."""
_CLOSE = 0.75
"""The reply to a message is shown if its score is at least this share of the best one."""
_REMARKS = 110
"""Tokens for what is said at the end."""
SNIPPET_LENGTH = 420
SHORT_SNIPPET_LENGTH = 160
BY_MEANING = ("vector",)
_MARK = "~"
_REPLY_MARK = "→ "
_MAX_MESSAGES_UNTIL_REPLY = 40


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
        seen_by = None if repeat else session
        budget, lines, shown = self._list(page, max_tokens, seen_by)
        if session is not None:
            session.returned(lines.uris)
        return budget.close(lines.remark(), self._remark_on_rest(page, offset + shown))

    def _list(
        self, page: Page, max_tokens: int, session: Session | None
    ) -> tuple[Budget, ConversationLines, int]:
        """As many hits of a page as fit, and their number."""
        budget = Budget(max_tokens, _REMARKS)
        if page.note:
            budget.add_remark(page.note)
        lines = ConversationLines(self._context, self._library, session)
        shown = 0
        for number, hit in enumerate(page.hits):
            is_detailed = page.offset + number < _DETAILED
            if not page.offset and not is_detailed and hit.arms == BY_MEANING:
                break  # what follows is rarely about the query, and there on request
            is_close = hit.score >= _CLOSE * page.hits[0].score
            if not lines.add(budget, hit, is_detailed, with_reply=is_close):
                break
            shown += 1
        return budget, lines, shown

    def _page(self, filter: Filter, offset: int, limit: int) -> Page:
        options = SearchOptions(
            group="conversation",
            offset=offset,
            limit=limit,
            snippet_length=SNIPPET_LENGTH,
            observations=True,
        )
        return self._library.search(self._query, filter, options, audience=self._context.audience)

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

    def _remark_on_rest(self, page: Page, end: int) -> str:
        """How many results there are, and how to get the next ones."""
        is_last = end == page.offset + len(page.hits) and len(page.hits) < page.limit
        if is_last or (page.exact and end >= page.total):
            return ""
        return f"This is {end} of {self._count(page)}. More: offset {end}, or a narrower query."

    def _count(self, page: Page) -> str:
        unit = "conversation" if self._filter.kinds == (CONVERSATION,) else "item"
        if page.total != 1:
            unit += "s"
        at_least = "" if page.exact else "at least "
        return f"{at_least}{page.total} {unit}"


class ConversationLines:
    """Adds conversations to an answer: a heading, the best messages, and what came of them.

    Lines that the session has shown before are only referred to.
    """

    def __init__(self, context: Context, library: Library, session: Session | None) -> None:
        self._context = context
        self._library = library
        self._session = session
        self._is_empty = True
        self._repeated = 0
        self._has_meaning = False
        self._has_reply = False
        self.uris: list[str] = []
        """The messages, or parts of them, that were shown."""

    def add(
        self, budget: Budget, hit: Hit, is_detailed: bool = False, with_reply: bool = True
    ) -> bool:
        """Add a conversation if there is room for its best message.

        With details, other messages with other words of the query are shown as well, and the reply
        to the best message.
        """
        hit = mask_hit(hit, self._context.audience)
        hits, length = [hit], SHORT_SNIPPET_LENGTH
        if is_detailed:
            hits, length = [hit, *with_new_words(hit)], SNIPPET_LENGTH
        new_hits = self._unseen(hits)
        repeated = ", ".join(hit_reference(each) for each in hits if each not in new_hits)
        line = f"{repeated} shown before"
        if new_hits:
            line = self._line(new_hits[0], length)
        text = f"{heading(self._library, hit, hit.created_at)}\n{line}"
        if self._is_empty:  # the first one in an answer is cut if need be
            budget.add_beginning(text)
        elif not budget.add(text):
            return False
        self._is_empty = False
        self.uris += map(uri, new_hits[:1])
        if is_detailed and new_hits:
            for line in self._reply_lines(new_hits) if with_reply else ():
                budget.add(line)
        for other in new_hits[1:]:
            if budget.add(self._line(other, SHORT_SNIPPET_LENGTH)):
                self.uris.append(uri(other))
        if new_hits and repeated:
            budget.add(f"{repeated} shown before")
        self._repeated += len(hits) - len(new_hits)
        return True

    def _unseen(self, hits: list[Hit]) -> list[Hit]:
        if self._session is None:
            return hits
        unseen = set(self._session.unseen(map(uri, hits)))
        return [hit for hit in hits if uri(hit) in unseen]

    def _line(self, hit: Hit, length: int) -> str:
        place = hit_reference(hit)
        if hit.arms == BY_MEANING:
            place = f"{_MARK}{place}"
            self._has_meaning = True
        if hit.kind == CONVERSATION:
            place += f" {speaker(hit.author, hit.role)}"
        return f"{place}: {part_with_match(hit, length)}"

    def _reply_lines(self, hits: list[Hit]) -> list[str]:
        """The last reply to the best message, if the user wrote it and the reply is no hit."""
        reply = self._reply(hits[0])
        if reply is None or reply.id in [hit.message_id for hit in hits]:
            return []
        self._has_reply = True
        name = speaker(reply.author, reply.role)
        text = one_line(reply.content, SHORT_SNIPPET_LENGTH)
        return [f"{_REPLY_MARK}#{reply.position + 1} {name}: {text}"]

    def _reply(self, hit: Hit) -> Passage | None:
        """The assistant's last message before the user's next one, which sums up the work."""
        if hit.kind != CONVERSATION or hit.role != "user":
            return None
        passages, _ = self._library.messages(
            hit.conversation_id, hit.position + 1, _MAX_MESSAGES_UNTIL_REPLY
        )
        reply = None
        for passage in passages:
            if passage.role == "user" and passage.type == "message":
                break
            is_reply = passage.role == "assistant" and passage.type == "message"
            if is_reply and passage.visibility != "hidden" and self._context.can_find(passage):
                reply = mask_passage(passage, self._context.audience)
        return reply

    def remark(self) -> str:
        """What the marks mean, and what was left out."""
        remarks = []
        if self._has_meaning:
            remarks.append(f"{_MARK} was found by meaning, the rest by words.")
        if self._has_reply:
            remarks.append(f"{_REPLY_MARK.strip()} is the reply.")
        if self._repeated:
            lines = "line was" if self._repeated == 1 else "lines were"
            remarks.append(f"{self._repeated} {lines} shown before; repeat: true shows all.")
        return " ".join(remarks)


def with_new_words(hit: Hit) -> list[Hit]:
    """The other messages that have more words of the query than the same speaker's before them.

    Somebody who says the same words again rarely says more, and `recall_read` shows it.
    """
    terms = {hit.role: set(hit.terms)}
    others = []
    for other in hit.also:
        own_terms = terms.setdefault(other.role, set())
        if not own_terms.issuperset(other.terms):
            others.append(other)
            own_terms.update(other.terms)
    return others


def part_with_match(hit: Hit, length: int) -> str:
    """The snippet, or the part of it that begins shortly before the first match."""
    snippet = hit.snippet
    if len(snippet) > length + 2 and hit.marks:
        start = snippet.rfind(" ", 0, max(hit.marks[0][0] - length // 4, 0)) + 1
        if start:
            snippet = f"…{snippet[start:]}"
    return one_line(snippet, length + 2)


def uri(hit: Hit) -> str:
    """The name of what a line shows: a message, or a part of a long one."""
    part = hit.start // SNIPPET_LENGTH
    return f"{hit.conversation_id}#{hit.message_id}+{part}"
