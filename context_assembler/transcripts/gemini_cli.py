"""Sessions as Gemini CLI keeps them: one JSON file with the messages of user and model.

A message of the model holds its calls together with their results.
"""

from collections.abc import Iterator
from typing import Any

from context_assembler.events import Body, Json, JsonObject
from context_assembler.providers import gemini
from context_assembler.providers.wire import as_list, as_object
from context_assembler.transcripts.source import Issues, Rows


def matches(parsed: Rows) -> bool:
    """Whether the source is such a session."""
    if parsed.has_lines:
        return False
    session = as_object(parsed.rows[0].value)
    messages = session.get("messages")
    return (
        "sessionId" in session
        and isinstance(messages, list)
        and all(
            isinstance(as_object(m).get("type"), str) and "role" not in as_object(m)
            for m in as_list(messages)
        )
    )


def read_session(
    session: JsonObject, issues: Issues
) -> Iterator[tuple[str, Body, dict[str, Json]]]:
    """Yield type, body, and id and time of each event; the client's own messages are reported."""

    def note(where: str, what: str) -> None:
        issues.note(where, what)

    reader = gemini.ContentReader(note)
    for at, message in enumerate(map(as_object, session["messages"])):
        kind, where = message.get("type"), f"messages[{at}]"
        about = {"id": str(message.get("id") or ""), "created_at": message.get("timestamp")}
        if kind not in ("user", "gemini"):
            issues.count(f"messages of type {kind}", "are the client's own; left out")
            continue
        content = reader.parts(message.get("content"), f"{where}.content")
        if kind == "user":
            yield "user", {"parts": content}, about
            continue
        calls = [as_object(call) for call in message.get("toolCalls") or ()]
        thoughts = (_thought(as_object(one)) for one in message.get("thoughts") or ())
        said = [part for part in content if part != {"type": "text", "text": ""}]
        body: Body = {"parts": [*thoughts, *said, *map(_call, calls)]}
        if made_by := _made_by(message):
            body["made_by"] = made_by
        yield "assistant", body, about
        for number, call in enumerate(calls):
            place = f"{where}.toolCalls[{number}].result"
            if call.get("result"):
                parts = reader.parts(call["result"], place)
                result = {"parts": [_result(call, parts)]}
                yield "tool_result", result, {"created_at": call.get("timestamp")}


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
