"""The tool `history`: a model reads again what caps, cuts and compactions left out of its session."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

from context_assembler import events
from context_assembler.events import JsonObject, SessionEvent, Text, ToolResult
from context_assembler.options import TruncationSettings
from context_assembler.ports import HISTORY_SOURCE, ToolSpec
from context_assembler.texts import one_line
from context_assembler.tools.sources import schema_of

_Held: TypeAlias = tuple[SessionEvent, Sequence[events.Part]]

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
    "id": "string: The id of the event to read, instead of its number.",
    "page": "integer: The page of a long answer; 1 is the first.",
}


class HistoryTool:
    """The tool `history` of one session, as a source of tools that also answers its calls.

    It returns what is stored, masked as it is sent. A page is never longer than what `truncation`
    lets a result be, so no cap cuts it.

    Args:
        masks: Where secrets are masked.
    """

    name: Final = HISTORY_SOURCE
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
        schema = schema_of(_PROPERTIES)
        return [ToolSpec(name=_TOOL, description=_WORDS, input_schema=schema, is_safe=True)]

    async def list_tools(self) -> Sequence[ToolSpec]:
        """Return the tool."""
        return self.list_now()

    async def call_tool(
        self, spec: ToolSpec, given: JsonObject | None = None, *, call_id: str = ""
    ) -> ToolResult:
        """Return a page of what was searched or read; what cannot be is an error result."""
        text = await self._store.away(self._answer, spec.name, {**(given or {})})
        is_error = text.startswith("Error: ")
        content = (Text(text=text),)
        return ToolResult(call_id=call_id, content=content, is_error=is_error, tool_name=spec.name)

    def _answer(self, name: str, given: JsonObject) -> str:
        numbers = [given.get(one) or 0 for one in ("first", "last", "page")]
        if not all(isinstance(one, int | float) and one >= 0 for one in numbers):
            return "Error: first, last and page must be numbers from 1."
        first, last, page = map(int, numbers)
        held, rest, event_id = self._held(name), list[Any](), given.get("id")
        if isinstance(query := given.get("query"), str) and query.strip():
            lines = self._found(reversed(held), query.lower().split())
            text = "\n".join(lines) or "No event holds these words."
        elif first or event_id:
            wanted = range(first, max(first, last) + 1)
            read = [one for one in held if one[0].seq in wanted or one[0].id == event_id]
            read, rest = read[:_MOST_EVENTS], read[_MOST_EVENTS:]
            told = (f"[{_title(one, name)}]\n{self._text(one, kept)}" for one, kept in read)
            text = "\n\n".join(told)
            if not text:
                return "Error: There is no such event, or it is only what this tool returned."
        else:
            return "Error: Pass query to search, or first (and last) to read events."
        page, size = max(page, 1), self._page_chars
        pages = -(-len(text) // size)
        if page > pages:
            return f"Error: There is no page {page}; the last one is {pages}."
        follows = f"page={page + 1}" if page < pages else ""
        if rest and not follows:
            follows = f"first={rest[0][0].seq}, last={last}"
        more = f" Pass {follows} for more." if follows else ""
        shown = text[(page - 1) * size : page * size]
        return f"{shown}\n[page {page} of {pages}.{more}]" if pages > 1 or more else shown

    def _held(self, name: str) -> list[_Held]:
        """Return the events that no rewind left behind, each without what this tool was and said."""
        own, held = set[str](), list[_Held]()
        for event in events.active_events(self._store.events(self._session_id)):
            for call in (part for part in event.parts if isinstance(part, events.ToolCall)):
                (own.add if call.name == name else own.discard)(call.call_id)
            if kept := [p for p in event.parts if getattr(p, "call_id", None) not in own]:
                held.append((event, kept))
        return held

    def _found(self, held: Iterable[_Held], words: Sequence[str]) -> Iterator[str]:
        """Yield a line for each event that holds the words."""
        for event, kept in held:
            text = self._text(event, kept)
            if all(word in text.lower() for word in words):
                at = max(0, text.lower().find(words[0]) - _SNIPPET_CHARS // 2)
                snippet = one_line(text[at : at + _SNIPPET_CHARS])
                yield f"event {event.seq}, {event.type}: … {snippet} …"

    def _text(self, event: SessionEvent, kept: Sequence[events.Part]) -> str:
        """Return parts of an event as text, masked as they are sent."""
        from context_assembler.history.secrets import masked_parts

        parts: Any = events.to_json(kept)
        kind = events.kind_of(event.type, {"parts": parts})
        return "\n".join(map(_text_of, masked_parts(kind, parts, self._masks)[0]))


def _title(event: SessionEvent, name: str) -> str:
    """Return what stands above an event; above a summary, how what it covers is read."""
    covers = event.covers
    of = f" of {name}(first={covers.first_seq}, last={covers.last_seq})" if covers else ""
    return f"event {event.seq}, {event.type}{of}"


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
