"""Parts and events as the readers of other programs' formats make them.

Messages of other programs hold a few kinds of pieces under many names: text, reasoning, calls, results
and files. A reader brings each piece to one level, with its kind as `type`; here it becomes a stored
part. What is left of a message is kept as metadata; what is left of a piece is reported.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from context_assembler.events import Body, Json, JsonObject, compact_json
from context_assembler.providers import wire
from context_assembler.providers.wire import as_object, as_text, text_part, without_nulls
from context_assembler.transcripts.source import Format, Reading, Row, listed

Fields = dict[str, Json]
Flatten = Callable[[Fields], Iterable[Json]]  # a piece as pieces on one level; texts are pieces too


def by_name(**names: str) -> dict[str, str]:
    """Return what each of the listed names means."""
    return {name: meant for meant, listed in names.items() for name in listed.split()}


_ROLES: Final = by_name(
    user="user human tool function toolResult custom hookMessage bashExecution branchSummary",
    assistant="assistant ai model chatbot",
    system="system developer",
)
_KINDS: Final = by_name(
    text="text text-plain input_text output_text text-content",
    thinking="thinking reasoning redacted_thinking redactedThinking redacted-reasoning redacted",
    call="tool-call toolCall tool_call tool_use toolUse builtin-tool-call function_call",
    result="tool-result toolResult tool-return builtin-tool-return",
    file="image file document audio video binary media image-url document-url audio-url video-url "
    "file-url image-data file-data",
    step="step-start",
    own="cache-point cachePoint source source-url source-document step-finish snapshot patch agent "
    "retry subtask toolConfirmationRequest actionRequired systemNotification conversationCompacted",
)
# What programs call a field, by what is meant; a piece has one of them.
_NAMES: Final = {
    "call": "toolCallId tool_call_id toolUseId callID call_id id",
    "name": "toolName tool_name name tool",
    "arguments": "input args arguments tool_kwargs rawInput",
    "text": "text thinking reasoning content",
    "signature": "signature thinkingSignature thoughtSignature",
    "output": "output result content errorText",
    "failure": "status outcome isError is_error",
    "media_type": "mediaType mimeType mime_type media_type mime contentType",
    "data": "data base64 image audio video",
    "url": "url path",
    "title": "filename title name",
    "time": "timestamp createdAt created",
    "provider": "provider_name api provider providerID model_provider",
    "model": "model_name model modelID modelId",
    "usage": "usage tokens usage_metadata",
    "stop_reason": "finish_reason stop_reason stopReason finish",
    "response_id": "provider_response_id response_id",
    "input_tokens": "input_tokens input",
    "output_tokens": "output_tokens output",
    "cache_read_tokens": "cache_read_tokens cached_input_tokens cacheRead cache_read read",
    "cache_write_tokens": "cache_write_tokens cacheWrite cache_creation write",
    "reasoning_tokens": "reasoning_tokens output_reasoning_tokens reasoning_output_tokens reasoning",
}
_FAILURES: Final = (True, "error", "failed", "denied", "interrupted", "retried")
_IN_RESULTS: Final = ("text", "image", "document", "opaque")
_PROTOCOLS: Final = by_name(
    openai_chat="openrouter completions",
    anthropic="anthropic claude",
    gemini="google gemini",
    openai_responses="openai azure codex",
)
_STEP: Final[JsonObject] = {"type": "step"}  # what follows was said after the results before it


def pop(fields: Fields, meant: str) -> Json:
    """Take a field out of the others, by what is meant."""
    name = next((name for name in _NAMES[meant].split() if name in fields), "")
    return fields.pop(name, None)


class Builder:
    """The events of one transcript in the making; what has no place is reported with its line."""

    def __init__(self, reading: Reading, flatten: Flatten) -> None:
        self.reading, self.row = reading, Row(0, None, {})
        self._flatten = flatten
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
        self.reading.leave(self.row, what, f"{reason}; left out", is_known=is_known)

    # -- parts --

    def pieces(self, content: Json, vendor: str = "openai_chat") -> list[JsonObject]:
        """Return text, or a list of texts and pieces, as parts; report what is unknown."""
        parts: list[JsonObject] = []
        for given in listed(content) if content is not None else ():
            own = as_object(given)
            for piece in self._flatten(without_nulls(own)) if own else [given]:
                said = text_part(piece) if isinstance(piece, str) else as_object(piece)
                fields = without_nulls(said)
                kind = as_text(fields.pop("type", None))
                name = _KINDS.get(kind, "own" * kind.startswith(("data-", "tool-approval-")))
                if name == "own":
                    self._count(f"{kind} parts", "are the client's own; left out")
                elif name:
                    parts += self._piece(name, kind, fields, vendor)
                    if left := sorted(key for key, held in fields.items() if held):
                        what = f"fields of {kind} parts ({', '.join(left)})"
                        self._count(what, "have no place; left out")
                else:
                    what = kind or next(iter(fields), piece)
                    self.note("content", f"holds {what!r:.40}, which has no place; left out")
        return parts

    def _count(self, what: str, reason: str) -> None:
        self.reading.issues.count(what, reason, self.row.line)

    def _text(self, fields: Fields, meant: str, *, is_needed: bool = False) -> str:
        """Take a text out of the fields of a piece; report any other value."""
        value = pop(fields, meant)
        if not isinstance(value, str) and (is_needed or value is not None):
            self.note(meant, "is missing" if value is None else f"is not text ({value!r:.40})")
        return as_text(value)

    def _piece(self, name: str, kind: str, fields: Fields, vendor: str) -> list[JsonObject]:
        vendor = as_text(fields.pop("vendor", None)) or vendor
        if name == "step":
            fields.clear()
            return [_STEP]
        if name in ("file", "result"):
            return self._file(kind, fields) if name == "file" else [self._result(fields, vendor)]
        signature = self._text(fields, "signature")
        signed = {"signature": signature} if signature and vendor == "gemini" else {}
        if name == "text":
            text = self._text(fields, "text", is_needed=True)
            return [{**text_part(text), **signed}] if text else []
        if name == "thinking":
            sealed = as_text(fields.pop("redacted", None)) or as_text(fields.pop("data", None))
            text = self._text(fields, "text", is_needed=not (sealed or signature))
            if sealed or (signature and vendor == "openai_chat"):  # nobody said whose it is
                vendor = "anthropic"
            return _thinking(text, vendor, signature, sealed, fields.pop("id", None))
        call_id = self._text(fields, "call", is_needed=True)
        called, given = self._text(fields, "name", is_needed=True), pop(fields, "arguments")
        return [{**wire.read_call(call_id, called, given, "arguments", self.note), **signed}]

    def _result(self, fields: Fields, vendor: str) -> JsonObject:
        """Return the result of a call: of `parts`, or of a value, which becomes text or JSON."""
        call_id = self._text(fields, "call", is_needed=True)
        is_error = pop(fields, "failure") in _FAILURES or "errorText" in fields
        if "parts" in fields:
            content = self.pieces(fields.pop("parts"), vendor)
        else:
            output = pop(fields, "output")
            said = output if isinstance(output, str | None) else compact_json(output)
            content = [text_part(said)] if said else []
        name, part = self._text(fields, "name"), result_of(call_id, content, is_error=is_error)
        if len(part["content"]) < len(content):
            self.note("content", "of a result holds what no result has; left out")
        return part | ({"tool_name": name} if name else {})

    def _file(self, kind: str, fields: Fields) -> list[JsonObject]:
        from context_assembler.providers.media import begins_as, decode_base64, media_of

        media_type, title = self._text(fields, "media_type"), self._text(fields, "title")
        data, url = self._text(fields, "data"), self._text(fields, "url")
        if data.startswith(("http:", "https:", "data:")):
            data, url = "", data
        if data and not begins_as(data):
            inner = decode_base64(data).decode("ascii", "replace")
            data = inner if begins_as(inner) else data  # bytes that were base64 already
        if "/" not in media_type or media_type.endswith("*"):
            kind, media_type = media_type.partition("/")[0] or kind, begins_as(data)
        kind = "image" if f"{media_type or kind}".startswith("image") else "file"
        about = {"type": kind, "media_type": media_type, "data": data, "url": url}
        part = media_of({**about, "filename": title}, "")
        if part is None:
            self.note("content", "shows a file without bytes or address; left out")
        return [] if part is None else [part]

    # -- events --

    def say(self, message: Fields, role: Json, content: Json, *, origin: str = "") -> None:
        """Append the events of a message: what a role said, and every result.

        Results stand in front of what the user says next to them, and behind what a model said. Of
        a reply with several steps the last one has the usage.
        """
        kind = _ROLES.get(as_text(role))
        if kind is None:
            self.leave("role", f"is {role!r:.40}, which is unknown", is_known=False)
            return
        about = {"id": message.pop("id", None), "timestamp": pop(message, "time")}
        told = {meant: pop(message, meant) for meant in ("stop_reason", "response_id")}
        provider, model, usage = (pop(message, name) for name in ("provider", "model", "usage"))
        vendor = protocol_of(provider, model)
        maker = made_by(vendor, model, as_object(usage), **told) if kind == "assistant" else {}
        steps: list[list[JsonObject]] = [[]]
        for part in self.pieces(content, vendor):
            if part is _STEP:
                steps.append([])
            else:
                steps[-1].append(part)
        common: Body = {"origin": origin} if origin else {}
        common |= {"made_by": {k: v for k, v in maker.items() if k != "usage"}} if maker else {}
        made: list[tuple[str, Body]] = []
        for step in steps:
            said = [part for part in step if part["type"] != "tool_result"]
            answers = [("tool_result", {"parts": [p]}) for p in step if p["type"] == "tool_result"]
            spoken = [(kind, {**common, "parts": said})] if said else []
            made += spoken + answers if kind == "assistant" else answers + spoken
        if not made:
            what, is_known = f"messages of role {role}", not self._is_damaged
            self.leave(what, "hold nothing for a model", is_known=is_known)
        replies = [body for event_type, body in made if event_type == "assistant"]
        if maker and replies:
            replies[-1]["made_by"] = maker
        if message and made:
            made[0][1]["metadata"] = {self.reading.format: message}
        for event_type, body in made:
            self.append(event_type, body, about)

    def append(self, event_type: str, body: Body, about: JsonObject) -> None:
        """Append one event with a message's id and time."""
        self.reading.add(
            self.row, event_type, body, id=about.get("id"), time=pop({**about}, "time")
        )

    def compact(
        self, parts: list[JsonObject], about: JsonObject, last_seq: int | None = None, **body: Json
    ) -> None:
        """Append a compaction of all events so far, or of those up to a number.

        The system prompt stays. Without parts, what follows stands for what is covered.
        """
        excluded_ids = body.pop("excluded_ids", [])  # of what stays
        kinds = [event_type for event_type, *_ in self.reading.events]
        last_seq = len(kinds) if last_seq is None else last_seq
        first_seq = next((at for at, kind in enumerate(kinds, 1) if kind != "system"), 1)
        if last_seq >= first_seq:
            covers: Fields = {"first_seq": first_seq, "last_seq": last_seq}
            covers |= {"excluded_ids": excluded_ids} if excluded_ids else {}
            body |= {} if parts else {"metadata": {"replaced_by": self.reading.format}}
            body |= {"parts": parts, "covers": covers, "origin": "model"}
            self.append("compaction", body, about)
        elif parts:  # what it covers is in another file
            self.append("user", {"parts": parts, **body}, about)
        self.reading.use(self.row)


def result_of(call_id: str, content: Iterable[JsonObject], *, is_error: bool) -> Fields:
    """Return the result of a call with what a result may hold."""
    kept = [part for part in content if part["type"] in _IN_RESULTS]
    part: Fields = {"type": "tool_result", "call_id": call_id, "content": kept}
    return part | ({"is_error": True} if is_error else {})


def _thinking(text: str, protocol: str, signature: str, sealed: str, own: Json) -> list[JsonObject]:
    """Return reasoning; signed by a vendor it is that vendor's own block."""
    summary = [{"type": "summary_text", "text": text}] if text else []
    item = {"type": "reasoning", "id": own, "summary": summary, "encrypted_content": signature}
    blocks: dict[str, Fields] = {
        "anthropic": {"type": "thinking", "thinking": text, "signature": signature},
        "gemini": {"text": text, "thought": True, "thoughtSignature": signature},
        "openai_responses": without_nulls(item),
    }
    block = {"type": "redacted_thinking", "data": sealed} if sealed else blocks.get(protocol)
    part: Fields = {"type": "thinking", "provider": protocol} | ({"text": text} if text else {})
    is_own = bool(signature or sealed) and block is not None
    return [part | {"block": block}] if is_own else [part] if text else []


def protocol_of(*names: Json) -> str:
    """Return the protocol of whom signs blocks, by the name of an API, a provider or a model."""
    told = (as_text(name).lower() for name in names)
    known = (_PROTOCOLS[one] for name in told for one in _PROTOCOLS if one in name)
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
    is_rest = "input" in flat  # of the prompt, without what the cache held
    counts = {name: wire.count_of(pop(flat, name)) for name in _NAMES if name.endswith("_tokens")}
    if is_rest:
        counts["input_tokens"] += counts["cache_read_tokens"] + counts["cache_write_tokens"]
    told: Fields = {"provider": protocol, "model": model}
    told |= {key: text for key, text in more.items() if text and isinstance(text, str)}
    told |= {"usage": counts} if any(counts.values()) else {}
    return told if isinstance(model, str) and model else {}


def program(
    name: str,
    takes: Callable[[JsonObject], bool],
    read: Callable[[Builder], None],
    flatten: Flatten = lambda piece: [piece],
    keys: str = "messages",
    *,
    marks: Callable[[JsonObject], bool] = bool,
    **more: Any,
) -> dict[str, Format]:
    """Return the format of a program by its name; what stands around its rows becomes metadata."""

    def read_all(reading: Reading) -> None:
        holder = reading.key.partition(".")[0]
        head = without_nulls(reading.head)
        reading.metadata |= {key: held for key, held in head.items() if key != holder}
        read(Builder(reading, flatten))

    return {name: Format(takes, marks, read_all, tuple(keys.split()), **more)}
