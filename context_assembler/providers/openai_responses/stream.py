"""The events of a stream as the response that they tell of."""

from collections.abc import Iterator, Sequence
from typing import Final

from context_assembler.values.parts import Json, JsonObject
from context_assembler.values.reading import as_object, as_text
from context_assembler.values.wire import count_of

FINAL_EVENTS: Final = frozenset({"response.completed", "response.incomplete", "response.failed"})
_FIRST_EVENTS: Final = frozenset({"response.created", "response.queued", "response.in_progress"})
# Which field of an open item, or of an open piece of a message, grows by an event's delta.
_FIELDS_BY_DELTA: Final = {
    "response.function_call_arguments.delta": "arguments",
    "response.custom_tool_call_input.delta": "input",
}
_PIECES_BY_DELTA: Final = {
    "response.output_text.delta": ("output_text", "text"),
    "response.refusal.delta": ("refusal", "refusal"),
}
_OPEN_ITEMS: Final = frozenset({"message", "function_call", "custom_tool_call"})


def join_events(events: Sequence[JsonObject]) -> dict[str, Json] | None:
    """Return the response as far as it came; `None` where the events tell of none.

    Of what was not done when the stream broke off, text and calls of the client's are kept, as
    `incomplete`; unfinished reasoning has no seal yet, and a server's tool no result.

    Source:
        https://platform.openai.com/docs/api-reference/responses-streaming (read 2026-11-28)
    """
    response: dict[str, Json] | None = None
    entries: dict[int, _Entry] = {}
    for event in events:
        kind, place = as_text(event.get("type")), count_of(event.get("output_index"))
        if kind in FINAL_EVENTS:
            return as_object(event.get("response"))
        if kind in _FIRST_EVENTS:
            response = as_object(event.get("response"))
        elif kind == "response.output_item.added":
            entries[place] = _Entry(as_object(event.get("item")))
        elif kind == "response.output_item.done":
            entries[place] = _Entry(as_object(event.get("item")), is_done=True)
        elif place in entries:
            entries[place].grow(kind, event)
    if response is None:
        return None
    output = [told for _, entry in sorted(entries.items()) for told in entry.told()]
    return {**response, "status": "incomplete", "output": output}


class _Entry:
    """One item of a response while it comes."""

    def __init__(self, body: dict[str, Json], *, is_done: bool = False) -> None:
        self._body = body
        self._is_done = is_done
        self._pieces: dict[int, dict[str, Json]] = {}

    def grow(self, kind: str, event: JsonObject) -> None:
        """Add what an event says of this item."""
        delta = as_text(event.get("delta"))
        if field := _FIELDS_BY_DELTA.get(kind):
            self._body[field] = as_text(self._body.get(field)) + delta
        elif kind in _PIECES_BY_DELTA:
            piece_type, field = _PIECES_BY_DELTA[kind]
            nothing: dict[str, Json] = {"type": piece_type, field: ""}
            piece = self._pieces.setdefault(count_of(event.get("content_index")), nothing)
            piece[field] = as_text(piece.get(field)) + delta

    def told(self) -> Iterator[dict[str, Json]]:
        """Yield the item: as it is, or what there is of it."""
        if self._is_done:
            yield self._body
        elif self._body.get("type") == "message" and self._pieces:
            content = [piece for _, piece in sorted(self._pieces.items())]
            yield {**self._body, "status": "incomplete", "content": content}
        elif self._body.get("type") in _OPEN_ITEMS - {"message"}:
            yield {**self._body, "status": "incomplete"}
