"""OpenAI Chat Completions, and the many servers that imitate it."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from context_assembler.context import Request
from context_assembler.errors import ReplyError, UnsupportedRequestError
from context_assembler.events import Json, JsonObject
from context_assembler.models import ModelLimits
from context_assembler.ports import ChangeForms, ToolSpec, Turn
from context_assembler.providers import openai, wire
from context_assembler.providers.openai import Item
from context_assembler.providers.wire import as_list, as_object, as_text, objects_in
from context_assembler.texts import clean_text

NAME: Final = "openai_chat"

# https://github.com/openai/openai-openapi, FunctionDefinition.name (read 2026-11-27)
NAME_RULE: Final = wire.NameRule(re.compile(r"[a-zA-Z0-9_-]{1,64}"), 64)
# Longer ids are refused: "string too long. Expected a string with maximum length 40".
ID_RULE: Final = wire.NameRule(re.compile(r"[!-~]{1,40}"), 40)
# https://github.com/badlogic/pi-mono/issues/3975 (read 2026-11-27)
_MISTRAL_IDS: Final = wire.NameRule(re.compile(r"[a-zA-Z0-9]{9}"), 9, keeps_prefix=False)
MAX_CALLS: Final = 128  # of one message: https://github.com/openai/openai-openapi
MAX_STOP_SEQUENCES: Final = 4
# https://github.com/openai/openai-openapi, ChatCompletionRequestUserMessageContentPart and
# ChatCompletionRequestAssistantMessageContentPart (read 2026-11-27)
PART_TYPES: Final = ("text", "refusal", "image_url", "input_audio", "file")
# What servers call the readable reasoning of a reply.
REASONING_FIELDS: Final = ("reasoning_content", "reasoning", "reasoning_details")
# What a part of some types holds its content in.
_CONTENT: Final = {"image_url": "url", "input_audio": "data", "file": "file_data file_id"}


def takes_audio(model: str) -> bool:
    """Whether OpenAI's model hears and speaks: https://developers.openai.com/api/docs/guides/audio."""
    return "audio" in model


def takes_late_instructions(limits: ModelLimits) -> bool:
    """Whether instructions may come in the middle of a conversation."""
    return openai.is_own_api(limits) or limits.supports("mid_conversation_system")


def check_tools(limits: ModelLimits) -> None:
    """Refuse function tools for a model that always reasons; see `Wire._effort`."""
    is_bound = limits.features.get("chat_tools_with_reasoning") is False
    if is_bound and "none" not in limits.thinking.levels:
        problem = "it takes function tools in the Responses API only"
        remedy = "Use the Responses API for this model, leave the tools out, "
        remedy += "or choose a model that can answer without reasoning."
        raise UnsupportedRequestError(problem, provider=NAME, model=limits.id, remedy=remedy)


class Wire(openai.OpenAIWire):
    """The messages of one request, grown turn by turn.

    `developer` replaces `system` from the first reasoning models on, so the models that reason take
    it and the others do not. Other vendors know `system`, often in the first place only, and some
    insist that user and assistant alternate.

    Source:
        https://developers.openai.com/api/docs/guides/text, docstrings of the openai package 3.57
        (read 2026-11-27)
    """

    name, key, text_type = NAME, "messages", "text"
    api = "Chat Completions"
    # A file has no URL, and an image no id: https://github.com/openai/openai-openapi
    media: ClassVar[Mapping[str, Any]] = {"fetches_documents": False, "takes_image_ids": False}

    def __init__(self, request: Request) -> None:
        limits = request.limits
        own = openai.is_own_api(limits) and bool(limits.thinking.kinds)
        ids = _MISTRAL_IDS if limits.provider == "mistral" else ID_RULE
        super().__init__(request, (NAME_RULE, ids), "developer" if own else "system")
        self.takes_late = takes_late_instructions(limits)
        self.hears = self.is_own and takes_audio(limits.id)
        self._tool_of: dict[str, str] = {}  # ids of the newest reply's calls → tool
        self.tools = self._offer(most=openai.MAX_TOOLS)
        self.rendered_tools = [self._native(tool) or self._tool(tool) for tool in self.tools]

    def _head(self) -> Json:
        return [NAME, self._system(), self.rendered_tools]

    def _say(self, role: str, content: str | list[Item]) -> None:
        if isinstance(content, list) and len(content) == 1 and content[0].get("type") == "text":
            content = content[0]["text"]
        if not content:
            return
        message: Item = {"role": role, "content": content}
        self._units.append(message)
        last = self.messages[-1] if self.messages else message
        if role == last["role"] == "user" and not self.is_own and last is not message:
            merged = [*_as_parts(last["content"]), *_as_parts(content)]
            self.messages[-1] = {"role": "user", "content": merged}
        else:
            self.messages.append(message)

    def _add_reply(self, turn: Turn) -> None:
        """Append an assistant message; one of calls alone has no content, an empty one vanishes.

        Neighbouring assistant messages become one, since calls must be answered before any other
        message: https://github.com/agno-agi/agno/issues/4345 (read 2026-11-27)
        """
        parts = wire.settle_parts(turn, self._settle, self.entries)
        calls = [part for part in parts if part["type"] == "tool_call"]
        ids = self._ids.of_calls([call["call_id"] for call in calls]) if calls else []
        content: list[Item] = []
        spoken: Item = {}
        is_text = True
        for part in parts:
            heard = as_object(wire.own_extras(part, NAME).get("audio"))
            audio_id, end = as_text(heard.get("id")), wire.count_of(heard.get("expires_at"))
            if self.hears and audio_id and not self.has_expired(audio_id, end):
                # https://developers.openai.com/api/docs/guides/audio (read 2026-11-30)
                spoken = {"audio": {"id": audio_id}}
                continue
            if part["type"] == "opaque" and part["provider"] == NAME:
                content.append(wire.plain_json(part["block"]))
                is_text = False
            elif part["type"] in ("text", "opaque") and (text := wire.said(part.get("text", ""))):
                content.append({"type": "text", "text": text})
        message: Item = {"role": "assistant", **spoken}
        if content:
            message["content"] = "\n".join([p["text"] for p in content]) if is_text else content
        if calls:
            message["tool_calls"] = list(map(self._call, calls, ids))
            self._tool_of = {sent: call["name"] for sent, call in zip(ids, calls, strict=True)}
        if len(message) > 1:
            self._units.append(message)
            if (back := self.request.limits.thinking.back) and (calls or back == "always"):
                message = {**message, **self._reasoning(parts)}
            if self.messages and self.messages[-1]["role"] == "assistant":
                message = _merged(self.messages.pop(), message)
            self.messages.append(message)

    def _reasoning(self, parts: Sequence[JsonObject]) -> Item:
        """Return what the model thought, in the vendor's field, or in the one that a host sent it in.

        Where a turn with calls is refused without, one that has none says a blank: DeepSeek refuses
        an empty text. https://github.com/NousResearch/hermes-agent/pull/18263 (read 2026-11-29)
        """
        limits, made = self.request.limits, Item()
        takes_details = limits.host == "openrouter" or limits.provider == "minimax"
        field = usual = REASONING_FIELDS[0]
        for part in parts:
            if part["type"] == "thinking" and part.get("provider", NAME) == NAME:
                sent = wire.own_extras(part, NAME).get("field", usual)
                field = sent if limits.host and sent in REASONING_FIELDS else usual
                text, details = clean_text(part.get("text", "")), as_object(part.get("block"))
                said: Item = wire.plain_json(details) if takes_details else {}
                made = _merged(made, said or ({field: text} if text else {}))
        return made or ({field: " "} if limits.supports("reasoning_back") else made)

    def _call(self, part: JsonObject, call_id: str) -> Item:
        """Return a call, with the model's own arguments text if it is an object."""
        name = self.names[part["name"]]
        if "extras" in part and wire.own_extras(part, NAME).get("type") == "custom":
            text = wire.text_argument(part)
            return {"id": call_id, "type": "custom", "custom": {"name": name, "input": text}}
        function = {"name": name, "arguments": wire.arguments_text(part, is_own=self.is_own)}
        return {"id": call_id, "type": "function", "function": function}

    def _add_results(self, turn: Turn) -> None:
        """Append tool messages: text only, an error marked in words as there is no flag.

        What the tools returned besides text follows in one user message.
        """
        answers: list[Item] = []
        attached: list[Item] = []
        for part in wire.settle_results(turn, self._settle, self.entries):
            sent, content = self._ids.of_result(part["call_id"]), part.get("content", ())
            text = "\n".join(filter(None, map(_text_in_result, content)))
            for inner in filter(wire.is_attachment, content):
                tool = self.names[part.get("tool_name") or self._tool_of.get(sent, "a tool")]
                told = f"{inner['type'].capitalize()} returned by {tool} ({sent}):"
                attached += [{"type": "text", "text": told}, *self._pieces(inner)]
            if part.get("is_error"):
                text = wire.mark_failure(text)
            answer = {"role": "tool", "tool_call_id": sent, "content": text or wire.NO_OUTPUT}
            answers.append(answer)
        self._units += answers
        self.messages += answers
        self._say("user", attached)

    def _flaw_of(self, block: JsonObject, role: str) -> str | None:
        kind = as_text(block.get("type"))
        if kind in PART_TYPES:
            held = block.get(kind)
            said = [as_object(held).get(name) for name in _CONTENT.get(kind, "").split()] or [held]
            if not any(as_text(one).strip() for one in said):
                return f"its {kind} is empty"
        if kind == "input_audio" and self.is_own and not self.hears:
            return "the model takes no sound"
        takes = kind == "refusal" if role == "assistant" else kind not in ("refusal", "")
        is_known = kind in PART_TYPES or not self.is_own
        return None if takes and is_known else f"it is not taken from the {role}"

    # -- tools and parameters --

    def _flaw_of_tool(self, tool: ToolSpec) -> str:
        """Return why OpenAI refuses a tool: those that a gateway runs bear its name.

        Source:
            types of the openai package 3.57, ChatCompletionToolUnionParam
            https://openrouter.ai/docs/guides/features/server-tools/tool-search (read 2026-11-27)
        """
        kind = str(tool.native_specs[NAME].get("type", ""))
        return f"OpenAI knows no tool of the type {kind!r}." if self.is_own and ":" in kind else ""

    def _tool(self, tool: ToolSpec) -> Item:
        """Return one tool; `strict` is sent only if it is asked for.

        Source:
            https://developers.openai.com/api/docs/guides/function-calling (read 2026-11-27)
        """
        strict = {"strict": True} if tool.is_strict else {}
        return {"type": "function", "function": {**self._function(tool), **strict}}

    def _effort(self) -> str | None:
        """Return the reasoning effort: `none` if the model takes tools only without reasoning.

        From gpt-5.4 on, Chat Completions refuses function tools with any effort but `none`; models
        without `none` take tools in the Responses API only.

        Source:
            https://developers.openai.com/api/docs/guides/deployment-checklist
            https://github.com/danny-avila/LibreChat/issues/14231 (read 2026-11-27)
        """
        limits = self.request.limits
        if not self.tools or limits.features.get("chat_tools_with_reasoning") is not False:
            return openai.effort_of(self.request)
        check_tools(limits)
        return "none"

    def _parameters(self, request: Request) -> Item:
        parameters = request.parameters
        self.leave_history(request, *wire.MANAGED)
        # `max_tokens` does not count reasoning: https://github.com/openai/openai-openapi
        key = "max_completion_tokens" if self.is_own else "max_tokens"
        made: Item = {key: parameters.max_tokens}
        if (effort := self._effort()) is not None:
            made["reasoning_effort"] = effort
        if effort != openai.effort_of(request):
            why = "Chat Completions takes this model's tools only without reasoning: it is 'none'."
            self.report("thinking_level", why, "parameter.thinking_level", "repaired")
        made |= self._sampling(request)
        if form := self._reply_format(request):
            kind = form.pop("type")
            made["response_format"] = {"type": kind} | ({kind: form} if form else {})
        if parameters.stop_sequences:
            if self.is_own and not request.limits.parameters.accepts_stop:
                raise self.refusal("it takes no stop sequences", "Leave stop_sequences out.")
            made["stop"] = self.stops(request, most=MAX_STOP_SEQUENCES)
        if parameters.top_k is not None:
            if self.is_own:
                raise self.refusal("it has no top_k", "Leave top_k out, or use top_p.")
            made["extra_body"] = {"top_k": parameters.top_k}
        return made | self._cache_key(request)

    def _choice_of(self, name: str) -> Item:
        return {"type": "function", "function": {"name": self.names[name]}}

    def _choice_among(self, mode: str, names: tuple[str, ...]) -> Item:
        wanted = {self.names[name] for name in names}
        named = [(tool["type"], wire.tool_name(tool)) for tool in self.rendered_tools]
        chosen = [{"type": kind, kind: {"name": name}} for kind, name in named if name in wanted]
        allowed = {"mode": mode, "tools": chosen}
        return {"type": "allowed_tools", "allowed_tools": allowed} if chosen else {}


def change_forms(limits: ModelLimits) -> ChangeForms:
    """Return how the model can learn of changed tools: which of them it may call.

    Source:
        types of the openai package 3.57, ChatCompletionAllowedToolsParam (read 2026-11-27)
    """
    is_own = openai.is_own_api(limits) and limits.host is None
    return ChangeForms(withdraws="choice") if is_own else ChangeForms()


tool_search = wire.no_tool_search


def _as_parts(content: Json) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _merged(first: Item, second: Item) -> Item:
    merged = {**first, **second}
    for key in first.keys() & second.keys() - {"role"}:
        before, after = first[key], second[key]
        if isinstance(before, str) and isinstance(after, str):
            merged[key] = f"{before}\n{after}"
        else:
            merged[key] = [*_as_parts(before), *_as_parts(after)]
    return merged


def _text_in_result(part: JsonObject) -> str:
    """Return what the text of a result says of a part: itself, or where it is attached."""
    if part["type"] in ("text", "opaque"):
        return wire.said(part.get("text", ""))
    if wire.is_attachment(part):
        return f"[{part['type']} attached in the next user message]"
    from context_assembler.providers.media import document_text

    return document_text(part)


# ---- reading ----

_EVENTS: Final[Mapping[str, str]] = {
    **{role: role for role in ("user", "assistant", "system")},
    "developer": "system",
    "tool": "tool_result",
}
_READ: Final = (  # what of a message is in the parts of its event
    *("role", "content", "tool_calls", *REASONING_FIELDS),
    *("tool_call_id", "audio", "refusal", "annotations", "thinking_blocks"),
)


_READ_OF_CALLS: Final = ("id", "type", "function", "custom", "name", "arguments", "input")


def read_reply(reply: Any, request: Request | None = None) -> wire.Reply:
    """Return the first choice's parts: reasoning text, text, refusal, calls.

    Tools get back the names that they have in the request.

    Raises:
        ReplyError: The reply is no chat completion.
    """
    warnings: list[str] = []
    body = wire.read_body(reply, _join_chunks)
    choices = as_list(body.get("choices"))
    choice = as_object(choices[0]) if choices else {}
    message = as_object(choice.get("message"))
    if not message:
        what = "its first choice has no message" if choices else "it has no choices"
        raise ReplyError(reply, reason=what)
    if len(choices) > 1:
        warnings.append(f"Only the first of {len(choices)} choices was read.")
    names = wire.own_names(request, NAME_RULE, NAME)
    parts = _read_reply(message, names, lambda _, what: warnings.append(what))
    finish, calls = as_text(choice.get("finish_reason")), objects_in(message.get("tool_calls"))
    unfinished: tuple[str, ...] = ()
    if finish in ("", "length", "content_filter") and calls and parts[-1]["type"] == "tool_call":
        target = as_object(calls[-1].get("function"))  # of its arguments more was to come
        if wire.parse_object(as_text(target.get("arguments"))) is None:
            unfinished = (parts[-1]["call_id"],)
    usage = openai.read_usage(body.get("usage"), asked="prompt", answered="completion")
    finish = "refusal" if as_text(message.get("refusal")) else finish
    about = unfinished, as_text(body.get("id")) or None, finish or None, usage
    told = (*warnings, *map(wire.say_unfinished, unfinished))
    return wire.Reply(NAME, as_text(body.get("model")), parts, *about, warnings=told)


def _join_chunks(events: Sequence[Item]) -> Item | None:
    """Return the completion as far as it came; of several choices the first.

    Source:
        https://platform.openai.com/docs/api-reference/chat-streaming (read 2026-11-28)
    """
    whole: Item = {}
    choice: Item = {}
    message: Item = {}
    calls: list[tuple[Json, Item]] = []
    for chunk in events:
        whole |= wire.without_nulls(chunk)
        for one in objects_in(chunk.get("choices")):
            if one.get("index"):
                continue
            if as_object(one.get("message")):  # the whole reply, after its stream
                return chunk
            choice |= wire.without_nulls(one)
            delta = dict(as_object(one.get("delta")))
            for place, call in enumerate(objects_in(delta.pop("tool_calls", None))):
                at = call.pop("index", None)
                _grow_call(calls, place if at is None else at, call, has_index=at is not None)
            wire.grow(message, delta)
    if calls:
        message["tool_calls"] = [call for _, call in calls]
    if pieces := objects_in(message.get("reasoning_details")):
        message["reasoning_details"] = _joined_details(pieces)
    choices = [{**choice, "message": message}]
    return {**whole, "object": "chat.completion", "choices": choices} if events else None


def _joined_details(pieces: Sequence[Item]) -> list[Item]:
    """Return the pieces of reasoning, those of one text as one; what is sealed stays apart."""
    joined: list[Item] = []
    for piece in pieces:
        last = joined[-1] if joined and not piece.get("data") else Item()
        if any(last.get(key, 0) != piece.get(key, 0) for key in ("type", "index")) or not last:
            joined.append(last := Item())
        wire.grow(last, piece)
    return joined


def _grow_call(calls: list[tuple[Json, Item]], at: Json, piece: Item, *, has_index: bool) -> None:
    """Add a piece to the call that it goes on with, or begin a new one.

    A new id begins a new call, whatever the index says; so does a name, once the arguments before
    it are complete. https://github.com/NousResearch/hermes-agent/issues/57939 (read 2026-11-29)
    """
    said = as_object(piece.get("function") or piece.get("custom"))
    new_id, named = as_text(piece.get("id")), as_text(said.get("name"))
    is_known = bool(new_id) and any(made.get("id") == new_id for _, made in calls)
    for index, made in reversed(calls):
        if is_known:
            fits = made.get("id") == new_id and (index == at or not has_index)
        else:  # a call has a name: without one, a new id is another word for the call before
            fits = index == at and not (new_id and named and made.get("id"))
        if fits:
            held, given = as_object(made.get("function")).get("arguments"), said.get("arguments")
            is_whole = isinstance(held, Mapping) or wire.parse_object(as_text(held)) is not None
            if not (is_whole and given and named):
                wire.grow(made, piece)
                return
            if new_id and held == given:  # said again, as a whole
                return
    calls.append((at, Item()))
    wire.grow(calls[-1][1], piece)


def _read_reply(message: JsonObject, names: Mapping[str, str], note: wire.Note) -> list[JsonObject]:
    """Return an assistant message's parts; other servers put readable reasoning into fields."""
    field = next((key for key in REASONING_FIELDS if as_text(message.get(key))), "")
    thought = as_text(message.get(field))
    # LiteLLM has Claude's thinking in a field of its own (litellm 1.110, `types.utils.Message`).
    details = as_list(message.get("reasoning_details") or message.get("thinking_blocks"))
    parts: list[JsonObject] = []
    if thought or details:
        # Details may hold signatures and encrypted reasoning: they are kept whole.
        block: Item = {"block": {"reasoning_details": details}} if details else {}
        block |= {"extras": {NAME: {"field": field}}} if field == "reasoning" else {}
        text = thought or openai.readable(details)
        parts.append({"type": "thinking", "text": text, "provider": NAME, **block})
    for part in openai.read_content(message.get("content"), "content", note, provider=NAME):
        block = part.get("block", {})
        if block.get("type") == "thinking":  # as Mistral has it
            text = openai.readable(block.get("thinking"))
            parts.append({"type": "thinking", "text": text, "provider": NAME})
        elif part["type"] == "text" and not part["text"]:
            continue
        elif part["type"] == "text" and (cited := as_list(message.get("annotations"))):
            parts.append({**part, "extras": {NAME: {"annotations": cited}}})
        else:
            parts.append(part)
    if refusal := as_text(message.get("refusal")):
        own = {"type": "refusal", "refusal": refusal}
        parts.append({"type": "opaque", "provider": NAME, "block": own, "text": refusal})
    for at, call in enumerate(as_list(message.get("tool_calls"))):
        parts += _read_call(as_object(call), f"tool_calls[{at}]", names, note)
    if audio := as_object(message.get("audio")):
        note("audio", "Of the spoken answer only the words and its id were recorded.")
        kept = {key: audio[key] for key in ("id", "expires_at") if audio.get(key)}
        said = wire.text_part(as_text(audio.get("transcript")))
        parts += [{**said, "extras": {NAME: {"audio": kept}}}] if said["text"] or kept else []
    return parts


def _read_call(
    call: JsonObject, where: str, names: Mapping[str, str], note: wire.Note
) -> list[JsonObject]:
    held = as_object(call.get("custom"))
    target = as_object(call.get("function")) or held or call
    sent = target.get("name")
    if not isinstance(sent, str):
        note(where, "cannot be read as a tool call; left out")
        return []
    extras: JsonObject | None = None
    given: Json = target.get("arguments", target.get("input"))
    if isinstance(held.get("input"), str):
        # types of the openai package 3.57, ChatCompletionMessageCustomToolCall (read 2026-11-27)
        given, extras = {"input": held["input"]}, {NAME: {"type": "custom"}}
    wire.note_rest({**target, **call}, _READ_OF_CALLS, where, note)
    call_id, name = as_text(call.get("id")), names.get(sent, sent)
    return [wire.read_call(call_id, name, given, f"{where}.arguments", note, extras=extras)]


def read_messages(
    messages: Json, note: wire.Note = lambda _where, _what: None
) -> list[tuple[str, Item]]:
    """Return the events of a list of messages, or of a request: type and stored body.

    Fields without a place are kept in the event's metadata. Also read: results with `id` and
    `error` (tau2).

    Args:
        note: Gets the place and half a sentence for everything that is not kept as it came.
    """
    messages = as_object(messages).get("messages", messages)
    events: list[tuple[str, Item]] = []
    for at, message in enumerate(as_list(messages)):
        where, role = f"messages[{at}]", as_text(as_object(message).get("role"))
        event = _EVENTS.get(role)
        if event is None:
            what = f"has the unknown role {role!r:.40}" if role else "has no role"
            note(where, f"{what}; left out")
            continue

        def noted(place: str, what: str, where: str = where) -> None:
            note(f"{where}.{place}", what)

        kept = wire.without_nulls({k: held for k, held in message.items() if k not in _READ})
        kept |= {"role": role} if role == "developer" else {}
        if event == "assistant":
            parts = _read_reply(message, {}, noted)
        else:
            parts = openai.read_content(message.get("content"), "content", noted, provider=NAME)
        if event == "tool_result":
            name = as_text(kept.pop("name", None))
            call_id = as_text(message.get("tool_call_id") or kept.pop("id", None))
            if not call_id:
                noted("tool_call_id", "is missing: nobody knows which call this answers")
            result: Item = {"type": "tool_result", "call_id": call_id, "content": parts}
            result |= {"is_error": True} if kept.pop("error", None) is True else {}
            parts = [result | ({"tool_name": name} if name else {})]
        events.append((event, {"parts": parts} | ({"metadata": {NAME: kept}} if kept else {})))
    return events
