"""Receipts of import jobs, which may need several attempts."""

from __future__ import annotations

from datetime import UTC, datetime

from recollect.model.receipts import Problem, Receipt
from recollect.store.base import Store


def finished_import(store: Store, job: str) -> Receipt | None:
    """The receipt of a job that an earlier attempt has finished, or that was undone."""
    if not job:
        return None
    for receipt in store.receipts():
        if receipt.job == job and (receipt.finished_at or receipt.undone_at):
            return receipt
    return None


def record_failed_import(store: Store, path: str, problem: Problem, job: str) -> Receipt:
    """Store the receipt of an import that was given up."""
    receipt = finished_import(store, job)
    if receipt is not None:
        return receipt
    receipt = store.start_import(path, job)
    receipt.left_out.note(problem)
    receipt.finished_at = datetime.now(UTC)
    store.finish_import(receipt)
    return receipt
