"""The page of a conversation: its messages, finding in it, changing it; and the list of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Query
from starlette.responses import JSONResponse, Response

from recollect.errors import InvalidInput, NotFound
from recollect.knowledge.results import tags_of
from recollect.language.text import storable, truncate
from recollect.model.documents import Json, Passage
from recollect.model.labels import first_words
from recollect.model.search import Filter, SearchOptions
from recollect.model.undo import Change
from recollect.serve.console.attachments import picture
from recollect.serve.console.error_pages import PageRoute
from recollect.serve.console.lists import ROWS, Filters, frame, list_facets, list_rows, row_index
from recollect.serve.console.markup import rendering
from recollect.serve.console.messages import WINDOW, open_conversation, render_message
from recollect.serve.console.tabs import CONVERSATIONS, toolset_for
from recollect.serve.console.templating import fragment, html, page
from recollect.serve.http.access import Access, AccessTo
from recollect.serve.http.limits import SEARCH
from recollect.serve.http.routes import Routes
from recollect.serve.identity.principal import KNOWLEDGE, READ, WRITE
from recollect.serve.masking import is_masked, mask_passage

routes = Routes("", CONVERSATIONS, document="conversation_id", route_class=PageRoute)

_MAX_MATCHES = 200
_MAX_TITLE = 60
_MAX_FIND_CHARS = 200
_SCAN_MESSAGES = 20_000  # per request
_SCAN_CHARS = 20_000_000  # per request
_MARKS = "*_~`"
_BETWEEN_WORDS = rf"[\s{_MARKS}]++"  # what Markdown shows as a space, or not at all

Start = Annotated[int, Query(ge=0, le=2_000_000_000)]


@routes.add("GET /c/", READ, document="id")
def conversation_by_query(
    access: AccessTo, filters: Filters, id: str, m: str = "", q: str = ""
) -> Response:
    """A conversation whose id cannot be part of a path."""
    return conversation(access, filters, id, m, q)


@routes.add("GET /c/{conversation_id:id}", READ)
def conversation(
    access: AccessTo, filters: Filters, conversation_id: str, m: str = "", q: str = ""
) -> Response:
    """A conversation from its start, or around the message `m`."""
    with access.read() as library:
        window = open_conversation(library, access.principal, conversation_id, through=m, around=m)
        values = frame(library, CONVERSATIONS, filters, conversation_id)
    values["q"] = "" if q.isspace() else q
    tags, terms = tags_of(window.document.metadata), rendering.query_terms(q)
    return page(
        access.request, "conversation.html", window=window, tags=tags, terms=terms, **values
    )


@routes.add("GET /console/messages", READ, document="id")
def messages(
    access: AccessTo,
    id: str,
    through: str = "",
    around: str = "",
    q: str = "",
    start: Annotated[int | None, Query(ge=0)] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = WINDOW,
) -> Response:
    through = through or around
    with access.read() as library:
        window = open_conversation(
            library, access.principal, id, through=through, around=around, start=start, limit=limit
        )
    return fragment("_messages.html", q=q, window=window)


@routes.add("GET /console/message", READ, document="id")
def whole_message(access: AccessTo, id: str, m: str) -> Response:
    """A long message without the cut."""
    message = read_message(access, id, m)
    body, hidden_chars = render_message(message, rendering.MAX_CHARS, rendering.Page())
    if hidden_chars:
        body += rendering.plain(
            f"Export the conversation for the last {hidden_chars:,} characters."
        )
    return html(str(body))


@routes.add("GET /console/message-text", READ, document="id")
def message_text(access: AccessTo, id: str, m: str) -> Response:
    """The source text of a message, to copy."""
    return Response(storable(read_message(access, id, m).content), media_type="text/plain")


@routes.add("GET /console/picture", READ, document="id")
def attached_picture(access: AccessTo, id: str, m: str, n: int) -> Response:
    """A picture that is attached to a message."""
    media_type, data = picture(read_message(access, id, m), n)
    headers = {"Cache-Control": "private, max-age=3600"}
    return Response(data, headers=headers, media_type=media_type)


def read_message(access: Access, id: str, m: str) -> Passage:
    with access.read() as library:
        view = library.view(id, through=m, around=m, limit=1)
    for step in view.messages:
        if step.passage.id == m:
            return mask_passage(step.passage, access.principal.audience)
    raise NotFound("This message no longer exists.")


@routes.add("GET /console/tags", READ, document="id")
def tags(access: AccessTo, id: str) -> Response:
    with access.read() as library:
        view = library.view(id, limit=1)
    return fragment("_tags.html", tags=tags_of(view.document.metadata))


# -- finding in a conversation ---


@routes.add("GET /console/matches", READ, document="id", rate_limit=SEARCH)
def matches(access: AccessTo, id: str, q: str, m: str = "") -> Response:
    """Links to the previous and the next match in a conversation."""
    with access.read() as library:
        found = library.search(
            q,
            Filter.of(conversations=id),
            SearchOptions(mode="text", limit=_MAX_MATCHES),
            audience=access.principal.audience,
        )
    ids = [hit.message_id for hit in sorted(found.hits, key=lambda hit: hit.position)]
    number = ids.index(m) + 1 if m in ids else 0
    return fragment(
        "_matches.html",
        id=id,
        q=q,
        count=len(ids),
        number=number,
        previous_match=ids[number - 2] if number > 1 else "",
        next_match=ids[number] if number < len(ids) else "",
        has_more=found.total > len(ids),
    )


@routes.add("GET /console/find", READ, document="id", rate_limit=SEARCH)
def find(access: AccessTo, id: str, text: str, through: str = "", start: Start = 0) -> Response:
    """The indexes of the messages that contain a text. Case does not matter."""
    pattern = text_pattern(text)
    if pattern is None:
        return JSONResponse({"entries": [], "next": None})

    def entry(index: int, passage: Passage) -> Json:
        content = mask_passage(passage, access.principal.audience).content
        return index if pattern.search(content) else None

    return scan(access, id, through, start, entry)


@routes.add("GET /console/questions", READ, document="id")
def questions(access: AccessTo, id: str, through: str = "", start: Start = 0) -> Response:
    """The messages that people wrote to the assistant, each as its index and its first words."""

    def entry(index: int, passage: Passage) -> Json:
        if passage.type != "message" or passage.visibility == "hidden" or passage.role != "user":
            return None
        if not passage.content.strip() or is_masked(passage, access.principal.audience):
            return None
        return [index, first_words(passage.content)]

    return scan(access, id, through, start, entry)


def text_pattern(text: str) -> re.Pattern[str] | None:
    """A pattern that finds a text as the page shows it: between words, Markdown does not count."""
    text = storable(text[:_MAX_FIND_CHARS]).strip()
    if not text:
        return None
    words = [word for part in text.split() if (word := part.strip(_MARKS))] or [text]
    return re.compile(_BETWEEN_WORDS.join(map(re.escape, words)), re.IGNORECASE)


def scan(
    access: Access, id: str, through: str, start: int, entry: Callable[[int, Passage], Json]
) -> Response:
    """The entries for a limited number of messages, and the index at which to continue."""
    entries: list[Json] = []
    next_start, chars = None, 0
    with access.read() as library:
        for index, passage in library.read_path(id, through or None, start):
            if index - start >= _SCAN_MESSAGES or chars > _SCAN_CHARS:
                next_start = index
                break
            chars += len(passage.content)
            found = entry(index, passage)
            if found is not None:
                entries.append(found)
    return JSONResponse({"entries": entries, "next": next_start})


# -- the list in the sidebar ---


@routes.add("GET /console/rows", READ, one_of=(CONVERSATIONS, KNOWLEDGE))
def rows(
    access: AccessTo,
    filters: Filters,
    offset: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=200)] = ROWS,
    current: str = "",
    kind: str = CONVERSATIONS,
) -> Response:
    with access.read(toolset_for(kind)) as library:
        found = list_rows(library, kind, filters, offset=offset, limit=limit, current=current)
    return fragment("_rows.html", page=found, filters=filters)


@routes.add("GET /console/sidebar", READ, one_of=(CONVERSATIONS, KNOWLEDGE))
def sidebar(access: AccessTo, filters: Filters, kind: str) -> Response:
    """The filters and the first rows of a kind."""
    with access.read(toolset_for(kind)) as library:
        values = frame(library, kind, filters)
    return fragment("_sidebar.html", **values)


@routes.add("GET /console/filters", READ, one_of=(CONVERSATIONS, KNOWLEDGE))
def filter_form(access: AccessTo, filters: Filters, kind: str = CONVERSATIONS) -> Response:
    with access.read(toolset_for(kind)) as library:
        facets = list_facets(library, kind)
    return fragment("_filters.html", filters=filters, facets=facets, kind=kind)


@routes.add("GET /console/row-index", READ, document="id")
def find_row(access: AccessTo, filters: Filters, id: str) -> dict[str, int | None]:
    """The place of a conversation in the list; null if the filters exclude it."""
    with access.read() as library:
        return {"index": row_index(library, id, filters)}


# -- changes that can be undone ---

_DONE = {
    "rename": "Renamed to “{text}”.",
    "tag": "Tagged {name} with “{text}”.",
    "untag": "Removed the tag “{text}” from {name}.",
    "pin": "Pinned {name}.",
    "unpin": "Unpinned {name}.",
    "delete": "Deleted {name}.",
}


@routes.add("POST /console/edit", WRITE, document="id")
def edit(access: AccessTo, id: str, action: str, text: str = "") -> dict[str, Any]:
    """Change a conversation. The number that is returned is for `undo`."""
    text = text.strip()
    with access.write() as library:
        title = library.label(id, library.summary(id).title)
        if action not in _DONE:
            raise InvalidInput(f"There is no action {truncate(action, 40)!r}.")
        if action in ("rename", "tag", "untag") and not text:
            raise InvalidInput("Type a name first.")
        changes: dict[str, Callable[[], Change | None]] = {
            "rename": lambda: library.rename(id, text),
            "tag": lambda: library.tag(id, text),
            "untag": lambda: library.untag(id, text),
            "pin": lambda: library.pin(id),
            "unpin": lambda: library.pin(id, pinned=False),
            "delete": lambda: library.trash(id),
        }
        change = changes[action]()
    name = f"“{truncate(title, _MAX_TITLE)}”"
    message = f"Nothing changed in {name}."
    number = None
    if change is not None:
        message = _DONE[action].format(name=name, text=truncate(text, _MAX_TITLE))
        if access.principal.toolsets is None:  # others may not undo
            number = change.number
    return {"number": number, "message": message}


@routes.add("POST /console/undo", WRITE, CONVERSATIONS, KNOWLEDGE)
def undo(access: AccessTo, number: int) -> dict[str, str]:
    """Undo a change."""
    access.require_all_toolsets()
    with access.write() as library:
        return {"id": library.undo(number).id}
