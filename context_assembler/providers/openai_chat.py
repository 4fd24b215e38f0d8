"""OpenAI Chat Completions, and the many servers that imitate it."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from context_assembler.context import Request
from context_assembler.errors import EmptySessionError, ReplyError, UnsupportedRequestError
from context_assembler.events import Json, JsonObject, compact_json
from context_assembler.models import ModelLimits
from context_assembler.ports import ChangeForms, Payload, ToolSearch, ToolSpec, Turn
from context_assembler.providers import openai, wire
from context_assembler.providers.lent import LentList
from context_assembler.providers.schemas import root_object_schema
from context_assembler.providers.wire import as_list, as_object, as_text, objects_in
from context_assembler.report import ReportEntry
from context_assembler.texts import REMINDER_TAG, clean_text, fence

NAME: Final = "openai_chat"
Message = dict[str, Json]

# https://github.com/openai/openai-openapi, FunctionDefinition.name (read 2026-11-27)
NAME_RULE: Final = wire.NameRule(re.compile(r"[a-zA-Z0-9_-]{1,64}"), 64)
# Longer ids are refused: "string too long. Expected a string with maximum length 40".
ID_RULE: Final = wire.NameRule(re.compile(r"[!-~]{1,40}"), 40)
# https://github.com/badlogic/pi-mono/issues/3975 (read 2026-11-27)
_MISTRAL_IDS: Final = wire.NameRule(re.compile(r"[a-zA-Z0-9]{9}"), 9, keeps_prefix=False)
MAX_CALLS: Final = 128  # of one message: https://github.com/openai/openai-openapi
MAX_STOP_SEQUENCES: Final = 4
# What these answer: Unsupported parameter, stop is not supported with this model.
WITHOUT_STOP: Final = re.compile(
    r"(o1(-mini|-preview)?|o3|o4-mini|gpt-5(-mini|-nano)?)(-\d{4}-\d{2}-\d{2})?"
)
# https://github.com/openai/openai-openapi, ChatCompletionRequestUserMessageContentPart and
# ChatCompletionRequestAssistantMessageContentPart (read 2026-11-27): a file has no URL, an image no
# id. By type: which fields inside must hold text; one of them is enough for a file.
PART_TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "text": (),
    "refusal": (),
    "image_url": ("url",),
    "input_audio": ("data", "format"),
    "file": ("file_id", "file_data"),
}


def takes_late_instructions(limits: ModelLimits) -> bool:
    """Whether instructions may come in the middle of a conversation."""
    return openai.is_own_api(limits) or limits.supports("mid_conversation_system")


class Wire(wire.GrownWire):
    """The messages of one request, grown turn by turn.

    `developer` replaces `system` from the first reasoning models on, so the models that reason take
    it and the others do not. Other vendors know `system`, often in the first place only, and some
    insist that user and assistant alternate.

    Source:
        https://developers.openai.com/api/docs/guides/text, docstrings of the openai package 3.57
        (read 2026-11-27)
    """

    def __init__(self, request: Request) -> None:
        limits = request.limits
        super().__init__(request, _MISTRAL_IDS if limits.provider == "mistral" else ID_RULE)
        self._is_own = openai.is_own_api(limits)
        self._role = "developer" if self._is_own and limits.thinking.kinds else "system"
        self._takes_late = takes_late_instructions(limits)
        self._returns_reasoning = limits.supports("reasoning_back")
        self._names = _names(request)
        self._tool_of: dict[str, str] = {}  # ids of the newest reply's calls → tool
        self._tools = self._offered()
        self._rendered_tools = [self._tool(tool) for tool in self._tools]
        self._effort = openai.effort_of(request)
        if self._must_not_reason() and "none" in limits.thinking.levels and self._effort != "none":
            self._effort = "none"
            reason = (
                "Chat Completions takes this model's tools only without reasoning: it is 'none'."
            )
            rule = "parameter.thinking_level"
            entry = ReportEntry("note", "thinking_level", "repaired", reason=reason, rule=rule)
            self.entries.append(entry)

    def _head(self) -> Json:
        return [NAME, self._system(), self._rendered_tools]

    # -- messages --

    def add(self, turn: Turn) -> None:
        """Append a turn; neighbouring assistant messages become one.

        Calls must be answered before any other message:
        https://github.com/agno-agi/agno/issues/4345 (read 2026-11-27)
        """
        role, parts = turn["role"], turn["parts"]
        if role == "tool":
            self._add_results(turn)
        elif role == "assistant":
            self._add_reply(turn)
        elif turn.get("kind") == "summary":
            self._say("user", wire.summary_text(turn))
        elif role == "user" and len(parts) == 1 and len(parts[0]) == 2 and "text" in parts[0]:
            text = clean_text(parts[0]["text"])
            if text and not text.isspace():
                self._say("user", text)
        elif role == "user":
            if any(part["type"] == "tool_result" for part in parts):
                self._add_results(turn)
            settled = wire.settle_parts(turn, self._settle, self.entries)
            self._say("user", [made for part in settled for made in self._content(part)])
        else:
            settled = wire.settle_parts(turn, self._settle, self.entries)
            text = wire.text_of(settled)
            media = [
                made
                for part in settled
                if part["type"] in ("image", "document")
                for made in self._content(part)
            ]
            if (
                self._takes_late
                and not media
                and turn.get("origin") not in wire.NO_SYSTEM_AUTHORITY
            ):
                self._say(self._role, clean_text(text))
            else:
                reminder = _texts(fence(REMINDER_TAG, text)) if text else []
                self._say("user", [*reminder, *media])

    def _say(self, role: str, content: str | list[Message]) -> None:
        """Append a message, a lone text as a plain string; none without content."""
        if isinstance(content, list) and len(content) == 1 and content[0].get("type") == "text":
            content = content[0]["text"]
        if not content:
            return
        message: Message = {"role": role, "content": content}
        self._units.append(message)
        last = self.messages[-1] if self.messages else None
        if role == "user" and not self._is_own and last is not None and last["role"] == "user":
            merged = [*_as_parts(last["content"]), *_as_parts(content)]
            self.messages[-1] = {"role": "user", "content": merged}
        else:
            self.messages.append(message)

    def _add_reply(self, turn: Turn) -> None:
        """Append an assistant message; one of calls alone has no content, an empty one vanishes."""
        parts: Sequence[JsonObject] = turn["parts"]
        calls = [part["call_id"] for part in parts if part["type"] == "tool_call"]
        ids = self._ids.of_calls(calls) if calls else []
        texts: list[str] = []
        made: list[Message] = []
        refusals: list[Message] = []
        if not all(
            (len(part) == 2 and "text" in part) or part["type"] == "tool_call" for part in parts
        ):
            parts = wire.settle_parts(turn, self._settle, self.entries)
        for part in parts:
            kind = part["type"]
            if kind == "tool_call":
                made.append(self._call(part, ids[len(made)]))
            elif kind == "opaque" and part["provider"] == NAME:
                refusals.append(wire.plain_json(part["block"]))
            elif kind in ("text", "opaque"):
                text = clean_text(part.get("text", ""))
                if text and not text.isspace():
                    texts.append(text)
                    refusals.append({"type": "text", "text": text})
        message: Message = {"role": "assistant"}
        if texts or refusals:
            is_text = len(texts) == len(refusals)
            message["content"] = "\n".join(texts) if is_text else refusals
        if made:
            message["tool_calls"] = made
            self._tool_of = {
                call_id: part["name"]
                for part, call_id in zip(
                    (part for part in parts if part["type"] == "tool_call"), ids, strict=True
                )
            }
        if len(message) > 1:
            self._units.append(message)
            if made and self._returns_reasoning:
                # DeepSeek and Kimi refuse a turn with calls that lacks its reasoning.
                # https://github.com/badlogic/pi-mono/issues/3636 (read 2026-11-29)
                thoughts = (p.get("text", "") for p in parts if p["type"] == "thinking")
                if thought := "\n".join(filter(None, thoughts)):
                    message = {**message, "reasoning_content": clean_text(thought)}
            if self.messages and self.messages[-1]["role"] == "assistant":
                self.messages[-1] = _merged(self.messages[-1], message)
            else:
                self.messages.append(message)
        if any(part["type"] == "tool_result" for part in parts):
            self._add_results(turn)

    def _call(self, part: JsonObject, call_id: str) -> Message:
        """Return a call, with the model's own arguments text if it is an object."""
        name = self._names[part["name"]]
        if "extras" in part and wire.own_extras(part, NAME).get("type") == "custom":
            arguments = wire.plain_json(part.get("arguments", {}))
            given = arguments.get("input")
            text = given if isinstance(given, str) else compact_json(arguments)
            return {"id": call_id, "type": "custom", "custom": {"name": name, "input": text}}
        raw = part.get("arguments_json")
        if not (raw and raw.isascii() and part.get("arguments")):
            raw = wire.arguments_text(part)
        return {"id": call_id, "type": "function", "function": {"name": name, "arguments": raw}}

    def _add_results(self, turn: Turn) -> None:
        """Append tool messages: text only, an error marked in words as there is no flag.

        What the tools returned besides text follows in one user message.
        """
        answers: list[Message] = []
        attached: list[Message] = []
        for part in turn["parts"]:
            if part["type"] != "tool_result":
                continue
            sent, content = self._ids.of_result(part["call_id"]), part.get("content", ())
            if len(content) == 1 and len(content[0]) == 2 and "text" in content[0]:
                text = clean_text(content[0]["text"])
                text = "" if text.isspace() else text
            else:
                one: Turn = {**turn, "parts": [part]}
                settled = wire.settle_parts(one, self._settle, self.entries)[0]
                texts = (_text_in_result(inner) for inner in settled.get("content", ()))
                text = "\n".join(t for t in texts if t.strip())
                tool = part.get("tool_name") or self._tool_of.get(sent, "a tool")
                for inner in settled.get("content", ()):
                    if _is_attachment(inner):
                        kind = inner["type"].capitalize()
                        label = f"{kind} returned by {self._names[tool]} ({sent}):"
                        attached += [*_texts(label), *self._content(inner)]
            if part.get("is_error"):
                text = wire.mark_failure(text)
            answer = {"role": "tool", "tool_call_id": sent, "content": text or wire.NO_OUTPUT}
            answers.append(answer)
        self._units += answers
        calls = self.messages[-1].get("tool_calls", ()) if self.messages else ()
        if len(calls) > MAX_CALLS:  # one message of too many calls as several, each answered
            whole = self.messages.pop()
            for at in range(0, len(calls), MAX_CALLS):
                some = calls[at : at + MAX_CALLS]
                asked = {call["id"] for call in some}
                rest = {"role": "assistant"} if at else whole
                self.messages.append({**rest, "tool_calls": some})
                self.messages += [a for a in answers if a["tool_call_id"] in asked]
            answers = [a for a in answers if a["tool_call_id"] not in {c["id"] for c in calls}]
        self.messages += answers
        self._say("user", attached)

    def _settle(self, part: JsonObject, role: str, changes: list[wire.Change]) -> list[JsonObject]:
        if part["type"] in ("image", "document"):
            from context_assembler.providers.media import settle_media

            rules = openai.media_rules(
                self.request.limits,
                api="Chat Completions",
                fetches_documents=False,
                takes_image_ids=False,
            )
            return settle_media(part, role, changes, rules=rules, limits=self.request.limits)
        if part["type"] != "opaque" or part["provider"] == "context-assembler":
            return [part]
        flaw = (
            _flaw_of(part["block"], role, is_own=self._is_own) if part["provider"] == NAME else ""
        )
        if flaw is None:
            return [part]
        return wire.settle_opaque(part, role, changes, provider=NAME, flaw=flaw)

    def _content(self, part: JsonObject) -> list[Message]:
        """Return the content parts that a part becomes in a user message; blank text vanishes."""
        kind = part["type"]
        if kind == "opaque" and part["provider"] == NAME:
            return [wire.plain_json(part["block"])]
        if kind in ("text", "opaque"):
            return _texts(part.get("text", ""))
        if kind not in ("image", "document"):
            return []
        from context_assembler.providers.media import (
            about_document,
            data_url,
            document_text,
            media_type_of,
        )

        source = part["source"]
        is_inline = source["type"] == "base64"
        url = (
            data_url(media_type_of(source), source["data"]) if is_inline else source.get("url", "")
        )
        if kind == "image":
            detail = {"detail": part["detail"]} if part.get("detail") else {}
            return [{"type": "image_url", "image_url": {"url": clean_text(url), **detail}}]
        # https://developers.openai.com/api/docs/guides/pdf-files (read 2026-11-27)
        if part.get("text") is not None:
            return [{"type": "text", "text": document_text(part)}]
        about = _texts(about_document(part, has_title=is_inline))
        title = clean_text(part.get("title") or "document.pdf")
        file = (
            {"filename": title, "file_data": url} if is_inline else {"file_id": source["file_id"]}
        )
        return [*about, {"type": "file", "file": file}]

    # -- tools, system, parameters --

    def _offered(self) -> list[ToolSpec]:
        """Return the tools that are offered; those that a gateway runs bear its name.

        Source:
            types of the openai package 3.57, ChatCompletionToolUnionParam
            https://openrouter.ai/docs/guides/features/server-tools/tool-search (read 2026-11-27)
        """

        def flaw_of(tool: ToolSpec) -> str:
            kind = str(tool.native_specs[NAME].get("type", ""))
            return f"OpenAI knows no tool of the type {kind!r}." if ":" in kind else ""

        request, entries = self.request, self.entries
        flaw = flaw_of if self._is_own else lambda _: ""
        tools = wire.declared_tools(request, NAME, entries, flaw_of=flaw)
        if self._is_own:  # how many other servers take is not known
            most, api = openai.MAX_TOOLS, "Chat Completions"
            tools = wire.first_tools(request, tools, entries, most=most, api=api)
        return openai.leave_strict(tools, entries)

    def _tool(self, tool: ToolSpec) -> Message:
        """Return one tool; `strict` is sent only if it is asked for.

        Source:
            https://developers.openai.com/api/docs/guides/function-calling (read 2026-11-27)
        """
        if tool.native_specs:
            native: Message = wire.plain_json(tool.native_specs[NAME])
            return native
        function: Message = {"name": self._names[tool.name]}
        if tool.description.strip():
            function["description"] = clean_text(tool.description)
        function["parameters"] = root_object_schema(tool.input_schema)
        if tool.is_strict:
            function["strict"] = True
        return {"type": "function", "function": function}

    def _system(self) -> list[Message]:
        text = clean_text(self.request.system)
        return [{"role": self._role, "content": text}] if text.strip() else []

    def _must_not_reason(self) -> bool:
        """Whether the model takes these tools only when it does not reason.

        From gpt-5.4 on, Chat Completions refuses function tools with any effort but `none`; models
        without `none` take tools in the Responses API only.

        Source:
            https://developers.openai.com/api/docs/guides/deployment-checklist
            https://github.com/danny-avila/LibreChat/issues/14231 (read 2026-11-27)
        """
        takes_both = self.request.limits.features.get("chat_tools_with_reasoning") is not False
        return bool(self._tools) and not takes_both

    def write(self, request: Request) -> Payload:
        """Return keyword arguments for `chat.completions.create`."""
        if not self.messages:
            raise EmptySessionError(request.session_id)
        before = self._system()
        if self.messages[0]["role"] == "assistant":
            before.append({"role": "user", "content": wire.OPENING})
        made: Payload = {"model": request.limits.wire_id, **self._parameters(request)}
        if self._rendered_tools:
            made["tools"] = LentList(self._rendered_tools)
        made |= self._tool_choice(request)
        made["messages"] = LentList([*before, *self.messages])
        return made

    def _parameters(self, request: Request) -> Message:
        parameters, limits = request.parameters, request.limits

        def refusal(problem: str, remedy: str) -> UnsupportedRequestError:
            return UnsupportedRequestError(problem, provider=NAME, model=limits.id, remedy=remedy)

        if self._must_not_reason() and "none" not in limits.thinking.levels:
            raise refusal(
                "it takes function tools in the Responses API only",
                "Use the Responses API for this model, leave the tools out, "
                "or choose a model that can answer without reasoning.",
            )
        # `max_tokens` does not count reasoning: https://github.com/openai/openai-openapi
        key = "max_completion_tokens" if self._is_own else "max_tokens"
        made: Message = {key: parameters.max_tokens}
        if self._effort is not None:
            made["reasoning_effort"] = self._effort
        common = openai.common_parameters(request, is_own=self._is_own)
        cache_key = common.pop("prompt_cache_key", None)
        made |= common
        if stop := parameters.stop_sequences:
            if self._is_own and WITHOUT_STOP.fullmatch(limits.id):
                raise refusal("it takes no stop sequences", "Leave stop_sequences out.")
            if len(stop) > MAX_STOP_SEQUENCES:
                most = f"at most {MAX_STOP_SEQUENCES} stop sequences"
                remedy = f"Keep the {MAX_STOP_SEQUENCES} most telling ones."
                raise refusal(f"it takes {most}, not {len(stop)}", remedy)
            made["stop"] = list(map(clean_text, stop))
        if parameters.top_k is not None:
            if self._is_own:
                raise refusal("it has no top_k", "Leave top_k out, or use top_p.")
            made["extra_body"] = {"top_k": parameters.top_k}
        return made | ({"prompt_cache_key": cache_key} if cache_key is not None else {})

    def _tool_choice(self, request: Request) -> Message:
        choice = request.parameters.tool_choice
        if choice is not None and choice.allowed is not None and not self._is_own:
            reason = "The server cannot be told which of the tools alone may be called."
            rule = "parameter.allowed_tools"
            entry = ReportEntry("note", "allowed_tools", "dropped", reason=reason, rule=rule)
            self.entries += [entry] if entry not in self.entries else []
        names = openai.names_to_choose(request, NAME, is_own=self._is_own)
        wanted = {self._names[name] for name in names}
        named = [(tool["type"], _tool_name(tool)) for tool in self._rendered_tools]
        chosen = [{"type": kind, kind: {"name": name}} for kind, name in named if name in wanted]
        among: Message = {}
        if chosen:
            allowed = {"mode": openai.allowed_mode(request), "tools": chosen}
            among = {"type": "allowed_tools", "allowed_tools": allowed}
        return openai.tool_choice(
            request,
            NAME,
            self._tools,
            has_tools=bool(self._rendered_tools),
            among=among,
            choose=lambda name: {"type": "function", "function": {"name": self._names[name]}},
        )


def payload(request: Request, wire: Wire) -> Payload:
    """Return keyword arguments for `chat.completions.create`; plain JSON, nothing is `None`.

    Raises:
        UnsupportedRequestError: Chat Completions cannot express the request for this model.
        EmptySessionError: No message has anything to send.
    """
    return wire.write(request)


def change_forms(limits: ModelLimits) -> ChangeForms:
    """Return how the model can learn of changed tools: which of them it may call.

    Source:
        types of the openai package 3.57, ChatCompletionAllowedToolsParam (read 2026-11-27)
    """
    is_own = openai.is_own_api(limits) and limits.host is None
    return ChangeForms(withdraws="choice") if is_own else ChangeForms()


def tool_search(_limits: ModelLimits) -> ToolSearch | None:
    """Return `None`: there is no search for deferred tools."""
    return None


def _names(request: Request) -> wire.WireNames:
    specs = {tool.name: tool.native_specs.get(NAME) for tool in wire.known_tools(request)}
    native = {own: name for own, spec in specs.items() if spec and (name := _tool_name(spec))}
    return wire.WireNames(request, NAME_RULE, native)


def _tool_name(tool: JsonObject) -> str:
    inner = as_object(tool.get(as_text(tool.get("type"))))
    return as_text(inner.get("name", tool.get("name")))


def _texts(text: str) -> list[Message]:
    text = clean_text(text)
    return [{"type": "text", "text": text}] if text.strip() else []


def _as_parts(content: Json) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _merged(first: Message, second: Message) -> Message:
    merged: Message = {"role": "assistant"}
    contents = [one["content"] for one in (first, second) if "content" in one]
    if contents:
        is_text = all(isinstance(content, str) for content in contents)
        lists = [part for content in contents for part in _as_parts(content)]
        merged["content"] = "\n".join(contents) if is_text else lists
    if calls := [*first.get("tool_calls", ()), *second.get("tool_calls", ())]:
        merged["tool_calls"] = calls
    thoughts = [one[key] for one in (first, second) if (key := "reasoning_content") in one]
    return merged | ({"reasoning_content": "\n".join(thoughts)} if thoughts else {})


def _is_attachment(part: JsonObject) -> bool:
    return part["type"] == "image" or (part["type"] == "document" and part.get("text") is None)


def _text_in_result(part: JsonObject) -> str:
    """Return what the text of a result says of a part: itself, or where it is attached."""
    if _is_attachment(part):
        return f"[{part['type']} attached in the next user message]"
    if part["type"] == "document":
        from context_assembler.providers.media import document_text

        return document_text(part)
    return clean_text(part.get("text", ""))


def _flaw_of(block: JsonObject, role: str, *, is_own: bool) -> str | None:
    """Return why a content part would be refused, half a sentence; `None`: nothing is known."""
    kind = as_text(block.get("type"))
    if not kind:
        return "it has no type"
    held, keys = block.get(kind), PART_TYPES.get(kind)
    if keys == () and not isinstance(held, str):
        return f"its {kind} is no text"
    if keys:
        filled = [bool(as_text(as_object(held).get(key)).strip()) for key in keys]
        if not (any(filled) if kind == "file" else all(filled)):
            return f"its {kind} has no {' or '.join(keys)}"
    takes = kind == "refusal" if role == "assistant" else kind != "refusal"
    if not takes or (is_own and keys is None):
        return f"it is not taken from the {role}"
    return None


# ---- reading ----

_CHUNK: Final = "chat.completion.chunk"
_WHOLE: Final = ("id", "type", "role", "name")  # some servers say these again in every chunk
Note = Callable[[str, str], None]


def matches_reply(reply: Any) -> bool:
    """Whether the reply is a chat completion: an SDK's object, its dict, or a stream's chunks."""
    field = wire.field_of
    if isinstance(reply, list | tuple):
        held = [field(piece, "chunk") for piece in reply if field(piece, "type") == "chunk"]
        return bool(reply) and all(
            (field(chunk, "object") or _CHUNK) == _CHUNK
            and isinstance(field(chunk, "choices"), list)
            for chunk in held or reply
        )
    kind = field(reply, "object") or "chat.completion"
    return kind == "chat.completion" and isinstance(field(reply, "choices"), list)


def read_reply(reply: Any, request: Request | None = None) -> wire.Reply:
    """Return the first choice's parts: reasoning text, text, refusal, calls.

    Tools get back the names that they have in the request.

    Raises:
        ReplyError: The reply is no chat completion.
    """
    warnings: list[str] = []
    if isinstance(reply, list | tuple):
        body = _join_chunks(wire.read_stream(reply, warnings))
    else:
        body = wire.read_object(reply, warnings)
    if body is None:
        raise ReplyError(reply, reason="it is neither a dict nor an SDK object")
    choices = as_list(body.get("choices"))
    if not choices:
        raise ReplyError(reply, reason="it has no choices")
    choice = as_object(choices[0])
    message = as_object(choice.get("message"))
    if not message:
        raise ReplyError(reply, reason="its first choice has no message")
    if len(choices) > 1:
        warnings.append(f"Only the first of {len(choices)} choices was read.")
    names = _names(request).own() if request is not None else {}
    parts = _read_reply(message, names, lambda _, what: warnings.append(what))
    finish, calls = as_text(choice.get("finish_reason")), objects_in(message.get("tool_calls"))
    unfinished: tuple[str, ...] = ()
    if finish in ("", "length", "content_filter") and calls and parts[-1]["type"] == "tool_call":
        target = as_object(calls[-1].get("function"))  # of its arguments more was to come
        if wire.parse_object(as_text(target.get("arguments"))) is None:
            unfinished = (parts[-1]["call_id"],)
    return wire.Reply(
        provider=NAME,
        model=as_text(body.get("model")),
        parts=parts,
        unfinished_calls=unfinished,
        response_id=as_text(body.get("id")) or None,
        stop_reason=finish or None,
        usage=openai.read_usage(body.get("usage"), asked="prompt", answered="completion"),
        warnings=(*warnings, *map(wire.say_unfinished, unfinished)),
    )


def _join_chunks(events: Sequence[Message]) -> Message | None:
    """Return the completion as far as it came; of several choices the first.

    Source:
        https://platform.openai.com/docs/api-reference/chat-streaming (read 2026-11-28)
    """
    held = [as_object(event.get("chunk")) for event in events if event.get("type") == "chunk"]
    whole: Message = {}
    choice: Message = {}
    message: Message = {}
    calls: list[tuple[Json, Message]] = []
    for chunk in held or events:
        whole |= wire.without_nulls(chunk)
        for one in objects_in(chunk.get("choices")):
            if one.get("index") or not isinstance(one.get("delta"), dict):
                continue
            choice |= wire.without_nulls(one)
            delta = dict(one["delta"])
            for place, call in enumerate(objects_in(delta.pop("tool_calls", None))):
                at = call.pop("index", place)
                # A new id begins a new call, whatever the index says.
                # https://github.com/NousResearch/hermes-agent/issues/57939 (read 2026-11-29)
                open_calls = [made for index, made in calls if index == at]
                new_id = as_text(call.get("id"))
                if not open_calls or (new_id and new_id != open_calls[-1].get("id", new_id)):
                    calls.append((at, {}))
                    open_calls = [calls[-1][1]]
                _grow(open_calls[-1], call)
            _grow(message, delta)
    if not choice and not whole.get("choices"):
        return None
    if calls:
        message["tool_calls"] = [call for _, call in calls]
    return {**whole, "object": "chat.completion", "choices": [{**choice, "message": message}]}


def _grow(whole: Message, piece: JsonObject) -> None:
    """Add a piece field by field; what is said whole stays as it came first."""
    for key, said in piece.items():
        before = whole.get(key)
        if said is None or (key in _WHOLE and before):
            continue
        if isinstance(said, dict):
            whole[key] = dict(before) if isinstance(before, dict) else {}
            _grow(whole[key], said)
        elif isinstance(before, str | list) and isinstance(said, type(before)):
            whole[key] = before + said
        else:
            whole[key] = said


def _read_reply(message: JsonObject, names: Mapping[str, str], note: Note) -> list[JsonObject]:
    """Return an assistant message's parts; other servers put readable reasoning into fields."""
    thought = message.get("reasoning_content") or message.get("reasoning")
    details = message.get("reasoning_details")
    parts: list[JsonObject] = []
    if isinstance(details, list) and details:
        # May hold signatures and encrypted reasoning: it is kept whole.
        text = as_text(thought) or _readable(details)
        block = {"reasoning_details": details}
        parts.append({"type": "thinking", "text": text, "provider": NAME, "block": block})
    elif isinstance(thought, str) and thought:
        parts.append({"type": "thinking", "text": thought, "provider": NAME})
    content = _read_content(message.get("content"), "content", note)
    cited = as_list(message.get("annotations"))
    if cited and content and isinstance(message.get("content"), str):
        content = [content[0] | {"extras": {NAME: {"annotations": cited}}}]
    parts += content
    if refusal := as_text(message.get("refusal")):
        parts.append(_opaque({"type": "refusal", "refusal": refusal}))
    calls = as_list(message.get("tool_calls"))
    for at, call in enumerate(calls):
        parts += _read_call(as_object(call), f"tool_calls[{at}]", names, note)
    if (legacy := as_object(message.get("function_call"))) and not calls:
        # The old form has no ids: its result names the function.
        call = {"id": as_text(legacy.get("name")), "function": legacy}
        parts += _read_call(call, "function_call", names, note)
    if audio := as_object(message.get("audio")):
        note("audio", "Of the spoken answer only the words were recorded.")
        if spoken := as_text(audio.get("transcript")):
            parts.append(wire.text_part(spoken))
    return parts


def _read_call(
    call: JsonObject, where: str, names: Mapping[str, str], note: Note
) -> list[JsonObject]:
    held = as_object(call.get("custom"))
    target = as_object(call.get("function")) or held or call
    sent, call_id = target.get("name"), as_text(call.get("id"))
    if not isinstance(sent, str):
        note(where, "is no tool call that can be read; left out")
        return []
    name, given = names.get(sent, sent), target.get("arguments", target.get("input"))
    extras = None
    if isinstance(held.get("input"), str):
        # types of the openai package 3.57, ChatCompletionMessageCustomToolCall (read 2026-11-27)
        given, extras = {"input": held["input"]}, {NAME: {"type": "custom"}}
    warnings: list[str] = []
    part = wire.read_call(call_id, name, given or None, warnings, extras=extras)
    for warning in warnings:
        note(f"{where}.arguments", warning)
    return [part]


def _readable(value: Json) -> str:
    if isinstance(value, list | tuple):
        return "\n".join(filter(None, map(_readable, value)))
    fields = as_object(value)
    texts = (fields.get(key) for key in ("text", "refusal", "summary", "transcript"))
    return as_text(value) or "\n".join(text for text in texts if isinstance(text, str))


def _opaque(block: JsonObject) -> JsonObject:
    text = _readable(block) or f"[{block.get('type')}]"
    return {"type": "opaque", "provider": NAME, "block": dict(block), "text": text}


def _read_content(content: Json, where: str, note: Note) -> list[JsonObject]:
    """Return a message's content as stored parts; text is one part, or none if it is empty."""
    if isinstance(content, str):
        return [wire.text_part(content)] if content else []
    if content is not None and not isinstance(content, list | tuple):
        note(where, f"is neither text nor a list of parts ({content!r:.40}); left out")
    parts: list[JsonObject] = []
    for at, one in enumerate(as_list(content)):
        if isinstance(one, str):
            parts.append(wire.text_part(one))
        elif isinstance(one, Mapping):
            parts += _read_part(one, f"{where}[{at}]", note)
        else:
            note(f"{where}[{at}]", f"is no content part ({one!r:.40}); left out")
    return parts


def _read_part(one: JsonObject, where: str, note: Note) -> list[JsonObject]:
    from context_assembler.providers.media import source_of

    kind = one.get("type")
    part: Message | None = None
    if kind == "text" and isinstance(one.get("text"), str):
        part = {"type": "text", "text": one["text"]}
    elif kind == "thinking":  # as Mistral has it
        block = {"block": dict(one)}
        return [{"type": "thinking", "text": _readable(one.get(kind)), "provider": NAME, **block}]
    elif kind == "image_url":
        given = one.get("image_url")
        fields = {"url": given} if isinstance(given, str) else as_object(given)
        if isinstance(fields.get("url"), str):
            part = {"type": "image", "source": source_of(fields["url"])}
            if (detail := fields.get("detail")) in ("low", "high", "auto", "original"):
                part["detail"] = detail
            elif detail is not None:
                note(f"{where}.detail", f"{detail!r:.40} is unknown; left out")
    elif kind == "file":
        fields = as_object(one.get("file"))
        file_id, encoded = fields.get("file_id"), as_text(fields.get("file_data"))
        source = source_of(encoded) if encoded else None
        if isinstance(file_id, str):
            source = {"type": "file", "provider": NAME, "file_id": file_id}
        if source is not None:
            title = {"title": held} if (held := as_text(fields.get("filename"))) else {}
            part = {"type": "document", "source": source, **title}
    if part is None:
        return [_opaque(one)]
    for key in one.keys() - {"type", as_text(kind), "cache_control"}:
        note(where, f"has the field {key!r}, which has no place in a session")
    return [part]


_KNOWN: Final = (
    *("role", "content", "tool_calls", "function_call", "reasoning_content", "reasoning_details"),
    *("tool_call_id", "audio", "refusal", "timestamp"),
)


def read_messages(
    messages: Json, note: Note = lambda _where, _what: None
) -> list[tuple[str, Message]]:
    """Return the events of a list of messages, or of a request: type and stored body.

    Fields without a place are kept in the event's metadata. Also read: results with `id` and
    `error` (tau2).

    Args:
        note: Gets the place and half a sentence for everything that is not kept as it came.
    """
    if isinstance(messages, Mapping):
        messages = messages.get("messages")
    events: list[tuple[str, Message]] = []
    for at, message in enumerate(as_list(messages)):
        where = f"messages[{at}]"
        role = as_text(as_object(message).get("role"))
        event = _EVENTS.get(role)
        if event is None:
            what = f"has the unknown role {role!r:.40}" if role else "is no message: it has no role"
            note(where, f"{what}; left out")
            continue

        def noted(place: str, what: str, where: str = where) -> None:
            note(f"{where}.{place}", what)

        kept = {key: held for key, held in message.items() if key not in _KNOWN}
        kept |= {"role": role} if role == "developer" else {}
        if event == "assistant":
            parts = _read_reply(message, {}, noted)
            kept.pop("annotations", None)
        else:
            parts = _read_content(message.get("content"), "content", noted)
        if event == "tool_result":
            name = as_text(kept.pop("name", None))
            call_id = as_text(message.get("tool_call_id") or kept.pop("id", None))
            call_id = call_id or (name if role == "function" else "")
            if not call_id:
                noted("tool_call_id", "is missing: nobody knows which call this answers")
            result: Message = {"type": "tool_result", "call_id": call_id, "content": parts}
            result |= {"is_error": True} if kept.pop("error", None) is True else {}
            parts = [result | ({"tool_name": name} if name else {})]
        events.append((event, {"parts": parts} | ({"metadata": {NAME: kept}} if kept else {})))
    return events


_EVENTS: Final[Mapping[str, str]] = {
    "user": "user",
    "assistant": "assistant",
    "tool": "tool_result",
    "function": "tool_result",
    "system": "system",
    "developer": "system",
}
