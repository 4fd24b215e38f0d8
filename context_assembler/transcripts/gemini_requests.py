"""Where the contents stand in a source: a list of them, a request, or JSON Lines."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from context_assembler.errors import TranscriptError
from context_assembler.transcripts.issues import IssueLog, Spot
from context_assembler.transcripts.parsing import Row, parse_source
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.native.gemini_fields import snake_fields
from context_assembler.values.parts import Json, JsonObject

_READ_FIELDS: Final = frozenset({"contents", "system_instruction", "tools"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRequest:
    """Contents with their places, and what stood around them."""

    contents: tuple[tuple[Spot, Json], ...]
    system: Json = None
    tools: Json = None
    rest: JsonObject = field(default_factory=dict[str, Json])


def find_request(source: Any, *, name: str, log: IssueLog) -> FoundRequest:
    """Return the contents of a request, of a list, or of JSON Lines of either.

    A request is a body of the REST API, or the keyword arguments of the SDK.

    Raises:
        TranscriptError: There are no contents, or those of more than one session.
    """
    parsed = parse_source(source, name=name, log=log)
    if parsed.has_lines and all(looks_like_content(row.value) for row in parsed.rows):
        placed = tuple((Spot(line=row.line, path="content"), row.value) for row in parsed.rows)
        return FoundRequest(contents=placed)
    if len(parsed.rows) != 1:
        if all(is_request(row.value) for row in parsed.rows):
            raise _many(name, len(parsed.rows))
        raise _no_contents(name, "its lines hold no contents")
    return _of_document(parsed.rows[0], name)


def is_request(value: Json) -> bool:
    """Whether the value is a request for contents."""
    return is_object(value) and is_array(snake_fields(value).get("contents"))


def looks_like_content(value: Json) -> bool:
    """Whether the value is a content: parts, and usually whose they are."""
    return (
        is_object(value)
        and (is_array(value.get("parts")) or is_object(value.get("parts")))
        and value.get("role") in ("user", "model", "function", None)
    )


def _of_document(row: Row, name: str) -> FoundRequest:
    value, spot = row.value, Spot(line=row.line, path="contents")
    if looks_like_content(value):
        return FoundRequest(contents=((Spot(line=row.line, path="content"), value),))
    if is_array(value):
        return FoundRequest(contents=_placed(value, spot, name))
    fields = snake_fields(value)
    contents = fields.get("contents")
    if not is_array(contents):
        raise _no_contents(name, "it holds no list of contents")
    config = snake_fields(fields.get("config"))
    rest = {key: held for key, held in fields.items() if key not in _READ_FIELDS}
    if config:
        rest["config"] = {key: held for key, held in config.items() if key not in _READ_FIELDS}
    return FoundRequest(
        contents=_placed(contents, spot, name),
        system=fields.get("system_instruction", config.get("system_instruction")),
        tools=fields.get("tools", config.get("tools")),
        rest={key: held for key, held in rest.items() if held != {}},
    )


def _placed(contents: Sequence[Json], spot: Spot, name: str) -> tuple[tuple[Spot, Json], ...]:
    if contents and not any(map(looks_like_content, contents)):
        if all(is_request(entry) for entry in contents):
            raise _many(name, len(contents))
        raise _no_contents(name, "its list holds no contents")
    return tuple((spot.index(at), content) for at, content in enumerate(contents))


def _no_contents(name: str, reason: str) -> TranscriptError:
    return TranscriptError(
        source=name,
        reason=reason,
        remedy="Give a list of contents, a request with 'contents', or a session of Gemini CLI.",
    )


def _many(name: str, count: int) -> TranscriptError:
    return TranscriptError(
        source=name,
        reason=f"it holds {count} sessions",
        remedy="Read them with read_sessions(), which returns one transcript for each.",
    )
