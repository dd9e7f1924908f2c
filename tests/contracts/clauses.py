"""The clauses of the contracts, as data, and the mark by which a test says which it proves.

A clause is one promise, in the contract's words or ours. A test that proves it
is marked `@proves("C0-01")`; `test_every_clause_is_proved.py` reads the marks
from the source and fails where a clause has no test.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Test = TypeVar("Test", bound=Callable[..., None])

CLAUSES: dict[str, dict[str, str]] = {
    "Contract 0: the tool": {
        "C0-01": "The tool is called conversation_search.",
        "C0-02": "A model reads the contract's description, word for word.",
        "C0-03": "It is offered to any MCP client as a tool that only reads.",
    },
    "Contract 0: parameters": {
        "C0-04": "All parameters are optional; the tool takes one JSON object; none is required.",
        "C0-05": "query is text to match in message content.",
        "C0-06": "query is text to match in conversation titles; a title that matches returns its whole conversation.",
        "C0-07": "query matches anywhere in the text, without regard to case, in any alphabet; % and _ are plain.",
        "C0-08": "A message that holds all words of the query matches, in whatever order.",
        "C0-09": "roles restricts results to messages with these roles: user, assistant, tool.",
        "C0-10": "A role that is not allowed is an error which names it and those that are.",
        "C0-11": "start_date is inclusive; a bare date is the start of that day UTC.",
        "C0-12": "end_date is inclusive; a bare date is the end of that day UTC (23:59:59.999).",
        "C0-13": "A time without a timezone suffix is UTC; with one, it is honoured.",
        "C0-14": "A date that cannot be read is an error which names it.",
        "C0-15": "limit is the maximum number of messages; it is 50 by default.",
        "C0-16": "limit is at least 1 and at most 200; values outside that range are clamped.",
        "C0-17": "Additional properties are not allowed.",
        "C0-18": "A parameter that is left out, null or empty means its default, or no filter.",
        "C0-19": "An argument of the wrong type is an error which names it.",
    },
    "Contract 0: behaviour": {
        "C0-20": "The data source is the database named by CONVERSATION_DB or ORIGIN_CONVERSATION_DB; the former wins.",
        "C0-21": "Without these, it is the newest *.db in db/.",
        "C0-22": "The source is chosen anew for every call.",
        "C0-23": "Canonical exports and working databases of ChatGPT Browser are read, plain or JSON, with any times.",
        "C0-24": "query, roles and dates combine: a message must pass all of them.",
        "C0-25": "Results are ordered by time, newest first; equal times by position; what has no time comes last.",
        "C0-26": "Nothing is cut off before the filters: an old date range works behind any number of newer messages.",
        "C0-27": "Stored times, numeric or ISO 8601, are compared as the points in time they are.",
        "C0-28": "A message whose conversation is missing is not shown.",
    },
    "Contract 0: output": {
        "C0-29": "The answer is a single text result.",
        "C0-30": "A message is a block: [YYYY-MM-DD HH:MM] role (conv: title_or_id), a line break, the content.",
        "C0-31": "Without a title, the block shows the first eight characters of the conversation's id.",
        "C0-32": "Without a time, the block shows (no time); without a role, unknown.",
        "C0-33": "Content of more than 2000 characters is cut, and ends with three dots.",
        "C0-34": "Blocks are separated by an empty line, three dashes and an empty line.",
        "C0-35": "If no messages match, the answer is: No matching messages.",
        "C0-36": "The examples on the contract's page work as it says.",
        "C0-37": "Stored text is data: bounded, and without the invisible characters that smuggle instructions.",
    },
    "Contract 0: errors": {
        "C0-38": "A configured database that is missing is: Database not found, and its path.",
        "C0-39": "No database and no library is: Database not found, and how to make one.",
        "C0-40": "Any other error is a short text that begins with Error: and has no details; those are in the log.",
        "C0-41": "Errors are tool results marked isError, not exceptions to the client.",
        "C0-42": "A timeout, a lock or a damaged file is an error, never an empty result.",
        "C0-43": "A file that is no ChatGPT Browser database, or could do harm, is refused with the reason.",
    },
    "Contract 0: Letta": {
        "C0-44": "Names and types of the parameters are those of Letta's conversation_search.",
        "C0-45": "The tool can be offered under another name, to stand beside Letta's own.",
    },
}


def proves(*clauses: str) -> Callable[[Test], Test]:
    """Say that a test proves these clauses."""

    def mark(test: Test) -> Test:
        return test

    return mark
