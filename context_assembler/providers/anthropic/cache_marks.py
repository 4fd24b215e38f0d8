"""Where a payload asks for its prefix to be cached."""

from typing import Final

from context_assembler.providers.anthropic.blocks import THINKING_TYPES
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.limits import CacheRule
from context_assembler.values.parts import Json

_LOOKBACK_BLOCKS: Final = 20


def add_cache_marks(payload: dict[str, Json], rule: CacheRule) -> None:
    """Mark the payload in place: at most three breakpoints of the four allowed.

    The last system block (without one, the last tool) is kept for the long time to live, the tail by
    the automatic breakpoint. A breakpoint finds an older entry at most 20 blocks back, so a step
    that added as many gets one in between. What is surely below the model's minimum is not marked.

    Source:
        https://platform.claude.com/docs/en/build-with-claude/prompt-caching (read 2026-11-27)
    """
    if rule.mode != "explicit":
        return
    least_bytes = rule.least_bytes
    head = [payload.get("tools", []), payload.get("system", [])]
    head_bytes = _count_bytes(head, stop_at=least_bytes)
    if head_bytes >= least_bytes:
        _mark_head(payload, rule)
    if head_bytes + _count_bytes(payload["messages"], stop_at=least_bytes) >= least_bytes:
        payload["cache_control"] = {"type": "ephemeral"}
        _mark_long_step(payload["messages"])


def _mark_head(payload: dict[str, Json], rule: CacheRule) -> None:
    marker: dict[str, Json] = {"type": "ephemeral"}
    if "1h" in rule.ttls:
        marker["ttl"] = "1h"
    tools = [tool for tool in payload.get("tools", []) if tool.get("defer_loading") is not True]
    blocks = payload.get("system") or tools
    if blocks:
        blocks[-1]["cache_control"] = marker


def _mark_long_step(messages: list[dict[str, Json]]) -> None:
    """Mark a block that still sees the end of the previous request: before the last reply."""
    places = reversed(range(len(messages)))
    reply = next((i for i in places if messages[i]["role"] == "assistant"), None)
    if reply is None:
        return
    step = [(i, j) for i in range(reply, len(messages)) for j in range(_width(messages[i]))]
    if len(step) < _LOOKBACK_BLOCKS:
        return
    for i, j in reversed(step[: _LOOKBACK_BLOCKS - 1]):
        block = messages[i]["content"][j]
        if block["type"] not in THINKING_TYPES:
            messages[i]["content"][j] = {**block, "cache_control": {"type": "ephemeral"}}
            return


def _width(message: dict[str, Json]) -> int:
    return len(message["content"])


def _count_bytes(value: Json, *, stop_at: int) -> int:
    """Return the bytes of all text in the value, or any number of at least `stop_at`."""
    total, waiting = 0, [value]
    while waiting and total < stop_at:
        current = waiting.pop()
        if isinstance(current, str):
            total += len(current.encode("utf-8", "surrogatepass"))
        elif is_object(current):
            waiting.extend(current.values())
        elif is_array(current):
            waiting.extend(current)
    return total
