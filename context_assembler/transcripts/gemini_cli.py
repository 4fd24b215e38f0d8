"""Sessions of Gemini CLI: one JSON file with the messages of user and model, or JSON Lines.

A message of the model holds its calls together with their results. A line with the id of an earlier
message takes its place; `$rewindTo` removes a message and all that follow, `$set` changes what
describes the session, or all messages. packages/core/src/services/chatRecordingService.ts of
google-gemini/gemini-cli at 5411f11 (read 2026-11-30).
"""

from typing import Final

from context_assembler.events import Body, JsonObject
from context_assembler.providers import gemini
from context_assembler.providers.wire import as_list, as_object, as_text, count_of
from context_assembler.transcripts.pieces import Builder, Fields, made_by, program, result_of
from context_assembler.transcripts.source import Reading, Row, Rows

_SAID: Final = ("user", "gemini")
_OF_CLIENT: Final = ("info", "error", "warning")
_CALL: Final = ("id", "name", "args")


def _takes(row: JsonObject) -> bool:
    is_head = "sessionId" in row and "projectHash" in row and "type" not in row
    is_message = row.get("type") in _SAID + _OF_CLIENT
    is_message = is_message and isinstance(row.get("content", ""), str | list | dict | None)
    is_message = is_message and not row.keys() & {"role", "message", "uuid", "session_id"}
    return is_head or is_message or bool(row.keys() & {"$set", "$rewindTo"})


def _marks(row: JsonObject) -> bool:
    return "projectHash" in row or row.get("type") == "gemini"


def _head(rows: Rows) -> bool | None:
    return (rows.key == "messages" and "sessionId" in rows.head) or None


def _read(builder: Builder) -> None:
    reader = gemini.ContentReader(builder.note)
    for row, message in _messages(builder.reading):
        builder.row, kind = row, message.get("type")
        if kind in _OF_CLIENT:
            builder.leave(f"messages of type {kind}", "are the client's own")
            continue
        content = reader.parts(message.get("content"), "content")
        if kind == "user":
            builder.append("user", {"parts": content}, message)
            continue
        calls = [as_object(call) for call in as_list(message.get("toolCalls"))]
        thoughts = [_thought(as_object(one)) for one in as_list(message.get("thoughts"))]
        said = [part for part in content if part != {"type": "text", "text": ""}]
        asked = [{"type": "tool-call"} | {key: call.get(key) for key in _CALL} for call in calls]
        parts = [*builder.pieces(thoughts, "gemini"), *said, *builder.pieces(asked, "gemini")]
        body: Body = {"parts": parts}
        if maker := _made_by(message):
            body["made_by"] = maker
        builder.append("assistant", body, message)
        for call in calls:
            if call.get("result"):
                parts = reader.parts(call["result"], "toolCalls.result")
                held = [one for part in parts for one in part.get("content", [part])]
                is_error = call.get("status") in ("error", "cancelled") or any(
                    part.get("is_error") for part in parts
                )
                result = result_of(as_text(call.get("id")), held, is_error=is_error)
                about = {"timestamp": call.get("timestamp")}
                builder.append("tool_result", {"parts": [result]}, about)


def _messages(reading: Reading) -> list[tuple[Row, JsonObject]]:
    """Return the messages that count, each with its row."""
    found: dict[str, tuple[Row, JsonObject]] = {}
    for row in reading.rows:
        fields, ids = row.fields, [*found]
        back = fields.get("$rewindTo")
        about = as_object(fields.get("$set")) or (fields if "projectHash" in fields else {})
        key = as_text(fields.get("id")) or f"#{row.at}"
        if back is not None:
            removed = ids[ids.index(back) :] if back in ids else ids
            found = {key: one for key, one in found.items() if key not in removed}
            reading.use(row)
        elif about:
            if isinstance(about.get("messages"), list):
                given = enumerate(map(as_object, about["messages"]))
                found = {as_text(one.get("id")) or f"#{row.at}/{n}": (row, one) for n, one in given}
            reading.metadata |= {name: one for name, one in about.items() if name != "messages"}
            reading.use(row)
        elif _takes(fields):
            found[key] = row, fields
    counting = {row.at for row, _ in found.values()}
    for row in reading.rows:
        if "type" in row.fields and row.at not in counting and _takes(row.fields):
            reason = "were completed, replaced or taken back; left out"
            reading.leave(row, "earlier messages", reason)
    return [*found.values()]


def _thought(thought: JsonObject) -> Fields:
    lines = (str(thought.get("subject") or ""), str(thought.get("description") or ""))
    return {"type": "thinking", "text": "\n".join(filter(None, lines))}


def _made_by(message: JsonObject) -> Fields:
    """Return who wrote a reply; what the cache held is part of the input."""
    tokens = as_object(message.get("tokens"))
    names = {"input": "input_tokens", "cached": "cache_read_tokens", "thoughts": "reasoning_tokens"}
    usage: Fields = {meant: tokens.get(name) for name, meant in names.items()}
    usage["output_tokens"] = count_of(tokens.get("output")) + count_of(tokens.get("thoughts"))
    return made_by("gemini", message.get("model"), usage)


GEMINI_CLI: Final = program("gemini_cli", _takes, _read, marks=_marks, head=_head)
