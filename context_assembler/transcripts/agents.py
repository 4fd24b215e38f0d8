"""Sessions of Codex, pi and OpenClaw, opencode and goose, and items of the OpenAI Agents SDK.

Source:
    openai/codex (rollout_reconstruction.rs at 023cedaa, CompactedItem of 2026-08) · badlogic/pi-mono
    at 83378aad (session-manager.ts, messages.ts) · anomalyco/opencode (message-v2.ts at 007a9409,
    export.ts) · block/goose (message.rs at 6416fe74, tool_result_serde.rs) · openai-agents 0.24
    (items.py, run_state.py) (read 2026-11-30)
"""

from collections.abc import Iterator
from typing import Final

from context_assembler.events import Body, Json, JsonObject
from context_assembler.providers import openai_responses
from context_assembler.providers.wire import as_list, as_object, as_text, objects_in, without_nulls
from context_assembler.transcripts.messages import API_FORMATS
from context_assembler.transcripts.pieces import Builder, Fields, made_by, program, protocol_of
from context_assembler.transcripts.source import walk_back

# ---- Codex ----

_CODEX: Final = (
    "session_meta response_item event_msg turn_context compacted world_state realtime_item "
    "inter_agent_communication inter_agent_communication_metadata security_risk_score".split()
)
_INJECTED: Final = ("<", "# AGENTS.md")  # how texts begin that the client sends in the user's name


def _is_codex(row: JsonObject) -> bool:
    return row.get("type") in _CODEX and isinstance(row.get("payload"), dict)


def _read_codex(builder: Builder) -> None:
    """Read a rollout into what Codex itself would resume; what a compaction replaced is covered."""
    events, model = builder.reading.events, ""
    reply: Body = {}  # the one that goes on
    asked: list[tuple[int, Fields]] = []  # what the user said, and the events before it
    known: dict[str, JsonObject] = {}  # items by id, for compactions that name them
    for row in builder.rows():
        kind, payload = as_text(row.get("type")), as_object(row.get("payload"))
        inner = as_text(payload.get("type"))
        if kind == "response_item" and inner != "ghost_snapshot":
            asked += [(len(events), payload)] if _is_asked(payload) else []
            known[as_text(payload.get("id"))] = payload
            reply = _add_item(builder, without_nulls(payload), model, reply)
        elif kind == "compacted":
            kept = objects_in(payload.get("replacement_history"))
            for entry in objects_in(payload.get("replacement_history_entries")):
                kept.append(as_object(entry.get("item", known.get(as_text(entry.get("item_id"))))))
            if "replacement_history" not in payload and not kept:  # as older versions wrote it
                summary = {"role": "user", "content": payload.get("message")}
                kept = [*(item for _, item in asked), summary]
            reply = {}
            if any(map(openai_responses.is_sealed_compaction, kept)):  # for OpenAI alone to open
                opaque = {"type": "opaque", "provider": openai_responses.NAME}
                maker = made_by(openai_responses.NAME, model, {})
                builder.compact([{**opaque, "block": one} for one in kept], row, made_by=maker)
                continue
            builder.compact([], row)
            for item in kept:
                reply = _add_item(builder, item, "", reply)
        elif kind == "session_meta":
            builder.reading.use(builder.row)
            told = payload.pop("base_instructions", payload.pop("instructions", None))
            if "id" not in builder.reading.metadata:  # a fork repeats those of its parents
                for text in builder.pieces(as_object(told).get("text", told)):
                    builder.append("system", {"parts": [text]}, row)
                builder.reading.metadata |= payload
        elif kind == "turn_context":
            builder.reading.use(builder.row)
            model = payload.get("model") or model
        elif kind in _CODEX:
            turns = payload.get("num_turns") if inner == "thread_rolled_back" else None
            if isinstance(turns, int) and turns > 0 and asked:
                del events[asked[-turns:][0][0] :], asked[-turns:]
                what, line = "took turns back; left out", builder.row.line
                builder.reading.issues.count("rollbacks", what, line)
            usage = as_object(as_object(payload.get("info")).get("last_token_usage"))
            spoken = [body for _, body, *_ in events[-9:] if "made_by" in body]
            if usage and spoken and "usage" not in spoken[-1]["made_by"]:
                spoken[-1]["made_by"] = made_by(openai_responses.NAME, model, usage)
                reply = {}
            builder.leave(f"rows of type {inner or kind}", "are the client's own")


def _add_item(builder: Builder, item: JsonObject, model: Json, reply: Body) -> Body:
    """Append an item, to the reply that it goes on with if there is one; return the open reply."""
    maker, row = made_by(openai_responses.NAME, model, {}), builder.row.fields
    for event_type, body in openai_responses.read_messages([item], builder.note):
        if event_type != "assistant":
            builder.append(event_type, body, row)
            reply = {}
        elif reply:
            reply["parts"] += body["parts"]
            builder.reading.use(builder.row)
        else:
            reply = {**body, "made_by": maker} if maker else body
            builder.append(event_type, reply, row)
    return reply


def _is_asked(item: JsonObject) -> bool:
    """Whether an item is a turn of the user, not context that the client adds in its name."""
    texts = [as_text(piece.get("text")) for piece in objects_in(item.get("content"))]
    return item.get("role") == "user" and not any(text.startswith(_INJECTED) for text in texts)


# ---- pi and OpenClaw ----

_PI: Final = frozenset(
    "session message model_change thinking_level_change compaction branch_summary custom label "
    "custom_message session_info".split()
)


def _is_pi(row: JsonObject) -> bool:
    kind = as_text(row.get("type"))
    own = {"message": "message", "compaction": "summary", "custom_message": "content"}.get(kind)
    is_entry = bool(row.keys() & {"id", "timestamp"}) and (own is None or own in row)
    others = {"payload", "content", "uuid", "role", "sessionId"} - {own}
    return kind in _PI and is_entry and not row.keys() & others


def _read_pi(builder: Builder) -> None:
    """Read the branch that ends at the last entry; a compaction leaves what it kept."""
    rows, events = builder.reading.rows, builder.reading.events
    links = [(as_text(r.fields.get("id")), r.fields.get("parentId", "")) for r in rows]
    chain = {at for at, _ in walk_back(links, len(rows) - 1)}
    places: dict[str, int] = {}  # entries → events before them
    for entry in builder.rows():
        kind, own_id = as_text(entry.pop("type", None)), as_text(entry.get("id"))
        about = {"id": own_id, "timestamp": entry.get("timestamp")}
        places[own_id] = places[f"#{builder.row.at}"] = len(events)
        if kind == "session":
            builder.reading.use(builder.row)
            builder.reading.metadata |= entry
        elif builder.row.at not in chain:
            builder.leave("entries of other branches", "are not of the active one")
        elif kind == "compaction":
            kept = entry.get("firstKeptEntryId", f"#{entry.get('firstKeptEntryIndex')}")
            builder.compact(builder.pieces(entry.get("summary")), about, places.get(as_text(kept)))
        elif kind == "branch_summary":
            builder.say(about, "user", entry.get("summary"), origin="model")
        elif kind == "custom_message":
            builder.say(about, "user", entry.get("content"), origin="developer")
        elif kind == "message":
            _say_pi(builder, {**about, **as_object(entry.get("message")), "id": own_id})
        else:
            builder.leave(f"entries of type {kind}", "are the client's own")


def _say_pi(builder: Builder, message: Fields) -> None:
    role, content = message.pop("role", None), message.pop("content", None)
    is_shell = role == "bashExecution"
    is_failed = role == "assistant" and message.get("stopReason") in ("error", "aborted")
    if is_failed or (is_shell and message.get("excludeFromContext") is True):
        builder.leave("failed replies and private commands", "are not sent again")
        return
    if role == "toolResult":
        keys = ("toolCallId", "toolName", "isError")
        told = {key: message.pop(key) for key in keys if key in message}
        content = [{"type": "toolResult", "parts": content, **told}]
    elif is_shell:
        content = f"Ran `{message.pop('command', '')}`\n{message.pop('output', '')}"
    builder.say(message, role, message.pop("summary", None) if content is None else content)


# ---- goose ----


def _is_goose(row: JsonObject) -> bool:
    content = as_list(row.get("content"))
    is_said = row.get("role") in ("user", "assistant") and isinstance(row.get("created"), int)
    is_header = "working_dir" in row and not row.keys() & {"role", "conversation", "messages"}
    return is_header or (is_said and all("type" in as_object(one) for one in content))


def _read_goose(builder: Builder) -> None:
    """Read a session; what goose hid from the model is covered by the summary that follows."""
    head, hidden = builder.reading.head, 0
    model = as_object(head.get("model_config")).get("model_name")
    about = without_nulls({"model": model, "provider": head.get("provider_name")})
    for message in builder.rows():
        shown = as_object(message.get("metadata"))
        is_hidden = shown.get("agentVisible") is False
        if "working_dir" in message:
            builder.reading.use(builder.row)
            builder.reading.metadata |= message
        elif hidden and not is_hidden and shown.get("userVisible") is False:
            builder.compact(builder.pieces(message.get("content")), message, hidden)
            hidden = 0
        else:
            role, content = message.pop("role", None), message.pop("content", None)
            builder.say(message | about, role, content)
            hidden = len(builder.reading.events) if is_hidden else hidden


def _flat_goose(piece: Fields) -> Iterator[Json]:
    resource = as_object(piece.pop("resource", None))
    asked, answered = (as_object(piece.pop(key, None)) for key in ("toolCall", "toolResult"))
    shown = as_list(as_object(piece.pop("annotations", None)).get("audience"))
    own = piece.get("metadata") if asked else None  # a provider's
    if asked:
        call = as_object(asked.get("value")) or {"name": "unknown", "arguments": asked.get("error")}
        yield {"type": "toolCall", "id": piece.get("id"), **call, **as_object(own)}
    elif answered:
        value = answered.get("value", {"isError": True, "content": answered.get("error")})
        told = as_object(value)
        held = {"parts": told.get("content", value), "isError": told.get("isError")}
        yield {"type": "toolResult", "id": piece.get("id"), **held}
    elif resource:
        text, media_type = resource.get("text"), resource.get("mimeType")
        file = {"type": "file", "data": resource.get("blob"), "mimeType": media_type}
        yield text if isinstance(text, str) else file
    elif shown and "assistant" not in shown:
        yield {"type": "systemNotification"}
    else:
        yield piece


# ---- opencode ----


def _is_opencode(row: JsonObject) -> bool:
    is_said = as_object(row.get("info")).get("role") in ("user", "assistant")
    return is_said and isinstance(row.get("parts"), list)


def _read_opencode(builder: Builder) -> None:
    """Read an export; the summary of a compaction covers what stood before it, but for the tail."""
    places: dict[str, int] = {}  # messages → events before them
    cuts: dict[str, int] = {}  # messages that ask for a compaction → the last event that it covers
    for message in builder.rows():
        info, pieces = without_nulls(as_object(message.get("info"))), message.get("parts")
        info["created"] = as_object(info.pop("time", None)).get("created")
        info |= as_object(info.pop("model", None))
        own_id, parent = as_text(info.get("id")), as_text(info.get("parentID"))
        places[own_id] = len(builder.reading.events)
        asked = [one for one in objects_in(pieces) if one.get("type") == "compaction"]
        if asked:
            tail = as_text(asked[0].get("tail_start_id"))
            cuts[own_id] = places.get(tail, places[own_id])
            builder.reading.use(builder.row)
        elif info.get("summary") is True and parent in cuts:
            builder.compact(builder.pieces(pieces), info, cuts[parent])
        elif info.get("error") and not pieces:
            builder.leave("failed replies", "are not sent again")
        else:
            builder.say(info, info.pop("role", None), pieces)


def _flat_opencode(part: Fields) -> Iterator[Json]:
    state = as_object(part.get("state"))
    if part.get("type") == "tool":
        told = {"id": part.get("callID"), "name": part.get("tool")}
        yield {"type": "toolCall", **told, "input": state.get("input")}
        if "output" in state or "error" in state:
            text = {"type": "text", "text": state.get("output", state.get("error"))}
            told |= {"parts": [text, *as_list(state.get("attachments"))]}
            yield {"type": "toolResult", **told, "isError": "error" in state}
        return
    for name in ("id", "sessionID", "messageID", "time", "synthetic", "snapshot", "source"):
        part.pop(name, None)
    for maker, held in as_object(part.pop("metadata", None)).items():
        signature = as_object(held).get("signature")
        part |= {"vendor": protocol_of(maker), "signature": signature} if signature else {}
    is_repeated = part.get("mime") in ("text/plain", "application/x-directory")  # by a text part
    yield {"type": "patch"} if part.pop("ignored", None) is True or is_repeated else part


# ---- the OpenAI Agents SDK ----

_RUNS: Final = "session_items generated_items new_items"  # where the state of a run has its items


def _agents_item(row: JsonObject) -> Fields:
    """Return the item of a row as OpenAI takes it: ids of items that Chat made are none."""
    item = {**without_nulls(as_object(row.get("raw_item", row)))}
    item.pop("provider_data", None)
    return {key: held for key, held in item.items() if held != "__fake_id__"}


def _is_agents(row: JsonObject) -> bool:
    return API_FORMATS["openai_responses"].takes(_agents_item(row))


def _marks_agents(row: JsonObject) -> bool:
    return bool(row.keys() & {"raw_item", "provider_data"}) or row.get("id") == "__fake_id__"


def _read_agents(builder: Builder) -> None:
    """Read items, or the state of a run: what it was asked, then its items."""
    reading = builder.reading
    asked = {"input": reading.metadata.pop("original_input", None)}
    for event_type, body in openai_responses.read_messages(asked, builder.note):
        reading.add(None, event_type, body)
    items = [(row, _agents_item(row.fields)) for row in reading.rows]
    reading.rows, reading.key = tuple(row._replace(fields=i, value=i) for row, i in items), ""
    API_FORMATS["openai_responses"].read(reading)


AGENT_FORMATS: Final = {
    **program("codex", _is_codex, _read_codex, keys=""),
    **program("pi", _is_pi, _read_pi, keys=""),
    **program("goose", _is_goose, _read_goose, _flat_goose, "conversation messages"),
    **program("opencode", _is_opencode, _read_opencode, _flat_opencode),
    **program("openai_agents", _is_agents, _read_agents, keys=_RUNS, marks=_marks_agents),
}
