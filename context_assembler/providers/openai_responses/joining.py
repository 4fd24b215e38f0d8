"""Units joined into the items of a payload."""

from collections.abc import Iterable, Sequence
from itertools import groupby

from context_assembler.providers.openai_responses.units import Unit
from context_assembler.values.fenced_messages import OPENING
from context_assembler.values.native.response_items import Entry


def join_units(units: Iterable[Unit]) -> list[Entry]:
    """Return the items in the order that the API takes, as they stand behind others.

    Between two replies the outputs of calls come first, then everything else in its order: servers
    refuse anything between a set of calls and its outputs.

    Source:
        recorded refusal of api.deepseek.com (read 2026-11-27): "No tool output found for tool call"
        where a message stood between two calls
    """
    spoken = [unit for unit in units if unit.items or unit.answers]
    items: list[Entry] = []
    for _, group in groupby(spoken, key=lambda unit: unit.role == "assistant"):
        run = list(group)
        answers = [answer for unit in run for answer in unit.answers]
        said = [entry for unit in run for entry in unit.items]
        is_reply = run[0].role == "assistant"
        items.extend([*said, *answers] if is_reply else [*answers, *said])
    return items


def opening_for(items: Sequence[Entry]) -> list[Entry]:
    """Return what has to stand in front of items: the user speaks first."""
    return [said_by_user(OPENING)] if items and _opens_with_reply(items) else []


def said_by_user(text: str) -> Entry:
    """Return the text as an item."""
    return {"type": "message", "role": "user", "content": text}


def _opens_with_reply(items: Sequence[Entry]) -> bool:
    first = items[0]
    if first.get("type") in ("compaction", "additional_tools"):
        return False
    return first.get("role") in (None, "assistant")
