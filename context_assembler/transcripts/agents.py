"""Sessions of Codex, pi and OpenClaw, opencode and goose, and items of the OpenAI Agents SDK.

Source:
    openai/codex (rollout_reconstruction.rs at 023cedaa, CompactedItem of 2026-08) · badlogic/pi-mono
    at 83378aad (session-manager.ts, messages.ts) · anomalyco/opencode (message-v2.ts at 007a9409,
    export.ts) · block/goose (message.rs at 6416fe74, tool_result_serde.rs) · openai-agents 0.24
    (items.py, run_state.py) (read 2026-11-30)
"""

from collections.abc import Iterator, Mapping
from typing import Final

from context_assembler.events import Body, Json, JsonObject
from context_assembler.providers import openai_responses
from context_assembler.providers.wire import (
    as_list,
    as_object,
    as_text,
    objects_in,
    text_part,
    without_nulls,
)
from context_assembler.transcripts.messages import API_FORMATS
from context_assembler.transcripts.pieces import Builder, Fields, made_by, program, protocol_of
from context_assembler.transcripts.source import Format, Row

# ---- Codex ----

_CODEX: Final = (
    *("session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state"),
    *("inter_agent_communication", "security_risk_score", "realtime_item"),
)
_INJECTED: Final = ("<", "# AGENTS.md")  # how texts begin that the client sends in the user's name


def _is_codex(row: JsonObject) -> bool:
    return row.get("type") in _CODEX and isinstance(row.get("payload"), dict)


def _read_codex(builder: Builder) -> None:
    """Read a rollout into what Codex itself would resume; what a compaction replaced is covered."""
    model: Json = ""
    reply: Body = {}  # the one that goes on
    asked: list[JsonObject] = []  # for compactions that keep nothing but what users said
    for row in builder.rows():
        kind, payload = as_text(row.get("type")), as_object(row.get("payload"))
        inner, about = as_text(payload.get("type")), {"created_at": row.get("timestamp")}
        if kind == "response_item" and inner != "ghost_snapshot":
            asked += [payload] if _is_asked(payload) else []
            reply = _add_item(builder, without_nulls(payload), about, model, reply)
        elif kind == "compacted":
            kept = objects_in(payload.get("replacement_history"))
            if "replacement_history" not in payload:
                kept = objects_in([*asked, {"role": "user", "content": payload.get("message")}])
            reply = {}
            if any(map(openai_responses.is_sealed_compaction, kept)):  # for OpenAI alone to open
                opaque = {"type": "opaque", "provider": openai_responses.NAME}
                maker = made_by(openai_responses.NAME, model, {})
                builder.compact([{**opaque, "block": one} for one in kept], about, made_by=maker)
                continue
            builder.compact([], about)
            for item in kept:
                reply = _add_item(builder, item, about, "", reply)
        elif kind == "session_meta":
            builder.use()
            told = payload.pop("base_instructions", payload.pop("instructions", None))
            if "id" not in builder.reading.metadata:  # a fork repeats those of its parents
                for text in builder.pieces(as_object(told).get("text", told)):
                    builder.append("system", {"parts": [text]}, about)
                builder.reading.metadata |= payload
        elif kind == "turn_context":
            builder.use()
            model = payload.get("model") or model
        elif kind in _CODEX:
            if inner == "thread_rolled_back":
                _roll_back(builder, payload.get("num_turns"))
            usage = as_object(as_object(payload.get("info")).get("last_token_usage"))
            spoken = [body for _, body, _ in builder.reading.events[-9:] if "made_by" in body]
            if usage and spoken and "usage" not in spoken[-1]["made_by"]:
                spoken[-1]["made_by"] = made_by(openai_responses.NAME, model, usage)
                reply = {}
            builder.leave(f"rows of type {inner or kind}", "are the client's own; left out")


def _add_item(
    builder: Builder, item: JsonObject, about: JsonObject, model: Json, reply: Body
) -> Body:
    """Append an item, to the reply that it goes on with if there is one; return the open reply."""
    maker = made_by(openai_responses.NAME, model, {})
    for event_type, body in openai_responses.read_messages([item], builder.note):
        if event_type != "assistant":
            builder.append(event_type, body, about)
            reply = {}
        elif reply:
            reply["parts"] += body["parts"]
            builder.use()
        else:
            reply = {**body, "made_by": maker} if maker else body
            builder.append(event_type, reply, about)
    return reply


def _is_asked(item: JsonObject) -> bool:
    """Whether an item is a turn of the user, not context that the client adds in its name."""
    texts = [as_text(piece.get("text")) for piece in objects_in(item.get("content"))]
    return item.get("role") == "user" and not any(text.startswith(_INJECTED) for text in texts)


def _roll_back(builder: Builder, turns: Json) -> None:
    """Take the newest turns of the user back, and all that followed them."""
    events = builder.reading.events
    starts = [
        at
        for at, (event_type, body, _) in enumerate(events)
        if event_type == "user"
        and not any(as_text(part.get("text")).startswith(_INJECTED) for part in body["parts"])
    ]
    if isinstance(turns, int) and turns > 0 and starts:
        del events[starts[-turns:][0] :]


# ---- pi and OpenClaw ----

_PI: Final = frozenset(
    "session message model_change thinking_level_change compaction branch_summary custom label "
    "custom_message session_info".split()
)


def _is_pi(row: JsonObject) -> bool:
    kind = as_text(row.get("type"))
    if kind == "message":
        return isinstance(row.get("message"), dict) and "role" not in row
    if kind == "compaction":
        return "summary" in row
    is_entry = "parentId" in row or "timestamp" in row
    return (
        kind in _PI
        and is_entry
        and not row.keys()
        & {"payload", "content", "uuid"} - ({"content"} if kind == "custom_message" else set())
    )


def _marks_pi(row: JsonObject) -> bool:
    return row.get("type") in ("session", "message", "compaction", "model_change")


def _read_pi(builder: Builder) -> None:
    """Read the branch that ends at the last entry; a compaction leaves what it kept."""
    rows = builder.reading.rows
    places: dict[str, int] = {}  # entries → events before them
    chain = _chain_pi(rows)
    for message in builder.rows():
        kind, row = as_text(message.get("type")), builder.row
        entry_id = as_text(message.get("id"))
        about = {"id": entry_id, "created_at": message.get("timestamp")}
        places[entry_id] = places[f"#{row.at}"] = len(builder.reading.events)
        if kind == "session":
            builder.use()
            builder.reading.metadata |= {k: v for k, v in message.items() if k != "type"}
        elif row.at not in chain:
            builder.leave("entries of other branches", "are not of the active one; left out")
        elif kind == "compaction":
            text = [text_part(as_text(message.get("summary")))]
            kept = message.get("firstKeptEntryId", f"#{message.get('firstKeptEntryIndex')}")
            builder.compact(text, about, last_seq=places.get(as_text(kept)))
        elif kind == "branch_summary":
            builder.add("user", builder.pieces(message.get("summary")), about=about, origin="model")
        elif kind == "custom_message":
            said = builder.pieces(message.get("content"))
            builder.add("user", said, about=about, origin="developer")
        elif kind == "message":
            _add_pi(builder, without_nulls(as_object(message.get("message"))), about)
        elif kind in _PI:
            builder.leave(f"entries of type {kind}", "are the client's own; left out")


def _chain_pi(rows: tuple[Row, ...]) -> set[int]:
    """Return the places of the entries from the last one to the first; damage ends no chain."""
    places = {as_text(row.fields.get("id")): row.at for row in rows}
    chain = set[int]()
    at = len(rows) - 1
    while at >= 0:
        chain.add(at)
        parent = rows[at].fields.get("parentId", "")
        found = places.get(as_text(parent), at - 1) if parent is not None else -1
        at = found if found < at else at - 1
    return chain


def _add_pi(builder: Builder, message: Fields, about: JsonObject) -> None:
    role, content = message.pop("role", None), message.pop("content", None)
    about = {"created_at": message.pop("timestamp", None), **without_nulls(about)}
    if role == "toolResult":
        keys = ("toolCallId", "toolName", "isError")
        told = {key: message.pop(key) for key in keys if key in message}
        content = [{"type": "toolResult", **told, "parts": content}]
    elif role == "bashExecution" and message.get("excludeFromContext") is not True:
        content = f"Ran `{message.pop('command', '')}`\n{message.pop('output', '')}"
    elif role in ("branchSummary", "compactionSummary"):
        content = message.pop("summary", None)
    elif role == "bashExecution" or message.get("stopReason") in ("error", "aborted"):
        builder.leave("failed replies and private commands", "are not sent again; left out")
        return
    elif role not in ("user", "assistant", "custom", "hookMessage"):
        builder.leave("role", f"{role!r:.40} is unknown; left out", is_known=False)
        return
    provider, model = message.get("api", message.get("provider")), message.get("model")
    vendor = protocol_of(provider, model)
    usage, stop = message.pop("usage", None), message.get("stopReason")
    maker = made_by(vendor, model, as_object(usage), stop_reason=stop)
    said = builder.pieces(content, vendor)
    kind = "assistant" if role == "assistant" else "user"
    builder.add(kind, said, about=about, made_by=maker, kept=message)


def _flat_as_is(piece: Fields) -> Iterator[Json]:
    yield piece


# ---- goose ----


def _is_goose(row: JsonObject) -> bool:
    pieces = as_list(row.get("content"))
    is_message = row.get("role") in ("user", "assistant") and isinstance(row.get("created"), int)
    is_header = "working_dir" in row and "role" not in row
    return is_header or (
        is_message and bool(pieces) and all("type" in as_object(p) for p in pieces)
    )


def _read_goose(builder: Builder) -> None:
    """Read a session; what goose hid from the model is covered by the summary that follows."""
    head = builder.reading.head
    hidden = 0
    for message in builder.rows():
        if "role" not in message:
            builder.use()
            builder.reading.metadata |= message
            continue
        about = {"id": message.pop("id", None), "created_at": message.pop("created", None)}
        role, content = message.pop("role"), message.pop("content", None)
        shown = as_object(message.get("metadata"))
        model = as_object(head.get("model_config")).get("model_name")
        vendor = protocol_of(head.get("provider_name"), model)
        said = builder.pieces(content, vendor)
        is_summary = hidden and shown.get("userVisible") is False and role == "user"
        if is_summary and shown.get("agentVisible") is not False:
            builder.compact(said, about, last_seq=hidden)
            hidden = 0
            continue
        maker = made_by(vendor, model, {}) if role == "assistant" else None
        builder.add(as_text(role), said, about=about, made_by=maker, kept=message)
        if shown.get("agentVisible") is False:
            hidden = len(builder.reading.events)


def _flat_goose(piece: Fields) -> Iterator[Json]:
    kind = piece.get("type")
    resource = as_object(piece.pop("resource", None))
    audience = as_list(as_object(piece.pop("annotations", None)).get("audience")) or ["assistant"]
    if kind in ("toolRequest", "frontendToolRequest"):
        call = as_object(piece.pop("toolCall", None))
        asked = as_object(call.get("value"))
        failed = {"arguments": call.get("error")} if "error" in call else {}
        more = as_object(piece.pop("metadata", None))
        yield {
            "name": "unreadable" if failed else "",
            **more,
            **piece,
            **asked,
            **failed,
            "type": "toolCall",
        }
    elif kind == "toolResponse":
        result = as_object(piece.pop("toolResult", None))
        value = result.get("value")
        told = as_object(value)
        failed = {"output": result.get("error"), "isError": True}
        held = {"parts": told.get("content", value), "isError": told.get("isError") is True}
        piece.pop("metadata", None)
        yield {
            "type": "toolResult",
            "id": piece.get("id"),
            **(held if "value" in result else failed),
        }
    elif kind == "redactedThinking":
        yield {"type": kind, "redacted": piece.get("data")}
    elif "text" in resource:
        yield resource["text"]
    elif "blob" in resource:
        yield {"type": "file", "data": resource["blob"], "mimeType": resource.get("mimeType")}
    elif "assistant" in audience:
        yield piece


# ---- opencode ----


def _is_opencode(row: JsonObject) -> bool:
    info, parts = as_object(row.get("info")), row.get("parts")
    return info.get("role") in ("user", "assistant") and isinstance(parts, list)


def _read_opencode(builder: Builder) -> None:
    """Read an export; the summary of a compaction covers what stood before it, but for the tail."""
    places: dict[str, int] = {}  # messages → events before them
    cut: dict[str, int] = {}  # messages that ask for a compaction → the last event that it covers
    for message in builder.rows():
        info, pieces = without_nulls(as_object(message.get("info"))), as_list(message.get("parts"))
        before = len(builder.reading.events)
        own_id, role = as_text(info.pop("id", None)), as_text(info.pop("role", None))
        places[own_id] = before
        about = {"id": own_id, "created_at": as_object(info.pop("time", None)).get("created")}
        asked = next((one for one in objects_in(pieces) if one.get("type") == "compaction"), None)
        if asked is not None:
            cut[own_id] = places.get(as_text(asked.get("tail_start_id")), before)
            builder.use()
            continue
        provider, model = info.get("providerID"), info.get("modelID")
        vendor = protocol_of(provider, model)
        usage = as_object(info.pop("tokens", None))
        maker = made_by(vendor, model, usage, stop_reason=info.get("finish"))
        said = builder.pieces(pieces, vendor)
        if info.get("error") and not said:
            builder.leave("failed replies", "are not sent again; left out")
        elif info.get("summary") is True and as_text(info.get("parentID")) in cut:
            last_seq = cut[as_text(info.get("parentID"))]
            builder.compact(said, about, last_seq=last_seq, made_by=maker)
        else:
            maker = maker if role == "assistant" else {}
            builder.add(role, said, about=about, made_by=maker, kept=info)


_OPENCODE_OWN: Final = ("step-finish", "snapshot", "patch", "agent", "retry", "subtask")


def _flat_opencode(part: Fields) -> Iterator[Json]:
    kind = part.get("type")
    meta = as_object(part.pop("metadata", None))
    signed = {}
    for name, held in meta.items():
        if signature := as_text(as_object(held).get("signature")):
            signed = {"vendor": protocol_of(name), "signature": signature}
    state = as_object(part.get("state"))
    if kind == "tool":
        told = {"id": part.get("callID"), "name": part.get("tool")}
        yield {"type": "toolCall", **told, "input": state.get("input")}
        if "output" in state or "error" in state:
            shown = as_list(state.get("attachments"))
            output = [{"type": "text", "text": state.get("output", state.get("error"))}, *shown]
            yield {"type": "toolResult", **told, "parts": output, "isError": "error" in state}
    elif kind not in _OPENCODE_OWN and part.get("ignored") is not True:
        for name in ("id", "sessionID", "messageID", "time", "synthetic", "snapshot", "source"):
            part.pop(name, None)
        yield {**part, **signed}


# ---- the OpenAI Agents SDK ----

_FAKE_ID: Final = "__fake_id__"  # of items that Chat Completions made


def _agents_item(row: JsonObject) -> Fields:
    """Return the item of a row, as OpenAI takes it."""
    item = without_nulls(as_object(row.get("raw_item", row)))
    item.pop("provider_data", None)
    return {key: held for key, held in item.items() if (key, held) != ("id", _FAKE_ID)}


def _is_agents(row: JsonObject) -> bool:
    return API_FORMATS["openai_responses"].takes(_agents_item(row))


def _marks_agents(row: JsonObject) -> bool:
    return bool(row.keys() & {"raw_item", "provider_data"}) or row.get("id") == _FAKE_ID


def _read_agents(builder: Builder) -> None:
    reading = builder.reading
    rows = tuple(
        row._replace(fields=(item := _agents_item(row.fields)), value=item) for row in reading.rows
    )
    reading.rows = rows
    API_FORMATS["openai_responses"].read(reading)


AGENT_FORMATS: Final[Mapping[str, Format]] = {
    "codex": program("codex", _is_codex, _read_codex, _flat_as_is, keys=()),
    "pi": program("pi", _is_pi, _read_pi, _flat_as_is, marks=_marks_pi, keys=()),
    "goose": program(
        "goose", _is_goose, _read_goose, _flat_goose, keys=("conversation", "messages")
    ),
    "opencode": program("opencode", _is_opencode, _read_opencode, _flat_opencode),
    "openai_agents": program(
        "openai_agents",
        _is_agents,
        _read_agents,
        _flat_as_is,
        marks=_marks_agents,
        keys=("new_items", "generated_items", "items"),
    ),
}
