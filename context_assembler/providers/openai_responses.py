"""OpenAI Responses: what `openai.OpenAI().responses.create` takes and returns."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, ClassVar, Final, NamedTuple

from context_assembler.context import Request
from context_assembler.errors import ReplyError
from context_assembler.events import Json, JsonObject, compact_json
from context_assembler.models import ModelLimits
from context_assembler.ports import ChangeForms, Payload, ToolSearch, ToolSpec, Turn, read_change
from context_assembler.providers import openai, wire
from context_assembler.providers.openai import Item
from context_assembler.providers.wire import (
    LentList,
    as_list,
    as_object,
    as_text,
    objects_in,
    plain_json,
)
from context_assembler.texts import clean_text

NAME: Final = "openai_responses"

# https://github.com/openai/openai-openapi, FunctionTool.name (read 2026-11-27)
NAME_RULE: Final = wire.NameRule(re.compile(r"[a-zA-Z0-9_-]{1,128}"), 128)
# Longer ids are refused: "string too long. Expected a string with maximum length 64".
ID_RULE: Final = wire.NameRule(re.compile(r"[!-~]{1,64}"), 64)
MIN_OUTPUT_TOKENS: Final = 16  # https://github.com/openai/openai-openapi, max_output_tokens

_SAID: Final[JsonObject] = {"type": "message", "role": "assistant"}
_CALLS: Final = ("function_call", "custom_tool_call")
_PHASES: Final = ("commentary", "final_answer")
_OF_MODEL: Final = ("output_text", "refusal", "text", "summary_text", "reasoning_text")
# Calls and results that can be read are no blocks: as one, nothing answers or asked for them.
# Nor are outputs of calls that go back as a function's, and programs, whose calls and outputs may be
# in replies that are not sent.
_CALLS_WITHOUT_PARTNER: Final = (
    *(*_CALLS, *(f"{kind}_output" for kind in _CALLS)),
    *("local_shell_call_output", "program", "program_output"),
)
_MARKS_OF_TEXT: Final = ("annotations", "logprobs")
_CALL_IDS: Final = ("fc_", "ctc_", "tsc_", "sh_", "apc_", "cu_")
# Fields that say something of the rest, not anything themselves.
_ABOUT: Final = ("type", "detail", "filename")


class NativeCall(NamedTuple):
    """A kind of call that the client runs, besides functions.

    Attributes:
        name: The tool's name if its items have none.
        asks: The fields that may say what to do: an object is the arguments, any other value is the
            argument of that name.
        output: The type of the item that answers; empty: call and answer go back as a function's.
    """

    name: str
    asks: tuple[str, ...]
    output: str = ""


# By the type of their items. Types of the openai package 3.57, ResponseInputItemParam (read
# 2026-11-27); a recorded request answered a client-run tool_search_call with a function_call_output.
NATIVE_CALLS: Final[Mapping[str, NativeCall]] = {
    "custom_tool_call": NativeCall("custom", ("input",), "custom_tool_call_output"),
    "tool_search_call": NativeCall("tool_search", ("arguments",), "function_call_output"),
    "shell_call": NativeCall("shell", ("action",), "shell_call_output"),
    "apply_patch_call": NativeCall("apply_patch", ("operation",), "apply_patch_call_output"),
    "local_shell_call": NativeCall("local_shell", ("action",)),
    "computer_call": NativeCall("computer", ("action", "actions"), "computer_call_output"),
}


def answered_id(item: JsonObject) -> str:
    """Return the id of the call that an item makes or answers; empty if it has none.

    Source:
        types of the openai package 3.57 (read 2026-11-27)
    """
    by_id = item.get("type") == "local_shell_call_output"
    return as_text(item.get("call_id")) or (as_text(item.get("id")) if by_id else "")


def kind_of(item: JsonObject) -> str:
    """Return an item's type; that of a message or of a reference may be left out.

    Source:
        types of the openai package 3.57, ItemReference (read 2026-11-27)
    """
    kind = as_text(item.get("type"))
    if not kind and item.keys() <= {"id", "type"} and as_text(item.get("id")):
        return "item_reference"
    return kind or ("message" if as_text(item.get("role")) else "")


class Wire(openai.OpenAIWire):
    """The items of one request, grown turn by turn."""

    name, key, text_type = NAME, "input", "input_text"
    api = "Responses"
    # Sound and moving pictures are refused: "got unsupported MIME type 'audio/mpeg'".
    # https://developers.openai.com/api/docs/guides/file-inputs (read 2026-11-27)
    media: ClassVar[Mapping[str, Any]] = {
        "document_types": (
            *(f"application/{kind}" for kind in ("pdf", "json", "msword", "rtf", "vnd.")),
            "text/",
        ),
        "document_words": "PDF, office documents and text",
    }

    def __init__(self, request: Request) -> None:
        limits = request.limits
        # Other vendors know `system` alone.
        # https://developers.openai.com/api/docs/guides/text (read 2026-11-27)
        role = "developer" if limits.provider.startswith("openai") else "system"
        super().__init__(request, (NAME_RULE, ID_RULE), role)
        self._reasons = bool(limits.thinking.kinds)
        self._kinds: dict[str, str] = {}  # by id, of calls that are no function's
        self._open: set[str] = set()  # ids of calls that may stay unanswered
        self._places: dict[str, int] = {}  # of items, by their ids
        self._gone = set[Json]()  # ids of containers that expired
        self._screens: dict[str, tuple[Item, Item]] = {}  # a computer's calls, also as functions
        searches = tool_search(limits) is not None
        self.tools = self._offer(most=openai.MAX_TOOLS - searches)  # one place is the search's
        held = searches and any(map(wire.is_held_back, self.tools))
        self.rendered_tools = [self._tool(tool, searches=searches) for tool in self.tools]
        if held and all(tool.get("type") != "tool_search" for tool in self.rendered_tools):
            self.rendered_tools.insert(0, {"type": "tool_search"})

    def _head(self) -> Json:
        return [NAME, super()._system(), self.rendered_tools, openai.effort_of(self.request)]

    def _append(self, items: Sequence[Item], units: Sequence[Json]) -> None:
        """Append items; `units` are what counts for the prefix hash: as stored, without reasoning."""
        for at, item in enumerate(items):
            if item.get("type") == "compaction":
                # Reasoning after OpenAI's own compaction stays valid, whatever that stands for.
                # https://developers.openai.com/api/docs/guides/keep-prefix-unchanged (2026-11-27)
                self._restart = len(self._units) + max(min(at, len(units) - 1), 0)
        for item in items:
            own_id = as_text(item.get("id"))
            place = self._places.get(own_id, -1)  # it may be among what was taken off again
            before = self.messages[place] if 0 <= place < len(self.messages) else Item()
            if own_id and before == item:
                # https://github.com/earendil-works/pi/issues/5151 (read 2026-11-30)
                why = "OpenAI refuses an item that comes twice."
                self.report(own_id, why, "content.repeated")
            elif own_id and before.get("id") == own_id:
                self.messages.append(wire.without(item, "id"))
            else:
                self._places[own_id] = len(self.messages)
                self.messages.append(item)
        self._units += units

    # -- what the user and the developer say --

    def _say(self, role: str, content: str | list[Item]) -> None:
        if isinstance(content, list) and len(content) == 1 and len(content[0]) == 2:
            content = content[0].get("text", content)
        if content:
            item: Item = {"type": "message", "role": role, "content": content}
            self.messages.append(item)
            self._units.append(item)

    def _add_summary(self, turn: Turn) -> None:
        """Append OpenAI's own compaction if there is one, instead of the text that says the same.

        Source:
            https://developers.openai.com/api/docs/guides/compaction (read 2026-11-27)
        """
        own = [sendable(p["block"]) for p in turn["parts"] if p.get("provider") == NAME]
        if any(map(is_sealed_compaction, own)):
            self._append(own, own)
        else:
            super()._add_summary(turn)

    def _add_user(self, parts: Iterable[JsonObject]) -> None:
        """Append what the user said, and between it the items that a client adds by itself."""
        said: list[Item] = []
        for part in parts:
            if not self._is_own_item(part):
                said += self._pieces(part)
                continue
            item = sendable(part["block"])
            asked = item.get("approval_request_id")
            if asked and all(one.get("id") != asked for one in self.messages):
                item = _message("user", describe(item))  # the request was sent in words
            self._say("user", said)
            said = []
            self._append([item], [part])
        self._say("user", said)

    def _add_instructions(self, turn: Turn) -> None:
        """Append late instructions, or the tools that a note adds."""
        plan = wire.plan_of(self.request, NAME)
        if plan is not None and plan.forms.adds:
            changes = filter(None, map(read_change, turn["parts"]))
            if added := [tool for change in changes for tool in change.added]:
                tools = [self._tool(self._settle_strict(tool), searches=False) for tool in added]
                item = {"type": "additional_tools", "role": "developer", "tools": tools}
                self._append([item], [item])
                return
        super()._add_instructions(turn)

    def _is_own_item(self, part: JsonObject) -> bool:
        return bool(part["type"] == "opaque" and part["provider"] == NAME and not _is_piece(part))

    def _flaw_of(self, block: JsonObject, role: str) -> str | None:
        kind, is_reply = kind_of(block), role == "assistant"
        if not kind:
            return "it has neither a type nor a role"
        if kind.startswith("input_") if is_reply else kind in (*_OF_MODEL, "reasoning"):
            return f"it is not taken from the {role}"
        if kind in _CALLS_WITHOUT_PARTNER:
            return "the other half of its call is missing"
        if kind == "item_reference" and not as_text(block.get("id")).startswith("msg_"):
            return "only the provider has its call or its answer"
        held = [as_text(block[key]) for key in block if key not in _ABOUT]
        if not any(held) and kind.startswith(("input_", "item_reference", "mcp_approval_response")):
            return "it is empty"
        if kind in ("tool_search_call", "tool_search_output"):  # the server's have no id
            return None
        needs_id = kind in NATIVE_CALLS or kind.endswith("_output")
        needs_id = needs_id and (role != "tool" or kind != "computer_call_output")
        return "it has no call_id" if needs_id and not answered_id(block) else None

    # -- replies --

    def _add_reply(self, turn: Turn) -> None:
        """Append the items of a reply in its own order.

        A reasoning item and the items that follow it in the reply go back as they came, with their
        ids, or without ids and without the reasoning: an id whose reasoning is missing is refused,
        and so is reasoning that nothing follows.

        Source:
            https://github.com/openai/openai-agents-python/issues/1611
            https://github.com/mastra-ai/mastra/issues/15509 (read 2026-11-27)
        """
        parts = wire.settle_parts(turn, self._settle, self.entries)
        calls = [part for part in parts if part["type"] == "tool_call"]
        ids = self._ids.of_calls([call["call_id"] for call in calls]) if calls else []
        if all("extras" not in part and part["type"] in ("text", "tool_call") for part in parts):
            texts = (wire.said(part["text"]) for part in parts if "text" in part)
            self.messages += [{**_SAID, "content": text} for text in texts if text]
            self.messages += map(self._plain_call, calls, ids)
            self._units += parts
            return
        items: list[Item] = []
        reasoning = [self._reasoning(part) for part in parts if part["type"] == "thinking"]
        is_whole = any(reasoning)
        made_by = as_object(turn.get("made_by"))
        usage, container = made_by.get("usage"), as_object(made_by.get("container"))
        # Items of a container that expired are refused.
        # https://github.com/pydantic/pydantic-ai/issues/7461 (read 2026-11-30)
        expires = wire.count_of(container.get("expires_at"))  # Anthropic's is text
        if expires and self.has_expired(container_id := as_text(container.get("id")), expires):
            self._gone.add(container_id)
        # The items of an import go back as they came: nobody knows of reasoning that led to them.
        did_not_reason = not made_by or (usage is not None and not usage.get("reasoning_tokens"))
        keeps = is_whole or not self._reasons or did_not_reason
        waiting, thoughts = iter(ids), iter(reasoning if is_whole else ())
        for part in parts:
            kind = part["type"]
            if kind == "text":
                self._add_text(items, part, is_whole=is_whole, keeps=keeps)
            elif kind == "thinking" and (thought := next(thoughts, None)) is not None:
                items.append(thought)
            elif kind == "tool_call":
                items.append(self._call(part, next(waiting), is_whole=is_whole, keeps=keeps))
            elif kind == "opaque":
                items += self._own_item(part, keeps=keeps)
        while items and items[-1].get("type") == "reasoning":
            items.pop()
        if calls and not is_whole and len(items) > 1:
            # Outputs follow the reply, and DeepSeek refuses a message between a call and its output.
            # https://github.com/pydantic/pydantic-ai, recorded for
            # test_deepseek_responses_rejects_interleaved_function_calls (read 2026-11-29)
            first = next(at for at, one in enumerate(items) if "call_id" in one)
            rest = items[first:]
            bare = [one for one in rest if one["type"] == "message" and "id" not in one]
            items = [*items[:first], *bare, *(one for one in rest if one not in bare)]
        self._append(items, [part for part in parts if part["type"] != "thinking"])

    def _reasoning(self, part: JsonObject) -> Item | None:
        """Return the reasoning item that the part goes back as; `None` if it cannot.

        Source:
            https://github.com/BerriAI/litellm/issues/13420 (read 2026-11-27): "Unknown parameter:
            'input[1].status'"; https://github.com/newo-ether/Agora/issues/141: "missing required
            field `summary`"
        """
        block = part.get("block")
        if part["type"] != "thinking" or not block or part.get("provider") != NAME:
            return None
        sealed = block.get("type") == "reasoning" and as_text(block.get("encrypted_content"))
        if not self._reasons or not sealed:
            return None
        item = wire.without_nulls(sendable(block))
        item.pop("status", None)
        item["summary"] = as_list(item.get("summary"))
        return item

    def _add_text(
        self, items: list[Item], part: JsonObject, *, is_whole: bool, keeps: bool
    ) -> None:
        """Add a text; pieces of one message that keeps its id stay together."""
        text, own = wire.said(part["text"]), wire.own_extras(part, NAME)
        marks: Item = {key: plain_json(own[key]) for key in _MARKS_OF_TEXT if own.get(key)}
        if self._gone and (cited := objects_in(marks.get("annotations"))):
            marks["annotations"] = [c for c in cited if c.get("container_id") not in self._gone]
        own_id = _server_id(own, ("msg_",)) if is_whole or (keeps and marks) else ""
        if text and not own_id:
            items.append(_message("assistant", text, own.get("phase")))
        if not text or not own_id:
            return
        piece = {"type": "output_text", "text": text, "annotations": list[Json](), **marks}
        if items and items[-1].get("id") == own_id:
            items[-1]["content"].append(piece)
            return
        status = as_text(own.get("status")) or "completed"
        item = _message("assistant", "", own.get("phase"))
        items.append({**item, "id": own_id, "status": status, "content": [piece]})

    def _call(self, part: JsonObject, call_id: str, *, is_whole: bool, keeps: bool) -> Item:
        """Return a call as its item, of the kind that it came as and with its own fields."""
        own = wire.own_extras(part, NAME)
        kept = sendable(own)
        kind = as_text(kept.pop("type", None))
        output = NATIVE_CALLS[kind].output if kind in NATIVE_CALLS else ""
        if any(as_object(one).get("async") for one in part.get("extras", {}).values()):
            self._open.add(call_id)
        if not (is_whole or (output and keeps)) or not _server_id(own, _CALL_IDS):
            kept.pop("id", None)
        plain = self._plain_call(part, call_id)
        if not output or (kind == "computer_call" and "id" not in kept):  # which it must have
            return plain | ({} if kind else kept)
        given, asks = as_object(plain_json(part.get("arguments"))), NATIVE_CALLS[kind].asks
        if given.keys() != {asks[-1]}:  # else it asks by the other name
            given = {asks[0]: given}
        self._kinds[call_id] = kind
        item = {"type": kind, "call_id": call_id, **given}
        if kind == "custom_tool_call":
            item |= {"name": plain["name"], asks[0]: wire.text_argument(part)}
        if kind == "computer_call":
            item |= {"pending_safety_checks": list[Json](), "status": "completed"}
            self._screens[call_id] = {**item, **kept}, plain
        return {**item, **kept}

    def _plain_call(self, part: JsonObject, call_id: str) -> Item:
        given, name = wire.arguments_text(part, is_own=self.is_own), self.names[part["name"]]
        return {"type": "function_call", "call_id": call_id, "name": name, "arguments": given}

    def _own_item(self, part: JsonObject, *, keeps: bool) -> list[Item]:
        """Return an item of the server as it came; its text if it cannot go back."""
        block, text = part["block"], part.get("text", "")
        kind = block.get("type")
        is_kept = keeps and part["provider"] == NAME and kind not in _OF_MODEL
        is_kept = is_kept and block.get("container_id") not in self._gone
        if kind == "compaction":
            is_kept = is_sealed_compaction(block)
        elif kind in ("message", None):
            said = objects_in(block.get("content"))
            is_said = all(piece.get("type") in ("output_text", "refusal") for piece in said)
            is_kept = is_kept and is_said and bool(said) and bool(_server_id(block, ("msg_",)))
        if is_kept:
            return [sendable(block)]
        return [_message("assistant", text, block.get("phase"))] if text.strip() else []

    # -- results --

    def _add_results(self, turn: Turn) -> None:
        """Append the outputs of results; a call that may stay unanswered needs none made up."""
        for part in wire.settle_results(turn, self._settle, self.entries):
            sent = self._ids.of_result(part["call_id"])
            self._settle_screen(part, sent)
            is_awaited = sent not in self._open or not part.get("is_error")
            if is_awaited or wire.text_of(part.get("content", ())) != wire.NO_RESULT:
                self.messages.append(self._output(part, sent, self._kinds.get(sent, "")))
                self._units.append(part)

    def _settle_screen(self, result: JsonObject, call_id: str) -> None:
        """Turn a computer's call into a function's unless its answer is one that the API takes.

        That shows the screen, and acknowledges the pending safety checks.

        Source:
            https://developers.openai.com/api/docs/guides/tools-computer-use (read 2026-11-30)
        """
        call, plain = self._screens.get(call_id, ({}, {}))
        own = (as_object(part.get("block")) for part in result.get("content", ()))
        is_open = call.get("pending_safety_checks")
        is_open = is_open and not any(one.get("acknowledged_safety_checks") for one in own)
        if call and (is_open or not self._screen(result)) and call in self.messages:
            self.messages[self.messages.index(call)], self._kinds[call_id] = plain, ""

    def _screen(self, result: JsonObject) -> Item:
        """Return the first picture of a result as that of a screen; empty: it has none."""
        pieces = (piece for p in result.get("content", ()) for piece in self._output_pieces(p))
        shown = next((piece for piece in pieces if piece["type"] == "input_image"), Item())
        place: Item = {key: shown[key] for key in ("image_url", "file_id") if key in shown}
        return {"type": "computer_screenshot", **place} if place else {}

    def _output(self, result: JsonObject, call_id: str, kind: str) -> Item:
        """Return the item that answers a call: text as a string, pictures and files in a list.

        There is no flag for errors, so words mark them. A provider's own output goes back as it came.

        Source:
            https://developers.openai.com/api/docs/guides/function-calling (read 2026-11-27)
        """
        content, is_error = result.get("content", ()), bool(result.get("is_error"))
        output_kind = NATIVE_CALLS[kind].output if kind else "function_call_output"
        own = as_object(content[0].get("block")) if len(content) == 1 else {}
        is_found = kind == "tool_search_call" and own.get("type") == "tool_search_output"
        if is_found or own.get("type") == output_kind:
            return {**wire.without_nulls(sendable(own)), "call_id": call_id}
        if kind == "computer_call":
            return {"type": output_kind, "call_id": call_id, "output": self._screen(result)}
        pieces = [piece for part in content for piece in self._output_pieces(part)]
        if is_error:
            said = pieces.pop(0)["text"] if pieces and "text" in pieces[0] else ""
            pieces.insert(0, {"type": "input_text", "text": wire.mark_failure(said)})
        item: Item = {"type": output_kind, "call_id": call_id}
        if any(piece.keys() != {"type", "text"} for piece in pieces):
            return {**item, "output": pieces}
        text = "\n".join(piece["text"] for piece in pieces) or wire.NO_OUTPUT
        if kind == "shell_call":
            outcome = {"type": "exit", "exit_code": int(is_error)}
            return {**item, "output": [{"stdout": text, "stderr": "", "outcome": outcome}]}
        if kind == "apply_patch_call":
            item["status"] = "failed" if is_error else "completed"
        return {**item, "output": text}

    def _output_pieces(self, part: JsonObject) -> list[Item]:
        is_item = part["type"] == "opaque" and not _is_piece(part)
        shot = sendable(as_object(part["block"].get("output"))) if is_item else {}
        if shot.get("type") == "computer_screenshot":
            return [{"detail": "auto", **shot, "type": "input_image"}]
        return self._pieces(wire.text_part(part.get("text", "")) if is_item else part)

    # -- tools, system, parameters --

    def _flaw_of_tool(self, tool: ToolSpec) -> str:
        """Types of the openai package 3.57, ToolParam (read 2026-11-28): every tool has a type."""
        has_type = bool(as_text(tool.native_specs[NAME].get("type")))
        return "" if has_type else "Its own form for Responses has no type, and such are refused."

    def _tool(self, tool: ToolSpec, *, searches: bool) -> Item:
        """Return one tool; `strict` is always said, since the server tries strict mode without it.

        Source:
            https://developers.openai.com/api/docs/guides/function-calling (read 2026-11-27)
        """
        if native := self._native(tool):
            return native
        made = {"type": "function", **self._function(tool), "strict": bool(tool.is_strict)}
        return {**made, "defer_loading": True} if searches and wire.is_held_back(tool) else made

    def _system(self) -> list[Item]:
        """Return the system prompt as the first message, marked if it is worth caching by itself.

        Not as `instructions`: from gpt-6.2 on those hold for one turn, come after the input and are
        billed uncached; older models cache either.

        Source:
            https://developers.openai.com/api/docs/guides/keep-prefix-unchanged, guides/prompt-caching
            (read 2026-11-27)
        """
        limits = self.request.limits
        made = [{"type": "message", **message} for message in super()._system()]
        if made and self.request.cache == "auto" and limits.supports("cache_breakpoints"):
            text = made[0]["content"]
            if len(text.encode()) >= limits.cache.least_bytes:
                mark = {"prompt_cache_breakpoint": {"mode": "explicit"}}
                made[0]["content"] = [{"type": "input_text", "text": text, **mark}]
        return made

    def _parameters(self, request: Request) -> Item:
        """Return the reply's length, reasoning, sampling, and how the prefix is cached.

        Nothing is stored at the provider, so encrypted reasoning is asked for if there is any.

        Source:
            https://developers.openai.com/api/docs/guides/reasoning (read 2026-11-27)
        """
        parameters = request.parameters
        if parameters.stop_sequences:
            remedy = "Leave stop_sequences out, or use Chat Completions (to_openai_chat)."
            raise self.refusal("it takes no stop sequences", remedy)
        if parameters.top_k is not None:
            raise self.refusal("it has no top_k", "Leave top_k out, or use top_p.")
        if parameters.max_tokens < MIN_OUTPUT_TOKENS:
            problem = f"a reply has room for at least {MIN_OUTPUT_TOKENS} tokens, not "
            remedy = f"Pass max_tokens={MIN_OUTPUT_TOKENS} or more."
            raise self.refusal(f"{problem}{parameters.max_tokens}", remedy)
        made: Item = {"store": False, "max_output_tokens": parameters.max_tokens}
        if self._reasons:
            made["include"] = ["reasoning.encrypted_content"]
        if (effort := openai.effort_of(request)) is not None:
            made["reasoning"] = {"effort": effort}
        if form := self._reply_format(request):
            made["text"] = {"format": form}
        self.leave_history(request, *(wire.MANAGED[1:] if self.is_own else wire.MANAGED))
        if self.is_own and isinstance(threshold := parameters.provider_compaction, int):
            # https://developers.openai.com/api/docs/guides/compaction (read 2026-11-30)
            one: Item = {"type": "compaction", "compact_threshold": threshold}
            made["context_management"] = [one]
        return made | self._sampling(request) | self._cache_key(request)

    def write(self, request: Request) -> Payload:
        """Return keyword arguments for the SDK; what asks for a compaction comes last.

        Types of the openai package 3.57, CompactionTrigger (read 2026-11-30)
        """
        made = super().write(request)
        if request.parameters.provider_compaction == "now":
            made["input"] = LentList([*made["input"], {"type": "compaction_trigger"}])
        return made

    def _told(self) -> dict[str, ToolSpec]:
        plan = wire.plan_of(self.request, NAME)
        return {tool.name: tool for tool in (*(plan.added if plan else ()), *self.tools)}

    def _choice_of(self, name: str) -> Item:
        native = self._told()[name].native_specs.get(NAME)
        if native is None:
            return {"type": "function", "name": self.names[name]}
        kind = as_text(native.get("type"))  # a tool of OpenAI's own is chosen by its kind
        key = {"mcp": "server_label", "custom": "name"}.get(kind)
        return {"type": kind} | ({key: plain_json(native.get(key))} if key else {})

    def _choice_among(self, mode: str, names: tuple[str, ...]) -> Item:
        told = self._told()
        chosen = [self._choice_of(name) for name in names if name in told]
        searches = [t for t in self.rendered_tools if t.get("type") == "tool_search"]
        listed = [*({"type": "tool_search"} for _ in searches), *chosen]
        return {"type": "allowed_tools", "mode": mode, "tools": listed} if chosen else {}


def change_forms(limits: ModelLimits) -> ChangeForms:
    """Return how the model can learn of changed tools; whether clouds know the item is not known.

    Source:
        https://developers.openai.com/api/docs/guides/keep-prefix-unchanged
        types of the openai package 3.57, AdditionalTools, ToolChoiceAllowedParam (read 2026-11-27)
    """
    if not openai.is_own_api(limits) or limits.host is not None:
        return ChangeForms()
    # One place is left to the tool that searches for deferred ones.
    most = openai.MAX_TOOLS - 1
    return ChangeForms(adds=True, adds_strict=True, withdraws="choice", max_tools=most)


def tool_search(limits: ModelLimits) -> ToolSearch | None:
    """Return how the model searches for tools; it reads names and descriptions all the same.

    Source:
        https://developers.openai.com/api/docs/guides/tools-tool-search
        https://learn.microsoft.com/en-us/azure/foundry/openai/how-to/tool-search (read 2026-11-27)
    """
    can = openai.is_own_api(limits) and limits.supports("tool_search")
    return ToolSearch(shows_descriptions=True) if can else None


# ---- items ----


def _message(role: str, text: str, phase: Json = None) -> Item:
    item: Item = {"type": "message", "role": role, "content": clean_text(text)}
    return item | ({"phase": phase} if phase in _PHASES else {})


def _is_piece(part: JsonObject) -> bool:
    return as_text(part["block"].get("type")).startswith("input_")


def sendable(item: JsonObject) -> Item:
    """Return an item as it goes back: without the fields that only the server's own items have.

    Nor with the program that called, which is sent in words.

    Source:
        types of the openai package 3.57, ResponseOutputItem next to ResponseInputItemParam
        (read 2026-11-27)
    """
    dropped = ["created_by", "caller", "parsed_arguments"]
    if item.get("type") == "custom_tool_call_output":
        dropped.append("status")
    elif item.get("type") == "message" and item.get("role") != "assistant":
        dropped.append("id")
    sent: Item = wire.clean_json({key: item[key] for key in item if key not in dropped})
    return sent


def is_sealed_compaction(item: JsonObject) -> bool:
    """Whether the item is a compaction that its server can open."""
    return item.get("type") == "compaction" and bool(as_text(item.get("encrypted_content")))


def _server_id(fields: JsonObject, prefixes: tuple[str, ...]) -> str:
    given = as_text(fields.get("id"))
    return given if given.startswith(prefixes) and len(given) <= ID_RULE.max_chars else ""


# ---- what other models can read of an item ----

_TOLD: Final = (
    "server_label name query queries code input arguments action actions operation revised_prompt "
    "output outputs results error reasoning text reason".split()
)


def describe(item: JsonObject) -> str:
    """Return what of an item another model can read; never the bytes of pictures."""
    kind = kind_of(item)
    if kind == "compaction":
        return "[The conversation before this point was compacted by OpenAI; only it can read it.]"
    if kind in ("message", ""):
        return openai.readable(item.get("content"))
    told = [_without_bytes(item[key]) for key in _TOLD if item.get(key)]
    if tools := objects_in(item.get("tools")):
        names = (tool.get("name") or tool.get("server_label") or tool.get("type") for tool in tools)
        told.append(", ".join(as_text(name) or "unnamed" for name in names))
    if kind == "program_output":
        told.append(as_text(item.get("result")))
    if isinstance(item.get("approve"), bool):
        told.append("approved" if item["approve"] else "not approved")
    shown = (one if isinstance(one, str) else compact_json(one) for one in told)
    return f"[{': '.join([kind, *shown])}]"


def _without_bytes(value: Json) -> Json:
    if isinstance(value, str):
        return "[data]" if value.startswith("data:") else value
    if fields := as_object(value):
        return {key: _without_bytes(held) for key, held in fields.items()}
    return list(map(_without_bytes, as_list(value))) or value


# ---- reading ----

_FINAL_EVENTS: Final = ("response.completed", "response.incomplete", "response.failed")
_FIRST_EVENTS: Final = ("response.created", "response.queued", "response.in_progress")
_GROWING: Final[Mapping[str, str]] = {  # by event, the field that grows
    "response.function_call_arguments.delta": "arguments",
    "response.custom_tool_call_input.delta": "input",
    "response.output_text.delta": "text",
    "response.refusal.delta": "text",
}
_OF_DEVELOPER: Final = ("additional_tools", "configuration_update")
_OF_CLIENT: Final = (
    *_OF_DEVELOPER,
    "item_reference",
    "mcp_approval_response",
    "compaction_trigger",
)
_IN_WORDS: Final = ("function_call_output", "custom_tool_call_output")


def read_reply(reply: Any, request: Request | None = None) -> wire.Reply:
    """Return the reply's parts in their order.

    Encrypted reasoning and the items of server tools are kept verbatim; calls that the client runs
    become calls. Tools get back the names that they have in the request. Of a compaction's result
    the compaction is kept: next to it are messages that were sent.

    Raises:
        ReplyError: The reply is no finished response.
    """
    warnings: list[str] = []
    body = wire.read_body(reply, _join_events)
    if body.get("type") in _FINAL_EVENTS:
        body = as_object(body.get("response"))
    output, status = body.get("output"), as_text(body.get("status"))
    error = as_object(body.get("error"))
    failure = as_text(error.get("message")) or as_text(error.get("code")) or "no reason was given"
    if not isinstance(output, list):
        raise ReplyError(reply, reason="it has no list of output items")
    if status in ("queued", "in_progress"):
        raise ReplyError(reply, reason=f"its status is {status!r}, so it is not finished")
    if status == "failed" and not output:
        raise ReplyError(reply, reason=f"the model failed ({failure})")
    items = objects_in(output)
    if body.get("object") == "response.compaction":
        items = [item for item in items if item.get("type") != "message"]
    answered = {answered_id(i) for i in items if as_text(i.get("type")).endswith("_output")}
    names = wire.own_names(request, NAME_RULE, NAME)
    parts = [
        part
        for item in items
        for part in _read_item(item, "", lambda _, what: warnings.append(what), names, answered)
    ]
    cut_off = ("incomplete",) if status == "completed" else ("incomplete", "in_progress")
    unfinished = tuple(
        as_text(item.get("call_id")) or as_text(item.get("id"))
        for item in items
        if item.get("status") in cut_off and as_text(item.get("type")).endswith("_call")
    )
    warnings += map(wire.say_unfinished, unfinished)
    if status == "failed":
        warnings.append(f"The model failed before it was done ({failure}).")
    # docstrings of the openai package 3.57, Response.input_transformations (read 2026-11-27)
    changes = objects_in(body.get("input_transformations"))
    for reason, n in Counter(as_text(c.get("reason")) or "unknown" for c in changes).items():
        warnings.append(f"{n} reasoning item(s) of the request were not used: {reason}.")
    # It is gone 20 minutes after its last use.
    # https://developers.openai.com/api/docs/guides/tools-code-interpreter (read 2026-11-30)
    made_at = wire.count_of(body.get("completed_at") or body.get("created_at"))
    held = [item["container_id"] for item in items if as_text(item.get("container_id"))]
    container = {"id": held[-1], "expires_at": made_at + 1200} if held and made_at else None
    reason = as_text(as_object(body.get("incomplete_details")).get("reason"))
    said = (piece for item in items for piece in objects_in(item.get("content")))
    reason = "refusal" if any(piece.get("type") == "refusal" for piece in said) else reason
    usage = openai.read_usage(body.get("usage"), asked="input", answered="output")
    about = unfinished, as_text(body.get("id")) or None, reason or status or None, usage, container
    return wire.Reply(NAME, as_text(body.get("model")), parts, *about, warnings=(*warnings,))


def _join_events(events: Sequence[Item]) -> Item | None:
    """Return the response as far as it came; `None` if the events report none.

    Of what was not done when the stream broke off, text and calls of the client's are kept, as
    `incomplete`; unfinished reasoning has no seal yet, and a server's tool no result. Some servers
    end with an empty output: it is what was done before.

    Source:
        https://platform.openai.com/docs/api-reference/responses-streaming (read 2026-11-28)
    """
    response: Item | None = None
    items: list[tuple[int, Item]] = []
    for event in events:
        kind, at = as_text(event.get("type")), wire.count_of(event.get("output_index"))
        told = event if event.get("object") == "response" else as_object(event.get("response"))
        if kind in _FIRST_EVENTS:
            response = {**told, "status": "incomplete"}
        elif told:  # the whole reply, with or after the last event
            response = told
            if told.get("output"):
                return told
        elif kind == "response.output_item.added":
            items.append((at, {**as_object(event.get("item")), "status": "incomplete"}))
        elif kind == "response.output_item.done" or kind in _GROWING:
            item = as_object(event.get("item"))
            found = _find_item(items, at, as_text(event.get("item_id")) or as_text(item.get("id")))
            if item:
                items[found:] = [(at, item), *items[found + 1 :]]
            elif found < len(items):
                wire.grow(items[found][1], {_GROWING[kind]: event.get("delta")})
    output: list[Item] = []
    for _, item in sorted(items, key=itemgetter(0)):
        if text := item.pop("text", ""):
            item["content"] = [{"type": "output_text", "text": text}]
        if item.get("status") != "incomplete" or item.get("type") in _CALLS or text:
            output.append(item)
    return None if response is None else {**response, "output": output}


def _find_item(items: Sequence[tuple[int, Item]], at: int, item_id: str) -> int:
    """Return the place of the item that an event is about; that of a new one if there is none.

    It is found by its id, whatever the index says, else by the index: some servers say one index for
    all items, and others another id in each event.
    """
    places = range(len(items))
    same = [place for place in places if item_id and items[place][1].get("id") == item_id]
    is_open = [items[place][1].get("status") == "incomplete" for place in places]
    same = same or [place for place in places if items[place][0] == at and is_open[place]]
    return same[-1] if same else len(items)


def _read_item(
    item: JsonObject,
    where: str,
    note: wire.Note,
    names: Mapping[str, str] = {},
    answered: Iterable[str] = (),
) -> list[JsonObject]:
    """Return the stored parts of one item that a model made.

    Args:
        names: Names on the wire → the tools' own.
        answered: Ids of calls that the provider ran itself.
    """
    kind, name = as_text(item.get("type")) or "message", as_text(item.get("name"))
    call_id = as_text(item.get("call_id"))
    if kind == "message":
        return _read_message(item)
    if kind == "reasoning":
        # Only an encrypted item can go back.
        # https://developers.openai.com/api/docs/guides/reasoning (read 2026-11-27)
        thoughts = [*as_list(item.get("summary")), *as_list(item.get("content"))]
        text = "\n\n".join(filter(None, map(openai.readable, thoughts)))
        kept = wire.without_nulls(item)
        is_sealed = as_text(item.get("encrypted_content"))
        own = {"block": kept} if is_sealed else {"extras": {NAME: kept}}
        part: JsonObject = {"type": "thinking", "text": text, "provider": NAME, **own}
        return [part if text else wire.without(part, "text")]
    given: Json = item.get("arguments")
    read: tuple[str, ...] = ("call_id", "name", "type", "arguments")
    if call_id not in answered and is_left_to_client(item):
        name = name or NATIVE_CALLS[kind].name
        read, given = ("call_id", "name", *NATIVE_CALLS[kind].asks), _asked(item)
    elif kind != "function_call":
        return [_whole(item)]
    kept = wire.without_nulls(wire.without(item, *read))
    extras = {NAME: kept} if kept else None
    name, where = names.get(name, name), f"{where}.arguments"
    return [wire.read_call(call_id, name, given, where, note, extras=extras)]


def _asked(item: JsonObject) -> Json:
    """Return the arguments of a call that is no function's; `None`: it says nothing."""
    for key in NATIVE_CALLS[item["type"]].asks:
        if given := item.get(key):
            return as_object(given) or {key: given}
    return None


def is_left_to_client(item: JsonObject) -> bool:
    """Whether the item is a call that the client runs: of a known kind, not run by a server."""
    if kind_of(item) not in NATIVE_CALLS or not as_text(item.get("call_id")):
        return False
    environment = as_object(item.get("environment")).get("type")
    is_hosted = environment in ("container_reference", "container_auto")
    return not is_hosted and item.get("execution") != "server" and _asked(item) is not None


def _whole(item: JsonObject) -> JsonObject:
    return wire.opaque_part(NAME, item, describe(item))


def _read_message(item: JsonObject) -> list[JsonObject]:
    """Return one text for each piece of a message; a message with anything else stays whole."""
    content, about = item.get("content"), wire.without(item, "type", "role", "content")
    pieces = [{"text": content}] if isinstance(content, str) else objects_in(content)
    parts: list[JsonObject] = []
    for piece in pieces:
        kind = piece.get("type", "output_text")
        if kind not in ("output_text", "input_text") or not isinstance(piece.get("text"), str):
            return [_whole(item)]
        marks = wire.without(piece, "type", "text", "parsed")
        kept = wire.without_nulls({**about, **{key: marks[key] for key in marks if marks[key]}})
        extras = {"extras": {NAME: kept}} if kept else {}
        parts.append({"type": "text", "text": piece["text"], **extras})
    return parts


def read_messages(
    items: Json, note: wire.Note = lambda _where, _what: None
) -> list[tuple[str, Item]]:
    """Return the events of a list of items, of a request or a response: type and stored body.

    What a model made in a row is one reply. `instructions` of a request come first.

    Args:
        note: Gets the place and half a sentence for everything that is not kept as it came.
    """
    events: list[tuple[str, Item]] = []
    if body := as_object(items):
        if given := body.get("instructions"):
            said = [{"role": "developer", "content": given}] if isinstance(given, str) else given
            events = read_messages(as_list(said), note)
        items = body.get("input", body.get("output"))
        items = [{"role": "user", "content": items}] if isinstance(items, str) else items
    reply: list[JsonObject] | None = None
    server_calls: set[str] = set()
    for at, item in enumerate(map(as_object, as_list(items))):
        where, kind = f"input[{at}]", kind_of(item)
        is_of_model = kind not in _OF_CLIENT and kind not in _IN_WORDS
        if kind == "message":
            is_of_model = item.get("role") == "assistant"
        elif kind.endswith("_output") and (call_id := answered_id(item)):
            is_of_model = is_of_model and call_id in server_calls
        if not kind:
            note(where, "is not an item: it has neither a type nor a role; left out")
        elif is_of_model:
            if reply is None:
                reply = []
                events.append(("assistant", {"parts": reply}))
            reply += _read_item(item, where, note)
            if kind != "function_call" and not is_left_to_client(item):
                server_calls.add(as_text(item.get("call_id")))
        else:
            reply = None
            events += _read_input(item, kind, where, note)
    return events


def _read_input(
    item: JsonObject, kind: str, where: str, note: wire.Note
) -> Iterator[tuple[str, Item]]:
    """Yield the event of an item that no model made."""
    role, kept = as_text(item.get("role")), dict(item)
    if kind == "compaction_trigger":
        note(where, "asks for one compaction, which is no part of a session; left out")
    elif kind == "message" and role not in ("user", "system", "developer"):
        note(where, f"has the unknown role {role!r:.40}; the message is left out")
    elif kind == "message":
        content = kept.pop("content", None)
        kept = wire.without(kept, "type", "" if role == "system" else "role")
        parts = openai.read_content(content, f"{where}.content", note, provider=NAME)
        about = {"metadata": {NAME: kept}} if kept else {}
        yield "user" if role == "user" else "system", {"parts": parts, **about}
    elif kind.endswith("_output"):
        result: Item = {"type": "tool_result", "call_id": answered_id(item)}
        if not result["call_id"]:
            note(f"{where}.call_id", "is missing: nobody knows which call this answers")
        if kind not in _IN_WORDS:
            yield "tool_result", {"parts": [{**result, "content": [_whole(item)]}]}
            return
        output = kept.pop("output", None)
        result["content"] = openai.read_content(output, f"{where}.output", note, provider=NAME)
        read = ("type", "call_id") if kind == "function_call_output" else ("call_id",)
        kept = wire.without(kept, *read)
        yield "tool_result", {"parts": [result]} | ({"metadata": {NAME: kept}} if kept else {})
    else:
        if kind == "item_reference":
            told = "names an item that the provider keeps; what it says is not in this transcript"
            note(f"{where}.id", f"({as_text(item.get('id')):.40}) {told}")
        yield "system" if kind in _OF_DEVELOPER else "user", {"parts": [_whole(item)]}
