"""The tool `history`: a model reads again what caps, cuts and compactions left out of its session."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from context_assembler import events
from context_assembler.events import Json, JsonObject, SessionEvent, Text, ToolResult
from context_assembler.options import TruncationSettings
from context_assembler.ports import ToolSpec
from context_assembler.texts import one_line

_TOOL: Final = "history"
_PAGE_CHARS: Final = 8_000
_FRAME_CHARS: Final = 80  # what stands under a page
_MOST_EVENTS: Final = 100  # that one call reads
_SNIPPET_CHARS: Final = 160
_WORDS: Final = (
    "Look up what was left out of this conversation: search its events by words (query), newest "
    "first, or read events in full by their numbers (first, last); 1 is the first event."
)
_PROPERTIES: Final = {
    "query": "string: Words that an event must hold, all of them.",
    "first": "integer: The number of the first event to read.",
    "last": "integer: The number of the last one; by default first.",
    "page": "integer: The page of a long answer; 1 is the first.",
}


class HistoryTool:
    """The tool `history` of one session, as a source of tools that also answers its calls.

    It returns what is stored, masked as it is sent. A page is never longer than what `truncation`
    lets a result be, so no cap cuts it.

    Args:
        masks: Where secrets are masked.
    """

    name: Final = "assembler.history"
    is_constant: Final = True

    def __init__(
        self,
        store: Any,
        session_id: str,
        *,
        truncation: TruncationSettings,
        masks: Sequence[str] = (),
    ) -> None:
        self._store, self._session_id, self._masks = store, session_id, masks
        caps = (truncation.max_result_tokens, *truncation.max_result_tokens_by_tool.values())
        least = min((cap for cap in caps if cap is not None), default=_PAGE_CHARS)
        self._page_chars = max(1, min(_PAGE_CHARS, least) - _FRAME_CHARS)

    def list_now(self) -> Sequence[ToolSpec]:
        """Return the tool."""
        told = {name: said.partition(": ") for name, said in _PROPERTIES.items()}
        fields: dict[str, Json] = {
            name: {"type": kind, "description": said} for name, (kind, _, said) in told.items()
        }
        schema: JsonObject = {"type": "object", "properties": fields}
        return [ToolSpec(name=_TOOL, description=_WORDS, input_schema=schema, is_safe=True)]

    async def list_tools(self) -> Sequence[ToolSpec]:
        """Return the tool."""
        return self.list_now()

    async def call_tool(
        self, spec: ToolSpec, given: JsonObject | None = None, *, call_id: str = ""
    ) -> ToolResult:
        """Return a page of what was searched or read; what cannot be is an error result."""
        arguments = {**(given or {})}
        text = await self._store.away(self._answer, arguments)
        is_error = text.startswith("Error: ")
        content = (Text(text=text),)
        return ToolResult(call_id=call_id, content=content, is_error=is_error, tool_name=spec.name)

    def _answer(self, given: JsonObject) -> str:
        numbers = [given.get(name) or 0 for name in ("first", "last", "page")]
        if not all(isinstance(one, int | float) and one >= 0 for one in numbers):
            return "Error: first, last and page must be numbers from 1."
        first, last, page = map(int, numbers)
        if isinstance(query := given.get("query"), str) and query.strip():
            text = "\n".join(self._found(query.lower().split()))
            text = text or "No event holds these words."
        elif first:
            found = self._stored(first, min(max(first, last), first + _MOST_EVENTS - 1))
            text = "\n\n".join(f"[event {one.seq}, {one.type}]\n{told}" for one, told in found)
            if not text:
                return "Error: There is no such event."
        else:
            return "Error: Pass query to search, or first (and last) to read events."
        page, size = max(page, 1), self._page_chars
        pages = -(-len(text) // size)
        if page > pages:
            return f"Error: There is no page {page}; the last one is {pages}."
        more = f" Pass page={page + 1} for more." if page < pages else ""
        shown = text[(page - 1) * size : page * size]
        return f"{shown}\n[page {page} of {pages}.{more}]" if pages > 1 else shown

    def _found(self, words: Sequence[str]) -> Iterator[str]:
        """Yield a line for each event that holds the words, newest first, none for this tool's own."""
        own, found = set[str](), list[str]()
        for event, text in self._stored(1, -1):
            own.update(call.call_id for call in event.tool_calls if call.name == _TOOL)
            ids = {getattr(part, "call_id", "") for part in event.parts}
            lowered = text.lower()
            if not ids & own and all(word in lowered for word in words):
                at = max(0, lowered.find(words[0]) - _SNIPPET_CHARS // 2)
                snippet = one_line(text[at : at + _SNIPPET_CHARS])
                found.append(f"event {event.seq}, {event.type}: … {snippet} …")
        return reversed(found)

    def _stored(self, first: int, last: int) -> Iterator[tuple[SessionEvent, str]]:
        """Yield active events, each with all that it holds as text, masked as it is sent."""
        from context_assembler.history.secrets import masked_parts

        stored = self._store.events(self._session_id, after_seq=first - 1)
        for event in events.active_events(stored):
            if 0 <= last < event.seq:
                return
            parts: Any = events.to_json(event.parts)
            kind = events.kind_of(event.type, {"parts": parts})
            yield event, "\n".join(map(_text_of, masked_parts(kind, parts, self._masks)[0]))


def _text_of(part: JsonObject) -> str:
    """Return a part as text; what is no text, as JSON."""
    if part["type"] == "text":
        return str(part["text"])
    if part["type"] == "tool_call":
        given = part.get("arguments_json") or events.compact_json(part.get("arguments"))
        return f"{part['name']} {given}"
    if part["type"] == "tool_result":
        return "\n".join(map(_text_of, part.get("content", ())))
    return events.compact_json(part)
