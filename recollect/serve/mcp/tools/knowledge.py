"""The toolset "knowledge": one search over notes, media, chats, characters and prompts, and one way to read them.

In a session, the search leaves out what it returned before, until there is
nothing else; whoever reads an item without saying where in it is shown what
was asked last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from recollect.errors import Conflict, InvalidInput
from recollect.knowledge.preferences import clamp, preference
from recollect.knowledge.retrieval import Retrieval, parse_retrieval
from recollect.language.text import storable
from recollect.serve.mcp.addresses import Address, page_of, read_address
from recollect.serve.mcp.arguments import Arguments, answered, failed, harmless, quoted, told
from recollect.serve.mcp.context import Answer, Context, ToolError
from recollect.serve.mcp.tools.knowledge_tools import KNOWLEDGE_GET, KNOWLEDGE_SEARCH
from recollect.settings import LIMITS

RESULTS = 20
MOST_RESULTS = 100
COMPACT = "compact"
_COMPACT_FACTS = (
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


class Toolset:
    """See `definitions`. One object serves every user."""

    def close(self) -> None:
        """Nothing is kept open between calls."""

    def knowledge_search(self, context: Context, arguments: dict[str, Any]) -> Answer:
        given = Given(KNOWLEDGE_SEARCH, arguments)
        sources, filters = given.texts("sources"), given.object("filters")
        order = given.choice("order_by", "")
        if not order and sources == ["media"] and isinstance(filters.get("media"), Mapping):
            order = filters["media"].get("order_by") or ""
        shape = given.choice("shape", "full")
        found = search(context, given, sources, filters, results=RESULTS, order=order, once=True)
        if shape == COMPACT:
            found["results"] = [_compact(context, result) for result in found["results"]]
        return answered(found)

    def knowledge_get(self, context: Context, arguments: dict[str, Any]) -> Answer:
        given = Given(KNOWLEDGE_GET, arguments)
        id_ = given.id("id")
        address = (
            read_address(id_) if "source" not in given else None
        )  # an address says the source itself
        return get(context, given, address.source if address else given.choice("source"), id_)


# -- arguments -----------------------------------------------------------------


class Given(Arguments):
    """The arguments of a tool of contract 3, whose errors name the tool."""

    def wrong(self, error: str) -> ToolError:
        return failed(f"Invalid arguments for {self._tool}: {error}")

    def id(self, name: str) -> str:
        """A text or a number: clients take both for ids."""
        value = self._given.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        return self.name(name)

    def texts(self, name: str) -> list[str]:
        """Several texts; one needs no list."""
        value = self._given.get(name, [])
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
            raise self.wrong(f"{name}: expected a list of strings.")
        return [storable(each) for each in values if each.strip()]

    def choice(self, name: str, default: str | None = None) -> str:
        """One of a few words; without a default it must be given."""
        value = self.text(name)
        if not value and default is not None:
            return default
        allowed: list[str] = self._known[name]["enum"]
        if value not in allowed:
            raise self.wrong(f"{name}: {quoted(value)} is not one of {', '.join(allowed)}.")
        return value

    def within(self, name: str, default: int, lowest: int, highest: int) -> int:
        return self.number(name, lowest, highest) if name in self else default

    def preference(self, name: str, config: Mapping[str, Any]) -> Any:
        """What the call says, else what its session prefers."""
        value = self._given.get(name)
        if value is not None and clamp(name, value) is None:
            raise self.wrong(f"{name}: expected a number.")
        return preference(name, value, config)

    @contextmanager
    def told(self) -> Iterator[None]:
        """Errors of the library as the caller reads them."""
        with told():
            try:
                yield
            except Conflict:
                raise
            except InvalidInput as error:
                raise self.wrong(harmless(str(error))) from error


# -- searching -----------------------------------------------------------------


def search(
    context: Context,
    given: Given,
    sources: Sequence[str],
    filters: Mapping[str, Any],
    *,
    results: int,
    query: str = "",
    order: str = "",
    once: bool = False,
) -> dict[str, Any]:
    """A page of what is found in these sources. With `once`, what the session was given before is left out."""
    query = query or given.name("query")
    session = context.session
    limit = given.within("limit", results, 1, MOST_RESULTS)
    offset = given.within("offset", 0, 0, LIMITS.page_offset)
    length = given.preference("snippet_length", context.config)
    with given.told(), context.library() as library:
        found = library.knowledge.search(
            query,
            sources=sources,
            limit=limit,
            offset=offset,
            snippet_length=length,
            order_by=preference("order_by", order, context.config),
            filters=filters,
            audience=context.audience,
            memory=session if once else None,
            recent_queries=session.recent_queries if session is not None else (),
        )
    if session is not None:
        session.asked(query)
    shown: dict[str, Any] = harmless(found)
    return shown


def _compact(context: Context, result: dict[str, Any]) -> dict[str, Any]:
    """A result as deep research reads it; its id is one that `fetch` takes, too."""
    facts = {name: result[name] for name in _COMPACT_FACTS if result[name] is not None}
    page = page_of(context, result["source"], result["id"], result["message_id"] or "")
    return {
        "id": result["uri"],
        "title": result["title"] or "Untitled",
        "text": result["snippet"] or "",
        "url": page or result["url"] or "",
        "metadata": facts,
    }


# -- reading -------------------------------------------------------------------


def get(
    context: Context,
    given: Given,
    source: str,
    id_: str,
    *,
    default: str = "snippet",
    page: int = 1,
    page_size: int = 50,
) -> Answer:
    """As much of an item as the call asks for."""
    item = named(source, id_)
    with given.told(), context.library() as library:
        wanted = parse_retrieval(
            given.object("retrieval") if "retrieval" in given else None, context.config, default
        )
        if item.message and not wanted.loc:
            wanted = replace(wanted, loc={"message_id": item.message})
        found = library.knowledge.get(
            source,
            item.id,
            _anchored(context, wanted),
            audience=context.audience,
            page=page,
            page_size=page_size,
        )
    return answered(harmless(found))


def named(source: str, id_: str) -> Address:
    """The item that is meant: the address of a result does for its id."""
    address = read_address(id_)
    return address if address is not None and address.source == source else Address(source, id_)


def _anchored(context: Context, wanted: Retrieval) -> Retrieval:
    """With what was asked last, where a part is wanted and nothing says which."""
    asked = context.session.recent_queries if context.session is not None else []
    if not asked or wanted.mode == "full" or wanted.loc or wanted.query.strip():
        return wanted
    return replace(wanted, query=asked[-1])
