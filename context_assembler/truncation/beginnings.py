"""A measured history, as it was while it was shorter."""

from dataclasses import replace

from context_assembler.truncation.history import MeasuredHistory


def beginning(history: MeasuredHistory, number: int) -> MeasuredHistory:
    """Return the history as it was measured, had it ended behind so many exchanges."""
    length, opened_by = history.starts[number], history.opened_by
    return replace(
        history,
        messages=history.messages[:length],
        message_tokens=history.message_tokens[:length],
        exchanges=history.exchanges[:number],
        starts=history.starts[: number + 1],
        ends=history.ends[: number + 1],
        is_anchor=history.is_anchor[:number],
        lead=min(history.lead, number),
        task=history.task if history.task is not None and history.task < number else None,
        last_user=history.last_user[: number + 1],
        loose=history.loose[: number + 1],
        savings=history.savings[: number + 1],
        bulky=history.bulky[:number],
        opened_by=opened_by if opened_by is not None and opened_by[0] < number else None,
    )
