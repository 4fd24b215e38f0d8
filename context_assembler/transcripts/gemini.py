"""Contents of Gemini's `generate_content`: a list of them, a request, or a session of Gemini CLI.

Normal form: what `write` gives and `read` keeps. Fields are spelled as in the REST API; parts are a
list; a content has the role `user` or `model`. Responses of one set of calls stand in one content,
before what the user said beside them. An id that a call came without is not written either. A
response is `{"output": …}` or `{"error": …}` – text, several texts as a list, or an error that is an
object – or another object as a whole; what else stood under `output` is its compact JSON. Bytes of
images and documents are standard base64. A call that was streamed in pieces stands where it began,
its arguments whole. Other fields of a part, a call or a response are kept beside it, and those of a
content in the event's metadata under `gemini`.
"""

from collections.abc import Iterable
from typing import Any, TypeAlias, assert_never

from context_assembler.ports import ReadTranscript
from context_assembler.transcripts.gemini_cli import (
    cli_metadata,
    is_cli_session,
    read_cli_session,
)
from context_assembler.transcripts.gemini_contents import ContentReader
from context_assembler.transcripts.gemini_requests import find_request
from context_assembler.transcripts.gemini_spelling import SpelledPart, write_part
from context_assembler.transcripts.gemini_tools import read_tools
from context_assembler.transcripts.issues import IssueLog, Spot
from context_assembler.transcripts.message_lists import events_to_write, finish
from context_assembler.transcripts.parsing import as_mapping, dump_json_text, parse_source
from context_assembler.values.events import (
    AssistantBody,
    CompactionBody,
    SessionEvent,
    SystemBody,
    ToolCallBody,
    ToolResultBody,
    UserBody,
)
from context_assembler.values.json_shapes import is_object
from context_assembler.values.native.gemini_parts import PROVIDER
from context_assembler.values.parts import Json, JsonObject, Part, Text, ToolResult

_Content: TypeAlias = dict[str, Json]


class GeminiTranscript:
    """Reads and writes Gemini contents; sessions of Gemini CLI are read."""

    name: str = "gemini"

    def read(self, source: Any, *, name: str = "transcript") -> ReadTranscript:
        """Turn contents, a request, JSON Lines of either, or a CLI session into events.

        Raises:
            TranscriptError: The source holds no contents, or those of several sessions.
        """
        log = IssueLog()
        session = _cli_session_in(source)
        if session is not None:
            said = read_cli_session(session, log)
            return finish(said, log=log, metadata=cli_metadata(session))
        found = find_request(source, name=name, log=log)
        reader = ContentReader(log)
        events: list[SessionEvent] = []
        if found.system is not None:
            spot = Spot(path="systemInstruction")
            events.append(reader.read_instructions(found.system, spot))
        for spot, content in found.contents:
            events += reader.read(content, spot)
        return finish(events, log=log, tools=read_tools(found.tools, log), metadata=found.rest)

    def write(self, events: Iterable[SessionEvent]) -> str:
        """Return `{"systemInstruction": …, "contents": […]}`; a summary stands for what it covers.

        Instructions given on the way are text of the user: contents have no role for them. Arguments
        that were never valid JSON are written as `{"unparsed_arguments": …}`.
        """
        standing = events_to_write(events)
        request: dict[str, Json] = {}
        writer = _Writer()
        if standing and isinstance(first := standing[0].body, SystemBody):
            request["systemInstruction"] = {"parts": writer.spell(first.parts)}
            standing = standing[1:]
        for event in standing:
            writer.add(event)
        return dump_json_text({**request, "contents": writer.contents}, indent=2) + "\n"

    def matches(self, source: Any) -> bool:
        """Whether the source holds contents, or is a session of Gemini CLI."""
        if _cli_session_in(source) is not None:
            return True
        try:
            found = find_request(source, name="transcript", log=IssueLog())
        except ValueError:
            return False
        return bool(found.contents) or found.system is not None


def _cli_session_in(source: Any) -> JsonObject | None:
    try:
        parsed = parse_source(source, name="transcript", log=IssueLog())
    except ValueError:
        return None
    value = parsed.rows[0].value
    is_session = len(parsed.rows) == 1 and is_object(value) and is_cli_session(value)
    return value if is_session else None


class _Writer:
    """Contents as they grow; responses are given the names of the calls before them."""

    def __init__(self) -> None:
        self.contents: list[_Content] = []
        self._names_by_call: dict[str, str] = {}

    def add(self, event: SessionEvent) -> None:
        self._names_by_call |= {call.call_id: call.name for call in event.tool_calls}
        kept = dict(as_mapping(event.metadata.get(PROVIDER)))
        match event.body:
            case UserBody(parts=parts):
                results = [part for part in parts if isinstance(part, ToolResult)]
                for result in results:
                    self._add_result(result)
                said = tuple(part for part in parts if not isinstance(part, ToolResult))
                if said or kept or not results:
                    self._append("user", said, kept)
            case SystemBody(parts=parts):
                self._append("user", parts, kept)
            case AssistantBody(parts=parts):
                self._append("model", parts, kept)
            case ToolCallBody(call=call):
                if self.contents and self.contents[-1]["role"] == "model":
                    self.contents[-1]["parts"] += self.spell((call,))
                else:
                    self._append("model", (call,), kept)
            case ToolResultBody(result=result):
                self._add_result(result)
            case CompactionBody(summary=summary):
                self._append("user", (Text(summary),), kept)
            case _:
                assert_never(event.body)

    def spell(self, parts: Iterable[Part]) -> list[SpelledPart]:
        spelled = (write_part(part, self._names_by_call) for part in parts)
        return [part for part in spelled if part is not None]

    def _append(self, role: str, parts: Iterable[Part], kept: JsonObject) -> None:
        self.contents.append({**kept, "role": role, "parts": self.spell(parts)})

    def _add_result(self, result: ToolResult) -> None:
        last = self.contents[-1] if self.contents else {}
        parts: list[SpelledPart] = last.get("parts", [])
        if parts and all("functionResponse" in part for part in parts):
            parts += self.spell((result,))
        else:
            self._append("user", (result,), {})
