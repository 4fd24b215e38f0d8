"""Whether what a report says of every piece adds up to the ledger."""

from typing import Final

from context_assembler.values.ledger import LedgerKind
from context_assembler.values.report import PieceKind, Report

PIECES_BY_ROWS: Final[dict[tuple[LedgerKind, ...], tuple[PieceKind, ...]]] = {
    ("system",): ("section",),
    ("tools",): ("tool",),
    ("history", "notes"): ("message", "note"),
}


def differences(report: Report) -> dict[tuple[LedgerKind, ...], tuple[int, int]]:
    """Return, by rows of the ledger, what these have and what the report's entries say, where it differs."""
    sums = {
        rows: (
            report.ledger.tokens_of(*rows),
            sum(entry.tokens_after for entry in report.entries if entry.kind in kinds),
        )
        for rows, kinds in PIECES_BY_ROWS.items()
    }
    return {rows: (stated, told) for rows, (stated, told) in sums.items() if stated != told}
