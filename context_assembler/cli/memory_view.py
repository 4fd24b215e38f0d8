"""How memories, and what was recalled of them, are shown to people and programs."""

from collections.abc import Mapping, Sequence
from typing import Final

from rich.table import Table

from context_assembler.cli.screen import counted, one_line, spelling
from context_assembler.errors import AssemblyError
from context_assembler.recall.tell_sources import tell_nothing
from context_assembler.values.memories.codec import encode_memory
from context_assembler.values.memories.records import MemoryStats
from context_assembler.values.parts import Json
from context_assembler.values.recall import FormattedContext, RecallExplanation, SourceState

_MOST_NAMES: Final = 3
_UNANSWERED: Final = frozenset[SourceState](("failed", "timed_out", "skipped"))


def context_as_json(context: FormattedContext, *, with_explanations: bool) -> dict[str, Json]:
    """Return a context for programs."""
    shown: dict[str, Json] = {
        "markdown": context.markdown,
        "token_count": context.token_count,
        "sources_used": [*context.sources_used],
        "source_status": {**context.source_status},
        "source_notes": {**context.source_notes},
        "budget_exceeded": context.budget_exceeded,
        "truncated_items": [*context.truncated_items],
        "items": [
            {
                "record": encode_memory(shown.record),
                "source": shown.source,
                "found_in": [*shown.found_in],
                "score": shown.score,
                "tokens": shown.tokens,
                "is_truncated": shown.is_truncated,
            }
            for shown in context.items
        ],
    }
    if with_explanations:
        shown["explanations"] = [
            {
                "id": row.memory_id,
                "kind": row.kind,
                "source": row.source,
                "outcome": row.outcome,
                "reason": row.reason,
                "score": row.score,
                "scores": {**row.scores},
            }
            for row in context.explanations
        ]
    return shown


def source_notes(context: FormattedContext) -> list[str]:
    """Return a sentence for each reason for which sources gave no answer, or not all of it."""
    names_by_reason: dict[str, list[str]] = {}
    for name, reason in context.source_notes.items():
        names_by_reason.setdefault(reason.rstrip("."), []).append(name)
    return [
        f"{_listed(names)}: {reason}{'' if reason.endswith('…') else '.'}"
        for reason, names in names_by_reason.items()
    ]


def search_notes(context: FormattedContext, *, max_tokens: int) -> list[str]:
    """Return what to know beside the Markdown: where there is none, why."""
    if context.markdown:
        return source_notes(context)
    told = tell_nothing(context.source_status)
    if context.budget_exceeded:
        room = counted(max_tokens, "token")
        told = f"What was found has no room in {room}: give more with --max-tokens."
    return [told, *source_notes(context)]


def check_answered(context: FormattedContext) -> None:
    """Refuse a context for which no source could be searched: that nothing fits is not known.

    Raises:
        AssemblyError: None could.
    """
    states = context.source_status.values()
    if states and all(state in _UNANSWERED for state in states):
        reasons = dict.fromkeys(reason.rstrip(".") for reason in context.source_notes.values())
        raise AssemblyError(
            f"Nothing could be searched: {'; '.join(reasons)}.",
            remedy="Correct the store, or name another one with --memory.",
        )


def _listed(names: Sequence[str]) -> str:
    left = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {left} more" if left > 0 else "")


def explanations_text(rows: Sequence[RecallExplanation]) -> str:
    """Return for each candidate whether it is in, with its whole id; below that why."""
    lines: list[str] = []
    for row in rows:
        outcome = row.outcome.replace("_", " ")
        lines.append(f"{row.score:.3f}  {outcome}  {' '.join(row.memory_id.split())}")
        parts = ", ".join(f"{name} {value:.2f}" for name, value in row.scores.items() if value)
        made_of = f" ({parts})" if parts else ""
        source = one_line(row.source, max_chars=30)
        lines.append(f"       {source}: {one_line(row.reason, max_chars=300)}{made_of}")
    return "\n".join(lines)


def record_table(encoded: Mapping[str, Json]) -> Table:
    """Return a row for each field of a memory."""
    table = _fields()
    for name, value in encoded.items():
        if name != "vector":
            table.add_row(name, one_line(spelling(value), max_chars=2_000))
    return table


def stats_as_json(stats: MemoryStats) -> dict[str, Json]:
    """Return what a store holds for programs."""
    return {
        "records": stats.records,
        "by_kind": {**stats.by_kind},
        "by_namespace": {**stats.by_namespace},
        "vectors": stats.vectors,
        "vector_model": stats.vector_model,
        "vector_dimension": stats.vector_dimension,
        "oldest_at": None if stats.oldest_at is None else stats.oldest_at.isoformat(),
        "newest_at": None if stats.newest_at is None else stats.newest_at.isoformat(),
        "bytes": stats.bytes,
    }


def stats_table(stats: MemoryStats) -> Table:
    """Return what a store holds for people."""
    table = _fields()
    for name, value in stats_as_json(stats).items():
        if value is not None:
            table.add_row(name.replace("_", " "), one_line(spelling(value), max_chars=500))
    return table


def _fields() -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column()
    return table
