"""Find instructions aimed at agents in stored text: prompt injection, and text that hides it.

The rules run in RE2, in time linear in the length of the text. They look for what an attack needs:
an order to ignore other orders, a forged system message, a request to send data away or to keep
quiet, and ways to hide all this from people. Text *about* prompt injection has the same words, so a
match in quotation marks, or next to words of such a discussion, does not count.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from recollect.redact.redactor import automaton, compile_re2

_ARTICLES = r"(?:all|any|the|your|of|these|those|my|its|every|previous|prior)"
_OVERRIDE = (
    rf"\b(?:ignore|disregard|forget|override|bypass)\s+(?:{_ARTICLES}\s+){{0,4}}"
    r"(?:previous|prior|above|earlier|preceding|existing|former|system)\s+"
    r"(?:instructions?|prompts?|rules|directives?|guidelines?|orders|commands)\b"
)
_READER = (
    r"\b(?:AI|LLM|language model|assistant|agent|chatbot)s?\b[^.\n]{0,40}"
    r"\b(?:reading|that reads?|processing|that process(?:es)?|summari[sz]ing|parsing)\s+this\b"
)
_CONCEALMENT = (
    r"\b(?:do not|don't|never|without)\s+(?:tell(?:ing)?|inform(?:ing)?|mention(?:ing)?|"
    r"reveal(?:ing)?|show(?:ing)?|notify(?:ing)?|alert(?:ing)?)\s+"
    r"(?:(?:this|it|that|any of this)\s+to\s+)?the\s+(?:user|human|operator)\b"
)
_THINGS = (
    r"(?:api[ _-]?keys?|credentials?|secrets?|passwords?|tokens?|\.env\b|ssh keys?|"
    r"(?:conversation|chat|message) history|conversations|memor(?:y|ies)|private data)"
)
_EXFILTRATION = (
    r"\b(?:send|post|upload|exfiltrate|forward|e-?mail|transmit|leak|append|encode)\b"
    rf"[^.\n]{{0,80}}\b{_THINGS}[^.\n]{{0,80}}(?:https?://|\b[\w.+-]{{1,60}}@[\w-]{{1,60}}\.)"
)
_DESTRUCTION = (
    r"\b(?:you must|you should now|you will now|immediately|right now)\b[^.\n]{0,60}"
    r"\b(?:delete|erase|wipe|destroy|drop|remove)\s+(?:all|every|the entire)\b[^.\n]{0,60}"
    r"(?:files?|conversations?|memor(?:y|ies)|database|data|repositor|messages|notes)"
)
_FORGERY = (
    r"(?:<\|(?:im_start|system|start_header_id)\|?>|\[/?INST\]|<</?SYS>>|"
    r"</?(?:system_prompt|system-message|tool_result|tool_response|function_results?|"
    r"untrusted|quoted|document)>\s*(?:<[a-z_-]+>\s*)?(?:system|assistant|human|user)\s*:)"
)
_BEACON = (
    r"!\[[^\]\n]{0,200}\]\(https?://[^)\s]{1,300}[?&](?:data|leak|exfil\w*|secrets?|payload|tokens?|"
    r"stolen|conversation|history|prompt|context|q)=[^)\s]{0,300}(?:\{|\[|%7B|<|\$)[^)\s]{0,300}\)"
)
_COMMENT = (
    r"<!--[^>]{0,400}\b(?:assistant|AI agent|language model|LLM|instructions?|system prompt)\b"
    r"[^>]{0,400}\b(?:must|should|ignore|disregard|send|delete|run|execute|call|reply|respond)\b"
)

_RULES = {
    "override": _OVERRIDE,
    "addressed to agents": _READER,
    "concealment": _CONCEALMENT,
    "exfiltration": _EXFILTRATION,
    "destruction": _DESTRUCTION,
    "forged message": _FORGERY,
    "image beacon": _BEACON,
    "hidden comment": _COMMENT,
}
_HIDING_KINDS = frozenset(
    ("hidden characters", "bidirectional text", "zero-width text", "encoded", "hidden comment")
)
"""Kinds that nobody writes to talk about them."""

_DISCUSSION = (
    r"prompt[- ]injection|jailbreak|injection (?:attack|attempt|pattern|test)|red[- ]team|"
    r"adversarial|malicious|attackers?\b|vulnerab|exploit|for example|for instance|\be\.g\.|"
    r"such as|phrases? like|test case|payloads?\b|owasp|security (?:review|test|audit)|sanitiz"
)
_WINDOW = 240
_QUOTES = "\"'`“”‘’«»„"
_MAX_ENCODED = 20
_TAGS = re.compile("[\U000e0020-\U000e007e]+")
_FLAG = re.compile("\U0001f3f4[\U000e0020-\U000e007e]{2,6}\U000e007f")
_BIDI = re.compile("[\u202d\u202e\u2066-\u2068]")
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]")
_ZERO_WIDTH = re.compile("[\u200b\u200c\u200d\u2060\ufeff]{8,}")
_ENCODED = re.compile(r"[A-Za-z0-9+/]{40,4000}={0,2}")


class Instruction(NamedTuple):
    """A match of a rule."""

    kind: str
    start: int
    end: int
    text: str = ""
    """What is hidden, if it cannot be read at its place."""

    @property
    def is_hidden(self) -> bool:
        return self.kind in _HIDING_KINDS


def find_instructions(text: str) -> list[Instruction]:
    """The instructions in a text that are aimed at agents, in order, without quoted examples."""
    findings = list(hidden_characters(text))
    findings += written(text)
    findings += encoded(text)
    return sorted(findings, key=lambda finding: finding.start)


def written(text: str) -> Iterator[Instruction]:
    data = text.encode("utf-8", "replace")
    kinds = list(_RULES)
    for index in rule_set().Match(data) or ():
        kind = kinds[index]
        for match in compile_re2(_RULES[kind], ignore_case=True).finditer(data):
            start = len(data[: match.start()].decode("utf-8", "ignore"))
            end = start + len(match.group().decode("utf-8", "replace"))
            if kind in _HIDING_KINDS or not is_discussed(text, start, end):
                yield Instruction(kind, start, end)
                break  # one finding of each kind is enough


def is_discussed(text: str, start: int, end: int) -> bool:
    """Whether a match is quoted, or near words that people use to talk about attacks."""
    before = text[max(0, start - 2) : start].rstrip()
    if before and before[-1] in _QUOTES:
        return True
    window = text[max(0, start - _WINDOW) : start] + " " + text[end : end + _WINDOW]
    return (
        compile_re2(_DISCUSSION, ignore_case=True).search(window.encode("utf-8", "replace"))
        is not None
    )


def hidden_characters(text: str) -> Iterator[Instruction]:
    if text.isascii():
        return
    tags = _TAGS.search(_FLAG.sub(lambda match: " " * len(match.group()), text))
    if tags is not None and len(tags.group()) >= 3:
        hidden = "".join(chr(ord(character) - 0xE0000) for character in tags.group())
        yield Instruction("hidden characters", *tags.span(), hidden)
    bidi = _BIDI.search(text)
    if bidi is not None and _RIGHT_TO_LEFT.search(text) is None:
        yield Instruction("bidirectional text", *bidi.span())
    zero_width = _ZERO_WIDTH.search(text)
    if zero_width is not None:
        yield Instruction("zero-width text", *zero_width.span())


def encoded(text: str) -> Iterator[Instruction]:
    """Base64 of text that has an instruction itself."""
    for number, match in enumerate(_ENCODED.finditer(text)):
        if number == _MAX_ENCODED:
            return
        decoded = decode(match.group())
        if decoded and any(written(decoded)):
            yield Instruction("encoded", *match.span(), decoded)
            return


def decode(text: str) -> str:
    body = text.rstrip("=")
    body = body[: len(body) - len(body) % 4]
    try:
        return base64.b64decode(body, validate=True).decode("ascii")
    except (binascii.Error, UnicodeDecodeError):
        return ""


@cache
def rule_set() -> Any:
    return automaton(_RULES.values())
