"""Messages of pydantic-ai, LangChain, the AI SDK, LlamaIndex and Bedrock Converse.

Source:
    pydantic-ai 2.68 (messages.py) · langchain-core 1.8 (messages/, load/dump.py) · vercel/ai at
    ed857f50f1 (ui-messages.ts, content-part.ts; version 4 as well) · llama-index-core 0.14
    (base/llms/types.py) · Amazon Bedrock API reference, ContentBlock (read 2026-11-30)
"""

from collections.abc import Iterator
from typing import Final

from context_assembler.events import Json, JsonObject, compact_json
from context_assembler.providers.wire import as_list, as_object, as_text, objects_in, without_nulls
from context_assembler.transcripts.messages import tools_of
from context_assembler.transcripts.pieces import Builder, Fields, by_name, pop, program, protocol_of
from context_assembler.transcripts.source import listed

# ---- pydantic-ai ----

_FILES: Final = ("binary", "image-url", "document-url", "audio-url", "video-url")


def _is_pydantic(row: JsonObject) -> bool:
    return row.get("kind") in ("request", "response") and isinstance(row.get("parts"), list)


def _read_pydantic(builder: Builder) -> None:
    """Read `ModelMessagesTypeAdapter.dump_json`; instructions that did not change come once."""
    told: Json = None
    for message in builder.rows():
        is_reply = message.pop("kind", None) == "response"
        rest: list[Json] = []
        asked, has_more = message.pop("instructions", told), False
        if asked != told:
            builder.say({}, "system", asked)
            told, has_more = asked, True
        for part in as_list(message.pop("parts", None)):
            kind, content = as_object(part).get("part_kind"), as_object(part).get("content")
            if kind in ("system-prompt", "instruction"):
                builder.say({}, "system", content)
                has_more = True
            elif kind == "compaction" and content:
                builder.compact(builder.pieces(content), {})
            else:
                rest.append(part)
        if rest or not has_more:
            builder.say(message, "assistant" if is_reply else "user", rest)


def _flat_pydantic(part: Fields) -> Iterator[Json]:
    kind, content = part.pop("part_kind", part.pop("kind", None)), part.get("content")
    signature = as_object(part.pop("provider_details", None)).get("thought_signature")
    if maker := part.pop("provider_name", None):
        part["vendor"] = protocol_of(maker)
    for name in ("timestamp", "identifier", "force_download", "tool_kind", "content_file_digests"):
        part.pop(name, None)
    part = without_nulls({"signature": signature, **part, "type": kind})
    held = listed(content or None)
    if kind in ("user-prompt", "file"):
        for one in held:
            own = without_nulls(as_object(one))
            yield from _flat_pydantic(own) if own else [one]
    elif kind == "retry-prompt" and "tool_name" in part:
        yield {**part, "type": "tool-return", "status": "error"}
    elif kind in ("retry-prompt", "retry-feedback"):
        yield content if isinstance(content, str) else f"{content}"
    elif kind in ("tool-return", "builtin-tool-return"):
        if any(as_object(one).get("kind") in _FILES for one in held):
            part["parts"] = part.pop("content")
        yield part
        yield from [{"type": "step-start"}] if kind != "tool-return" else ()
    else:
        yield part


# ---- LangChain and LangGraph ----

_LANGCHAIN: Final = "human ai tool function system developer chat remove".split()


def _langchain_fields(row: JsonObject) -> Fields:
    """Return the fields of a message as `dumpd`, `messages_to_dict` or `model_dump` keep them."""
    held = as_object(row.get("kwargs") if "lc" in row else row.get("data", row))
    name = (as_list(row.get("id")) or [""])[-1] if "lc" in row else row.get("type")
    kind = as_text(held.get("type", name)).lower()
    return {**without_nulls(held), "type": kind.removesuffix("chunk").removesuffix("message")}


def _is_langchain(row: JsonObject) -> bool:
    fields = _langchain_fields(row)
    is_one = fields["type"] in _LANGCHAIN and "content" in fields
    return is_one and not row.keys() & {"uuid", "message", "subtype", "parts"}


def _read_langchain(builder: Builder) -> None:
    for row in builder.rows():
        message = {k: held for k, held in _langchain_fields(row).items() if held not in ({}, [])}
        kind, content = message.pop("type"), message.pop("content", None)
        if kind == "remove":
            builder.leave("messages to remove others", "are not for a model")
        elif kind in ("tool", "function"):
            told = {key: message.pop(key, "") for key in ("tool_call_id", "name", "status")}
            has_parts = all(isinstance(one, str) or _is_typed(one) for one in as_list(content))
            held: Fields = {"parts" if has_parts and content else "output": content}
            builder.say(message, "tool", [{"type": "tool-result", **told, **held}])
        elif kind == "ai":
            meta = as_object(message.get("response_metadata"))
            keys = ("model_name", "model", "model_provider", "stop_reason", "finish_reason")
            told = {key: meta[key] for key in keys if key in meta}
            said = _langchain_reply(message, content)
            builder.say(message | told, "assistant", said)
        else:
            builder.say(message, message.pop("role", kind) if kind == "chat" else kind, content)


def _langchain_reply(message: Fields, content: Json) -> list[Json]:
    """Return the pieces of a reply; calls stand in its text too, and bad ones in a list of their own."""
    more = dict(as_object(message.pop("additional_kwargs", None)))
    thought = as_text(more.pop("reasoning_content", None))
    given = objects_in(more.pop("tool_calls", None))  # as OpenAI sent them
    calls = objects_in(message.pop("tool_calls", None)) or [
        {"id": one.get("id"), **as_object(one.get("function"))} for one in given
    ]
    calls += objects_in(message.pop("invalid_tool_calls", None))
    message |= {"additional_kwargs": more} if more else {}
    ids = [call.get("id") for call in calls]
    said = [one for one in listed(content or "") if _id_of_call(as_object(one)) not in ids]
    asked = [{**call, "type": "tool_call", "error": None} for call in calls]
    return [*([{"type": "thinking", "text": thought}] if thought else []), *said, *asked]


def _id_of_call(block: JsonObject) -> Json:
    is_call = block.get("type") in ("tool_use", "tool_call", "function_call")
    return block.get("call_id", block.get("id")) if is_call else block


def _flat_langchain(block: Fields) -> Iterator[Json]:
    kind = block.get("type")
    if kind == "image_url":
        held = block.pop("image_url", None)
        block |= {"type": "image", "url": as_object(held).get("url", held)}
    elif kind == "reasoning" and "summary" in block:  # an item of OpenAI's
        thoughts = [as_text(one.get("text")) for one in objects_in(block.pop("summary"))]
        block |= {"text": "\n\n".join(thoughts), "signature": block.pop("encrypted_content", None)}
        block["vendor"] = "openai_responses"
    for key in ("index", "source_type"):
        block.pop(key, None)
    yield {**as_object(block.pop("extras", None)), **as_object(block.pop("source", None)), **block}


# ---- the AI SDK (Vercel) ----

_VERCEL: Final = ("tool-call", "tool-result", "reasoning", "redacted-reasoning")
_OUTPUTS: Final = {"output", "result", "errorText"}
_SIGNED: Final = by_name(
    signature="reasoningEncryptedContent thoughtSignature", redacted="redactedData", id="itemId"
)


def _is_vercel(row: JsonObject) -> bool:
    """Whether a message is a UI message, or a model message; plain ones are anybody's."""
    held, content = row.get("parts"), row.get("content")
    is_said = row.get("role") in ("system", "user", "assistant", "tool")
    if not is_said or row.keys() & {"tool_calls", "info", "type", "created"}:
        return False
    if held is not None or "toolInvocations" in row:
        return isinstance(held, list | None) and all(map(_is_typed, as_list(held)))
    pieces = map(as_object, as_list(content))
    return isinstance(content, str | list) and all(
        one.get("type") == "text" or _is_vercel_piece(one) for one in pieces
    )


def _is_typed(piece: Json) -> bool:
    return "type" in as_object(piece)


def _is_vercel_piece(piece: JsonObject) -> bool:
    kind = as_text(piece.get("type"))
    is_file = bool(piece.keys() & {"mediaType", "image", "mimeType"}) and "source" not in piece
    is_own = kind in _VERCEL or kind.startswith("tool-approval-")
    return is_own or (kind in ("file", "image") and is_file)


def _marks_vercel(row: JsonObject) -> bool:
    is_shown = bool(row.keys() & {"parts", "toolInvocations"})
    return is_shown or any(map(_is_vercel_piece, objects_in(row.get("content"))))


def _read_vercel(builder: Builder) -> None:
    for message in builder.rows():
        role, content = message.pop("role", None), message.pop("content", None)
        calls = as_list(message.pop("toolInvocations", None))
        builder.say(message, role, message.pop("parts", [*listed(content), *calls]))


def _flat_vercel(part: Fields) -> Iterator[Json]:
    part |= as_object(part.pop("toolInvocation", None))
    kind = as_text(part.get("type"))
    signed: Fields = {}
    for name in ("providerMetadata", "providerOptions", "callProviderMetadata"):
        for vendor, held in as_object(part.pop(name, None)).items():
            signed["vendor"] = protocol_of(vendor)
            signed |= {_SIGNED.get(key, key): value for key, value in as_object(held).items()}
    state = part.pop("state", None)
    if kind == "tool-result":
        held = pop(part, "output")
        inner = as_object(held)
        told, value = as_text(inner.get("type")), inner.get("value")
        if told == "execution-denied":
            reason = as_text(inner.get("reason"))
            value = f"The user denied this call{f': {reason}' if reason else '.'}"
        if told in ("text", "json", "error-text", "error-json", "execution-denied"):
            failed = told[:1] == "e" or part.get("isError")
            part |= {"output": value or "", "isError": failed}
        else:
            part |= {"parts": value} if told == "content" else {"output": held}
        yield part
    elif "toolCallId" in part and not kind.startswith("tool-approval-"):
        about = {"toolCallId": part["toolCallId"]}
        about["toolName"] = part.get("toolName", kind.removeprefix("tool-"))
        signed.pop("id", None)
        yield {"type": "tool-call", **about, "input": pop(part, "arguments"), **signed}
        asked = as_object(part.pop("approval", None))
        if state == "output-denied" or asked.get("approved") is False:
            denied = {"type": "execution-denied", "reason": asked.get("reason")}
            yield from _flat_vercel({"type": "tool-result", **about, "output": denied})
        elif state in ("output-available", "output-error", "result") or part.keys() & _OUTPUTS:
            failed = state == "output-error" or "errorText" in part
            yield {"type": "tool-result", **about, "output": pop(part, "output"), "isError": failed}
    else:
        held = part.pop("image", part.get("data"))
        inner = as_object(held)
        part |= {"data": inner.get("data", inner.get("url", held))} if held else {}
        yield {**part, **signed}


# ---- LlamaIndex ----


def _is_llama(row: JsonObject) -> bool:
    is_dumped = isinstance(row.get("blocks"), list) or "content" in row
    has_mark = bool(row.keys() & {"blocks", "additional_kwargs"})
    return "role" in row and "type" not in row and is_dumped and has_mark


def _read_llama(builder: Builder) -> None:
    for message in builder.rows():
        role, more = message.pop("role", None), as_object(message.pop("additional_kwargs", {}))
        content = message.pop("blocks", message.pop("content", None))
        pieces = listed(content)
        if role in ("tool", "function"):
            told = {key: more.pop(key, "") for key in ("tool_call_id", "name")}
            pieces = [{"type": "tool-result", **told, "parts": pieces}]
        known = [one.get("tool_call_id") for one in objects_in(pieces)]
        for call in objects_in(more.pop("tool_calls", None)):
            if call.get("id") not in known:
                asked = as_object(call.get("function"))
                pieces.append({"type": "tool_call", **asked, "id": call.get("id")})
        builder.say(message | more, role, pieces)


# By a field of its: blocks that were dumped without their defaults do not say their type.
_GUESSES: Final = {"text": "text", "tool_kwargs": "tool_call", "image": "image", "data": "document"}


def _flat_llama(block: Fields) -> Iterator[Json]:
    guess = next((kind for key, kind in _GUESSES.items() if key in block), "thinking")
    kind = as_text(block.pop("block_type", block.get("type", guess)))
    signature = as_object(block.pop("additional_information", None)).get("signature")
    block |= {"signature": signature, "vendor": "anthropic"} if signature else {}
    if form := block.pop("format", None):
        block["mime_type"] = f"audio/{form}"
    block.pop("num_tokens", None)
    yield {"mime_type": block.pop(f"{kind}_mimetype", None), **block, "type": kind}


# ---- Bedrock Converse ----

_BEDROCK: Final = frozenset(
    "text image document video audio toolUse toolResult guardContent cachePoint reasoningContent "
    "citationsContent searchResult".split()
)
_MEDIA: Final = {"pdf": "application/pdf", "txt": "text/plain", "md": "text/markdown"}


def _is_bedrock(row: JsonObject) -> bool:
    blocks = as_list(row.get("content"))
    is_all = all(_BEDROCK.issuperset(as_object(one) or "?") for one in blocks)
    is_said = row.get("role") in ("user", "assistant") and isinstance(row.get("content"), list)
    return is_said and is_all


def _read_bedrock(builder: Builder) -> None:
    head = builder.reading.head
    given = objects_in(as_object(head.get("toolConfig")).get("tools"))
    specs = [as_object(one["toolSpec"]) for one in given if "toolSpec" in one]
    own = [{**one, "inputSchema": as_object(one.get("inputSchema")).get("json")} for one in specs]
    builder.reading.tools = tools_of({"tools": own}, builder.note)
    if system := builder.pieces(head.get("system")):
        builder.append("system", {"parts": system}, {})
    model = head.get("modelId")
    for message in builder.rows():
        about = {"model": model} if model else {"provider": "claude"}
        role, content = message.pop("role", None), message.pop("content", None)
        builder.say(message | about, role, content)


def _flat_bedrock(block: Fields) -> Iterator[Json]:
    for kind, held in block.items():
        inner = dict(as_object(held))
        source, told = as_object(inner.pop("source", None)), as_object(inner.get("text"))
        if kind == "text":
            yield {"type": kind, kind: held}
        elif kind == "json":
            yield compact_json(held)
        elif kind == "guardContent" and told:
            yield {"type": "text", "text": told.get("text")}
        elif kind == "toolResult":
            yield {"type": kind, "parts": inner.pop("content", None), **inner}
        elif kind == "reasoningContent":
            told = as_object(inner.get("reasoningText"))
            yield {"type": "thinking", "redacted": inner.get("redactedContent"), **told}
        elif kind in ("citationsContent", "searchResult") or source.keys() & {"text", "content"}:
            texts = objects_in(inner.get("content", source.get("content", [source])))
            yield from (as_text(one.get("text")) for one in texts)
        elif kind in ("image", "document", "video", "audio"):
            form, place = as_text(inner.pop("format", None)), as_object(source.get("s3Location"))
            about = {"mime_type": _MEDIA.get(form, f"{kind}/{form}"), "url": place.get("uri")}
            yield {"type": kind, "data": source.get("bytes"), **about, **inner}
        else:
            yield {**inner, "type": kind}


_HISTORIES: Final = "messages message_history chat_history"
_STATES: Final = (
    "messages values.messages channel_values.messages checkpoint.channel_values.messages"
)
FRAMEWORK_FORMATS: Final = {
    **program("pydantic_ai", _is_pydantic, _read_pydantic, _flat_pydantic, _HISTORIES),
    **program("langchain", _is_langchain, _read_langchain, _flat_langchain, _STATES),
    **program("vercel_ai", _is_vercel, _read_vercel, _flat_vercel, marks=_marks_vercel),
    **program("llama_index", _is_llama, _read_llama, _flat_llama, _HISTORIES),
    **program(
        "bedrock", _is_bedrock, _read_bedrock, _flat_bedrock, marks=lambda row: bool(row["content"])
    ),
}
