"""The results of a search, as the templates show them: a conversation with its best lines."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from recollect.language.words import as_written, join_pairs
from recollect.library import Library
from recollect.model.audience import is_human_only
from recollect.model.search import Hit, Page
from recollect.serve import links
from recollect.serve.console.tabs import CONVERSATIONS, TABS, Tab
from recollect.serve.console.views.hit_views import HitView
from recollect.serve.console.views.markup.snippets import plain_snippet
from recollect.serve.identity.principal import Principal
from recollect.serve.masking import mask_hit

_MAX_TERMS = 6
_ITEM_EXPLANATIONS = {
    "fts": "Contains words of the search.",
    "vector": "Similar in meaning.",
    "hybrid": "Contains words of the search, and is similar in meaning.",
}


class ResultLine(NamedTuple):
    """A message that matches."""

    url: str
    preview_url: str
    author: str
    role: str
    snippet: str
    marks: Sequence[tuple[int, int]]
    explanation: str
    """How it was found, in a sentence."""
    labels: Sequence[str]
    """What is special about it: a tool call, another branch."""
    is_human_only: bool


class Result(NamedTuple):
    """A conversation or item with its best lines."""

    id: str
    tab: Tab
    title: str
    source: str
    project: str
    time: datetime | None
    score: float
    lines: Sequence[ResultLine]
    details: Sequence[str] = ()
    tags: Sequence[str] = ()
    open_in: links.OpenIn | None = None

    @property
    def url(self) -> str:
        return self.lines[0].url


def conversation_result(library: Library, principal: Principal, hit: Hit, page: Page) -> Result:
    """A hit that stands for a conversation, with the next best messages."""
    lines = [_line(principal, line, page) for line in (hit, *hit.also)]
    return Result(
        id=hit.conversation_id,
        tab=TABS[CONVERSATIONS],
        title=library.label(hit.conversation_id, hit.title),
        source=hit.source,
        project=hit.project,
        time=hit.created_at,
        score=hit.score,
        lines=lines,
        open_in=links.open_in(hit.source, hit.conversation_id, hit.conversation_id),
    )


def _line(principal: Principal, hit: Hit, page: Page) -> ResultLine:
    hit = mask_hit(hit, principal.audience)
    snippet, marks = plain_snippet(hit.snippet, hit.marks)
    query = {"id": hit.conversation_id, "m": hit.message_id}
    return ResultLine(
        url=links.conversation_url(hit.conversation_id, m=hit.message_id),
        preview_url=f"/console/preview?{links.query(query)}",
        author=hit.author or hit.role or "unknown",
        role=hit.role or "none",
        snippet=snippet,
        marks=marks,
        explanation=explain(hit, page),
        labels=_labels(hit),
        is_human_only=is_human_only(hit),
    )


def _labels(hit: Hit) -> list[str]:
    labels = []
    if hit.type != "message":
        labels.append(hit.type.replace("_", " "))
    if not hit.canonical:
        labels.append("other branch")
    return labels


def item_result(hit: HitView, *, is_match: bool = True) -> Result:
    """A note, media item, character or prompt, which may be no match, only near or listed."""
    snippet, marks = plain_snippet(hit.snippet, hit.marks)
    explanation = ""
    if is_match:
        explanation = _ITEM_EXPLANATIONS[hit.score_type]
    line = ResultLine(
        url=hit.url,
        preview_url=f"/console/preview?{links.query({'id': hit.id, 'kind': hit.tab.name})}",
        author=hit.sender,
        role=hit.sender or "none",
        snippet=snippet,
        marks=marks,
        explanation=explanation,
        labels=(),
        is_human_only=False,
    )
    details = [hit.media_type or hit.tab.singular, hit.place]
    return Result(
        id=hit.id,
        tab=hit.tab,
        title=hit.title,
        source="",
        project="",
        time=hit.updated_at,
        score=hit.score,
        lines=(line,),
        details=[text for text in details if text],
        tags=hit.tags,
    )


# -- explanations ---


def explain(hit: Hit, page: Page) -> str:
    """How a hit was found, in a sentence."""
    sentences = list(filter(None, [_explain_match(hit, page)]))
    if hit.copies == 1:
        sentences.append("One more message has the same text.")
    elif hit.copies:
        sentences.append(f"{hit.copies:,} more messages have the same text.")
    return " ".join(sentences)


def _explain_match(hit: Hit, page: Page) -> str:
    if not hit.arms or page.nearest:  # the nearest are not similar
        return ""
    words = _words(hit.terms, hit.snippet)
    if page.matched == "literal" and hit.arms == ("text",) and not words:
        return "Contains this text."
    if not words and "text" in hit.arms and hit.parts.get("title"):
        return "The title contains words of the search."
    if "vector" not in hit.arms:
        return f"Contains {words or 'words of the search'}."
    if words and "text" in hit.arms:
        return f"Contains {words}, and is similar in meaning."
    if words:
        return f"Similar in meaning, and contains {words}."
    return "Similar in meaning, in other words."


def _words(terms: Sequence[str], text: str) -> str:
    """The terms in quotes, as a text writes them."""
    names = [as_written(term.removesuffix("*"), [text]) for term in join_pairs(terms, text)]
    quoted = [f"“{name}”" for name in names[:_MAX_TERMS]]
    if len(quoted) < 2:
        return "".join(quoted)
    return f"{', '.join(quoted[:-1])} and {quoted[-1]}"
