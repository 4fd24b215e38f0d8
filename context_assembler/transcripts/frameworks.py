"""Messages of pydantic-ai, LangChain, the AI SDK, LlamaIndex and Bedrock Converse.

Source:
    pydantic-ai 2.68 (messages.py) · langchain-core 1.8 (messages/, load/dump.py) · vercel/ai at
    ed857f50f1 (ui-messages.ts, content-part.ts; version 4 as well) · llama-index-core 0.14
    (base/llms/types.py) · Amazon Bedrock API reference, ContentBlock (read 2026-11-30)
"""

from collections.abc import Iterator, Mapping
from typing import Final

from context_assembler.events import Json, JsonObject
from context_assembler.ports import ToolSpec
from context_assembler.providers.wire import (
    as_list,
    as_object,
    as_text,
    objects_in,
    text_part,
    without_nulls,
)
from context_assembler.transcripts.pieces import (
    Builder,
    Fields,
    made_by,
    program,
    protocol_of,
)
from context_assembler.transcripts.source import Format

# ---- pydantic-ai ----

_FILES: Final = ("binary", "image-url", "document-url", "audio-url", "video-url")
_INSTRUCTIONS: Final = ("system-prompt", "instruction")


def _is_pydantic(row: JsonObject) -> bool:
    parts = row.get("parts")
    return row.get("kind") in ("request", "response") and isinstance(parts, list)


def _read_pydantic(builder: Builder) -> None:
    """Read `ModelMessagesTypeAdapter.dump_json`; instructions that did not change come once."""
    told: Json = ""
    for message in builder.rows():
        kind, parts = message.pop("kind", None), as_list(message.pop("parts", None))
        about = {"created_at": message.pop("timestamp", None)}
        if kind == "request":
            said = [message.pop("instructions", None) or told]
            said, told = said if said[0] != told else [], said[0]
            said += [one.get("content") for one in objects_in(parts) if _is_instruction(one)]
            for text in said:
                builder.add("system", builder.pieces(text), about=about)
            parts = [one for one in parts if not _is_instruction(one)]
            if parts or not said:
                builder.add("user", builder.pieces(parts), about=about, kept=message)
            continue
        model, usage = message.pop("model_name", None), as_object(message.pop("usage", None))
        vendor = protocol_of(message.get("provider_name"), model)
        ends = {"stop_reason": message.pop("finish_reason", None)}
        ends["response_id"] = message.pop("provider_response_id", None)
        maker = made_by(vendor, model, usage, **ends)
        for one in objects_in(parts):
            if one.get("part_kind") == "compaction":
                _compact_pydantic(builder, one, vendor, maker)
        parts = [one for one in parts if as_object(one).get("part_kind") != "compaction"]
        said = builder.pieces(parts, vendor)
        builder.add("assistant", said, about=about, made_by=maker, kept=message)


def _is_instruction(part: Json) -> bool:
    return as_object(part).get("part_kind") in _INSTRUCTIONS


def _compact_pydantic(builder: Builder, part: JsonObject, vendor: str, maker: Fields) -> None:
    text = as_text(part.get("content"))
    block: JsonObject = {"type": "compaction", "content": text}
    if vendor == "openai_responses":
        sealed = as_object(part.get("provider_details"))
        block = without_nulls({"type": "compaction", "id": part.get("id"), **sealed})
    opaque: JsonObject = {"type": "opaque", "provider": vendor, "block": block}
    parts = [*([text_part(text)] if text else []), *([opaque] if maker else [])]
    builder.compact(parts, made_by=maker)


def _flat_pydantic(part: Fields) -> Iterator[Json]:
    kind = as_text(part.pop("part_kind", part.pop("kind", None)))
    details = as_object(part.pop("provider_details", None))
    if maker := part.pop("provider_name", None):
        part["vendor"] = protocol_of(maker)
    for name in ("timestamp", "identifier", "force_download", "tool_kind", "content_file_digests"):
        part.pop(name, None)
    signature = details.get("thought_signature")
    part = without_nulls({**part, "type": kind, "signature": part.get("signature", signature)})
    content = part.get("content")
    if kind in ("user-prompt", "file"):
        for one in as_list(content) or [content]:
            yield from _flat_pydantic(without_nulls(one)) if isinstance(one, Mapping) else [one]
    elif kind == "retry-prompt" and "tool_name" in part:
        yield {**part, "type": "tool-return", "status": "error"}
    elif kind in ("tool-return", "builtin-tool-return"):
        part["status"] = part.pop("outcome", None)
        listed = as_list(content) or [content]
        if any(as_object(one).get("kind") in _FILES for one in listed):
            part["parts"] = part.pop("content")
        yield part
        yield from [{"type": "step"}] * (kind != "tool-return")
    elif kind != "cache-point":
        part.pop("tool_call_id", None) if kind == "retry-prompt" else None
        yield part


# ---- LangChain and LangGraph ----

_LANGCHAIN: Final = {"human": "user", "ai": "assistant", "tool": "tool", "function": "tool"}
_LANGCHAIN_TYPES: Final = (*_LANGCHAIN, "system", "developer", "chat", "remove")


def _langchain_fields(row: JsonObject) -> Fields:
    """Return the fields of a message as `dumpd`, `messages_to_dict` or `model_dump` keep them."""
    held = row.get("kwargs") if "lc" in row else row.get("data", row)
    kind: Json = as_object(held).get("type") or row.get("type")
    if "lc" in row and kind == "constructor":
        kind = (as_list(row.get("id")) or [""])[-1]
    name = as_text(kind).lower().removesuffix("chunk").removesuffix("message")
    return {**without_nulls(as_object(held)), "type": name}


def _is_langchain(row: JsonObject) -> bool:
    fields = _langchain_fields(row)
    is_one = fields["type"] in _LANGCHAIN_TYPES and "content" in fields
    return is_one and not row.keys() & {"uuid", "message", "subtype", "parts"}


def _read_langchain(builder: Builder) -> None:
    for row in builder.rows():
        message = _langchain_fields(row)
        kind, content = message.pop("type"), message.pop("content", None)
        role = _LANGCHAIN.get(kind) or as_text(message.pop("role", kind))
        about, kept = {"id": message.pop("id", None)}, {k: v for k, v in message.items() if v}
        if kind == "remove":
            builder.leave("messages to remove others", "are none of a model's; left out")
        elif role == "tool":
            told = {key: kept.pop(key, "") for key in ("tool_call_id", "name", "status")}
            is_value = not isinstance(content, str | list)
            held = {"output": content} if is_value else {"parts": content}
            said = builder.pieces([{"type": "tool-result", **told, **held}])
            builder.add("user", said, about=about, kept=kept)
        elif role == "assistant":
            _add_langchain_reply(builder, content, about, kept)
        else:
            builder.add(role, builder.pieces(content), about=about, kept=kept)


def _add_langchain_reply(builder: Builder, content: Json, about: JsonObject, kept: Fields) -> None:
    meta, more = (
        {**as_object(kept.pop(key, None))} for key in ("response_metadata", "additional_kwargs")
    )
    model = meta.get("model_name", meta.get("model"))
    vendor = protocol_of(meta.get("model_provider"), model)
    calls = [*as_list(kept.pop("tool_calls", None)), *as_list(kept.pop("invalid_tool_calls", None))]
    given = objects_in(more.pop("tool_calls", None))  # as OpenAI sent them
    calls = calls or [{**as_object(one.get("function")), "id": one.get("id")} for one in given]
    ids = [as_object(call).get("id") for call in calls]
    thought = [{"type": "thinking", "text": more.pop("reasoning_content", None)}]
    said = [one for one in as_list(content) or [content] if not _is_call_of(as_object(one), ids)]
    for call in objects_in(calls):
        call.pop("error", None)
        said.append({**call, "type": "tool_call"})
    usage = as_object(kept.pop("usage_metadata", None))
    ends = {"stop_reason": meta.get("stop_reason", meta.get("finish_reason"))}
    maker = made_by(vendor, model, usage, response_id=meta.get("id"), **ends)
    kept |= {"response_metadata": meta} if meta else {}
    kept |= {"additional_kwargs": more} if more else {}
    parts = builder.pieces([*(thought if thought[0]["text"] else []), *said], vendor)
    builder.add("assistant", parts, about=about, made_by=maker, kept=kept)


def _is_call_of(block: JsonObject, ids: list[Json]) -> bool:
    is_call = block.get("type") in ("tool_use", "tool_call", "function_call")
    return is_call and block.get("call_id", block.get("id")) in ids


def _flat_langchain(block: Fields) -> Iterator[Json]:
    block.pop("index", None)
    extras = as_object(block.pop("extras", None))
    if block.get("type") == "image_url":
        held = block.pop("image_url", None)
        block |= {"type": "image", "url": as_object(held).get("url", held)}
    block.pop("source_type", None)
    yield {**extras, **block}


# ---- the AI SDK (Vercel) ----

_VERCEL: Final = ("tool-call", "tool-result", "reasoning", "redacted-reasoning")
_SHOWN: Final = ("source", "source-url", "source-document", "data-", "tool-approval-")
_ROLES: Final = ("system", "user", "assistant", "tool", "data")
_SIGNED: Final = {
    "signature": "signature",
    "reasoningEncryptedContent": "signature",
    "itemId": "id",
    "thoughtSignature": "signature",
    "redactedData": "redacted",
}


def _is_vercel(row: JsonObject) -> bool:
    """Whether a message is a UI message, or a model message; plain ones are anybody's."""
    held, content = row.get("parts"), row.get("content")
    if row.get("role") not in _ROLES or row.keys() & {"tool_calls", "info", "type", "created"}:
        return False
    if held is not None or "toolInvocations" in row:
        return all(as_text(as_object(one).get("type")) for one in as_list(held))
    pieces = map(as_object, as_list(content))
    return isinstance(content, str | list) and all(
        one.get("type") == "text" or _is_vercel_piece(one) for one in pieces
    )


def _is_vercel_piece(piece: JsonObject) -> bool:
    kind = as_text(piece.get("type"))
    is_file = kind in ("file", "image") and bool(piece.keys() & {"mediaType", "image", "mimeType"})
    is_approval = kind.startswith("tool-approval-")
    return kind in _VERCEL or is_approval or (is_file and "source" not in piece)


def _marks_vercel(row: JsonObject) -> bool:
    is_shown = bool(row.keys() & {"parts", "toolInvocations"})
    return is_shown or any(map(_is_vercel_piece, objects_in(row.get("content"))))


def _read_vercel(builder: Builder) -> None:
    for message in builder.rows():
        role, content = message.pop("role", None), message.pop("content", None)
        about = {"id": message.pop("id", None), "created_at": message.pop("createdAt", None)}
        calls = [{"toolInvocation": call} for call in as_list(message.pop("toolInvocations", None))]
        pieces = message.pop("parts", None)
        if pieces is None:
            pieces = [*(as_list(content) or [content]), *calls]
        shown = as_list(message.pop("experimental_attachments", None))
        pieces = [*as_list(pieces), *({"type": "file", **as_object(one)} for one in shown)]
        if role not in _ROLES or role == "data":
            builder.leave("role", f"is {role!r:.40}, which no model gets", is_known=role == "data")
            continue
        said = builder.pieces(pieces)
        builder.add("user" if role == "tool" else role, said, about=about, kept=message)


def _flat_vercel(part: Fields) -> Iterator[Json]:
    part |= as_object(part.pop("toolInvocation", None))
    kind = as_text(part.get("type"))
    signed: Fields = {}
    for name in ("providerMetadata", "providerOptions", "callProviderMetadata"):
        for vendor, held in as_object(part.pop(name, None)).items():
            signed["vendor"] = protocol_of(vendor)
            signed |= {_SIGNED.get(key, key): value for key, value in as_object(held).items()}
    if kind.startswith(_SHOWN):
        return
    state = part.pop("state", None)
    if "toolCallId" not in part:
        details = [{"type": "thinking", **one} for one in objects_in(part.pop("details", None))]
        if details:  # of version 4, for Claude
            own = (
                {**one, "vendor": "anthropic", "redacted": one.pop("data", None)} for one in details
            )
            yield from own
            return
        if kind in ("file", "image"):
            held = part.pop("data", part.pop("image", None))
            inner = as_object(held)
            part["data"] = inner.get("data", inner.get("url", held))
        yield {**part, **signed}
    elif kind == "tool-result":
        output = part.pop("output", part.pop("result", None))
        inner = as_object(output)
        told = as_text(inner.get("type"))
        if told == "content":
            part["parts"] = inner.get("value")
        elif told == "execution-denied":
            part |= {"output": inner.get("reason", "The user refused this call."), "isError": True}
        elif "value" in inner and told.endswith(("text", "json")):
            part["output"] = inner["value"]
        else:
            part["output"] = output
        yield {**part, "status": told.partition("-")[0]}
    else:
        named = part if "toolName" in part else {**part, "toolName": kind.removeprefix("tool-")}
        keys = ("toolCallId", "toolName")
        call = {key: named[key] for key in (*keys, "input", "args", "rawInput") if key in named}
        yield {**call, "type": "tool-call", **{k: v for k, v in signed.items() if k != "id"}}
        if state in ("output-available", "output-error", "output-denied", "result"):
            held = {
                key: named[key] for key in (*keys, "output", "result", "errorText") if key in named
            }
            denied = {"isError": True} if state == "output-denied" else {}
            yield {"type": "tool-result", **held, **denied}


# ---- LlamaIndex ----

_LLAMA_ROLES: Final = {
    **dict.fromkeys(("assistant", "chatbot", "model"), "assistant"),
    "system": "system",
    "developer": "system",
    "user": "user",
    "tool": "tool",
    "function": "tool",
}


def _is_llama(row: JsonObject) -> bool:
    blocks = row.get("blocks")
    if as_text(row.get("role")) not in _LLAMA_ROLES or "type" in row:
        return False
    is_old = "additional_kwargs" in row and "content" in row
    return all("block_type" in as_object(one) for one in as_list(blocks)) if blocks else is_old


def _read_llama(builder: Builder) -> None:
    for message in builder.rows():
        role = _LLAMA_ROLES.get(as_text(message.pop("role", None)), "")
        more = {**as_object(message.pop("additional_kwargs", None))}
        content = message.pop("blocks", message.pop("content", None))
        if role == "tool":
            told = {key: more.pop(key, "") for key in ("tool_call_id", "name")}
            content = [{"type": "tool-result", **told, "parts": content}]
        known = [one.get("tool_call_id") for one in objects_in(content)]
        pieces = [*(as_list(content) or [content])]
        for call in objects_in(more.pop("tool_calls", None)):
            if call.get("id") not in known:
                asked = {**as_object(call.get("function")), "id": call.get("id")}
                pieces.append({"type": "tool_call", **asked})
        said = builder.pieces(pieces)
        builder.add("user" if role == "tool" else role, said, kept={**message, **more})


def _flat_llama(block: Fields) -> Iterator[Json]:
    kind = block.get("type") or block.pop("block_type", None)
    more = as_object(block.pop("additional_information", None))
    told: Fields = {"type": kind}
    if signature := as_text(more.get("signature")):
        told |= {"signature": signature, "vendor": "anthropic"}
    if form := block.pop("format", None):
        told["mime_type"] = f"{kind}/{form}"
    for name in ("image_mimetype", "document_mimetype", "video_mimetype"):
        if name in block:
            told["mime_type"] = block.pop(name)
    block.pop("num_tokens", None)
    yield {**block, **told}


# ---- Bedrock Converse ----

_BEDROCK: Final = {
    "text": "text",
    "toolUse": "toolUse",
    "toolResult": "toolResult",
    "json": "json",
    "reasoningContent": "thinking",
    "citationsContent": "",
    "cachePoint": "",
    "guardContent": "",
    "searchResult": "",
    **{name: name for name in ("image", "document", "video", "audio")},
}
_MEDIA_TYPES: Final = {"pdf": "application/pdf", "txt": "text/plain", "md": "text/markdown"}


def _is_bedrock(row: JsonObject) -> bool:
    blocks = as_list(row.get("content"))
    is_all = all(_BEDROCK.keys() >= (as_object(one) or {"?": 0}).keys() for one in blocks)
    return row.get("role") in ("user", "assistant") and bool(blocks) and is_all


def _read_bedrock(builder: Builder) -> None:
    request = builder.reading.head
    model = request.get("modelId")
    vendor = protocol_of(model or "claude")
    specs = objects_in(as_object(request.get("toolConfig")).get("tools"))
    builder.reading.tools = tuple(
        ToolSpec(
            name=as_text(spec.get("name")),
            description=as_text(spec.get("description")),
            input_schema=as_object(as_object(spec.get("inputSchema")).get("json")),
        )
        for one in specs
        if (spec := as_object(one.get("toolSpec")))
    )
    if system := builder.pieces(request.get("system")):
        builder.add("system", system)
    for message in builder.rows():
        role, content = as_text(message.pop("role", None)), message.pop("content", None)
        maker = made_by(vendor, model, {}) if role == "assistant" else None
        builder.add(role, builder.pieces(content, vendor), made_by=maker, kept=message)


def _flat_bedrock(block: Fields) -> Iterator[Json]:
    if "type" in block:
        yield block
        return
    for name, held in block.items():
        inner = {**as_object(held)}
        kind = _BEDROCK.get(name)
        if name == "text":
            yield held
        elif name == "json":
            yield {"type": "text", "text": held if isinstance(held, str) else ""}
        elif name == "toolUse":
            yield {**inner, "type": kind}
        elif name == "toolResult":
            yield {**inner, "type": kind, "parts": inner.pop("content", None)}
        elif name == "reasoningContent":
            told = as_object(inner.pop("reasoningText", None))
            yield {"type": kind, **told, "redacted": inner.pop("redactedContent", None)}
        elif kind in ("image", "document", "video", "audio"):
            source, form = as_object(inner.pop("source", None)), as_text(inner.pop("format", ""))
            media_type = _MEDIA_TYPES.get(form, f"{kind}/{form}")
            url = as_object(source.get("s3Location")).get("uri")
            yield {
                "type": kind,
                "mime_type": media_type,
                "data": source.get("bytes"),
                "url": url,
                **inner,
            }
        elif name == "citationsContent":
            yield from as_list(inner.get("content"))
        elif name != "cachePoint":
            yield {"type": name}


FRAMEWORK_FORMATS: Final[Mapping[str, Format]] = {
    "pydantic_ai": program("pydantic_ai", _is_pydantic, _read_pydantic, _flat_pydantic),
    "langchain": program(
        "langchain",
        _is_langchain,
        _read_langchain,
        _flat_langchain,
        keys=(
            *("messages", "values.messages", "channel_values.messages"),
            "checkpoint.channel_values.messages",
        ),
    ),
    "vercel_ai": program("vercel_ai", _is_vercel, _read_vercel, _flat_vercel, marks=_marks_vercel),
    "llama_index": program("llama_index", _is_llama, _read_llama, _flat_llama),
    "bedrock": program("bedrock", _is_bedrock, _read_bedrock, _flat_bedrock),
}
