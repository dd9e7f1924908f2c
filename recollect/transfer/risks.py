"""Report what is risky in stored text: secrets, and instructions aimed at agents.

Documents are read one at a time. Findings beyond a limit are counted but not listed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from recollect.language.text import printable
from recollect.model.documents import Document, Passage
from recollect.model.kinds import CONVERSATION, KINDS
from recollect.model.search import Filter
from recollect.progress import Progress
from recollect.redact.instructions import Instruction, find_instructions
from recollect.redact.redactor import find_secrets, redact_text
from recollect.store.base import Store

HIGH, MEDIUM, LOW = "high", "medium", "low"
SEVERITIES = (HIGH, MEDIUM, LOW)
SECRET, INSTRUCTION = "secret", "instruction"
RISKS = (SECRET, INSTRUCTION)

_MAX_FINDINGS = 10_000
_EXCERPT = 60


@dataclass(frozen=True, slots=True)
class Finding:
    """One risk, and where it is. The excerpt contains no secret."""

    risk: str
    kind: str
    severity: str
    conversation_id: str
    message_id: str | None
    title: str
    project: str
    source: str
    created_at: datetime | None
    excerpt: str


@dataclass(slots=True)
class RiskReport:
    """What was found."""

    messages: int = 0
    findings: list[Finding] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    """The number of findings by risk and kind, exact even if some are not listed."""
    severities: dict[str, int] = field(default_factory=dict)
    left_out: int = 0
    """Findings that are counted but not listed."""

    @property
    def is_alarming(self) -> bool:
        return not self.severities.keys().isdisjoint((HIGH, MEDIUM))

    def add(self, finding: Finding) -> None:
        name = f"{finding.risk}: {finding.kind}"
        self.counts[name] = self.counts.get(name, 0) + 1
        self.severities[finding.severity] = self.severities.get(finding.severity, 0) + 1
        if len(self.findings) < _MAX_FINDINGS:
            self.findings.append(finding)
        else:
            self.left_out += 1


def report_risks(
    store: Store, risks: tuple[str, ...] = RISKS, progress: Progress | None = None
) -> RiskReport:
    """Examine every message and item of a library. Changes nothing."""
    report = RiskReport()
    total = store.size()
    for document in store.iter_documents(Filter(kinds=KINDS, hidden=True)):
        for passage in document.passages:
            for finding in _findings(document, passage, risks):
                report.add(finding)
        report.messages += len(document.passages)
        if progress is not None:
            progress("Examining", min(report.messages, total), total)
    order = {severity: number for number, severity in enumerate(SEVERITIES)}
    report.findings.sort(key=lambda finding: order[finding.severity])
    return report


def _findings(document: Document, passage: Passage, risks: tuple[str, ...]) -> Iterator[Finding]:
    if SECRET in risks:
        data = passage.content.encode("utf-8", "surrogatepass")
        for start, _, kind in find_secrets(data):
            position = len(data[:start].decode("utf-8", "ignore"))
            excerpt = _excerpt(passage.content, position, position)
            yield _finding(document, passage, (SECRET, kind, HIGH), excerpt)
    if INSTRUCTION in risks:
        instructions = find_instructions(passage.content)
        for instruction in instructions:
            severity = _severity(document, passage, instruction, len(instructions))
            excerpt = _excerpt(passage.content, instruction.start, instruction.end)
            if instruction.text:
                excerpt = f"hidden: {mask(instruction.text[: 2 * _EXCERPT])}"
            yield _finding(document, passage, (INSTRUCTION, instruction.kind, severity), excerpt)


def _severity(document: Document, passage: Passage, instruction: Instruction, count: int) -> str:
    """Text from outside is worse than text of the user or the model."""
    if instruction.kind in ("bidirectional text", "zero-width text"):
        return MEDIUM
    if instruction.is_hidden:
        return HIGH
    is_foreign = document.kind != CONVERSATION or passage.role == "tool"
    if is_foreign or passage.type == "tool_result":
        return HIGH
    if passage.role == "user" and count > 1:
        return MEDIUM
    return LOW


def _finding(
    document: Document, passage: Passage, what: tuple[str, str, str], excerpt: str
) -> Finding:
    return Finding(
        *what,
        document.id,
        passage.id if document.kind == CONVERSATION else None,
        mask(document.title),
        document.project,
        document.source,
        passage.created_at or document.updated_at,
        excerpt,
    )


def _excerpt(text: str, start: int, end: int) -> str:
    """The text around a match on one line, without secrets. They are masked before it is cut."""
    window = text[max(0, start - 400) : end + 400]
    place = min(start, 400)
    before, _ = redact_text(window[:place])
    masked, _ = redact_text(window)
    common = 0
    while common < min(len(before), len(masked)) and before[common] == masked[common]:
        common += 1
    length = min(end - start, 2 * _EXCERPT)
    part = masked[max(0, common - _EXCERPT) : common + length + _EXCERPT]
    return " ".join(printable(part).split())


def mask(text: str) -> str:
    clean, _ = redact_text(text)
    return " ".join(printable(clean).split())
