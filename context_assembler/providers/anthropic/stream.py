"""The events of a stream as the message that they tell of."""

from collections.abc import Iterable
from typing import Final

from context_assembler.values.native.gathered_stream import add_texts
from context_assembler.values.parts import Json, JsonObject
from context_assembler.values.reading import as_array, as_object, as_text
from context_assembler.values.wire import count_of, parse_json_object

_UNKNOWN_PLACE: Final = -1


def join_events(events: Iterable[JsonObject]) -> dict[str, Json] | None:
    """Return the message as far as it came; `None` where the events do not begin one.

    Events that the SDK makes of these are passed over.

    Source:
        https://platform.claude.com/docs/en/build-with-claude/streaming (read 2026-11-28)
    """
    message: dict[str, Json] | None = None
    blocks: dict[int, dict[str, Json]] = {}
    for event in events:
        place = count_of(event.get("index")) if "index" in event else _UNKNOWN_PLACE
        match event.get("type"):
            case "message_start":
                message = as_object(event.get("message"))
            case "content_block_start":
                blocks[place] = as_object(event.get("content_block"))
            case "content_block_delta" if place in blocks:
                _grow(blocks[place], as_object(event.get("delta")))
            case "message_delta" if message is not None:
                usage = as_object(message.get("usage")) | as_object(event.get("usage"))
                message |= {**as_object(event.get("delta")), "usage": usage}
            case _:
                pass
    if message is None:
        return None
    return {**message, "content": [_finish(block) for _, block in sorted(blocks.items())]}


def _grow(block: dict[str, Json], delta: JsonObject) -> None:
    if "citation" in delta:
        block["citations"] = [*as_array(block.get("citations")), delta["citation"]]
        return
    add_texts(block, {key: held for key, held in delta.items() if key != "type"})


def _finish(block: dict[str, Json]) -> dict[str, Json]:
    """Return a block with what came of its input: the text of a call's where it is no object."""
    spelled = as_text(block.pop("partial_json", ""))
    if not spelled:
        return block
    given = parse_json_object(spelled)
    if given is None and block.get("type") == "tool_use":
        return {**block, "input": spelled}
    return {**block, "input": given or {}}
