"""What an answer shows of a conversation: a heading, the best messages, and what came of them."""

from __future__ import annotations

from recollect.library import Library
from recollect.model.documents import Passage
from recollect.model.kinds import CONVERSATION
from recollect.model.search import Hit
from recollect.serve.masking import mask_hit, mask_passage
from recollect.serve.mcp.client_sessions import Session
from recollect.serve.mcp.context import Context
from recollect.serve.mcp.tools.recall.budget import Budget
from recollect.serve.mcp.tools.recall.labels import day, heading, one_line, speaker
from recollect.serve.mcp.tools.recall.references import hit_reference

SNIPPET_LENGTH = 420
SHORT_SNIPPET_LENGTH = 160
BY_MEANING = ("vector",)
_MARK = "~"
_REPLY_MARK = "→ "
_MAX_MESSAGES_UNTIL_REPLY = 40


class ConversationLines:
    """Adds conversations to an answer.

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

        With details, other messages with other words of the query are shown as well, the decisions
        that supersede them, and the reply to the best message.
        """
        hit = mask_hit(hit, self._context.audience)
        hits = [hit]
        length = SHORT_SNIPPET_LENGTH
        if is_detailed:
            hits += _with_new_words(hit)
            length = SNIPPET_LENGTH
        new_hits = self._unseen(hits)
        repeated = [hit_reference(each) for each in hits if each not in new_hits]
        if not self._add_opening(budget, hit, new_hits, repeated, length):
            return False
        if is_detailed and new_hits:
            lines = self._successor_lines(new_hits)
            if with_reply:
                lines = self._reply_lines(new_hits) + lines
            for line in lines:
                budget.add(line)
        for other in new_hits[1:]:
            if budget.add(self._line(other, SHORT_SNIPPET_LENGTH)):
                self.uris.append(_uri(other))
        if new_hits and repeated:
            budget.add(_remark_on_repeated(repeated))
        self._repeated += len(repeated)
        return True

    def _add_opening(
        self, budget: Budget, hit: Hit, new_hits: list[Hit], repeated: list[str], length: int
    ) -> bool:
        """Add the heading and the best message. The first one in an answer is cut if need be."""
        short_id = self._library.short_id(hit.conversation_id)
        if new_hits:
            line = self._line(new_hits[0], length)
        else:
            line = _remark_on_repeated(repeated)
        text = f"{heading(self._library, short_id, hit, hit.created_at)}\n{line}"
        if self._is_empty:
            budget.add_beginning(text)
        elif not budget.add(text):
            return False
        self._is_empty = False
        self.uris += map(_uri, new_hits[:1])
        return True

    def _unseen(self, hits: list[Hit]) -> list[Hit]:
        if self._session is None:
            return hits
        unseen = set(self._session.unseen(map(_uri, hits)))
        return [hit for hit in hits if _uri(hit) in unseen]

    def _line(self, hit: Hit, length: int) -> str:
        mark = ""
        if hit.arms == BY_MEANING:
            mark = _MARK
            self._has_meaning = True
        place = f"{mark}{hit_reference(hit)}"
        if hit.kind == CONVERSATION:
            place += f" {speaker(hit.author, hit.role)}"
        return f"{place}: {_part_with_match(hit, length)}"

    def _reply_lines(self, hits: list[Hit]) -> list[str]:
        """The last reply to the best message, if the user wrote it and the reply is no hit."""
        reply = self._reply(hits[0])
        if reply is None or reply.id in [hit.message_id for hit in hits]:
            return []
        self._has_reply = True
        name = speaker(reply.author, reply.role)
        text = one_line(reply.content, SHORT_SNIPPET_LENGTH)
        return [f"{_REPLY_MARK}#{reply.position + 1} {name}: {text}"]

    def _successor_lines(self, hits: list[Hit]) -> list[str]:
        """The later decisions that replace what these messages say."""
        messages = [(hit.conversation_id, hit.message_id) for hit in hits]
        later = self._library.memory.successors(messages)
        decisions = {decision.id: decision for decision in later.values()}
        return [
            f"superseded {day(decision.created_at)}: {one_line(decision.title, 160)} [{id_}]"
            for id_, decision in decisions.items()
            if decision.conversation != hits[0].conversation_id
        ]

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


def _with_new_words(hit: Hit) -> list[Hit]:
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


def _remark_on_repeated(references: list[str]) -> str:
    return f"{', '.join(references)} shown before"


def _part_with_match(hit: Hit, length: int) -> str:
    """The snippet, or the part of it that begins shortly before the first match."""
    snippet = hit.snippet
    if len(snippet) > length + 2 and hit.marks:
        start = snippet.rfind(" ", 0, max(hit.marks[0][0] - length // 4, 0)) + 1
        if start:
            snippet = f"…{snippet[start:]}"
    return one_line(snippet, length + 2)


def _uri(hit: Hit) -> str:
    """The name of what a line shows: a message, or a part of a long one."""
    part = hit.start // SNIPPET_LENGTH
    return f"{hit.conversation_id}#{hit.message_id}+{part}"
