"""Sessions of Gemini CLI: one JSON file with the messages of user and model, or JSON Lines.

A message of the model holds its calls together with their results. A line with the id of an earlier
message takes its place; `$rewindTo` removes a message and all that follow, `$set` changes what
describes the session, or all messages. packages/core/src/services/chatRecordingService.ts of
google-gemini/gemini-cli at 5411f11 (read 2026-11-30).
"""

from typing import Any, Final

from context_assembler.events import Body, Json, JsonObject
from context_assembler.providers import gemini
from context_assembler.providers.wire import as_list, as_object, as_text
from context_assembler.transcripts.source import Format, Reading, Row, Rows

_SAID: Final = ("user", "gemini")
_OF_CLIENT: Final = ("info", "error", "warning")


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


def _read(reading: Reading) -> None:
    line: int | None = None

    def note(where: str, what: str) -> None:
        reading.issues.note(where, what, line)

    reader = gemini.ContentReader(note)
    reading.metadata |= reading.head
    for row, message in _messages(reading):
        line = row.line
        kind, where = message.get("type"), f"messages[{row.at}]"
        about = {"id": message.get("id"), "created_at": message.get("timestamp")}
        if kind in _OF_CLIENT:
            reading.leave(row, f"messages of type {kind}", "are the client's own; left out")
            continue
        content = reader.parts(message.get("content"), f"{where}.content")
        if kind == "user":
            reading.add(row, "user", {"parts": content}, **about)
            continue
        calls = [as_object(call) for call in as_list(message.get("toolCalls"))]
        thoughts = (_thought(as_object(one)) for one in as_list(message.get("thoughts")))
        said = [part for part in content if part != {"type": "text", "text": ""}]
        body: Body = {"parts": [*thoughts, *said, *map(_call, calls)]}
        if made_by := _made_by(message):
            body["made_by"] = made_by
        reading.add(row, "assistant", body, **about)
        for number, call in enumerate(calls):
            place = f"{where}.toolCalls[{number}].result"
            if call.get("result"):
                result = {"parts": [_result(call, reader.parts(call["result"], place))]}
                reading.add(row, "tool_result", result, created_at=call.get("timestamp"))


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


def _thought(thought: JsonObject) -> dict[str, Json]:
    lines = (str(thought.get("subject") or ""), str(thought.get("description") or ""))
    text = "\n".join(filter(None, lines))
    return {"type": "thinking", "text": text, "provider": "gemini"}


def _call(call: JsonObject) -> dict[str, Json]:
    made: dict[str, Json] = {"type": "tool_call", "call_id": str(call.get("id") or "")}
    made["name"] = str(call.get("name") or "")
    return made | ({"arguments": dict(args)} if (args := as_object(call.get("args"))) else {})


def _result(call: JsonObject, parts: list[Any]) -> dict[str, Json]:
    """Return the result of a call: its responses' content, and media next to them."""
    content: list[Json] = []
    is_error = call.get("status") in ("error", "cancelled")
    for part in parts:
        if part["type"] == "tool_result":
            content += part.get("content", [])
            is_error = is_error or part.get("is_error", False)
        elif part["type"] in ("text", "image", "document", "opaque"):
            content.append(part)
    made: dict[str, Json] = {"type": "tool_result", "call_id": str(call.get("id") or "")}
    made |= {"content": content} if content else {}
    return made | ({"is_error": True} if is_error else {})


def _made_by(message: JsonObject) -> dict[str, Json]:
    if not message.get("model"):
        return {}
    made: dict[str, Json] = {"provider": "gemini", "model": message["model"]}
    tokens = as_object(message.get("tokens"))
    if tokens:
        thoughts = tokens.get("thoughts") or 0
        made["usage"] = {
            "input_tokens": tokens.get("input") or 0,
            "output_tokens": (tokens.get("output") or 0) + thoughts,
            "cache_read_tokens": tokens.get("cached") or 0,
            "reasoning_tokens": thoughts,
        }
    return made


FORMAT: Final = Format(_takes, _marks, _read, keys=("messages",), head=_head)
