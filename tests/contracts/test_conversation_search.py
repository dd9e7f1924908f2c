"""Conversation search: the tool and its parameters (docs/contracts/conversation-search.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import databases
import pytest
from clauses import proves
from databases import Message
from histories import NO_MATCH, History, Tool, user_messages

PARAMETERS = ("query", "roles", "start_date", "end_date", "limit")

# -- the tool -----------------------------------------------------------------


def definition(tool: Tool) -> dict[str, Any]:
    tools: list[dict[str, Any]] = tool.request("tools/list")["result"]["tools"]
    (only,) = tools
    return only


@proves("C0-01", "C0-02", "C0-03")
def test_the_tool_has_the_name_and_description_of_the_contract(tool: Tool) -> None:
    tool_definition = definition(tool)
    assert tool_definition["name"] == "conversation_search"
    assert tool_definition["description"] == (
        "Search prior conversation history (canonical ChatGPT export). Hybrid-style: text match on "
        "content and titles. Optional filters: roles (user/assistant/tool), start_date and "
        "end_date (ISO 8601 inclusive). Returns matching messages with timestamps and content."
    )
    assert tool_definition["annotations"]["readOnlyHint"] is True


@proves("C0-04", "C0-09", "C0-15", "C0-17", "C0-44")
def test_the_schema_has_the_parameters_of_the_contract(tool: Tool) -> None:
    schema = definition(tool)["inputSchema"]
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
def test_the_tool_can_have_another_name_next_to_lettas_own(place: str) -> None:
    alias = Tool(place, rename={"conversation_search": "history_search"}, tool_prefix="chatgpt_")
    assert definition(alias)["name"] == "chatgpt_history_search"
    answer = alias.request("tools/call", name="chatgpt_history_search", arguments={})
    assert answer["result"]["content"][0]["text"].startswith("Database not found:")
    answer = alias.request("tools/call", name="conversation_search", arguments={})
    assert answer["error"]["code"] == -32602
    alias.close()


# -- parameters ---------------------------------------------------------------


@proves("C0-04", "C0-18")
@pytest.mark.every_state
@pytest.mark.parametrize(
    "arguments", [{}, dict.fromkeys(PARAMETERS), dict.fromkeys(PARAMETERS, "")]
)
def test_missing_null_and_empty_parameters_do_not_filter(
    history: History, tool: Tool, arguments: dict[str, Any]
) -> None:
    history.add("Fruit", *user_messages("an apple", "a pear"))
    assert tool.contents(**arguments) == ["a pear", "an apple"]


@proves("C0-04")
def test_arguments_are_optional(history: History, tool: Tool) -> None:
    history.add("Fruit", *user_messages("an apple"))
    result = tool.request("tools/call", name="conversation_search")["result"]
    assert "an apple" in result["content"][0]["text"]


@proves("C0-05")
@pytest.mark.every_state
def test_a_query_finds_messages_that_contain_it(history: History, tool: Tool) -> None:
    history.add("Fruit", *user_messages("an apple", "a pear", "a pineapple"))
    assert tool.contents(query="apple") == ["a pineapple", "an apple"]
    assert tool.contents(query="  pear  ") == ["a pear"]


@proves("C0-06")
@pytest.mark.every_state
def test_a_matching_title_returns_the_whole_conversation(history: History, tool: Tool) -> None:
    history.add("Rust lifetimes", *user_messages("how long?", "as long as needed"), id="c1")
    history.add("Dinner", *user_messages("soup"), id="c2")
    assert tool.contents(query="LIFETIMES") == ["as long as needed", "how long?"]
    assert tool.contents(query="lifetimes rust") == ["as long as needed", "how long?"]


TEXTS = {
    "grüße aus köln": "Guten Tag, GRÜSSE aus Köln",
    "καλημέρα κόσμε": "Καλημέρα ΚΌΣΜΕ",
    "привет, МИР": "ПРИВЕТ, мир",
    "東京タワー": "今日は東京タワーに行きました",
    "하세요 여러": "안녕하세요 여러분",
    "CAFÉ AU": "cafe\u0301 au lait",
    "🎉": "deployed 🎉🎉 today",
    '"STOP\\now"': 'he said "stop\\now"',
    "line\nsecond": "first line\nsecond line",
    "100% OFF": "price is 100% off",
    "KE_CA": "call snake_case()",
    "c:\\new\\t": "path C:\\new\\table",
}
"""Queries with the message that each matches."""


@proves("C0-07")
@pytest.mark.every_state
def test_a_query_matches_in_any_case_and_alphabet(history: History, tool: Tool) -> None:
    history.add("", *user_messages("something else", *TEXTS.values()))
    for query, content in TEXTS.items():
        assert tool.contents(query=query) == [content], query


@proves("C0-08")
@pytest.mark.every_state
def test_a_message_with_all_words_matches_in_any_order(history: History, tool: Tool) -> None:
    history.add(
        "",
        *user_messages(
            "gather runs coroutines in asyncio", "asyncio alone", "gather alone", "asynciogather"
        ),
    )
    assert tool.contents(query="asyncio gather") == ["gather runs coroutines in asyncio"]
    assert tool.contents(query="Gather, Asyncio!") == ["gather runs coroutines in asyncio"]


@proves("C0-09")
@pytest.mark.every_state
def test_roles_limit_results(history: History, tool: Tool) -> None:
    roles = ("user", "assistant", "tool", "system")
    history.add(
        "",
        *(
            Message(role, f"by {role}", f"2025-02-10T14:0{n}:00+00:00")
            for n, role in enumerate(roles)
        ),
    )
    assert tool.contents(roles=["user"]) == ["by user"]
    assert tool.contents(roles=["assistant", "tool"]) == ["by tool", "by assistant"]
    assert tool.contents(roles="tool") == ["by tool"]
    assert tool.contents(roles=[]) == ["by system", "by tool", "by assistant", "by user"]


@proves("C0-10", "C0-41")
def test_an_unknown_role_is_an_error_that_names_it(history: History, tool: Tool) -> None:
    expected = "Invalid role(s): ['admin']. Allowed: user, assistant, tool."
    assert tool.error(roles=["admin"]) == expected
    expected = "Invalid role(s): ['system', 'x']. Allowed: user, assistant, tool."
    assert tool.error(roles=["user", "system", "x"]) == expected
    assert len(tool.error(roles=["a" * 100_000] * 50)) < 500


@pytest.fixture
def days(history: History) -> None:
    """Messages at the edges of 15 January 2024 UTC."""
    times = [
        "2024-01-14T23:59:59.999000+00:00",
        "2024-01-15T00:00:00+00:00",
        "2024-01-15T14:30:00+00:00",
        "2024-01-15T23:59:59.999000+00:00",
        "2024-01-16T00:00:00+00:00",
    ]
    names = ("eve", "morning", "noon", "night", "after")
    history.add("", *(Message("user", name, at) for name, at in zip(names, times, strict=True)))


@proves("C0-11")
@pytest.mark.every_state
@pytest.mark.usefixtures("days")
def test_a_start_date_is_inclusive_and_means_the_start_of_the_day(tool: Tool) -> None:
    assert tool.contents(start_date="2024-01-15") == ["after", "night", "noon", "morning"]
    assert tool.contents(start_date="2024-01-15T23:59:59.999") == ["after", "night"]


@proves("C0-12")
@pytest.mark.every_state
@pytest.mark.usefixtures("days")
def test_an_end_date_is_inclusive_and_means_the_end_of_the_day(tool: Tool) -> None:
    assert tool.contents(end_date="2024-01-15") == ["night", "noon", "morning", "eve"]
    assert tool.contents(end_date="2024-01-15T14:30:00") == ["noon", "morning", "eve"]
    assert tool.contents(start_date="2024-01-15", end_date="2024-01-15") == [
        "night",
        "noon",
        "morning",
    ]
    assert tool.search(start_date="2024-01-16", end_date="2024-01-14") == NO_MATCH


@proves("C0-13")
@pytest.mark.usefixtures("days")
def test_times_without_an_offset_are_utc(tool: Tool) -> None:
    for noon in (
        "2024-01-15T14:30:00",
        "2024-01-15T14:30",
        "2024-01-15T14:30:00Z",
        "2024-01-15T09:30:00-05:00",
        "2024-01-15T20:00:00+05:30",
        " 2024-01-15 14:30:00 ",
    ):
        assert tool.contents(start_date=noon, end_date=noon) == ["noon"], noon


@proves("C0-14", "C0-41")
@pytest.mark.parametrize("name", ["start_date", "end_date"])
def test_an_invalid_date_is_an_error_that_names_the_parameter(
    history: History, tool: Tool, name: str
) -> None:
    for date in ("yesterday", "2024-13-01", "2024-02-30", "15/01/2024", "1" * 5000, "\ud800"):
        error = tool.error(**{name: date})
        assert error.startswith(f"Error: Invalid {name}: ")
        assert len(error) < 300


@proves("C0-15")
@pytest.mark.every_state
def test_the_limit_is_fifty_by_default(history: History, tool: Tool) -> None:
    history.add("", *user_messages(*(f"message {n}" for n in range(60))))
    assert len(tool.blocks()) == 50
    assert len(tool.blocks(limit=None)) == 50
    assert tool.contents(limit=2) == ["message 59", "message 58"]


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
def test_an_unknown_parameter_is_an_error_that_names_it(history: History, tool: Tool) -> None:
    allowed = "query, roles, start_date, end_date, limit"
    error = tool.error(query="x", user_id="mallory")
    assert error == f"Error: Unknown argument: 'user_id'. Allowed: {allowed}."
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
def test_a_value_of_the_wrong_type_is_an_error_that_names_the_parameter(
    tool: Tool, name: str, values: list[Any]
) -> None:
    for value in values:
        assert tool.error(**{name: value}).startswith(f"Error: Invalid {name}: expected ")


@proves("C0-19")
def test_a_query_that_is_too_long_is_refused(history: History, tool: Tool) -> None:
    assert tool.error(query="x" * 1_000_000).startswith("Error: Invalid query: ")
