"""Parts and events as the readers of other programs' formats make them.

Messages of other programs consist of few kinds of pieces under many names: text, reasoning, calls,
results and files. A reader brings a piece into one level, with its kind as `type`; here it becomes a
stored part. What is left of a message is kept as metadata; what is left of a piece is reported.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any, Final

from context_assembler.events import Body, Json, JsonObject, compact_json
from context_assembler.providers import wire
from context_assembler.providers.wire import as_list, as_object, as_text, text_part, without_nulls
from context_assembler.transcripts.source import Format, Reading, Row, Rows

Fields = dict[str, Json]
Flatten = Callable[[Fields], Iterable[Json]]  # pieces on one level; texts are pieces as well

STEP: Final[JsonObject] = {
    "type": "step"
}  # what stands behind it was said after the results before
_KINDS: Final = {
    kind: name
    for name, kinds in {
        "text": "text text-plain input_text output_text text-content retry-prompt",
        "thinking": "thinking reasoning redacted_thinking redactedThinking redacted-reasoning",
        "call": "tool-call toolCall tool_call tool_use toolUse builtin-tool-call function_call",
        "result": "tool-result toolResult tool-return builtin-tool-return",
        "file": "image file document audio video binary image-url document-url audio-url video-url",
        "step": "step-start step",
    }.items()
    for kind in kinds.split()
}
# By what is meant: how programs call the field. A field stands in one place of a piece.
_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "id": ("toolCallId", "tool_call_id", "toolUseId", "callID", "call_id", "id"),
    "name": ("toolName", "tool_name", "name", "tool"),
    "arguments": ("input", "args", "arguments", "tool_kwargs", "rawInput"),
    "text": ("text", "thinking", "reasoning", "content"),
    "signature": ("signature", "thinkingSignature", "thoughtSignature", "textSignature"),
    "output": ("output", "result", "content", "errorText"),
    "media_type": ("mediaType", "mimeType", "mime_type", "media_type", "mime", "contentType"),
    "data": ("data", "base64", "image", "audio", "video"),
    "url": ("url", "path"),
    "title": ("filename", "title", "name"),
}
_COUNTS: Final[Mapping[str, tuple[str, ...]]] = {
    "input_tokens": ("input_tokens", "input"),
    "output_tokens": ("output_tokens", "output"),
    "cache_read_tokens": (
        "cache_read_tokens",
        "cached_input_tokens",
        "cacheRead",
        "cache_read",
        "read",
    ),
    "cache_write_tokens": ("cache_write_tokens", "cacheWrite", "cache_creation", "write"),
    "reasoning_tokens": ("output_reasoning_tokens", "reasoning_output_tokens", "reasoning"),
}
_FAILED: Final = ("error", "failed", "denied", "interrupted", "retried")
_IN_RESULTS: Final = ("text", "image", "document", "opaque")
_PROTOCOLS: Final = {
    **dict.fromkeys(("openrouter", "completions"), "openai_chat"),
    **dict.fromkeys(("anthropic", "claude"), "anthropic"),
    **dict.fromkeys(("google", "gemini"), "gemini"),
    **dict.fromkeys(("openai", "azure", "codex"), "openai_responses"),
}


class Builder:
    """The events of one transcript in the making; what has no place is reported with its line."""

    def __init__(self, reading: Reading, name: str, flatten: Flatten) -> None:
        self.reading = reading
        self._name, self._flatten = name, flatten
        self.row = Row(0, None, {})
        self._ids = set[str]()
        self._is_damaged = False  # whether something in the row could not be read

    def rows(self) -> Iterator[Fields]:
        """Yield a copy of every row without its nulls."""
        for row in self.reading.rows:
            self.row, self._is_damaged = row, False
            if row.fields:
                yield without_nulls(row.fields)

    def note(self, what: str, reason: str) -> None:
        self._is_damaged = True
        where = "" if self.row.line else f"row[{self.row.at}]."
        self.reading.issues.note(where + what, reason, self.row.line)

    def leave(self, what: str, reason: str, *, is_known: bool = True) -> None:
        """List the row as left out."""
        self.reading.leave(self.row, what, reason, is_known=is_known)

    def use(self) -> None:
        """Count the row as read."""
        self.reading.use(self.row)

    # -- parts --

    def take(self, fields: Fields, meant: str, *, is_needed: bool = False) -> str:
        """Take a text, by what is meant, out of the other fields; report any other value."""
        name = next((name for name in _NAMES.get(meant, ()) if name in fields), meant)
        value = fields.pop(name, None)
        if not isinstance(value, str) and (is_needed or value is not None):
            self.note(name, "is missing" if value is None else f"is no text ({value!r:.40})")
        return value if isinstance(value, str) else ""

    def pieces(self, content: Json, vendor: str = "openai_chat") -> list[JsonObject]:
        """Return text, or a list of texts and pieces, as parts; report what is unknown."""
        if content is not None and not isinstance(content, str | Mapping | list | tuple):
            self.note("content", f"is neither text nor a list ({content!r:.40}); left out")
        parts: list[JsonObject] = []
        for given in as_list(content) or [content] * bool(content):
            flat = self._flatten(without_nulls(given)) if isinstance(given, Mapping) else [given]
            for piece in flat:
                fields = without_nulls(as_object(piece))
                kind = as_text(fields.pop("type", None))
                if isinstance(piece, str):
                    parts += [text_part(piece)] if piece else []
                elif kind in _KINDS:
                    parts += self._piece(_KINDS[kind], kind, fields, vendor)
                    if fields:
                        what = f"fields of {kind} parts ({', '.join(sorted(fields))})"
                        self.reading.issues.count(what, "have no place; left out", self.row.line)
                else:
                    what = kind or next(iter(fields), piece)
                    self.note("content", f"holds {what!r:.40}, which has no place; left out")
        return parts

    def _piece(self, name: str, kind: str, fields: Fields, vendor: str) -> list[JsonObject]:
        vendor = as_text(fields.pop("vendor", None)) or vendor
        if name == "step":
            fields.clear()
            return [STEP]
        if name == "file":
            return self._file(kind, fields)
        if name == "result":
            return self._result(fields, vendor)
        signature = self.take(fields, "signature")
        signed = {"signature": signature} if signature and vendor == "gemini" else {}
        if name == "text":
            text = self.take(fields, "text", is_needed=True)
            return [{**text_part(text), **signed}] if text else []
        if name == "thinking":
            redacted = self.take(fields, "redacted")
            text = self.take(fields, "text", is_needed=not (redacted or signature))
            return _thinking(text, vendor, signature, self.take(fields, "id"), redacted)
        call_id = self.take(fields, "id", is_needed=True)
        given = next((fields.pop(key) for key in _NAMES["arguments"] if key in fields), None)
        warnings: list[str] = []
        call = wire.read_call(call_id, self.take(fields, "name", is_needed=True), given, warnings)
        for warning in warnings:
            self.note("arguments", warning)
        return [{**call, **signed}]

    def _result(self, fields: Fields, vendor: str) -> list[JsonObject]:
        """Return the result of a call: of `parts`, or of a value, which becomes text or JSON."""
        part: Fields = {"type": "tool_result", "call_id": self.take(fields, "id", is_needed=True)}
        told = {fields.pop(key, None) is True for key in ("isError", "is_error")}
        is_error = True in told or fields.pop("status", "") in _FAILED or "errorText" in fields
        if "parts" in fields:
            content = self.pieces(fields.pop("parts"), vendor)
        else:
            output = next((fields.pop(key) for key in _NAMES["output"] if key in fields), "")
            said = output if isinstance(output, str) else compact_json(output)
            content = [text_part(said)] if said else []
        part["content"] = [one for one in content if one["type"] in _IN_RESULTS]
        if len(part["content"]) < len(content):
            self.note("content", "of a result holds what no result has; left out")
        name = self.take(fields, "name")
        part |= {"is_error": True} if is_error else {}
        return [part | ({"tool_name": name} if name else {})]

    def _file(self, kind: str, fields: Fields) -> list[JsonObject]:
        from context_assembler.providers.media import begins_as, media_of

        media_type, title = self.take(fields, "media_type"), self.take(fields, "title")
        data, url = self.take(fields, "data"), self.take(fields, "url")
        if data.startswith(("http:", "https:", "data:")):
            data, url = "", data
        if "/" not in media_type or media_type.endswith("*"):
            kind = media_type.partition("/")[0] or kind
            media_type = begins_as(data)
        kind = "image" if f"{media_type} {kind}".lstrip().startswith("image") else "file"
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
        about: JsonObject | None = None,
        made_by: Fields | None = None,
        kept: JsonObject | None = None,
        origin: str = "",
    ) -> None:
        """Append the events of a message: what a role said, and every result.

        Results stand in front of what the user says next to them, and behind what a model said. Of
        a reply with several steps the last one has the usage.
        """
        kind = role if role in ("user", "assistant") else "system"
        steps: list[list[JsonObject]] = [[]]
        for part in parts:
            if part is STEP:
                steps.append([])
            else:
                steps[-1].append(part)
        made: list[tuple[str, Body]] = []
        for step in steps:
            said = [part for part in step if part["type"] != "tool_result"]
            body: Body = {"parts": said, "origin": origin} if origin else {"parts": said}
            answers = [("tool_result", {"parts": [p]}) for p in step if p["type"] == "tool_result"]
            spoken = [(kind, body)] if said else []
            made += spoken + answers if kind == "assistant" else answers + spoken
        if not made:
            what, reason = f"messages of role {role}", "hold nothing for a model; left out"
            self.leave(what, reason, is_known=not self._is_damaged)
        replies = (
            [body for event_type, body in made if event_type == "assistant"] if made_by else []
        )
        for reply in replies:
            hidden = None if reply is replies[-1] else "usage"
            reply["made_by"] = {k: v for k, v in as_object(made_by).items() if k != hidden}
        if made and kept:
            made[0][1]["metadata"] = {self._name: dict(kept)}
        for event_type, body in made:
            self.append(event_type, body, about)

    def append(self, event_type: str, body: Body, about: JsonObject | None = None) -> None:
        """Append one event with `id` and `created_at`; an id that is taken gets a number."""
        told = about or {}
        free, number = as_text(told.get("id")), 1
        while free in self._ids:
            number += 1
            free = f"{as_text(told.get('id'))}#{number}"
        self._ids |= {free} if free else set()
        self.reading.add(self.row, event_type, body, id=free, created_at=told.get("created_at"))

    def compact(
        self,
        parts: list[JsonObject],
        about: JsonObject | None = None,
        *,
        last_seq: int | None = None,
        made_by: Fields | None = None,
    ) -> None:
        """Append a compaction of all events so far, or of those up to a number.

        Without parts, what follows it stands for what it covers.
        """
        last_seq = len(self.reading.events) if last_seq is None else last_seq
        if last_seq > 0:
            body: Body = {"parts": parts, "covers": {"first_seq": 1, "last_seq": last_seq}}
            body |= {"made_by": made_by} if made_by else {}
            self.append("compaction", {**body, "origin": "model"}, about)
        elif parts:  # what it covers is in another file
            self.append("user", {"parts": parts}, about)


def _thinking(
    text: str, protocol: str, signature: str, own_id: str, redacted: str
) -> list[JsonObject]:
    """Return reasoning; signed by a vendor it is that vendor's own block."""
    block: JsonObject = {}
    if protocol == "anthropic" and signature:
        block = {"type": "thinking", "thinking": text, "signature": signature}
    elif redacted:
        block, protocol = {"type": "redacted_thinking", "data": redacted}, "anthropic"
    elif protocol == "gemini" and signature:
        block = {"text": text, "thought": True, "thoughtSignature": signature}
    elif protocol == "openai_responses" and signature:
        summary = [{"type": "summary_text", "text": text}] if text else []
        block = {"type": "reasoning", "summary": summary, "encrypted_content": signature}
        block |= {"id": own_id} if own_id else {}
    if block:
        return read_native(protocol, block)
    return [{"type": "thinking", "text": text, "provider": protocol}] if text else []


def read_native(protocol: str, block: JsonObject) -> list[JsonObject]:
    """Return the parts that a provider's own reader makes of a block of a reply."""
    module: Any = import_module(f"context_assembler.providers.{protocol}")
    role, key = ("model", "parts") if protocol == "gemini" else ("assistant", "content")
    read = module.read_messages(
        [block if protocol == "openai_responses" else {"role": role, key: [block]}]
    )
    return [part for _, body in read for part in body["parts"]]


def protocol_of(*names: Json) -> str:
    """Return the protocol of whom signs blocks, by the name of an API, a provider or a model."""
    known = (
        protocol
        for name in names
        for said, protocol in _PROTOCOLS.items()
        if said in as_text(name).lower()
    )
    return next(known, "openai_chat")


def made_by(protocol: str, model: Json, usage: JsonObject, **more: Json) -> Fields:
    """Return where a reply came from; nothing if nobody says which model wrote it.

    Args:
        usage: What the program says that the call took; details may stand in objects of their own.
        more: `response_id` and `stop_reason`.
    """
    flat = dict(usage)
    for held in usage.values():
        flat |= as_object(held)
    counts = {
        key: next((count for name in names if (count := wire.count_of(flat.get(name)))), 0)
        for key, names in _COUNTS.items()
    }
    if "input" in flat:  # without what the cache held
        counts["input_tokens"] += counts["cache_read_tokens"] + counts["cache_write_tokens"]
    told: Fields = {"provider": protocol, "model": model}
    told |= {key: text for key, text in more.items() if text and isinstance(text, str)}
    told |= {"usage": counts} if any(counts.values()) else {}
    return told if isinstance(model, str) and model else {}


def program(
    name: str,
    takes: Callable[[JsonObject], bool],
    read: Callable[[Builder], None],
    flatten: Flatten,
    *,
    marks: Callable[[JsonObject], bool] = bool,
    keys: tuple[str, ...] = ("messages",),
    head: Callable[[Rows], bool | None] = lambda _rows: None,
) -> Format:
    """Return the format of a program; what stands around its rows is kept as metadata."""

    def read_all(reading: Reading) -> None:
        holder = reading.key.partition(".")[0]
        reading.metadata |= {key: held for key, held in reading.head.items() if key != holder}
        read(Builder(reading, name, flatten))

    return Format(takes, marks, read_all, keys, head)
