"""Items of OpenAI's Responses: a list of them, a request, or a response.

Normal form: what `write` gives and `read` keeps. Messages name their type, and one text is a plain
string; a reply's text stays a list where it has an id or annotations, and pieces without an id are
messages of their own; empty annotations and nulls vanish, but for items that are kept whole.
`instructions` stand as the first message of the developer. Fields without a place in a session
(`status`, `phase` …) are kept and come back.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from context_assembler.errors import TranscriptError
from context_assembler.ports import ReadTranscript
from context_assembler.transcripts.issues import IssueLog, Spot
from context_assembler.transcripts.message_lists import events_to_write, finish, read_tools
from context_assembler.transcripts.openai_responses_items import EntryReader, read_tool
from context_assembler.transcripts.openai_responses_writing import write_event
from context_assembler.transcripts.parsing import (
    Rows,
    as_mapping,
    dump_json_text,
    left_over,
    parse_source,
)
from context_assembler.values.events import Provenance, SessionEvent
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.native.response_items import PROVIDER, Entry
from context_assembler.values.native.response_texts import kind_of
from context_assembler.values.parts import Json, JsonObject
from context_assembler.values.reading import as_array, as_text

_KNOWN_OF_REQUESTS: Final = frozenset({"input", "instructions", "tools"})
_OWN_KINDS: Final = frozenset(
    {"reasoning", "compaction", "additional_tools", "item_reference", "configuration_update"}
)
_OWN_PIECES: Final = ("input_", "output_text")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """Items with their places, what stood around them, and who made them where it is told."""

    items: tuple[tuple[Spot, Json], ...]
    request: JsonObject
    made_by: Provenance | None = None


class OpenAIResponsesTranscript:
    """Reads and writes Responses items."""

    name: str = PROVIDER

    def read(self, source: Any, *, name: str = "transcript") -> ReadTranscript:
        """Turn a list of items, a request, a response, or JSON Lines of items into events.

        Raises:
            TranscriptError: The source holds no items.
        """
        log = IssueLog()
        found = _find(parse_source(source, name=name, log=log), name=name)
        reader = EntryReader(log, made_by=found.made_by)
        events = [*_read_instructions(found, log), *reader.read(found.items)]
        if found.items and not events:
            raise _no_transcript(name, "none of its items can be read")
        tools = read_tools(found.request.get("tools"), read=read_tool, log=log)
        metadata = left_over(found.request, _KNOWN_OF_REQUESTS)
        return finish(events, log=log, tools=tools, metadata=metadata)

    def write(self, events: Iterable[SessionEvent]) -> str:
        """Return the items as a JSON list; what a compaction covers is left to its summary."""
        items: list[Entry] = []
        for event in events_to_write(events):
            items.extend(write_event(event))
        return dump_json_text(items, indent=2) + "\n"

    def matches(self, source: Any) -> bool:
        """Whether the source holds items as only this format has them."""
        try:
            found = _find(parse_source(source, name="transcript", log=IssueLog()), name="it")
        except ValueError:
            return False
        if "input" in found.request or found.made_by is not None:
            return True
        items = [as_mapping(entry) for _, entry in found.items]
        has_chat = any("tool_calls" in entry or entry.get("role") == "tool" for entry in items)
        return not has_chat and any(map(_is_own, items))


def _is_own(entry: JsonObject) -> bool:
    kind, content = as_text(entry.get("type")), entry.get("content")
    if kind in _OWN_KINDS or ("call_id" in entry and kind.endswith(("_call", "_call_output"))):
        return True
    if kind == "message" and isinstance(content, str):
        return True
    pieces = [as_mapping(piece) for piece in (content if is_array(content) else ())]
    return any(as_text(piece.get("type")).startswith(_OWN_PIECES) for piece in pieces)


def _read_instructions(found: _Found, log: IssueLog) -> list[SessionEvent]:
    given = found.request.get("instructions")
    if not given:
        return []
    spot = Spot(path="instructions")
    if isinstance(given, str):
        said = {"type": "message", "role": "developer", "content": given}
        return list(EntryReader(log).read([(spot, said)]))
    return list(
        EntryReader(log).read([(spot.index(i), entry) for i, entry in enumerate(as_array(given))])
    )


def _find(parsed: Rows, *, name: str) -> _Found:
    if parsed.has_lines:
        items = tuple((Spot(line=row.line, path="item"), row.value) for row in parsed.rows)
        return _checked(items, {}, name)
    value = parsed.rows[0].value
    if is_array(value):
        return _checked(_placed(value, "items"), {}, name)
    fields = as_mapping(value)
    given = fields.get("input")
    if isinstance(given, str):
        said = {"type": "message", "role": "user", "content": given}
        return _Found(items=((Spot(path="input"), said),), request=fields)
    if is_array(given):
        return _checked(_placed(given, "input"), fields, name)
    if fields.get("object") == "response" and is_array(output := fields.get("output")):
        return _Found(items=_placed(output, "output"), request={}, made_by=_made_by(fields))
    if kind_of(fields):
        return _checked(((Spot(path="item"), fields),), {}, name)
    raise _no_transcript(name, "it holds no list of items")


def _placed(items: Iterable[Json], path: str) -> tuple[tuple[Spot, Json], ...]:
    return tuple((Spot(path=path).index(number), entry) for number, entry in enumerate(items))


def _checked(items: tuple[tuple[Spot, Json], ...], request: JsonObject, name: str) -> _Found:
    if items and not any(is_object(entry) and kind_of(entry) for _, entry in items):
        raise _no_transcript(name, "its list holds no items")
    return _Found(items=items, request=request)


def _made_by(response: JsonObject) -> Provenance | None:
    model = as_text(response.get("model"))
    response_id = as_text(response.get("id")) or None
    return Provenance(provider=PROVIDER, model=model, response_id=response_id) if model else None


def _no_transcript(name: str, reason: str) -> TranscriptError:
    return TranscriptError(
        source=name,
        reason=reason,
        remedy="Give a list of items, a request with 'input', a response, or one item per line.",
    )
