"""Handlers of the knowledge tools, and the search and reading that `sources` shares.

In a session, `knowledge_search` skips results it has returned before, until nothing else is left.
Reading an item without saying where shows the part that matches the latest query.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from recollect.errors import Conflict, InvalidInput
from recollect.knowledge.options import KnowledgeOptions
from recollect.knowledge.retrieval import Retrieval, clamp, parse_retrieval, preference
from recollect.library import Library
from recollect.serve.mcp.addresses import Address, console_url, parse_address
from recollect.serve.mcp.arguments import (
    Arguments,
    json_answer,
    json_error,
    json_errors,
    quote,
    sanitize,
)
from recollect.serve.mcp.context import Answer, Context, ToolError
from recollect.serve.mcp.tools.knowledge.definitions import (
    KNOWLEDGE_GET,
    KNOWLEDGE_SEARCH,
    MAX_RESULTS,
)
from recollect.settings import LIMITS

DEFAULT_RESULTS = 20
DEFAULT_PAGE_SIZE = 50
_COMPACT_METADATA = (
    "source",
    "score",
    "created_at",
    "last_modified",
    "version",
    "tags",
    "media_type",
    "sender",
    "loc",
)


class Handlers:
    """One object serves every user."""

    def knowledge_search(self, context: Context, arguments: dict[str, Any]) -> Answer:
        args = KnowledgeArguments(KNOWLEDGE_SEARCH, arguments)
        answer = search_all(context, args, skip_seen=not args.flag("repeat"))
        if args.choice("shape", "full") == "compact":
            with context.library() as library:
                results = [compact_result(context, library, result) for result in answer["results"]]
            answer["results"] = results
        return json_answer(answer)

    def knowledge_get(self, context: Context, arguments: dict[str, Any]) -> Answer:
        args = KnowledgeArguments(KNOWLEDGE_GET, arguments)
        item_id = args.id("id")
        address = None
        if "source" not in args:  # the URI of a result names its source
            address = parse_address(item_id)
        if address is not None:
            return json_answer(get_item(context, args, address))
        address = item_address(args.choice("source"), item_id)
        return json_answer(get_item(context, args, address))


# -- arguments ---


class KnowledgeArguments(Arguments):
    """The arguments of a Knowledge API tool. Its error messages name the tool."""

    def error(self, message: str) -> ToolError:
        return json_error(f"Invalid arguments for {self._tool}: {message}")

    def invalid(self, name: str, problem: str) -> ToolError:
        return self.error(f"{name}: {problem}")

    def id(self, name: str) -> str:
        """A string or a number: clients use both as ids."""
        value = self._values.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        return self.required_text(name)

    def choice(self, name: str, default: str | None = None) -> str:
        value = self.text(name)
        if not value and default is not None:
            return default
        allowed: list[str] = self._schema[name]["enum"]
        if value not in allowed:
            raise self.invalid(name, f"{quote(value)} is not one of {', '.join(allowed)}.")
        return value

    def boolean(self, name: str) -> bool | None:
        value = self._values.get(name)
        if value is None or isinstance(value, bool):
            return value
        raise self.invalid(name, "expected true or false.")

    def preference(self, name: str, config: Mapping[str, Any]) -> Any:
        """The call's own value, or else what its session prefers."""
        value = self._values.get(name)
        if value is not None and clamp(name, value) is None:
            raise self.invalid(name, "expected a number.")
        return preference(name, value, config)

    @contextmanager
    def library_errors(self) -> Iterator[None]:
        """Turn library errors into tool errors; invalid input is an error in the arguments."""
        with json_errors():
            try:
                yield
            except Conflict:
                raise
            except InvalidInput as error:
                raise self.error(sanitize(str(error))) from error


# -- search ---


class Search:
    """A search over some sources, with the page and the snippets a call asks for."""

    def __init__(
        self,
        sources: Sequence[str],
        filters: Mapping[str, Any],
        default_limit: int,
        *,
        order_by: str = "",
        skip_seen: bool = False,
        fold: bool = False,
    ) -> None:
        self._sources = sources
        self._filters = filters
        self._default_limit = default_limit
        self._order_by = order_by
        self._skip_seen = skip_seen
        """Whether to skip what the session has returned before."""
        self._fold = fold

    def run(self, context: Context, args: KnowledgeArguments, query: str = "") -> dict[str, Any]:
        query = query or args.required_text("query")
        limit = args.number("limit", 1, MAX_RESULTS, default=self._default_limit)
        offset = args.number("offset", 0, LIMITS.page_offset, default=0)
        snippet_length = args.preference("snippet_length", context.config)
        max_tokens = None
        if "max_tokens" in args or "max_tokens" in context.config:
            max_tokens = args.preference("max_tokens", context.config)
        rerank = args.boolean("rerank")
        correct = args.boolean("correct")
        session = context.session
        recent_queries: Sequence[str] = ()
        history = None
        if session is not None:
            recent_queries = session.recent_queries
            if self._skip_seen:
                history = session
        with args.library_errors(), context.library() as library:
            options = KnowledgeOptions(
                sources=self._sources,
                limit=limit,
                offset=offset,
                snippet_length=snippet_length,
                max_tokens=max_tokens,
                chars_per_token=preference("chars_per_token", None, context.config),
                order_by=preference("order_by", self._order_by, context.config),
                filters=self._filters,
                rerank=rerank,
                correct=correct is not False,
                fold=self._fold,
                recent_queries=recent_queries,
            )
            answer = library.knowledge.search(
                query, options, audience=context.audience, history=history
            )
        if session is not None:
            session.add_query(query)
        sanitized: dict[str, Any] = sanitize(answer)
        return sanitized


def search_all(
    context: Context, args: KnowledgeArguments, *, skip_seen: bool, fold: bool = False
) -> dict[str, Any]:
    """A search of all sources, or of those in the arguments."""
    return Search(
        args.texts("sources"),
        args.object("filters"),
        DEFAULT_RESULTS,
        order_by=args.choice("order_by", ""),
        skip_seen=skip_seen,
        fold=fold,
    ).run(context, args)


def compact_result(context: Context, library: Library, result: dict[str, Any]) -> dict[str, Any]:
    """A result in the shape of deep research. Its id works with `fetch`, too."""
    metadata = {name: result[name] for name in _COMPACT_METADATA if result[name] is not None}
    url = console_url(context, result["source"], result["id"], result["message_id"] or "")
    return {
        "id": result["uri"],
        "title": sanitize(library.label(result["id"], result["title"] or "")),
        "text": result["snippet"] or "",
        "url": url or result["url"] or "",
        "metadata": metadata,
    }


# -- reading ---


def item_address(source: str, item_id: str) -> Address:
    """The address of an item. Its id may be the URI of a result."""
    address = parse_address(item_id)
    if address is not None and address.source == source:
        return address
    return Address(source, item_id)


def get_item(
    context: Context,
    args: KnowledgeArguments,
    address: Address,
    *,
    default_mode: str = "snippet",
    page: int = 1,
    page_size: int = DEFAULT_PAGE_SIZE,
) -> dict[str, Any]:
    """As much of an item as the call asks for."""
    options = None
    if "retrieval" in args:
        options = args.object("retrieval")
    with args.library_errors(), context.library() as library:
        retrieval = parse_retrieval(options, context.config, default_mode)
        if address.message and not retrieval.loc:
            retrieval = replace(retrieval, loc={"message_id": address.message})
        item = library.knowledge.get(
            address.source,
            address.id,
            _at_latest_query(context, retrieval),
            audience=context.audience,
            page=page,
            page_size=page_size,
            whole_answer=True,
        )
    sanitized: dict[str, Any] = sanitize(item)
    return sanitized


def _at_latest_query(context: Context, retrieval: Retrieval) -> Retrieval:
    """If only a part is requested without a query, use the session's latest one.

    It also finds the match in a location that names a whole chunk, or a passage that has changed.
    """
    if context.session is None or retrieval.mode == "full":
        return retrieval
    queries = context.session.recent_queries
    is_whole_item = bool(retrieval.loc) and not retrieval.has_place
    if not queries or is_whole_item or retrieval.query.strip():
        return retrieval
    return replace(retrieval, query=queries[-1])
