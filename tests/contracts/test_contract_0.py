"""Contract 0, `conversation_search`: the tool and its parameters, on the library and on foreign databases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import databases
import pytest
from clauses import proves
from databases import Message
from worlds import NOTHING, Tool, World, said

# -- the tool --------------------------------------------------------------


def listed(tool: Tool) -> dict[str, Any]:
    (only,) = tool.request("tools/list")["result"]["tools"]
    result: dict[str, Any] = only
    return result


@proves("C0-01", "C0-02", "C0-03")
def test_the_tool_is_listed_with_the_words_of_the_contract(tool: Tool) -> None:
    shown = listed(tool)
    assert shown["name"] == "conversation_search"
    assert shown["description"] == (
        "Search prior conversation history (canonical ChatGPT export). Hybrid-style: text match on content and titles. "
        "Optional filters: roles (user/assistant/tool), start_date and end_date (ISO 8601 inclusive). Returns matching "
        "messages with timestamps and content."
    )
    assert shown["annotations"]["readOnlyHint"] is True


@proves("C0-04", "C0-09", "C0-15", "C0-17", "C0-44")
def test_the_schema_is_that_of_the_contract(tool: Tool) -> None:
    schema = listed(tool)["inputSchema"]
    types = {
        name: {k: v for k, v in rule.items() if k != "description"}
        for name, rule in schema["properties"].items()
    }
    assert schema["type"] == "object"
    assert schema["required"] == []
    assert schema["additionalProperties"] is False
    assert types == {
        "query": {"type": "string"},
        "roles": {
            "type": "array",
            "items": {"type": "string", "enum": ["user", "assistant", "tool"]},
        },
        "start_date": {"type": "string"},
        "end_date": {"type": "string"},
        "limit": {"type": "integer", "default": 50},
    }


@proves("C0-45")
def test_the_tool_can_stand_beside_the_one_of_letta_under_another_name(place: str) -> None:
    renamed = Tool(place, rename={"conversation_search": "history_search"}, prefix="chatgpt_")
    assert listed(renamed)["name"] == "chatgpt_history_search"
    answer = renamed.request("tools/call", name="chatgpt_history_search", arguments={})
    assert answer["result"]["content"][0]["text"].startswith("Database not found:")
    assert (
        renamed.request("tools/call", name="conversation_search", arguments={})["error"]["code"]
        == -32602
    )


# -- parameters ------------------------------------------------------------


@proves("C0-04", "C0-18")
@pytest.mark.parametrize("nothing", [None, "", "absent"])
def test_what_is_left_out_null_or_empty_does_not_filter(
    world: World, tool: Tool, nothing: str | None
) -> None:
    world.add("Fruit", *said("an apple", "a pear"))
    names = ("query", "roles", "start_date", "end_date", "limit")
    assert tool.found(**{} if nothing == "absent" else dict.fromkeys(names, nothing)) == [
        "a pear",
        "an apple",
    ]


@proves("C0-04")
def test_arguments_themselves_may_be_left_out(world: World, tool: Tool) -> None:
    world.add("Fruit", *said("an apple"))
    result = tool.request("tools/call", name="conversation_search")["result"]
    assert "an apple" in result["content"][0]["text"]


@pytest.mark.both_stores
@proves("C0-05")
def test_a_query_finds_messages_that_contain_it(world: World, tool: Tool) -> None:
    world.add("Fruit", *said("an apple", "a pear", "a pineapple"))
    assert tool.found(query="apple") == ["a pineapple", "an apple"]
    assert tool.found(query="  pear  ") == ["a pear"]


@proves("C0-06")
def test_a_title_that_matches_returns_the_whole_conversation(world: World, tool: Tool) -> None:
    world.add("Rust lifetimes", *said("how long?", "as long as needed"), id="c1")
    world.add("Dinner", *said("soup"), id="c2")
    assert tool.found(query="LIFETIMES") == ["as long as needed", "how long?"]
    assert tool.found(query="lifetimes rust") == ["as long as needed", "how long?"]


@proves("C0-07")
@pytest.mark.parametrize(
    ("content", "query"),
    [
        ("Guten Tag, GRÜSSE aus Köln", "grüße aus köln"),
        ("Καλημέρα ΚΌΣΜΕ", "καλημέρα κόσμε"),
        ("ПРИВЕТ, мир", "привет, МИР"),
        ("今日は東京タワーに行きました", "東京タワー"),
        ("안녕하세요 여러분", "하세요 여러"),
        ("cafe\u0301 au lait", "CAFÉ AU"),
        ("deployed 🎉🎉 today", "🎉"),
        ('he said "stop\\now"', '"STOP\\now"'),
        ("first line\nsecond line", "line\nsecond"),
        ("price is 100% off", "100% OFF"),
        ("call snake_case()", "KE_CA"),
        ("path C:\\new\\table", "c:\\new\\t"),
    ],
)
def test_a_query_matches_in_any_case_and_alphabet(
    world: World, tool: Tool, content: str, query: str
) -> None:
    world.add("", *said("something else", content))
    assert tool.found(query=query) == [content]


@proves("C0-07")
@pytest.mark.parametrize(
    "query", ["%", "_", "a%e", "ap_le", "[a]", "*", "' or 1=1 --", "\\", '"', "NEAR("]
)
def test_signs_of_a_query_language_are_plain_characters(
    world: World, tool: Tool, query: str
) -> None:
    world.add("Fruit", *said("an apple"))
    assert tool.search(query=query) == NOTHING
    world.add("Signs", *said(f"before {query} after"), id="c2")
    assert tool.found(query=query) == [f"before {query} after"]


@proves("C0-08")
def test_a_message_with_all_words_matches_in_any_order(world: World, tool: Tool) -> None:
    world.add(
        "",
        *said(
            "gather runs coroutines in asyncio", "asyncio alone", "gather alone", "asynciogather"
        ),
    )
    assert tool.found(query="asyncio gather") == ["gather runs coroutines in asyncio"]
    assert tool.found(query="Gather, Asyncio!") == ["gather runs coroutines in asyncio"]


@proves("C0-05", "C0-08")
def test_very_long_words_are_told_apart_by_their_ends(world: World, tool: Tool) -> None:
    words = [letter * 200 + end for letter in "ab" for end in "xy"]
    world.add("", *said(*words))
    assert tool.found(query=words[1]) == [words[1]]
    assert tool.found(query=f"{words[1][100:]}") == [words[1]]
    assert tool.search(query=f"{words[1]} {words[2]}") == NOTHING


@proves("C0-09")
def test_roles_restrict_the_messages(world: World, tool: Tool) -> None:
    roles = ("user", "assistant", "tool", "system")
    world.add(
        "",
        *(
            Message(role, f"by {role}", f"2025-02-10T14:0{n}:00+00:00")
            for n, role in enumerate(roles)
        ),
    )
    assert tool.found(roles=["user"]) == ["by user"]
    assert tool.found(roles=["assistant", "tool"]) == ["by tool", "by assistant"]
    assert tool.found(roles="tool") == ["by tool"]
    assert tool.found(roles=[]) == ["by system", "by tool", "by assistant", "by user"]


@proves("C0-10", "C0-41")
def test_a_role_that_is_not_allowed_is_named(world: World, tool: Tool) -> None:
    assert (
        tool.error(roles=["admin"]) == "Invalid role(s): ['admin']. Allowed: user, assistant, tool."
    )
    expected = "Invalid role(s): ['system', 'x']. Allowed: user, assistant, tool."
    assert tool.error(roles=["user", "system", "x"]) == expected
    assert len(tool.error(roles=["a" * 100_000] * 50)) < 500


@pytest.fixture
def days(world: World) -> None:
    """Messages at the edges of 15 January 2024 UTC."""
    times = [
        "2024-01-14T23:59:59.999000+00:00",
        "2024-01-15T00:00:00+00:00",
        "2024-01-15T14:30:00+00:00",
        "2024-01-15T23:59:59.999000+00:00",
        "2024-01-16T00:00:00+00:00",
    ]
    names = ("eve", "morning", "noon", "night", "after")
    world.add("", *(Message("user", name, at) for name, at in zip(names, times, strict=True)))


@proves("C0-11")
@pytest.mark.usefixtures("days")
def test_a_start_date_is_inclusive_and_covers_its_day(tool: Tool) -> None:
    assert tool.found(start_date="2024-01-15") == ["after", "night", "noon", "morning"]
    assert tool.found(start_date="2024-01-15T23:59:59.999") == ["after", "night"]


@proves("C0-12")
@pytest.mark.usefixtures("days")
def test_an_end_date_is_inclusive_and_covers_its_day(tool: Tool) -> None:
    assert tool.found(end_date="2024-01-15") == ["night", "noon", "morning", "eve"]
    assert tool.found(end_date="2024-01-15T14:30:00") == ["noon", "morning", "eve"]
    assert tool.found(start_date="2024-01-15", end_date="2024-01-15") == [
        "night",
        "noon",
        "morning",
    ]
    assert tool.search(start_date="2024-01-16", end_date="2024-01-14") == NOTHING


@proves("C0-13")
@pytest.mark.usefixtures("days")
@pytest.mark.parametrize(
    "noon",
    [
        "2024-01-15T14:30:00",
        "2024-01-15T14:30",
        "2024-01-15T14:30:00Z",
        "2024-01-15T09:30:00-05:00",
        "2024-01-15T20:00:00+05:30",
        " 2024-01-15 14:30:00 ",
    ],
)
def test_times_are_utc_unless_they_say_otherwise(tool: Tool, noon: str) -> None:
    assert tool.found(start_date=noon, end_date=noon) == ["noon"]


@proves("C0-14", "C0-41")
@pytest.mark.parametrize("name", ["start_date", "end_date"])
@pytest.mark.parametrize(
    "value", ["yesterday", "2024-13-01", "2024-02-30", "15/01/2024", "1" * 5000, "\ud800"]
)
def test_a_date_that_cannot_be_read_is_named(
    world: World, tool: Tool, name: str, value: str
) -> None:
    error = tool.error(**{name: value})
    assert error.startswith(f"Error: Invalid {name}: ")
    assert len(error) < 300


@proves("C0-15")
def test_the_limit_is_fifty_by_default(world: World, tool: Tool) -> None:
    world.add("", *said(*(f"message {n}" for n in range(60))))
    assert len(tool.blocks()) == 50
    assert len(tool.blocks(limit=None)) == 50
    assert tool.found(limit=2) == ["message 59", "message 58"]


@proves("C0-16")
@pytest.mark.parametrize(
    ("limit", "count"),
    [
        (0, 1),
        (-5, 1),
        (1, 1),
        (200, 200),
        (201, 200),
        (10**400, 200),
        (1e30, 200),
        (float("inf"), 200),
        (float("-inf"), 1),
        (2.9, 2),
        ("7", 7),
        (" 7 ", 7),
        ("1e30", 200),
        ("9" * 5000, 200),
        ("", 50),
    ],
)
def test_a_limit_outside_its_range_is_clamped(
    tool: Tool, many: None, limit: Any, count: int
) -> None:
    assert len(tool.blocks(limit=limit)) == count


@pytest.fixture
def many(export: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    databases.add(
        export, "canonical-json", "many", "", [Message("user", f"number {n}") for n in range(205)]
    )
    monkeypatch.setenv("CONVERSATION_DB", str(export))


@proves("C0-17", "C0-41")
def test_an_additional_property_is_refused_by_name(world: World, tool: Tool) -> None:
    error = tool.error(query="x", user_id="mallory")
    assert (
        error
        == "Error: Unknown argument: 'user_id'. Allowed: query, roles, start_date, end_date, limit."
    )
    assert len(tool.error(**{"k" * 100_000: 1})) < 300


@proves("C0-19", "C0-41")
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("query", [5, True, ["a"], {"a": 1}]),
        ("roles", [5, True, {"user": 1}, [1], [None], [["user"]]]),
        ("start_date", [20240115, 1.5, False, ["2024-01-15"]]),
        ("end_date", [20240115, True, {}]),
        ("limit", ["many", "nan", float("nan"), True, False, [5], {}]),
    ],
)
def test_an_argument_of_the_wrong_type_is_named(tool: Tool, name: str, values: list[Any]) -> None:
    for value in values:
        assert tool.error(**{name: value}).startswith(f"Error: Invalid {name}: expected ")


@proves("C0-19")
def test_a_query_over_the_cap_is_refused_not_searched(world: World, tool: Tool) -> None:
    assert tool.error(query="x" * 1_000_000).startswith("Error: Invalid query: ")
