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
    "Contract 1: saving": {
        "C1-01": "Every interaction can be saved in one call, which makes the session's conversation on first use.",
        "C1-02": "The title is the user's first message, of one longer than 50 characters the first 50 and three dots.",
        "C1-03": "Conversations are organised by session id: one conversation each, and found again by it.",
        "C1-04": "Messages include role, content, model, tool used, attachments, citations and timestamp.",
        "C1-05": "A conversation is in the namespace it was given, else in `default`.",
        "C1-06": "A conversation can be made; the same call again changes nothing; another of that id is a conflict.",
        "C1-07": "A message can be added; with an id it is stored once; another one of that id is a conflict.",
        "C1-08": "What was saved is there after the server was restarted.",
        "C1-09": "An interaction is saved whole or not at all.",
    },
    "Contract 1: listing": {
        "C1-10": "GET /conversations gives conversations, total, limit and offset, with exactly the page's fields.",
        "C1-11": "limit is 50 and offset 0 unless given; a limit outside 1 to 200 is clamped.",
        "C1-12": "limit and offset page through all; total is how many there are, not how many are shown.",
        "C1-13": "namespace filters by namespace.",
        "C1-14": "search finds a text in the title or the id, without regard to case; % and _ are plain.",
        "C1-15": "Conversations are sorted by their last change, newest first.",
    },
    "Contract 1: one conversation": {
        "C1-16": "GET /conversations/{id} gives its fields and its messages in order, with exactly the page's fields.",
        "C1-17": "A conversation that is not there is 404, Conversation not found, on every route.",
        "C1-18": "PUT /conversations/{id}?title= gives it a new title.",
        "C1-19": "PUT without a title succeeds, and counts as a change.",
        "C1-20": "PUT and DELETE answer with success and conversation_id.",
        "C1-21": "DELETE removes the conversation: no list, no search, no export and no byte of the file has it then.",
        "C1-22": "An id may hold any character.",
        "C1-23": "What was deleted with undo=true can be put back, unchanged.",
        "C1-24": "A conversation's namespace and tags can be changed.",
    },
    "Contract 1: searching messages": {
        "C1-25": "GET /conversations/search/messages gives messages and total, each with exactly the page's fields.",
        "C1-26": "query is required, and must not be blank.",
        "C1-27": "query matches in contents, without regard to case, in any alphabet; % and _ are plain.",
        "C1-28": "conversation_id limits the search to one conversation; one that is not there is 404.",
        "C1-29": "limit is 50 unless given, and clamped to 1 to 200; total is how many match in all.",
        "C1-30": "The newest message comes first.",
    },
    "Contract 1: exporting": {
        "C1-31": "format=json is the whole conversation, with all metadata.",
        "C1-32": "format=txt is the page's plain text, character by character, as content and format.",
        "C1-33": "format=md is the page's Markdown, character by character, as content and format.",
        "C1-34": "Without a format it is json; another one is 400, Invalid format. Supported: json, txt, md.",
    },
    "Contract 1: errors": {
        "C1-35": "Every error has one shape, which serves the clients of both contracts.",
        "C1-36": "A body that is not JSON, or says what no body says, is refused with the reason.",
        "C1-37": "Conversations are not kept in caches on the way.",
    },
    "Contract 1: Python": {
        "C1-38": "The page's example of direct access works, call by call.",
        "C1-39": "The page's example of automatic saving works, call by call.",
        "C1-40": "Calls give the shapes of the REST routes.",
        "C1-41": "What is not there is None for a session, and NotFound for anything else.",
    },
    "Contract 2: GET /api/search": {
        "C2-01": "q is required: missing, empty or blank it is 400, Query parameter 'q' must not be empty.",
        "C2-02": "thread_id restricts results to one thread; without it every thread is searched.",
        "C2-03": "limit is 50 unless given, and clamped to 1 to 200.",
        "C2-04": "The answer has results, total and query; a result the page's fields, and the message's metadata.",
        "C2-05": "total is how many messages match; query is what was asked, without space around it.",
        "C2-06": "Results are ordered by rank, best first.",
        "C2-07": "author is the name of who spoke, else the role; seq is the place in the thread, from 1.",
        "C2-08": "A search that runs into its deadline is 503, Database operation timeout.",
        "C2-09": "A message is found as soon as it was posted, and no longer once it was deleted.",
        "C2-10": "Only contents are searched: no topic, author or id.",
    },
    "Contract 2: query syntax": {
        "C2-11": "A word matches messages that contain it; several must all be there.",
        "C2-12": "Double quotes match a phrase.",
        "C2-13": "A star at its end makes a word a prefix.",
        "C2-14": "AND, OR and NOT in upper case combine, parentheses group.",
        "C2-15": "content: is the one column that can be named.",
        "C2-16": "Case does not matter, in any alphabet; words are not stemmed; words end at space and punctuation.",
        "C2-17": "A malformed expression is no error: results are empty, and a warning says why.",
    },
    "Contract 2: snippets": {
        "C2-18": "Every result has a snippet of at most 20 words.",
        "C2-19": "What matched is wrapped in <mark> and </mark>.",
        "C2-20": "… stands where content was cut.",
        "C2-21": "Content is escaped before it is marked: no markup in a snippet is the message's own.",
    },
    "Contract 2: human-only messages": {
        "C2-22": "human_only, metadata.visibility = human_only or metadata.audience = human, in any case, make one.",
        "C2-23": "A person sees them in full through REST.",
        "C2-24": "An agent finds and counts them, and reads [human-only content hidden] instead, on every route.",
        "C2-25": "Of their metadata an agent sees a few keys, and that the content is hidden.",
    },
    "Contract 2: threads": {
        "C2-26": "A thread is opened by its topic: the same topic is the same thread.",
        "C2-27": "Threads are listed, last changed first, with a true total; with scope=all every conversation is.",
        "C2-28": "A thread can be read and deleted; one that is not there is 404.",
        "C2-29": "Posting gives msg_id, thread_id, seq and created_at; with an id a message is stored once.",
        "C2-30": "Messages are read in order after a seq; current_seq and has_more say how much there is.",
    },
    "Contract 2: msg_search": {
        "C2-31": "The tool takes query, thread_id and limit; query is required, anything else is refused by name.",
        "C2-32": "The answer has exactly results, total and query; a result exactly the page's fields.",
        "C2-33": "limit is 50 unless given, at least 1 and at most 200; total is how many messages match.",
        "C2-34": "An empty query is an error, query must not be empty, before anything is searched.",
        "C2-35": "A malformed expression is no error: the results are empty.",
        "C2-36": "A timeout is an error, Database operation timeout, never an empty result.",
        "C2-37": "thread_id restricts results to one thread; without it every thread is searched.",
        "C2-38": "The page's query syntax works as it does through REST.",
        "C2-39": "Snippets have at most 20 words, matches in <mark>, and no markup of the message's own.",
        "C2-40": "A human-only message is found and counted; its snippet is [human-only content hidden].",
        "C2-41": "With the setting hide it is neither found nor counted, so that no word of it can be probed.",
    },
    "Contract 2: the tools beside it": {
        "C2-42": "bus_connect gives a thread by its topic, made on first use, with thread.thread_id and its messages.",
        "C2-43": "msg_list follows the same rules of visibility.",
        "C2-44": "msg_post with an id stores once; with expected_last_seq it fails with what others wrote since.",
        "C2-45": "msg_wait gives what is new as soon as it is there, else an empty list.",
    },
}


def proves(*clauses: str) -> Callable[[Test], Test]:
    """Say that a test proves these clauses."""

    def mark(test: Test) -> Test:
        return test

    return mark
