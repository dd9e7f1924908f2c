"""`AsyncLibrary`: the methods of a Library for programs that use asyncio.

    async with recollect.open_async() as library:
        page = await library.search("asyncio gather")

Every call runs in a thread, so it blocks no other task. A library may be used from many tasks at
once. A call that was started is completed even if its task is cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable
from functools import wraps
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from recollect.knowledge.listing import ConversationList
from recollect.library import Library
from recollect.model.documents import Document, Passage, Summary
from recollect.model.search import Filter
from recollect.places import open

P = ParamSpec("P")
T = TypeVar("T")

_BATCH = 100
"""How many values an iteration fetches per thread call."""


def in_thread(
    method: Callable[Concatenate[Library, P], T],
) -> Callable[Concatenate[AsyncLibrary, P], Awaitable[T]]:
    @wraps(method)
    async def call(self: AsyncLibrary, /, *arguments: P.args, **options: P.kwargs) -> T:
        return await asyncio.to_thread(method, self.library, *arguments, **options)

    return call


class AsyncLibrary:
    """One user's conversations: the methods of `Library`, to be awaited."""

    def __init__(self, library: Library) -> None:
        self.library = library
        """The library itself, for `knowledge`, `memory` and what has no async variant."""

    def __repr__(self) -> str:
        return f"<AsyncLibrary of {self.library!r}>"

    async def __aenter__(self) -> AsyncLibrary:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    close = in_thread(Library.close)

    import_path = in_thread(Library.import_path)
    import_items = in_thread(Library.import_items)
    export = in_thread(Library.export)
    undo_import = in_thread(Library.undo_import)
    receipts = in_thread(Library.receipts)
    running_imports = in_thread(Library.running_imports)

    add_conversation = in_thread(Library.add_conversation)
    ensure_conversation = in_thread(Library.ensure_conversation)
    add_messages = in_thread(Library.add_messages)
    update_conversation = in_thread(Library.update_conversation)
    delete_conversation = in_thread(Library.delete_conversation)
    delete_message = in_thread(Library.delete_message)
    restore_document = in_thread(Library.restore_document)
    forget = in_thread(Library.forget)
    redact = in_thread(Library.redact)

    rename = in_thread(Library.rename)
    tag = in_thread(Library.tag)
    untag = in_thread(Library.untag)
    pin = in_thread(Library.pin)
    trash = in_thread(Library.trash)
    changes = in_thread(Library.changes)
    undo = in_thread(Library.undo)
    empty_trash = in_thread(Library.empty_trash)

    thread = in_thread(Library.thread)

    find_id = in_thread(Library.find_id)
    find_session = in_thread(Library.find_session)
    short_id = in_thread(Library.short_id)
    resolve_id = in_thread(Library.resolve_id)
    conversation = in_thread(Library.conversation)
    conversation_page = in_thread(Library.conversation_page)
    list_page = in_thread(Library.list_page)
    summary = in_thread(Library.summary)
    message = in_thread(Library.message)
    read_path = in_thread(Library.read_path)
    messages = in_thread(Library.messages)
    view = in_thread(Library.view)
    facets = in_thread(Library.facets)
    facet_names = in_thread(Library.facet_names)
    activity = in_thread(Library.activity)
    stats = in_thread(Library.stats)
    version = in_thread(Library.version)

    search = in_thread(Library.search)
    related = in_thread(Library.related)
    count_matches = in_thread(Library.count_matches)
    recent = in_thread(Library.recent)
    find_text = in_thread(Library.find_text)
    match_expression = in_thread(Library.match_expression)

    index = in_thread(Library.index)
    audit = in_thread(Library.audit)
    verify = in_thread(Library.verify)
    repair = in_thread(Library.repair)

    async def add_message(
        self, conversation_id: str, role: str, content: str, **fields: Any
    ) -> str:
        """Add one message to a conversation. See `Library.add_message`."""
        return await asyncio.to_thread(
            self.library.add_message, conversation_id, role, content, **fields
        )

    async def post(
        self, thread_id: str, author: str, content: str, *, role: str = "user", **fields: Any
    ) -> tuple[Passage, bool]:
        """Add a message to a thread. See `Library.post`."""
        return await asyncio.to_thread(
            self.library.post, thread_id, author, content, role=role, **fields
        )

    def conversations(
        self, filter: Filter | None = None, *, title: str = ""
    ) -> AsyncConversationList:
        """The conversations that match, last changed first: `async for` reads them."""
        return AsyncConversationList(self.library.conversations(filter, title=title))

    def documents(self, filter: Filter | None = None) -> AsyncIterator[Document]:
        """Every conversation and item with its content, for `async for`."""
        return iterate(lambda: self.library.documents(filter), 1)


class AsyncConversationList:
    """The conversations that match a filter. See `ConversationList`."""

    def __init__(self, conversations: ConversationList) -> None:
        self._conversations = conversations

    def __aiter__(self) -> AsyncIterator[Summary]:
        return iterate(lambda: self._conversations, _BATCH)

    async def count(self) -> int:
        return await asyncio.to_thread(len, self._conversations)

    async def page(self, start: int, stop: int) -> list[Summary]:
        """The conversations from one index to another."""
        return await asyncio.to_thread(lambda: self._conversations[start:stop])


async def iterate(values: Callable[[], Iterable[T]], batch: int) -> AsyncIterator[T]:
    """Iterate in a thread, a batch at a time."""
    iterator = await asyncio.to_thread(lambda: iter(values()))
    while some := await asyncio.to_thread(lambda: list(islice(iterator, batch))):
        for value in some:
            yield value


class _Opening:
    """What `open_async` returns: await it, or use it in `async with`."""

    def __init__(self, load: Callable[[], Library]) -> None:
        self._load = load
        self._library: AsyncLibrary | None = None

    async def __aenter__(self) -> AsyncLibrary:
        self._library = AsyncLibrary(await asyncio.to_thread(self._load))
        return self._library

    def __await__(self) -> Generator[Any, None, AsyncLibrary]:
        return self.__aenter__().__await__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._library is not None:
            await self._library.close()


def open_async(
    path_or_url: str | Path | None = None,
    user: str | None = None,
    *,
    background: bool | None = None,
) -> _Opening:
    """Open a user's library like `open`, for `async with` or `await`."""
    return _Opening(lambda: open(path_or_url, user, background=background))
