"""Sessions in shorthand, a clock that is set by hand, a counter that a reader can follow."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from context_assembler.events import (
    Body,
    Json,
    JsonObject,
    SessionEvent,
    Text,
    ToolCall,
    assistant_event,
    compact_json,
    system_event,
    tool_result_event,
    user_event,
)
from context_assembler.ports import ToolChoice, ToolSpec

START: Final = datetime(2026, 11, 3, 9, 0, tzinfo=UTC)
_LINE: Final = re.compile(r"(?P<who>[SUAT])(?:\[(?P<calls>.*?)\](?!\}))? ?(?P<text>.*)", re.DOTALL)
_CALL: Final = re.compile(
    r"(?P<id>[\w.-]+)(?P<error>!)?(?::(?P<name>[\w.-]+))?(?P<json> ?\{.*\})?$"
)
_BETWEEN_CALLS: Final = re.compile(r",\s*(?=[\w.-]+!?(?::|,|$))")


def event_log(
    *lines: str, start: datetime | None = START, step: timedelta = timedelta(minutes=1)
) -> tuple[SessionEvent, ...]:
    """Return events from shorthand, not numbered yet.

    Args:
        lines: `S text` (system), `U text` (user), `A text` (assistant), `A[c1] text` (calls the tool
            `look_up`), `A[c1:search {"q": "tea"}, c2:search]` (two calls), `T[c1] text` (a result),
            `T[c1!] text` (a failed one).
        start: When the first one happened; `None` leaves all of them without a time.
        step: From one event to the next.

    Raises:
        ValueError: A line is none of these.
    """
    return tuple(
        replace(_event(line), created_at=None if start is None else start + step * place)
        for place, line in enumerate(lines)
    )


def _event(line: str) -> SessionEvent:
    found = _LINE.fullmatch(line)
    if found is None:
        raise ValueError(f"a line begins with S, U, A or T; got {line!r}")
    text, calls = found["text"], found["calls"] or ""
    if found["who"] == "S":
        return system_event(text)
    if found["who"] == "U":
        return user_event(text)
    if found["who"] == "A":
        written = filter(None, _BETWEEN_CALLS.split(calls))
        parts = [Text(text)] if text else []
        return assistant_event([*parts, *(_tool_call(_call(one)) for one in written)])
    if not calls:
        raise ValueError(f"a result names its call, as in 'T[c1] text'; got {line!r}")
    call = _call(calls)
    return tool_result_event(call["id"], text, is_error=call["error"] is not None)


def _tool_call(found: re.Match[str]) -> ToolCall:
    arguments = json.loads(found["json"] or "{}")
    return ToolCall(call_id=found["id"], name=found["name"] or "look_up", arguments=arguments)


def _call(written: str) -> re.Match[str]:
    found = _CALL.match(written.strip())
    if found is None:
        form = "'id', 'id:tool' or 'id:tool {json}'"
        raise ValueError(f"a call is written {form}; got {written!r}")
    return found


class ManualClock:
    """A clock in seconds that stands still until `advance` moves it."""

    def __init__(self, seconds: float = 0.0) -> None:
        self._seconds = seconds

    def __call__(self) -> float:
        """Return the seconds that the clock shows."""
        return self._seconds

    def advance(self, seconds: float) -> None:
        """Move the clock forward; a `ValueError` if `seconds` is negative."""
        if seconds < 0:
            raise ValueError(f"a clock moves forward only; got {seconds!r} seconds")
        self._seconds += seconds


class WordCounter:
    """A token counter that a reader of a test can follow: one word is one token.

    A call counts its tool's name and the words of its arguments, an image or a document
    `media_tokens`, any other part its words. Messages and requests have no overhead.
    """

    name = "words"
    key = "words"
    is_exact = True
    request_tokens = 0

    def __init__(self, *, media_tokens: int = 100) -> None:
        self.media_tokens = media_tokens

    def count_text(self, text: str) -> int:
        """Return the number of words."""
        return len(text.split())

    def count_event(self, kind: int, body: Body) -> int:
        """Return the words of all parts except reasoning."""
        del kind
        return sum(self._count_part(p) for p in body["parts"] if p["type"] != "thinking")

    def count_reasoning(self, body: Body) -> int:
        """Return the words of the reasoning."""
        return sum(self._count_part(p) for p in body["parts"] if p["type"] == "thinking")

    def count_system(self, text: str) -> int:
        """Return the number of words."""
        return self.count_text(text)

    def count_tool(self, tool: ToolSpec) -> int:
        """Return the words of name, description and schema."""
        schema = " ".join(_leaves(tool.input_schema))
        return self.count_text(f"{tool.name} {tool.description} {schema}")

    def count_tools_overhead(
        self, tools: object, *, has_system: bool = False, choice: ToolChoice | None = None
    ) -> int:
        """Return 0: having tools costs nothing here."""
        del tools, has_system, choice
        return 0

    def _count_part(self, part: JsonObject) -> int:
        kind = part["type"]
        if kind in ("image", "document"):
            return self.media_tokens
        if kind == "tool_call":
            return self.count_text(f"{part['name']} {' '.join(_leaves(part.get('arguments')))}")
        if kind == "tool_result":
            return sum(map(self._count_part, part.get("content", ())))
        text = part.get("text") or (compact_json(part["block"]) if kind == "opaque" else "")
        return self.count_text(text)


def _leaves(value: Json) -> Iterator[str]:
    """Yield keys and leaves, in order."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from _leaves(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _leaves(inner)
    elif value is not None:
        yield str(value)
