"""Receipts of imports, with their totals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from recollect.library import Library
from recollect.model.receipts import Counts, Receipt


class ReceiptView(NamedTuple):
    receipt: Receipt
    conversations: Counts
    messages: Counts

    @property
    def problem_count(self) -> int:
        counts = [self.receipt.left_out]
        for file in self.receipt.files:
            counts += [file.conversations, file.messages]
        return sum(len(count.skipped) + len(count.failed) for count in counts)

    @property
    def has_failures(self) -> bool:
        counts = (self.conversations, self.messages, self.receipt.left_out)
        return any(count.failed for count in counts)

    @property
    def has_redactions(self) -> bool:
        return any(file.redacted for file in self.receipt.files)


def list_receipts(library: Library) -> list[ReceiptView]:
    """Every receipt, newest first."""
    receipts = sorted(library.receipts(), key=lambda receipt: receipt.id, reverse=True)
    return [_receipt_view(receipt) for receipt in receipts]


def _receipt_view(receipt: Receipt) -> ReceiptView:
    conversations = _total([file.conversations for file in receipt.files])
    messages = _total([file.messages for file in receipt.files])
    return ReceiptView(receipt, conversations, messages)


def _total(parts: Sequence[Counts]) -> Counts:
    total = Counts()
    for part in parts:
        total.new += part.new
        total.same += part.same
        total.changed += part.changed
        _add(total.skipped, part.skipped)
        _add(total.failed, part.failed)
    return total


def _add(totals: dict[str, int], counts: Mapping[str, int]) -> None:
    for reason, count in counts.items():
        totals[reason] = totals.get(reason, 0) + count
