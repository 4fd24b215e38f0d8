"""The step that says of every candidate why it is in the context, or not."""

from collections.abc import Iterable, Sequence

from context_assembler.values.recall import (
    Candidate,
    RecalledMemory,
    RecallExplanation,
    RecallOutcome,
)

LeftOut = Iterable[tuple[Candidate, str]]


def explain_recall(
    ranked: Sequence[Candidate], items: Sequence[RecalledMemory], left_out: LeftOut
) -> tuple[RecallExplanation, ...]:
    """Return one explanation for each candidate, the best first.

    Args:
        ranked: All that could be shown.
        left_out: What is not, and why, in any order; also candidates that never were in `ranked`.
    """
    by_place = {(shown.source, shown.record.id): shown for shown in items}
    explained: list[tuple[Candidate, RecallOutcome, str]] = [
        (candidate, "left_out", reason) for candidate, reason in left_out
    ]
    for candidate in ranked:
        shown = by_place.get((candidate.source, candidate.record.id))
        if shown is not None:
            outcome: RecallOutcome = "shortened" if shown.is_truncated else "kept"
            explained.append((candidate, outcome, candidate.reason))
    explained.sort(key=lambda row: row[0].rank)
    return tuple(
        RecallExplanation(
            memory_id=candidate.record.id,
            kind=candidate.record.kind,
            source=candidate.source,
            outcome=outcome,
            reason=reason,
            score=candidate.score,
            scores=candidate.scores,
        )
        for candidate, outcome, reason in explained
    )
