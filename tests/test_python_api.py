"""The Python API: lists that read themselves, export and import, async variants, names, reprs."""

from __future__ import annotations

import asyncio
import io
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect import Document, Filter, Library, Passage, PersistenceApi, SearchOptions
from recollect.errors import InvalidInput


def fill(library: recollect.Library, count: int) -> list[str]:
    """Add conversations; returns their ids, last changed first."""
    documents = [
        {"id": f"c{n}", "title": f"Talk {n}", "messages": [{"role": "user", "content": f"gnu {n}"}]}
        for n in range(count)
    ]
    library.import_items(documents)
    return [summary.id for summary in library.conversation_page(limit=200)[0]]


# -- keyword arguments ---


def test_a_search_takes_filters_and_options_as_keywords(library: recollect.Library) -> None:
    for role, day in (("user", "2024-12-31"), ("user", "2025-01-02"), ("assistant", "2025-01-02")):
        message = {"role": role, "content": f"trams, said {role}", "created_at": day}
        library.add_conversation(f"{role} {day}", messages=[message])
    page = library.search("trams", limit=5, mode="text", role="user", after="2025-01-01")
    assert [hit.conversation_id for hit in page.hits] == ["user 2025-01-02"]
    assert (page.limit, page.mode) == (5, "text")
    both = library.search("trams", Filter.of(roles="user"), SearchOptions(limit=1), offset=1)
    assert (both.total, both.limit, both.offset) == (2, 1, 1)
    assert [message.role for message in library.recent("trams", role="assistant")] == ["assistant"]
    assert library.export(io.StringIO(), after="2025-01-01") == 2


def test_an_unknown_keyword_is_refused_with_the_known_ones(library: recollect.Library) -> None:
    with pytest.raises(InvalidInput, match=r"no argument 'roles'. Use role, author"):
        library.search("trams", roles="user")  # type: ignore[call-arg]
    with pytest.raises(InvalidInput, match="no argument 'limit'"):
        library.export(io.StringIO(), limit=3)  # type: ignore[call-arg]


# -- lists ---


def test_the_list_of_conversations_is_a_sequence(library: recollect.Library) -> None:
    ids = fill(library, 5)
    conversations = library.conversations()
    assert (len(conversations), bool(conversations)) == (5, True)
    assert [summary.id for summary in conversations] == ids
    assert conversations[0].id == ids[0]
    assert conversations[-1].id == ids[-1]
    assert [summary.id for summary in conversations[1:4]] == ids[1:4]
    assert [summary.id for summary in conversations[::-2]] == ids[::-2]
    for index in (5, -6):
        with pytest.raises(IndexError):
            conversations[index]
    assert repr(conversations) == "<5 conversations>"
    assert repr(library.conversations(title="Talk 3")) == "<1 conversation>"
    assert not library.conversations(Filter.of(projects="nothing"))


def test_an_iteration_visits_every_conversation_once_while_they_change(
    library: recollect.Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recollect.knowledge.listing._PAGE", 2)
    ids = fill(library, 7)
    visited = []
    for number, summary in enumerate(library.conversations()):
        visited.append(summary.id)
        if number == 0:
            library.rename(ids[-1], "Moved before it was visited")
            library.rename(ids[0], "Moved after it was visited")
        if number == 3:
            library.add_conversation("new", messages=[{"role": "user", "content": "new"}])
    assert visited == ids  # the new one is in the next list


def test_a_list_of_one_text_is_a_query(library: recollect.Library) -> None:
    fill(library, 3)
    options = SearchOptions(mode="text")
    single = library.search("gnu", options=options)
    one_text = library.search(["gnu"], options=options)
    assert [hit.message_id for hit in one_text.hits] == [hit.message_id for hit in single.hits]
    assert one_text.total == 3


# -- export and import ---


def test_what_is_exported_can_be_imported(library: recollect.Library, tmp_path: Path) -> None:
    fill(library, 3)
    library.pin("c1")
    before = list(library.documents())
    file = tmp_path / "export.json"
    assert library.export(file) == 3
    for id_ in ("c0", "c1", "c2"):
        library.delete_conversation(id_)
    library.import_path(file)
    assert sorted(map(str, library.documents())) == sorted(map(str, before))
    assert [summary.id for summary in library.conversations(Filter(pinned=True))] == ["c1"]


def test_a_part_is_exported_as_text(library: recollect.Library, tmp_path: Path) -> None:
    fill(library, 2)
    stream = io.StringIO()
    assert library.export(stream, Filter.of(conversations="c1"), format="md") == 1
    assert stream.getvalue().startswith("# Talk 1\n")
    with pytest.raises(recollect.InvalidInput, match="format"):
        library.export(tmp_path / "x", format="pdf")
    assert list(tmp_path.glob("x*")) == []


def test_items_of_a_program_are_imported_with_a_receipt(library: recollect.Library) -> None:
    def items() -> Any:
        yield Document("app", "d1", "As a document", passages=(Passage("m", "user", "hello"),))
        yield {"id": "d2", "messages": [{"role": "user", "content": "as a mapping"}]}
        yield {"id": "broken", "messages": "no list"}
        yield {"id": "d1"}

    receipt = library.import_items(items(), label="my program")
    (file,) = receipt.files
    assert (file.name, file.conversations.new, file.messages.new) == ("my program", 2, 2)
    assert sum(file.conversations.failed.values()) + sum(file.conversations.skipped.values()) == 2
    again = library.import_items(items())
    assert again.files[0].conversations.new == 0
    library.undo_import(again.id)
    assert len(library.conversations()) == 2
    library.undo_import(receipt.id)
    assert len(library.conversations()) == 0


# -- async ---


def test_a_library_is_used_with_asyncio(place: str, tmp_path: Path) -> None:
    async def use() -> None:
        async with recollect.open_async(place, background=False) as library:
            await library.add_conversation("c1", "Async", messages=[])
            await asyncio.gather(
                *(library.add_message("c1", "user", f"emu {n}", id=f"m{n}") for n in range(5))
            )
            page = await library.search("emu")
            assert page.total == 5
            assert [summary.id async for summary in library.conversations()] == ["c1"]
            assert await library.conversations().count() == 1
            assert [document.id async for document in library.documents()] == ["c1"]
            assert await library.export(tmp_path / "all.json") == 1
            change = await library.rename("c1", "Later")
            assert change is not None
            await library.undo(change.number)
            assert (await library.summary("c1")).title == "Async"
            with pytest.raises(recollect.NotFound):
                await library.conversation("nothing")
        library = await recollect.open_async(place, background=False)
        assert len((await library.conversation("c1")).messages) == 5
        await library.close()

    asyncio.run(use())


WITHOUT_ASYNC = {
    "knowledge",
    "memory",
    "archive",
    "read_only",
    # For programs that watch files and index them in the background:
    "admission",
    "exclusion",
    "import_file",
    "wake_indexer",
    "purge_status",
    "index_status",
    "run_background_jobs",
    "pause_indexing",
    "size",
    "label",
    "conversations_with",
}


def test_every_method_has_an_async_variant() -> None:
    public = {name for name in dir(Library) if not name.startswith("_")}
    asynchronous = {name for name in vars(recollect.AsyncLibrary) if not name.startswith("_")}
    assert public - WITHOUT_ASYNC == asynchronous


# -- names and reprs ---


def test_dir_lists_every_public_name() -> None:
    assert set(recollect.__all__) <= set(dir(recollect))
    for name in recollect.__all__:
        assert getattr(recollect, name) is not None


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"kinds": "notes"}, "kinds: 'notes' is not one of conversation, note, media"),
        ({"roles": None}, "roles: None is neither a name nor a list"),
        ({"tags": ["a", 5]}, "tags: 5 is not text"),
        ({"after": datetime.min.replace(tzinfo=timezone(timedelta(hours=14)))}, "after: .* date"),
    ],
)
def test_a_filter_that_could_match_nothing_is_an_error(
    arguments: dict[str, Any], error: str
) -> None:
    with pytest.raises(InvalidInput, match=error):
        Filter.of(**arguments)


def test_a_month_or_a_year_means_all_of_it(library: recollect.Library) -> None:
    for day in ("2024-12-31", "2025-01-01", "2025-06-30", "2025-12-31"):
        message = {"id": day, "role": "user", "content": "walrus", "created_at": f"{day}T23:30Z"}
        library.add_conversation(day, messages=[message])
    for after, before, count in (("2025", None, 3), ("2025-06", "2025-06", 1), (None, "2024", 1)):
        filters = Filter.of(after=after, before=before)
        assert library.search("walrus", filters).total == count


def test_arguments_of_the_wrong_type_are_errors(library: recollect.Library) -> None:
    text: Any
    for text in (None, 5, ["walrus", None]):
        with pytest.raises(InvalidInput, match="text: "):
            library.search(text)
    number: Any
    for number in ("5", None, 2.5):
        with pytest.raises(InvalidInput, match="is not a whole number"):
            SearchOptions(limit=number)
    with pytest.raises(InvalidInput, match="facet: 'roles' is not one of projects, sources, tags"):
        library.facet_names("roles")


def test_a_message_is_human_only_however_that_is_spelled(library: recollect.Library) -> None:
    conversation = library.add_conversation()
    id = library.add_message(conversation.id, "user", "private", visibility="Human-Only")
    assert library.message(conversation.id, id).visibility == "human_only"


def test_blank_names_of_projects_and_users_are_refused(
    library: recollect.Library, place: str
) -> None:
    library.add_conversation("c1", messages=[{"role": "user", "content": "hello"}])
    for name in ("", "  "):
        with pytest.raises(InvalidInput, match="project: "):
            library.add_conversation("c2", project=name)
        with pytest.raises(InvalidInput, match="project: "):
            library.update_conversation("c1", project=name)
        with pytest.raises(InvalidInput, match="namespace: "):
            PersistenceApi(library).create_conversation(session_id="s", namespace=name)
        with pytest.raises(InvalidInput, match="user's name"):
            recollect.open(place, user=name)
    assert library.summary("c1").project == "default"
    assert len(library.conversations()) == 1
