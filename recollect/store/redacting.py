"""A store that removes secrets from everything before it is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from recollect.model.documents import Document, Passage
from recollect.model.receipts import Receipt
from recollect.model.undo import Change, Edit
from recollect.redact.redactor import redact_document, redact_passage, redact_text, redact_value
from recollect.store.values import Appended, SaveResult
from recollect.store.views import StoreView

READS = (
    "activity", "authors", "candidates", "change_times", "close", "closure",
    "cosines", "count", "document", "documents", "documents_containing",
    "export_batches", "facet_names", "find_id", "frequencies",
    "get_marker", "has_match", "highest_cosines", "human_only", "ids_with_prefix",
    "indexing_lock", "is_linear", "iter_documents", "join_move", "known_words",
    "list_position", "match", "match_groups", "match_times", "nearest",
    "needs_refresh", "newest", "passage_key", "passage_page", "passages_by_key", "path",
    "positions", "purge", "read_only", "receipts",
    "refresh", "repair", "size", "snapshot",
    "spaces", "stats", "summaries", "summaries_after", "summary", "text_scores", "title_matches",
    "undo_log", "unembedded", "unobserved", "variants", "vectors", "verify",
    "version", "words_containing",
)  # fmt: skip
WRITES_NO_TEXT = {
    "delete": "it only removes text",
    "delete_undo_states": "it only removes text",
    "forget": "it only removes text",
    "remove_library": "it only removes text",
    "trash": "it keeps text that was stored before, for a short time",
    "revert": "it restores text that was stored before; `redact` clears the undo log",
    "clear_undo_log": "it only removes text",
    "drop_space": "it only removes vectors",
    "undo_import": "it restores text that was stored before; `redact` cleans the stored states",
    "reset_observations": "it only resets a number",
    "add_vectors": "the vectors are those of stored text, which is redacted",
    "add_space": "the model learned from stored text, which is redacted",
    "update_space": "it writes only numbers",
    "start_import": "it writes only the path, which identifies the import",
    "set_marker": "it writes only a number",
    "set_closure": "it writes only where the library is now",
}


class RedactingStore(StoreView):
    """Redaction happens here because every interface writes through the store. Whatever is stored,
    indexed, embedded, observed, exported or moved later contains no secret, and no later step can
    forget to hide one. The price is that the redacted text is lost. A library is moved unchanged,
    so it cannot be moved through this view.
    """

    PASSES = (*READS, *WRITES_NO_TEXT)

    def save(
        self,
        documents: Sequence[Document],
        receipt: int | None = None,
        index_ids: bool = False,
        skip_forgotten: bool = False,
        only_new: bool = False,
    ) -> list[SaveResult]:
        pairs = [redact_document(document) for document in documents]
        clean = [document for document, _ in pairs]
        results = self._store.save(clean, receipt, index_ids, skip_forgotten, only_new)
        for result, (_, secrets) in zip(results, pairs, strict=True):
            result.redacted = dict(secrets)
        return results

    def rewrite(
        self, document: str, replacement: Document, version: int | None = None
    ) -> SaveResult:
        clean, secrets = redact_document(replacement)
        result = self._store.rewrite(document, clean, version)
        result.redacted = dict(secrets)
        return result

    def append(
        self, document: str, passage: Passage, expected_passages: int | None = None
    ) -> Appended:
        return self._store.append(document, redact_passage(passage, Counter()), expected_passages)

    def extend(self, document: str, passages: Sequence[Passage], require_same: bool = False) -> int:
        clean = [redact_passage(passage, Counter()) for passage in passages]
        return self._store.extend(document, clean, require_same)

    def edit(self, document: str, edit: Edit, until: datetime | None = None) -> Change | None:
        if edit.title is not None:
            edit = replace(edit, title=redact_text(edit.title)[0])
        tags = tuple(redact_text(tag)[0] for tag in edit.add_tags)
        metadata = redact_value(edit.metadata, Counter())
        return self._store.edit(document, replace(edit, add_tags=tags, metadata=metadata), until)

    def revise(self, document: str, change: Callable[[Document], Document]) -> int:
        def change_and_redact(stored: Document) -> Document:
            clean, _ = redact_document(change(stored))
            return clean

        return self._store.revise(document, change_and_redact)

    def save_observations(
        self,
        conversation: str,
        version: int,
        observations: Document | None,
        complete: bool = True,
    ) -> None:
        if observations is not None:
            observations, _ = redact_document(observations)
        self._store.save_observations(conversation, version, observations, complete)

    def update_receipt(self, receipt: Receipt) -> None:
        redact_samples(receipt)
        self._store.update_receipt(receipt)


def redact_samples(receipt: Receipt) -> None:
    for file in receipt.files:
        file.samples = {
            reason: [redact_text(sample)[0] for sample in samples]
            for reason, samples in file.samples.items()
        }
