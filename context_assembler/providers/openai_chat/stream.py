"""The chunks of a stream as the completion that they tell of."""

from collections.abc import Sequence
from typing import Final

from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.native.gathered_stream import add_texts
from context_assembler.values.parts import Json, JsonObject
from context_assembler.values.reading import as_array, as_object, objects_in
from context_assembler.values.wire import count_of

_CHUNK: Final = "chat.completion.chunk"
# Told whole; some servers tell them again in every chunk.
_TOLD_ONCE: Final = frozenset({"id", "type", "role", "name"})


def join_chunks(events: Sequence[JsonObject]) -> dict[str, Json] | None:
    """Return the completion as far as it came; `None` where these are no chunks of one.

    The SDK's own events hold a chunk each, or are made of one. Of several choices the first is read.

    Source:
        https://platform.openai.com/docs/api-reference/chat-streaming (read 2026-11-28)
    """
    held = [as_object(event.get("chunk")) for event in events if event.get("type") == "chunk"]
    chunks = held or events
    if not chunks or not all(map(_is_chunk, chunks)):
        return None
    whole: dict[str, Json] = {}
    choice: dict[str, Json] = {}
    message: dict[str, Json] = {}
    calls: dict[int, dict[str, Json]] = {}
    for chunk in chunks:
        whole |= {key: held for key, held in chunk.items() if held is not None}
        for _, told in objects_in(chunk.get("choices")):
            if count_of(told.get("index")) == 0:
                choice |= {key: held for key, held in told.items() if held is not None}
                _grow(message, calls, as_object(told.get("delta")))
    message |= {"tool_calls": [call for _, call in sorted(calls.items())]} if calls else {}
    return {**whole, "object": "chat.completion", "choices": [{**choice, "message": message}]}


def _is_chunk(chunk: JsonObject) -> bool:
    return chunk.get("object", _CHUNK) == _CHUNK and is_array(chunk.get("choices"))


def _grow(
    message: dict[str, Json], calls: dict[int, dict[str, Json]], delta: dict[str, Json]
) -> None:
    for place, told in objects_in(delta.pop("tool_calls", None)):
        call = calls.setdefault(count_of(told.get("index", place)), {})
        _add(call, {key: held for key, held in told.items() if key != "index"})
    if annotations := as_array(delta.pop("annotations", None)):
        message["annotations"] = [*as_array(message.get("annotations")), *annotations]
    _add(message, delta)


def _add(whole: dict[str, Json], piece: JsonObject, *, opens_objects: bool = True) -> None:
    """Add a piece field by field, in its objects too; what is told once stays as it came first."""
    for key, said in piece.items():
        if said is None or (key in _TOLD_ONCE and whole.get(key)):
            continue
        if opens_objects and is_object(said):
            held = as_object(whole.get(key))
            _add(held, said, opens_objects=False)
            whole[key] = held
        else:
            add_texts(whole, {key: said})
