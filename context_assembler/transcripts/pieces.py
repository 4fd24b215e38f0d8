"""Parts and events as the readers of other programs' formats make them.

A reader takes fields out of a copy of each message and each piece of its content. What is left of a
message is kept as the event's metadata; what is left of a piece has no place and is reported.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from importlib import import_module
from typing import Any, Final

from context_assembler.events import Body, Json, JsonObject, compact_json
from context_assembler.providers import wire
from context_assembler.providers.wire import as_list, as_object, text_part, without_nulls
from context_assembler.transcripts.source import Issues, Row

Fields = dict[str, Json]
Found = tuple[str, Body, dict[str, Json]]  # type, body, id and time
Read = Callable[[Fields], "list[JsonObject] | None"]  # a piece as parts; `None`: it is unknown

STEP: Final[JsonObject] = {"type": "step"}  # what stands behind it was said after the results before
_IN_RESULTS: Final = ("text", "image", "document", "opaque")


class Builder:
    """The events of one transcript in the making; what has no place is reported with its line."""

    def __init__(self, name: str, issues: Issues) -> None:
        self.name, self.events = name, list[Found]()
        self._issues, self._line, self._where = issues, None, ""
        self._ids = set[str]()

    def each(self, rows: Iterable[Row]) -> Iterator[Fields]:
        """Yield a copy of every object without its nulls; report what is none."""
        for at, row in enumerate(rows):
            self._line, self._where = row.line, "" if row.line else f"[{at}]"
            if isinstance(row.value, Mapping):
                yield without_nulls(row.value)
            else:
                self.note("", f"is no object ({row.value!r:.40}); left out")

    def note(self, what: str, reason: str) -> None:
        self._issues.note(f"{self._where}.{what}".strip("."), reason, self._line)

    def count(self, what: str, reason: str) -> None:
        self._issues.count(what, reason, self._line)

    # -- fields --

    def take(self, fields: Fields, *names: str, is_needed: bool = True) -> str:
        """Take the first of some fields, a text, out of the others; report one of another type."""
        name = next((name for name in names if name in fields), names[0])
        value = fields.pop(name, None)
        if not isinstance(value, str) and (is_needed or value is not None):
            self.note(name, "is missing" if value is None else f"is no text ({value!r:.40})")
        return value if isinstance(value, str) else ""

    # -- parts --

    def pieces(self, content: Json, read: Read) -> list[JsonObject]:
        """Return text, or a list of texts and objects, as parts; report what is unknown."""
        parts: list[JsonObject] = []
        for piece in [content] if isinstance(content, str | Mapping) else as_list(content):
            fields = without_nulls(as_object(piece))
            kind = fields.get("type", fields.get("part_kind", fields.get("kind")))
            made = [text_part(piece)] if isinstance(piece, str) else read(fields) if fields else None
            if made is None:
                kind = next(iter(fields), piece) if kind is None else kind
                self.note("content", f"holds what no session has ({kind!r:.40}); left out")
            elif fields:
                named = ", ".join(sorted(fields.keys() - {"type"}))
                self.count(f"fields of {kind} parts ({named})", "have no place; left out")
            parts += [part for part in made or () if part != {"type": "text", "text": ""}]
        if content is not None and not isinstance(content, str | Mapping | list | tuple):
            self.note("content", f"is neither text nor a list ({content!r:.40}); left out")
        return parts

    def call(self, call_id: str, name: str, given: Json, *, signature: str = "") -> JsonObject:
        """Return a call; arguments that are no JSON object stay as the model's text."""
        warnings: list[str] = []
        part = wire.read_call(call_id, name, given, warnings)
        for warning in warnings:
            self.note("arguments", warning)
        return {**part, "signature": signature} if signature else part

    def result(
        self, call_id: str, content: Json, *, is_error: bool = False, name: str = ""
    ) -> JsonObject:
        """Return the result of a call; content that is neither text nor parts becomes JSON."""
        is_parts = isinstance(content, list) and all("type" in as_object(one) for one in content)
        if not is_parts:
            text = content if isinstance(content, str) else compact_json(content)
            content = [text_part(text)] if text and content is not None else []
        part: Fields = {"type": "tool_result", "call_id": call_id}
        part["content"] = [one for one in content if one["type"] in _IN_RESULTS]
        if len(part["content"]) < len(content):
            self.note("content", "of a result holds what no result has; left out")
        part |= {"is_error": True} if is_error else {}
        return part | ({"tool_name": name} if name else {})

    def media(
        self, media_type: str, *, data: str = "", url: str = "", title: str = ""
    ) -> list[JsonObject]:
        """Return a picture or a document; nothing, with a report, if it has no bytes or address."""
        from context_assembler.providers.media import begins_as, media_of

        if "/" not in media_type or media_type.endswith("*"):
            media_type = begins_as(data) or media_type.partition("/")[0]
        kind = "image" if media_type.startswith("image") else "file"
        media_type = media_type if "/" in media_type else ""
        about = {"type": kind, "media_type": media_type, "data": data, "url": url}
        part = media_of({**about, "filename": title}, "")
        if part is None:
            self.note("content", "shows a file without bytes or address; left out")
        return [] if part is None else [part]

    # -- events --

    def add(
        self,
        role: str,
        parts: Iterable[JsonObject],
        *,
        id: str = "",
        time: Json = None,
        kept: JsonObject | None = None,
        made_by: Fields | None = None,
        **body: Json,
    ) -> None:
        """Append the events of a message: what a role said, and every result.

        Results stand in front of what the user says next to them, and behind what a model said. Of
        a reply with several steps the last one has the usage.
        """
        kind = role if role in ("user", "assistant") else "system"
        steps: list[list[JsonObject]] = [[]]
        for part in parts:
            if part is STEP:
                steps += [[]] if steps[-1] else []
            else:
                steps[-1].append(part)
        made: list[tuple[str, Body]] = []
        for step in steps:
            said = [part for part in step if part["type"] != "tool_result"]
            results = [part for part in step if part["type"] == "tool_result"]
            spoken: list[tuple[str, Body]] = [(kind, {"parts": said, **body})] if said else []
            answered: list[tuple[str, Body]] = [("tool_result", {"parts": [r]}) for r in results]
            made += spoken + answered if kind == "assistant" else answered + spoken
        if not made:
            self.note("", f"is a message of the {kind} without content; left out")
        replies = [one for event_type, one in made if event_type == "assistant"] if made_by else []
        for reply in replies:
            told = made_by if reply is replies[-1] else {**made_by, "usage": None}  # type: ignore
            reply["made_by"] = without_nulls(told)
        if made and kept:
            made[0][1]["metadata"] = {self.name: dict(kept)}
        for event_type, one in made:
            self.append(event_type, one, id=id, time=time)

    def append(self, event_type: str, body: Body, *, id: str = "", time: Json = None) -> None:
        """Append one event; an id that is taken gets a number."""
        free, number = id, 1
        while free in self._ids:
            number += 1
            free = f"{id}#{number}"
        self._ids |= {free} if free else set()
        self.events.append((event_type, body, {"id": free, "created_at": as_time(time)}))

    def compact(self, parts: list[JsonObject], *, last_seq: int | None = None, **about: Json) -> None:
        """Append a compaction of all events so far, or of those up to a number.

        Without parts, what follows it replaces what it covers.
        """
        last_seq = len(self.events) if last_seq is None else last_seq
        if last_seq < 1:  # what it covers is in another file
            if parts:
                self.append("user", {"parts": parts}, **about)
            return
        covers = {"first_seq": 1, "last_seq": last_seq}
        more = {key: about.pop(key) for key in ("made_by", "metadata") if key in about}
        body: Body = {"parts": parts, "covers": covers, "origin": "model", **more}
        self.append("compaction", body, **about)


def as_time(value: Json) -> Json:
    """Return a time as ISO 8601 text; a number counts seconds, or milliseconds, since 1970."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return value
    try:
        return datetime.fromtimestamp(value / (1_000 if value > 1e11 else 1), UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return None


def protocol_of(*names: str) -> str:
    """Return the protocol whose blocks a vendor signs, by what its API, provider or model is called."""
    for name in map(str.lower, names):
        if "openrouter" in name or "completions" in name:
            return "openai_chat"
        for said, protocol in _PROTOCOLS.items():
            if said in name:
                return protocol
    return "openai_chat"


_PROTOCOLS: Final = {
    "anthropic": "anthropic",
    "claude": "anthropic",
    "google": "gemini",
    "gemini": "gemini",
    "openai": "openai_responses",
    "codex": "openai_responses",
    "azure": "openai_responses",
}


def read_native(protocol: str, block: JsonObject) -> list[JsonObject]:
    """Return the parts that a provider's own reader makes of a block of a reply."""
    module: Any = import_module(f"context_assembler.providers.{protocol}")
    message: JsonObject = {"role": "model", "parts": [block]}
    if protocol != "gemini":
        message = {"role": "assistant", "content": [block]}
    read = module.read_messages([block if protocol == "openai_responses" else message])
    return [part for _, body in read for part in body["parts"]]


def thinking(
    text: str, protocol: str, *, signature: str = "", id: str = "", redacted: str = ""
) -> list[JsonObject]:
    """Return reasoning; signed by the vendor of a protocol it is that vendor's own block."""
    block: JsonObject = {}
    if protocol == "anthropic" and signature:
        block = {"type": "thinking", "thinking": text, "signature": signature}
    elif protocol == "anthropic" and redacted:
        block = {"type": "redacted_thinking", "data": redacted}
    elif protocol == "gemini" and signature:
        block = {"text": text, "thought": True, "thoughtSignature": signature}
    elif protocol == "openai_responses" and (signature or id):
        summary = [{"type": "summary_text", "text": text}] if text else []
        sealed = {"encrypted_content": signature} if signature else {}
        block = {"type": "reasoning", **({"id": id} if id else {}), "summary": summary, **sealed}
    if block:
        return read_native(protocol, block)
    return [{"type": "thinking", "text": text, "provider": protocol}] if text else []


def made_by(protocol: str, model: str, *, usage: JsonObject | None = None, **more: str) -> Fields:
    """Return where a reply came from; nothing if nobody says which model wrote it.

    Args:
        usage: Counts by the names of `Usage`; the input is the whole prompt.
        more: `response_id` and `stop_reason`.
    """
    if not model:
        return {}
    counts = {key: wire.count_of(count) for key, count in (usage or {}).items()}
    said = {key: text for key, text in more.items() if text}
    told: Fields = {"provider": protocol, "model": model, **said}
    return told | ({"usage": counts} if any(counts.values()) else {})
