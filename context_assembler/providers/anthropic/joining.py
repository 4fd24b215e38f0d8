"""Units joined into the messages of a payload."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from context_assembler.providers.anthropic.blocks import THINKING_TYPES
from context_assembler.providers.anthropic.units import Unit
from context_assembler.values.compactions import COMPACTION_TYPE
from context_assembler.values.fenced_messages import OPENING
from context_assembler.values.parts import Json
from context_assembler.values.reading import as_text


def join_units(units: Iterable[Unit], *, takes_system: bool) -> list[dict[str, Json]]:
    """Return alternating messages, user first, or a compaction of the API's own."""
    messages = join_turns(units, takes_system=takes_system)
    return [*opening_for(messages), *messages]


def opening_for(messages: Sequence[dict[str, Json]]) -> list[dict[str, Json]]:
    """Return what has to stand in front of messages: the user speaks first."""
    if not messages or messages[0]["role"] == "user" or _opens_with_compaction(messages[0]):
        return []
    return [{"role": "user", "content": [{"type": "text", "text": OPENING}]}]


def join_turns(units: Iterable[Unit], *, takes_system: bool) -> list[dict[str, Json]]:
    """Return alternating messages, as they stand behind others.

    Neighbours of one role become one message. In a user message the tool results come first, or the
    request is refused; system messages close it, as a message of their own where the model
    takes them there and fenced in its text elsewhere.

    Source:
        https://platform.claude.com/docs/en/agents-and-tools/tool-use/handle-tool-calls
        https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages
        (read 2026-11-27)
    """
    spoken = [unit for unit in units if unit.blocks or unit.fenced]
    messages: list[dict[str, Json]] = []
    for is_assistant, run in groupby(spoken, key=lambda unit: unit.role == "assistant"):
        if is_assistant:
            blocks = [block for unit in run for block in unit.blocks]
            messages.append({"role": "assistant", "content": blocks})
        else:
            before: list[dict[str, Json]] = messages[-1]["content"] if messages else []
            messages.extend(_close_turn(list(run), before=before, takes_system=takes_system))
    return messages


def _opens_with_compaction(message: Mapping[str, Json]) -> bool:
    return as_text(message["content"][0].get("type")) == COMPACTION_TYPE


def _close_turn(
    run: Sequence[Unit], *, before: Sequence[dict[str, Json]], takes_system: bool
) -> list[dict[str, Json]]:
    """Return what stands between two assistant messages: a user message, then a system message."""
    first_closing = _find_closing(run, before=before) if takes_system else len(run)
    said = [
        block
        for unit in run[:first_closing]
        for block in (unit.fenced if unit.role == "system" else unit.blocks)
    ]
    results = [block for block in said if block["type"] == "tool_result"]
    content = results + [block for block in said if block["type"] != "tool_result"]
    closing = [block for unit in run[first_closing:] for block in unit.blocks]
    messages: list[dict[str, Json]] = []
    if content:
        messages.append({"role": "user", "content": content})
    if closing:
        messages.append({"role": "system", "content": closing})
    return messages


def _find_closing(run: Sequence[Unit], *, before: Sequence[dict[str, Json]]) -> int:
    """Return where the system messages begin that close a user's turn as their own message."""
    first_closing = len(run)
    while first_closing and run[first_closing - 1].has_authority:
        first_closing -= 1
    follows_user = any(unit.blocks or unit.fenced for unit in run[:first_closing])
    return first_closing if follows_user or _ends_in_server_result(before) else len(run)


def displaced_units(units: Sequence[Unit]) -> list[int]:
    """Return which units might be system messages of their own, but are fenced, by their index."""
    spoken = [(at, unit) for at, unit in enumerate(units) if unit.blocks or unit.fenced]
    displaced: list[int] = []
    before: list[dict[str, Json]] = []
    for is_assistant, run in groupby(spoken, key=lambda entry: entry[1].role == "assistant"):
        entries = list(run)
        if is_assistant:
            before = [block for _, unit in entries for block in unit.blocks]
            continue
        closing = _find_closing([unit for _, unit in entries], before=before)
        displaced += [at for at, unit in entries[:closing] if unit.has_authority]
    return displaced


def _ends_in_server_result(blocks: Sequence[dict[str, Json]]) -> bool:
    last = str(blocks[-1].get("type")) if blocks else ""
    return last.endswith("_tool_result")


def strip_idle_thinking(messages: list[dict[str, Json]], *, may_think: bool) -> None:
    """Cut idle thinking, which a final assistant message may not hold.

    A user's turn stands behind a reply with thinking, unless a call in it waits for its server.

    Source:
        https://github.com/tailcallhq/forgecode/issues/1853 (read 2026-11-27)
    """
    if may_think or messages[-1]["role"] != "assistant":
        return
    spoken = [b for b in messages[-1]["content"] if b["type"] not in THINKING_TYPES]
    messages[-1]["content"] = spoken or messages[-1]["content"]


def opens_with_thinking(messages: Sequence[dict[str, Json]]) -> bool:
    """Whether the tool loop in flight, if there is one, began with thinking.

    With a thinking budget the API insists on it; a loop that began without goes on without.

    Source:
        https://github.com/mastra-ai/mastra/issues/7799 (read 2026-11-27)
    """
    opening: list[dict[str, Json]] = []
    for message in messages:
        if message["role"] == "assistant":
            opening = opening or message["content"]
        elif any(block["type"] != "tool_result" for block in message["content"]):
            opening = []
    calls = any(block["type"] == "tool_use" for block in opening)
    said = (block["type"] for block in opening if block["type"] != COMPACTION_TYPE)
    return not calls or next(said) in THINKING_TYPES
