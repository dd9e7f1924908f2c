"""Removing personal data and secrets for good, and reporting them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from recollect.library.core import LibraryCore
from recollect.model.forgetting import Selection
from recollect.progress import Progress
from recollect.store.abbreviations import expand_selection

if TYPE_CHECKING:
    from recollect.transfer.forgetting import ForgetReport
    from recollect.transfer.redaction import Redaction
    from recollect.transfer.risks import RiskReport


class Privacy(LibraryCore):
    def preview_forget(
        self, selection: Selection, progress: Progress | None = None
    ) -> ForgetReport:
        """Count what `forget` would delete, with examples. Changes nothing."""
        from recollect.transfer import forgetting

        return forgetting.preview(self._store, expand_selection(self._store, selection), progress)

    def forget(self, selection: Selection, progress: Progress | None = None) -> ForgetReport:
        """Delete what a selection matches, with everything derived from it. There is no undo.

        It is not imported again. After an interruption, call it again to forget the rest. Raises
        InvalidInput for an empty selection, and NotFound for unknown ids.
        """
        from recollect.transfer import forgetting

        self._store.clear_undo_log()
        selection = expand_selection(self._store, selection)
        report = forgetting.forget(self._store, self.archive, selection, progress)
        self.wake_indexer()
        return report

    def redact(self, *, report: bool = False, progress: Progress | None = None) -> Redaction:
        """Remove secrets from everything that is stored. With `report`, only list them."""
        from recollect.transfer.redaction import redact

        if not report:
            self._store.clear_undo_log()
        result = redact(self._store, report, progress)
        self.wake_indexer()
        return result

    def audit(self, risks: Sequence[str] = (), progress: Progress | None = None) -> RiskReport:
        """Report secrets, instructions aimed at agents, and duplicates. Changes nothing."""
        from recollect.transfer.risks import RISKS, report_risks

        return report_risks(self._store, tuple(risks) or RISKS, progress)
