"""Handlers of `search` and `fetch`, as OpenAI's deep research and company knowledge call them.

A result is a message, so that a citation leads to the exact place, or a whole note, media item,
character or prompt. The id of a message is the conversation's id and its own, both percent-encoded,
joined by `#`. `fetch` also accepts a conversation's id alone. The id of any other item is its URI
(see `addresses`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import quote, unquote

from recollect.errors import NotFound
from recollect.knowledge.results import SOURCE_NAMES
from recollect.knowledge.retrieval import Retrieval
from recollect.language.text import identifier, iso, moment, truncate
from recollect.library import Library
from recollect.model.documents import View
from recollect.model.kinds import CONVERSATION
from recollect.model.search import Filter
from recollect.model.sources import source_label
from recollect.serve.mcp.addresses import CHATS, Address, console_url, parse_address
from recollect.serve.mcp.arguments import (
    json_answer,
    json_error,
    json_errors,
    sanitize,
)
from recollect.serve.mcp.context import Answer, Context
from recollect.serve.mcp.tool import READ_ONLY, Tool
from recollect.serve.mcp.tools.knowledge.definitions import KNOWLEDGE_GET, KNOWLEDGE_SEARCH
from recollect.serve.mcp.tools.knowledge.handlers import (
    KnowledgeArguments,
    compact_result,
    get_item,
    search_all,
)
from recollect.serve.mcp.tools.research.excerpt import (
    TEXT_LENGTH,
    Line,
    excerpt_text,
    format_time,
    has_id,
    join_labels,
    make_excerpt,
    one_line,
    speaker,
)

_SEARCH = Tool("search", "", KNOWLEDGE_SEARCH.input_schema, READ_ONLY)
_FETCH = Tool("fetch", "", KNOWLEDGE_GET.input_schema, READ_ONLY)
# They are aliases, but `tools/list` shows only the arguments that OpenAI's clients permit.
TITLE_LENGTH = 120
PREVIEW_LENGTH = 160
"""Characters of the message in a result's title, by which a model decides what to fetch."""
CHARS_PER_TOKEN = 4
DEFAULT_WINDOW = 5
"""Messages before and after the requested one."""
MAX_MESSAGES = 200
MORE = "fetch the id in `last` to continue"


class Handlers:
    """One object serves every user."""

    def search(self, context: Context, arguments: dict[str, Any]) -> Answer:
        args = KnowledgeArguments(_SEARCH, {"snippet_length": PREVIEW_LENGTH, **arguments})
        page = search_all(context, args, skip_seen=args.boolean("repeat") is False, fold=True)
        results, nearest = page["results"], page.get("nearest", [])
        with json_errors(), context.library() as library:
            labels = _source_labels(library, [*results, *nearest])
            for result in (*results, *nearest):
                result["title"] = library.label(result["id"], result["title"] or "")
            shape = args.choice("shape", "")
            answer = {"results": [_result(context, result, labels) for result in results]}
            if shape == "full":
                answer["results"] = [
                    result | _result(context, result, labels) for result in results
                ]
            if shape == "compact":
                answer["results"] = [compact_result(context, library, r) for r in results]
        if page["has_more"] and len(arguments) > 1:
            answer["next_offset"] = page["next_offset"]
        if page.get("note"):
            answer["note"] = page["note"]
        if nearest:
            answer["nearest"] = [_result(context, result, labels) for result in nearest]
        return json_answer(answer)

    def fetch(self, context: Context, arguments: dict[str, Any]) -> Answer:
        args = KnowledgeArguments(_FETCH, arguments)
        id_ = args.id("id").strip()
        source = args.choice("source", "")
        with json_errors(), context.library() as library:
            try:
                address = _address(library, id_, source)
                if "retrieval" in args:
                    item = get_item(context, args, address)
                    return json_answer(_as_document(context, id_, address, item))
                if address.source == CHATS:
                    return json_answer(_fetch_conversation(context, library, id_, address))
                return json_answer(_fetch_item(context, library, id_, address))
            except NotFound:
                raise json_error(
                    f"Nothing in the library has the id {sanitize(truncate(id_, 200))!r}."
                ) from None


# -- search results ---


def _source_labels(library: Library, results: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Where the conversations among the results came from, by conversation id."""
    ids = {identifier(result["id"]) for result in results if result["source"] == CHATS}
    if not ids:
        return {}
    filter = Filter(conversations=tuple(ids), hidden=True)
    summaries, _ = library.conversation_page(filter, limit=len(ids))
    return {summary.id: source_label(summary.source) for summary in summaries}


def _result(
    context: Context, result: Mapping[str, Any], labels: Mapping[str, str]
) -> dict[str, Any]:
    source, id_, message = result["source"], result["id"], result["message_id"] or ""
    if source == CHATS:
        result_id = message_id(id_, message)
        label = labels.get(id_, "")
    else:
        result_id = result["uri"]
        label = result["media_type"] or source
    name = one_line(result["title"], TITLE_LENGTH)
    preview = one_line(result["snippet"] or "", PREVIEW_LENGTH)
    sender = one_line(result["sender"] or "", TITLE_LENGTH)
    time = format_time(moment(result["created_at"]))
    return {
        "id": result_id,
        "title": sanitize(f"{name} ({join_labels(sender, time, label)}): {preview}"),
        "url": console_url(context, source, id_, message) or sanitize(result["url"] or ""),
    }


def message_id(conversation: str, message: str = "") -> str:
    """The id `search` returns for a message, or for a whole conversation."""
    id_ = quote(identifier(conversation), safe="")
    if message:
        id_ += "#" + quote(identifier(message), safe="")
    return id_


# -- conversations ---


def _address(library: Library, id_: str, source: str) -> Address:
    """What an id names: a URI, the id of a message, or the id of any item."""
    address = parse_address(id_)
    if address is not None:
        return address
    if source and source != CHATS:
        return Address(source, id_)
    if not source and "#" not in id_:
        with suppress(NotFound):
            about = library.summary(id_)
            return Address(SOURCE_NAMES[about.kind], about.id)
    return _parse_message_id(id_)


def _parse_message_id(id_: str) -> Address:
    """The address of what `message_id` named."""
    conversation, _, message = id_.partition("#")
    return Address(CHATS, identifier(unquote(conversation)), identifier(unquote(message)))


def _fetch_conversation(
    context: Context, library: Library, requested_id: str, address: Address
) -> dict[str, Any]:
    """The part of a conversation that an address names. Raises NotFound."""
    view = _view(context, library, address)
    start = 0
    if address.message:
        start = address.start
    lines = make_excerpt(context, view, address.message, start)
    title = one_line(library.label(view.document.id, view.document.title), TITLE_LENGTH)
    return {
        "id": requested_id,
        "title": sanitize(title),
        "text": excerpt_text(lines, view.total),
        "url": console_url(context, CHATS, view.document.id, address.message),
        "metadata": sanitize(_conversation_metadata(view, lines, address.message)),
    }


def _view(context: Context, library: Library, address: Address) -> View:
    """The messages among which the excerpt is. Raises NotFound.

    They surround the message of the address. If the address has a start, they begin there.
    """
    conversation, message, start = address.id, address.message, address.start
    if not message:
        view = library.view(conversation, start=start, limit=MAX_MESSAGES)
        if view.document.kind != CONVERSATION:
            raise NotFound(conversation)
        return view
    if not start:
        return _view_around(context, library, conversation, message)
    place = library.view(conversation, around=message, limit=1)
    return library.view(conversation, through=message, start=place.start, limit=MAX_MESSAGES)


def _view_around(context: Context, library: Library, conversation: str, message: str) -> View:
    window = int(context.config.get("sibling_window", DEFAULT_WINDOW))
    window = min(max(window, 0), MAX_MESSAGES // 2)
    view = library.view(conversation, around=message, limit=2 * window + 1)
    for candidate in view.messages:
        if has_id(candidate.passage, message) and context.can_find(candidate.passage):
            return view
    raise NotFound(message)


def _conversation_metadata(view: View, lines: Sequence[Line], message: str) -> dict[str, str]:
    """OpenAI's clients expect strings as values."""
    document = view.document
    metadata = {
        "conversation_id": document.id,
        "source": source_label(document.source),
        "project": document.project,
        "created_at": iso(document.created_at) or "",
        "updated_at": iso(document.updated_at) or "",
    }
    for line in lines:
        if has_id(line.passage, message):
            metadata["created_at"] = iso(line.passage.created_at) or ""
            metadata["message_id"] = line.passage.id
            metadata["role"] = line.passage.role or ""
            metadata["author"] = speaker(line.passage)
            break
    if lines:
        metadata["messages"] = f"{lines[0].number}-{lines[-1].number} of {view.total}"
        if lines[0].start or lines[0].end < lines[0].length:
            line = lines[0]
            metadata["characters"] = f"{line.start + 1}-{line.end} of {line.length}"
    next_part = _next_part(view, lines)
    if next_part is not None:
        metadata["last"] = next_part.uri
        metadata["more"] = MORE
    return metadata


def _next_part(view: View, lines: Sequence[Line]) -> Address | None:
    """Where an excerpt goes on: after the characters of the last message that it has."""
    conversation = view.document.id
    if lines:
        last = lines[-1]
        if last.number == view.total and last.end == last.length:
            return None
        # A start of 0 would be the messages around this one.
        return Address(CHATS, conversation, last.passage.id, max(last.end, 1))
    if not view.messages or view.start + len(view.messages) >= view.total:
        return None
    passage = view.messages[-1].passage
    return Address(CHATS, conversation, passage.id, max(len(passage.content), 1))


# -- other items ---


def _fetch_item(
    context: Context, library: Library, requested_id: str, address: Address
) -> dict[str, Any]:
    """A note, media item, character or prompt, from the position in its address on."""
    retrieval = Retrieval(
        mode="full", max_tokens=TEXT_LENGTH // CHARS_PER_TOKEN, offset=address.start
    )
    item = library.knowledge.get(address.source, address.id, retrieval, audience=context.audience)
    document = _as_document(context, requested_id, address, item)
    page = item["page"]
    if page["next_offset"] is not None:
        document["metadata"] |= {
            "characters": f"{address.start + 1}-{page['next_offset']} of {page['total']}",
            "last": sanitize(address._replace(start=page["next_offset"]).uri),
            "more": MORE,
        }
    return document


def _as_document(
    context: Context, requested_id: str, address: Address, item: Mapping[str, Any]
) -> dict[str, Any]:
    """What `knowledge_get` returns, in the shape of `fetch`."""
    meta, text = item["meta"], item["content"]
    if not isinstance(text, str):
        text = "".join(f"{name}: {value}\n" for name, value in text.items())
    metadata = {
        "source": address.source,
        "created_at": meta["created_at"],
        "updated_at": meta["last_modified"],
        "tags": ", ".join(meta["tags"] or ()),
        "media_type": meta["media_type"],
        "original_url": meta["url"],
        "next_offset": (item.get("page") or {}).get("next_offset"),
    }
    return {
        "id": requested_id,
        "title": sanitize(one_line(meta["title"] or "", TITLE_LENGTH) or "Untitled"),
        "text": sanitize(text),
        "url": console_url(context, address.source, meta["id"]) or sanitize(meta["url"] or ""),
        "metadata": sanitize({name: str(value) for name, value in metadata.items() if value}),
    }
