"""OpenAI Responses: what `openai.OpenAI().responses.create` takes and returns."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from context_assembler.context import Request
from context_assembler.errors import EmptySessionError, ReplyError, UnsupportedRequestError
from context_assembler.events import Json, JsonObject, compact_json
from context_assembler.models import ModelLimits
from context_assembler.ports import ChangeForms, Payload, ToolSearch, ToolSpec, Turn, read_change
from context_assembler.providers import openai, wire
from context_assembler.providers.lent import LentList
from context_assembler.providers.schemas import root_object_schema
from context_assembler.providers.wire import as_list, as_object, as_text, objects_in, plain_json
from context_assembler.texts import REMINDER_TAG, clean_text, fence

NAME: Final = "openai_responses"

# https://github.com/openai/openai-openapi, FunctionTool.name (read 2026-11-27)
NAME_RULE: Final = wire.NameRule(re.compile(r"[a-zA-Z0-9_-]{1,128}"), 128)
# Longer ids are refused: "string too long. Expected a string with maximum length 64".
ID_RULE: Final = wire.NameRule(re.compile(r"[!-~]{1,64}"), 64)
MIN_OUTPUT_TOKENS: Final = 16  # https://github.com/openai/openai-openapi, max_output_tokens

Item = dict[str, Json]

# Sound and moving pictures are refused: "got unsupported MIME type 'audio/mpeg'".
# https://developers.openai.com/api/docs/guides/file-inputs (read 2026-11-27)
_DOCUMENT_TYPES: Final = ("pdf", "json", "msword", "rtf", "vnd.")
_PHASES: Final = ("commentary", "final_answer")
_SAID: Final = ("output_text", "refusal", "text", "summary_text", "reasoning_text")
_MARKS_OF_TEXT: Final = ("annotations", "logprobs")
_ABOUT_CALL: Final = ("caller", "name", "namespace")  # what an output says of its call
_REQUIRED: Final[Mapping[str, tuple[str, ...]]] = {  # one of these holds text
    "input_text": ("text",),
    "input_image": ("image_url", "file_id"),
    "input_file": ("file_data", "file_url", "file_id"),
    "item_reference": ("id",),
    "mcp_approval_response": ("approval_request_id",),
}


# ---- calls that are not functions ----


class NativeCall(NamedTuple):
    """A kind of call that the client runs, besides functions.

    Attributes:
        name: The tool's name if its items have none.
        asks: The fields that say what to do; an item has at least one of them.
        shape: The first is the arguments as an `object`, or as `text` the argument of that name; or
            all are the arguments, `fields`.
        output_kind: The type of the item that answers it.
        needs_id: Whether its item is not taken without the id that the server gave it.
        output: Writes text as the answer's fields; `None`: no text can answer it.
    """

    name: str
    asks: tuple[str, ...]
    shape: str
    output_kind: str
    needs_id: bool = False
    output: Callable[[str, bool], Item] | None = None

    def fits(self, item: JsonObject) -> bool:
        """Whether the item says what to do in the shape of its kind."""
        if self.shape == "fields":
            return any(item.get(key) is not None for key in self.asks)
        return isinstance(item.get(self.asks[0]), dict if self.shape == "object" else str)


def _shell_output(text: str, is_error: bool) -> Item:
    outcome = {"type": "exit", "exit_code": int(is_error)}
    return {"output": [{"stdout": text, "stderr": "", "outcome": outcome}]}


# Types of the openai package 3.57, ResponseInputItemParam (read 2026-11-27); a recorded request
# answered a client-run tool_search_call with a function_call_output.
NATIVE_CALLS: Final[Mapping[str, NativeCall]] = {
    f"{name}_call": NativeCall(*row)
    for name, row in {
        "custom_tool": (
            *("custom", ("input",), "text", "custom_tool_call_output", False),
            lambda text, _: {"output": text},
        ),
        "tool_search": ("tool_search", ("arguments",), "object", "tool_search_output"),
        "shell": ("shell", ("action",), "object", "shell_call_output", False, _shell_output),
        "local_shell": (
            *("local_shell", ("action",), "object", "local_shell_call_output", True),
            lambda text, _: {"output": text},
        ),
        "apply_patch": (
            *("apply_patch", ("operation",), "object", "apply_patch_call_output", False),
            lambda text, failed: {"status": "failed" if failed else "completed", "output": text},
        ),
        "computer": ("computer", ("action", "actions"), "fields", "computer_call_output", True),
    }.items()
}
_ANSWERED_BY_ID: Final = "local_shell_call_output"  # its `id` is that of the call
_HOSTED: Final = ("container_reference", "container_auto")


def answered_id(item: JsonObject) -> str:
    """Return the id of the call that an item makes or answers; empty if it has none.

    Source:
        types of the openai package 3.57 (read 2026-11-27)
    """
    by_id = item.get("type") == _ANSWERED_BY_ID
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


# ---- rendering ----


class _Form(NamedTuple):
    """How a call goes over the wire: what its answer has to follow."""

    kind: str = ""  # of its item; empty for a function's
    bare_kind: str = ""  # the same if reasoning is left out
    caller: JsonObject | None = None  # the program that called
    is_open: bool = False  # whether it may stay unanswered


class Wire(wire.GrownWire):
    """The items of one request, grown turn by turn."""

    def __init__(self, request: Request) -> None:
        super().__init__(request, ID_RULE)
        limits = request.limits
        self._is_own = openai.is_own_api(limits)
        self._reasons = bool(limits.thinking.kinds)
        # Other vendors know `system` alone.
        # https://developers.openai.com/api/docs/guides/text (read 2026-11-27)
        self._role = "developer" if limits.provider.startswith("openai") else "system"
        self._names = _names(request)
        self._forms: dict[str, _Form] = {}
        self._known: tuple[set[str], set[str]] = set(), set()  # sent, and without reasoning
        self._tools = self._offered()
        self._rendered_tools = self._render_tools()

    def _head(self) -> Json:
        return [
            NAME,
            self._system(is_marked=False),
            self._rendered_tools,
            openai.effort_of(self.request),
        ]

    def add(self, turn: Turn) -> None:
        """Append a turn."""
        role, parts = turn["role"], turn["parts"]
        if role == "tool":
            self._add_results(turn)
        elif role == "assistant":
            self._add_reply(turn)
        elif turn.get("kind") == "summary":
            self._append(self._summary(turn))
        elif role == "user" and len(parts) == 1 and len(parts[0]) == 2 and "text" in parts[0]:
            text = clean_text(parts[0]["text"])
            if text and not text.isspace():
                item = {"type": "message", "role": "user", "content": text}
                self.messages.append(item)
                self._units.append(item)
        elif role == "user":
            if any(part["type"] == "tool_result" for part in parts):
                self._add_results(turn)
            self._append(self._user_items(wire.settle_parts(turn, self._settle, self.entries)))
        else:
            self._append(self._instructions(turn))

    def _append(self, items: Iterable[Item], bare: Iterable[Item] | None = None) -> None:
        """Append items; `bare` are the same without reasoning, if they differ."""
        sent = [self._settle_reference(item, self._known[0]) for item in items]
        units = sent
        if bare is not None:
            units = [self._settle_reference(item, self._known[1]) for item in bare]
        for known, listed in zip(self._known, (sent, units), strict=True):
            for item in listed:
                if item["type"] in ("program", "mcp_approval_request"):
                    known.add(as_text(item.get("call_id") or item.get("id")))
        if any(item["type"] == "compaction" for item in units):
            # Reasoning after OpenAI's own compaction stays valid, whatever that stands for.
            # https://developers.openai.com/api/docs/guides/keep-prefix-unchanged (read 2026-11-27)
            last = max(at for at, item in enumerate(units) if item["type"] == "compaction")
            self._restart = len(self._units) + last
        self.messages += sent
        self._units += units

    def _settle_reference(self, item: Item, known: set[str]) -> Item:
        """Return an item without a reference to a program or a request that is not sent.

        Source:
            types of the openai package 3.57, CallerProgram, McpApprovalResponse (read 2026-11-27)
        """
        kind = item["type"]
        if kind == "program_output" and as_text(item.get("call_id")) not in known:
            return _message("assistant", describe(item))
        if kind == "mcp_approval_response" and item.get("approval_request_id") not in known:
            return _message("user", describe(item))
        caller = item.get("caller")
        if caller and caller.get("type") == "program" and caller.get("caller_id") not in known:
            return {key: value for key, value in item.items() if key != "caller"}
        return item

    # -- what the user and the developer say --

    def _summary(self, turn: Turn) -> list[Item]:
        """Return OpenAI's own compaction if there is one, instead of the text that says the same.

        Source:
            https://developers.openai.com/api/docs/guides/compaction (read 2026-11-27)
        """
        own = [sendable(p["block"]) for p in turn["parts"] if p.get("provider") == NAME]
        if any(map(is_sealed_compaction, own)):
            return own
        return [_message("user", wire.summary_text(turn))]

    def _user_items(self, parts: Iterable[JsonObject]) -> Iterator[Item]:
        """Yield what the user said, and between it the items that a client adds by itself."""
        said: list[Item] = []
        for part in parts:
            if _is_own_item(part):
                yield from _say("user", said)
                said = []
                yield sendable(part["block"])
            else:
                said += _pieces(part)
        yield from _say("user", said)

    def _instructions(self, turn: Turn) -> Iterator[Item]:
        """Yield late instructions under their role, or fenced if they have no authority."""
        plan = wire.plan_of(self.request, NAME)
        if plan is not None and plan.forms.adds:
            changes = filter(None, map(read_change, turn["parts"]))
            if added := [tool for change in changes for tool in change.added]:
                tools = [self._function(tool) for tool in openai.leave_strict(added, self.entries)]
                yield {"type": "additional_tools", "role": "developer", "tools": tools}
                return
        parts = wire.settle_parts(turn, self._settle, self.entries)
        has_authority = turn.get("origin") not in wire.NO_SYSTEM_AUTHORITY
        own = [part for part in parts if has_authority and _is_own_item(part)]
        text = wire.text_of(part for part in parts if part not in own)
        media = [
            p for part in parts if part["type"] in ("image", "document") for p in _pieces(part)
        ]
        if has_authority and not media:
            yield from _say(self._role, [_text_piece(text)] if text else [])
        else:
            reminder = [_text_piece(fence(REMINDER_TAG, text))] if text else []
            yield from _say("user", [*reminder, *media])
        yield from (sendable(part["block"]) for part in own)

    def _settle(self, part: JsonObject, role: str, changes: list[wire.Change]) -> list[JsonObject]:
        kind = part["type"]
        if kind in ("image", "document"):
            from context_assembler.providers.media import settle_media

            rules = openai.media_rules(
                self.request.limits,
                api="Responses",
                document_types=(*map("application/".__add__, _DOCUMENT_TYPES), "text/"),
                document_words="PDF, office documents and text",
            )
            return settle_media(part, role, changes, rules=rules, limits=self.request.limits)
        if kind != "opaque" or part["provider"] == "context-assembler":
            return [part]
        if part["provider"] == NAME:
            flaw = _flaw_of(part["block"], role)
            if flaw is None:
                return [part]
            return wire.settle_opaque(part, role, changes, provider=NAME, flaw=flaw)
        return wire.settle_opaque(part, role, changes, provider=NAME, flaw=None)

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
        parts: Sequence[JsonObject] = turn["parts"]
        calls = [part["call_id"] for part in parts if part["type"] == "tool_call"]
        ids = self._ids.of_calls(calls) if calls else []
        said: list[Item] = []
        called: list[Item] = []
        for part in parts:
            if part["type"] == "text" and len(part) == 2:
                text = clean_text(part["text"])
                if text and not text.isspace():
                    said.append({"type": "message", "role": "assistant", "content": text})
            elif part["type"] == "tool_call" and "extras" not in part:
                arguments = part.get("arguments_json")
                if not (arguments and arguments.isascii() and part.get("arguments")):
                    arguments = wire.arguments_text(part)
                called.append(
                    {
                        "type": "function_call",
                        "call_id": ids[len(called)],
                        "name": self._names[part["name"]],
                        "arguments": arguments,
                    }
                )
            else:
                break
        else:
            said += called
            self.messages += said
            self._units += said
            return
        parts = wire.settle_parts(turn, self._settle, self.entries)
        is_whole = any(self._reasoning(part) is not None for part in parts)
        made_by = turn.get("made_by")
        usage = as_object(made_by).get("usage")
        # The items of an import go back as they came: nobody knows of reasoning that led to them.
        did_not_reason = made_by is None or (
            usage is not None and not usage.get("reasoning_tokens")
        )
        keeps = is_whole or not self._reasons or did_not_reason
        own_calls = (part for part in parts if part["type"] == "tool_call")
        for part, call_id in zip(own_calls, ids, strict=True):
            extras = wire.own_extras(part, NAME)
            is_open = extras.get("async") is True
            form = _Form(_kind(extras, keeps), _kind(extras, True), extras.get("caller"), is_open)
            if form != _Form():
                self._forms[call_id] = form
        items = self._reply_items(parts, ids, is_whole=is_whole, keeps=keeps)
        bare = items
        if is_whole or not keeps:
            bare = self._reply_items(parts, ids, is_whole=False, keeps=True)
        self._append(items, bare)
        if any(part["type"] == "tool_result" for part in parts):
            self._add_results(turn)

    def _reasoning(self, part: JsonObject) -> Item | None:
        """Return the reasoning item that the part goes back as; `None` if it cannot.

        Source:
            https://github.com/BerriAI/litellm/issues/13420 (read 2026-11-27): "Unknown parameter:
            'input[1].status'"; https://github.com/newo-ether/Agora/issues/141: "missing required
            field `summary`"
        """
        block = part.get("block")
        if part["type"] != "thinking" or block is None or part.get("provider") != NAME:
            return None
        if not self._reasons or not block.get("encrypted_content") or block["type"] != "reasoning":
            return None
        item = wire.without_nulls(sendable(block))
        item.pop("status", None)
        item["summary"] = as_list(item.get("summary"))
        return item

    def _reply_items(
        self, parts: Sequence[JsonObject], ids: Sequence[str], *, is_whole: bool, keeps: bool
    ) -> list[Item]:
        """Return a reply's items.

        Args:
            is_whole: With its reasoning, and so with its ids.
            keeps: Whether the server's own items go back as they came.
        """
        items: list[Item] = []
        waiting = iter(ids)
        open_id = ""
        for part in parts:
            kind, before = part["type"], len(items)
            if kind == "text" and (text := clean_text(part["text"])) and not text.isspace():
                own = wire.own_extras(part, NAME)
                own_id = _server_id(own, ("msg_",))
                if not own_id or not (is_whole or (keeps and any(map(own.get, _MARKS_OF_TEXT)))):
                    items.append(_message("assistant", text, own.get("phase")))
                    open_id = ""
                    continue
                piece = {"type": "output_text", "text": text, "annotations": []}
                piece |= {key: plain_json(own[key]) for key in _MARKS_OF_TEXT if own.get(key)}
                if own_id == open_id:  # pieces of one message stay together
                    items[-1]["content"].append(piece)
                    continue
                item = {"type": "message", "id": own_id, "role": "assistant"}
                item["status"] = as_text(own.get("status")) or "completed"
                item["content"] = [piece]
                items.append(
                    item | ({"phase": own["phase"]} if own.get("phase") in _PHASES else {})
                )
                open_id = own_id
                continue
            if kind == "thinking" and is_whole and (item := self._reasoning(part)) is not None:
                items.append(item)
            elif kind == "tool_call":
                items.append(self._call(part, next(waiting), is_whole=is_whole, keeps=keeps))
            elif kind == "opaque":
                items += self._own_item(part, keeps=keeps)
            if len(items) > before:
                open_id = ""
        while items and items[-1]["type"] == "reasoning":
            items.pop()
        if is_whole:
            return items
        # Outputs follow the reply, and DeepSeek refuses a message between a call and its output.
        # https://github.com/pydantic/pydantic-ai, recorded for
        # test_deepseek_responses_rejects_interleaved_function_calls (read 2026-11-29)
        calls = ("function_call", "custom_tool_call")
        first = next((at for at, one in enumerate(items) if one["type"] in calls), len(items))
        said = [one for one in items[first:] if one["type"] == "message" and "id" not in one]
        rest = [one for one in items[first:] if one not in said]
        return [*items[:first], *said, *rest]

    def _call(self, part: JsonObject, call_id: str, *, is_whole: bool, keeps: bool) -> Item:
        """Return a call as its item, of the kind that it came as and with its own fields."""
        kept = sendable(wire.own_extras(part, NAME))
        native = NATIVE_CALLS.get(as_text(kept.pop("type", None)))
        kind = _kind(wire.own_extras(part, NAME), keeps)
        if not (keeps if kind else is_whole) or not _server_id(kept, _CALL_IDS):
            kept.pop("id", None)
        name = self._names[part["name"]]
        if native is None or not kind:
            item = {"type": "function_call", "call_id": call_id, "name": name}
            item["arguments"] = wire.arguments_text(part)
            return item if native is not None else {**item, **kept}
        arguments = plain_json(part.get("arguments", {}))
        item = {"type": kind, "call_id": call_id}
        if native.shape == "object":
            item[native.asks[0]] = arguments
        elif native.shape == "fields":
            item |= arguments
        else:
            given = arguments.get(native.asks[0])
            item["name"] = name
            item[native.asks[0]] = given if isinstance(given, str) else compact_json(arguments)
        return {**item, **kept}

    def _own_item(self, part: JsonObject, *, keeps: bool) -> list[Item]:
        """Return an item of the server as it came; its text if it cannot go back."""
        block = part["block"]
        kind = block.get("type")
        if part["provider"] != NAME or _is_piece(part) or kind in _SAID:
            return _messages("assistant", part.get("text", ""))
        if kind == "compaction":
            is_kept = is_sealed_compaction(block)
        elif kind in ("message", None):
            content = as_list(block.get("content"))
            is_kept = keeps and block.get("role") == "assistant" and bool(content)
            is_kept = is_kept and all(p.get("type") in ("output_text", "refusal") for p in content)
            is_kept = is_kept and bool(_server_id(block, ("msg_",)))
        else:
            is_kept = keeps and _is_complete(block)
        if is_kept:
            return [sendable(block)]
        return _messages("assistant", part.get("text", ""), block.get("phase"))

    # -- results --

    def _add_results(self, turn: Turn) -> None:
        """Append the outputs of results; a call that may stay unanswered needs none made up."""
        parts: Sequence[JsonObject] = turn["parts"]
        for part in parts:
            if part["type"] != "tool_result":
                continue
            sent, content = self._ids.of_result(part["call_id"]), part.get("content", ())
            form = self._forms.get(sent)
            is_text = len(content) == 1 and len(content[0]) == 2 and "text" in content[0]
            if is_text and form is None and "extras" not in part:
                text = clean_text(content[0]["text"])
                if text.isspace():
                    text = ""
                if part.get("is_error"):
                    text = wire.mark_failure(text)
                item = {"type": "function_call_output", "call_id": sent}
                item["output"] = text or wire.NO_OUTPUT
                self.messages.append(item)
                self._units.append(item)
                continue
            form = form or _Form()
            settled = wire.settle_parts({**turn, "parts": [part]}, self._settle, self.entries)[0]
            if form.is_open and part.get("is_error") and wire.text_of(content) == wire.NO_RESULT:
                continue
            if form.bare_kind == "computer_call" and not _is_picture(settled):
                form = form._replace(kind="", bare_kind="")  # only a picture answers it
                self._call_as_function(sent)
            items = [self._output(settled, sent, form.kind, form)]
            bare = items
            if form.bare_kind != form.kind:
                bare = [self._output(settled, sent, form.bare_kind, form)]
            self._append(items, bare)

    def _call_as_function(self, call_id: str) -> None:
        for items in (self.messages, self._units):
            at = max(at for at, item in enumerate(items) if item.get("call_id") == call_id)
            asked = {k: v for k, v in items[at].items() if k in NATIVE_CALLS["computer_call"].asks}
            if asked:
                item = {"type": "function_call", "call_id": call_id, "name": "computer"}
                items[at] = {**item, "arguments": compact_json(asked)}

    def _output(self, result: JsonObject, call_id: str, kind: str, form: _Form) -> Item:
        """Return the item that answers a call: text as a string, pictures and files in a list.

        There is no flag for errors, so words mark them. A provider's own output goes back as it
        came, and what a program called names the program.

        Source:
            https://developers.openai.com/api/docs/guides/function-calling
            types of the openai package 3.57, FunctionCallOutput.caller (read 2026-11-27)
        """
        native = NATIVE_CALLS.get(kind)
        content = result.get("content", ())
        own = content[0] if len(content) == 1 and content[0].get("provider") == NAME else None
        output_kind = "function_call_output" if native is None else native.output_kind
        if own is not None and own["block"].get("type") in ("function_call_output", output_kind):
            item = wire.without_nulls(sendable(own["block"]))
            key = "id" if item["type"] == _ANSWERED_BY_ID else "call_id"
            item |= {key: call_id} | ({"call_id": call_id} if "call_id" in item else {})
        else:
            item = self._written(result, call_id, native)
        if native is None or not native.needs_id:
            about = {
                k: v for k, v in wire.own_extras(result, NAME).items() if k in _ABOUT_CALL and v
            }
            caller = {"caller": form.caller} if form.caller else {}
            item = plain_json({**caller, **about, **item})
        return item

    def _written(self, result: JsonObject, call_id: str, native: NativeCall | None) -> Item:
        is_error = bool(result.get("is_error"))
        pieces = [piece for part in result.get("content", ()) for piece in _output_pieces(part)]
        if native is not None and native.shape == "fields":
            place = {k: v for k, v in pieces[0].items() if k in ("image_url", "file_id")}
            shown = {"type": "computer_screenshot", **place}
            return {"type": native.output_kind, "call_id": call_id, "output": shown}
        if is_error:
            told = pieces.pop(0)["text"] if pieces and pieces[0]["type"] == "input_text" else ""
            pieces.insert(0, _text_piece(wire.mark_failure(told)))
        is_text = all(piece.keys() == {"type", "text"} for piece in pieces)
        text = "\n".join(piece["text"] for piece in pieces) if is_text else None
        if native is None or (text is None and native.output is not None):
            kind = "function_call_output" if native is None else native.output_kind
            return {
                "type": kind,
                "call_id": call_id,
                "output": pieces if text is None else text or wire.NO_OUTPUT,
            }
        if native.output is None:
            return {
                "type": "function_call_output",
                "call_id": call_id,
                "output": text or wire.NO_OUTPUT,
            }
        key = "id" if native.output_kind == _ANSWERED_BY_ID else "call_id"
        return {
            "type": native.output_kind,
            key: call_id,
            **native.output(text or wire.NO_OUTPUT, is_error),
        }

    # -- tools, system, parameters --

    def _offered(self) -> list[ToolSpec]:
        request, entries = self.request, self.entries
        tools = wire.declared_tools(request, NAME, entries, flaw_of=_flaw_of_tool)
        if self._is_own:  # how many other servers take is not known
            searched = tool_search(request.limits) is not None and any(
                map(wire.is_held_back, tools)
            )
            most = openai.MAX_TOOLS - searched  # the tool that searches takes a place of its own
            tools = wire.first_tools(request, tools, entries, most=most, api="Responses")
        return openai.leave_strict(tools, entries)

    def _render_tools(self) -> list[Item]:
        searches = tool_search(self.request.limits) is not None
        made: list[Item] = []
        for tool in self._tools:
            if tool.native_specs:
                made.append(plain_json(tool.native_specs[NAME]))
            else:
                is_deferred = (
                    {"defer_loading": True} if searches and wire.is_held_back(tool) else {}
                )
                made.append({**self._function(tool), **is_deferred})
        has_own = any(tool.get("type") == "tool_search" for tool in made)
        needs_search = searches and not has_own and any(map(wire.is_held_back, self._tools))
        return [{"type": "tool_search"}, *made] if needs_search else made

    def _function(self, tool: ToolSpec) -> Item:
        """Return a function; `strict` is always said, since the server tries strict mode without it.

        Source:
            https://developers.openai.com/api/docs/guides/function-calling (read 2026-11-27)
        """
        made: Item = {"type": "function", "name": self._names[tool.name]}
        if tool.description.strip():
            made["description"] = clean_text(tool.description)
        made["parameters"] = root_object_schema(tool.input_schema)
        made["strict"] = bool(tool.is_strict)
        return made

    def _system(self, *, is_marked: bool) -> list[Item]:
        """Return the system prompt as the first message.

        Not as `instructions`: from gpt-6.2 on those hold for one turn, come after the input and are
        billed uncached; older models cache either.

        Source:
            https://developers.openai.com/api/docs/guides/keep-prefix-unchanged (read 2026-11-27)
        """
        text = clean_text(self.request.system)
        if not text.strip():
            return []
        content: Json = text
        if is_marked:
            mark = {"mode": "explicit"}
            content = [{"type": "input_text", "text": text, "prompt_cache_breakpoint": mark}]
        return [{"type": "message", "role": self._role, "content": content}]

    def _is_worth_marking(self, request: Request) -> bool:
        """Whether the system prompt closes a prefix that is cached apart from the conversation.

        Source:
            https://developers.openai.com/api/docs/guides/prompt-caching (read 2026-11-27)
        """
        limits = request.limits
        if request.cache != "auto" or not limits.supports("cache_breakpoints"):
            return False
        return len(request.system.encode("utf-8", "surrogatepass")) >= limits.cache.least_bytes

    def write(self, request: Request) -> Payload:
        """Return keyword arguments for `responses.create`."""
        if not self.messages:
            raise EmptySessionError(request.session_id)
        first = self.messages[0]
        opens = first.get("type") not in ("compaction", "additional_tools")
        before = self._system(is_marked=self._is_worth_marking(request))
        if opens and first.get("role") in (None, "assistant"):  # the user speaks first
            before.append(_message("user", wire.OPENING))
        made: Payload = {"model": request.limits.wire_id, **self._parameters(request)}
        if self._rendered_tools:
            made["tools"] = LentList(self._rendered_tools)
        made |= self._tool_choice(request)
        made["input"] = LentList([*before, *self.messages])
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
            raise _refusal(request, "it takes no stop sequences", remedy)
        if parameters.top_k is not None:
            raise _refusal(request, "it has no top_k", "Leave top_k out, or use top_p.")
        if parameters.max_tokens < MIN_OUTPUT_TOKENS:
            problem = f"a reply has room for at least {MIN_OUTPUT_TOKENS} tokens, not "
            remedy = f"Pass max_tokens={MIN_OUTPUT_TOKENS} or more."
            raise _refusal(request, f"{problem}{parameters.max_tokens}", remedy)
        made: Item = {"store": False, "max_output_tokens": parameters.max_tokens}
        if self._reasons:
            made["include"] = ["reasoning.encrypted_content"]
        if (effort := openai.effort_of(request)) is not None:
            made["reasoning"] = {"effort": effort}
        return made | openai.common_parameters(request, is_own=self._is_own)

    def _tool_choice(self, request: Request) -> Item:
        plan = wire.plan_of(request, NAME)
        told = {tool.name: tool for tool in (*(plan.added if plan else ()), *self._tools)}

        def choose(name: str) -> Item:
            native = told[name].native_specs.get(NAME)
            if native is None:
                return {"type": "function", "name": self._names[name]}
            kind = as_text(native.get("type"))  # a tool of OpenAI's own is chosen by its kind
            key = {"mcp": "server_label", "custom": "name"}.get(kind)
            return {"type": kind} | ({key: plain_json(native.get(key))} if key else {})

        names = openai.names_to_choose(request, NAME, is_own=self._is_own)
        chosen = [choose(name) for name in names if name in told]
        among: Item = {}
        if chosen:
            search = [{"type": "tool_search"}] * sum(
                tool.get("type") == "tool_search" for tool in self._rendered_tools
            )
            mode = openai.allowed_mode(request)
            among = {"type": "allowed_tools", "mode": mode, "tools": [*search, *chosen]}
        has_tools = bool(self._rendered_tools)
        return openai.tool_choice(
            request, NAME, self._tools, has_tools=has_tools, among=among, choose=choose
        )


def payload(request: Request, wire: Wire) -> Payload:
    """Return keyword arguments for `responses.create`; plain JSON, and no argument is `None`.

    Raises:
        UnsupportedRequestError: Responses cannot express the request for this model.
        EmptySessionError: No message has anything to send.
    """
    return wire.write(request)


def change_forms(limits: ModelLimits) -> ChangeForms:
    """Return how the model can learn of changed tools; whether clouds know the item is not known.

    Source:
        https://developers.openai.com/api/docs/guides/keep-prefix-unchanged
        types of the openai package 3.57, AdditionalTools, ToolChoiceAllowedParam (read 2026-11-27)
    """
    if not openai.is_own_api(limits) or limits.host is not None:
        return ChangeForms()
    # One place is left to the tool that searches for deferred ones.
    return ChangeForms(
        adds=True, adds_strict=True, withdraws="choice", max_tools=openai.MAX_TOOLS - 1
    )


def tool_search(limits: ModelLimits) -> ToolSearch | None:
    """Return how the model searches for tools; it reads names and descriptions all the same.

    Source:
        https://developers.openai.com/api/docs/guides/tools-tool-search
        https://learn.microsoft.com/en-us/azure/foundry/openai/how-to/tool-search (read 2026-11-27)
    """
    can = openai.is_own_api(limits) and limits.supports("tool_search")
    return ToolSearch(shows_descriptions=True) if can else None


def _names(request: Request) -> wire.WireNames:
    specs = {tool.name: tool.native_specs.get(NAME) or {} for tool in wire.known_tools(request)}
    native = {own: name for own, spec in specs.items() if (name := as_text(spec.get("name")))}
    return wire.WireNames(request, NAME_RULE, native)


def _refusal(request: Request, problem: str, remedy: str) -> UnsupportedRequestError:
    return UnsupportedRequestError(problem, provider=NAME, model=request.limits.id, remedy=remedy)


def _flaw_of_tool(tool: ToolSpec) -> str:
    """Return why a tool of OpenAI's own is refused, a sentence.

    Source:
        types of the openai package 3.57, ToolParam (read 2026-11-28): every tool has a type, and a
        file search the stores that it searches.
    """
    spec = tool.native_specs[NAME]
    if not as_text(spec.get("type")):
        return "Its own form for Responses has no type, and such are refused."
    if spec["type"] == "file_search" and not as_list(spec.get("vector_store_ids")):
        return "A file search without vector_store_ids is refused."
    return ""


# ---- pieces and items ----

_CALL_IDS: Final = ("fc_", "ctc_", "tsc_", "sh_", "lsh_", "apc_", "cu_")


def _text_piece(text: str) -> Item:
    return {"type": "input_text", "text": clean_text(text)}


def _message(role: str, text: str, phase: Json = None) -> Item:
    item: Item = {"type": "message", "role": role, "content": clean_text(text)}
    return item | ({"phase": phase} if phase in _PHASES else {})


def _messages(role: str, text: str, phase: Json = None) -> list[Item]:
    return [_message(role, text, phase)] if text.strip() else []


def _say(role: str, pieces: list[Item]) -> list[Item]:
    """Return a message, a lone text as a plain string; none without content."""
    if not pieces:
        return []
    is_text = len(pieces) == 1 and pieces[0].keys() == {"type", "text"}
    content: Json = pieces[0]["text"] if is_text else pieces
    return [{"type": "message", "role": role, "content": content}]


def _is_piece(part: JsonObject) -> bool:
    return as_text(part["block"].get("type")).startswith("input_")


def _is_own_item(part: JsonObject) -> bool:
    return part["type"] == "opaque" and part["provider"] == NAME and not _is_piece(part)


def _pieces(part: JsonObject) -> list[Item]:
    """Return the pieces of content that a part becomes; blank text vanishes."""
    kind = part["type"]
    if kind == "image":
        return [_image(part)]
    if kind == "document":
        return _document(part)
    if kind == "opaque" and part["provider"] == NAME and _is_piece(part):
        return [wire.without_nulls(plain_json(part["block"]))]
    text = part.get("text") or ""
    return [_text_piece(text)] if kind in ("text", "opaque") and text.strip() else []


def _output_pieces(part: JsonObject) -> list[Item]:
    """Return the pieces of a part of a result; of the output of a computer the picture in it."""
    shown = as_object(as_object(part.get("block")).get("output"))
    place = {key: shown[key] for key in ("image_url", "file_id") if as_text(shown.get(key))}
    if shown.get("type") == "computer_screenshot" and place:
        return [{"type": "input_image", "detail": "auto", **place}]
    return _pieces(part)


def _is_picture(result: JsonObject) -> bool:
    content = result.get("content", ())
    if len(content) != 1 or result.get("is_error"):
        return False
    shown = as_object(content[0].get("block"))
    return content[0]["type"] == "image" or shown.get("type") == "computer_call_output"


def _image(part: JsonObject) -> Item:
    """Return a picture with its level of detail, which the API wants to know.

    Source:
        https://developers.openai.com/api/docs/guides/images-vision (read 2026-11-27)
    """
    from context_assembler.providers.media import data_url, media_type_of

    source = part["source"]
    piece: Item = {"type": "input_image", "detail": part.get("detail") or "auto"}
    if source["type"] == "base64":
        return {**piece, "image_url": data_url(media_type_of(source), source["data"])}
    key, place = ("image_url", "url") if source["type"] == "url" else ("file_id", "file_id")
    return {**piece, key: clean_text(source[place])}


def _document(part: JsonObject) -> list[Item]:
    """Return a document as a file, or as its text; before it what no field says of it.

    Source:
        https://developers.openai.com/api/docs/guides/file-inputs (read 2026-11-27)
    """
    from context_assembler.providers.media import (
        about_document,
        data_url,
        document_text,
        media_type_of,
    )

    source = part["source"]
    if part.get("text") is not None:
        return [_text_piece(document_text(part))]
    about = about_document(part, has_title=source["type"] == "base64")
    file: Item = {"type": "input_file"}
    if source["type"] == "base64":
        media_type = media_type_of(source)
        usual = "document.pdf" if media_type == "application/pdf" else "document.txt"
        file["filename"] = clean_text(part.get("title") or usual)
        file["file_data"] = data_url(clean_text(media_type), source["data"])
    elif source["type"] == "url":
        file["file_url"] = clean_text(source["url"])
    else:
        file["file_id"] = clean_text(source["file_id"])
    return [*([_text_piece(about)] if about else []), file]


def sendable(item: JsonObject) -> Item:
    """Return an item as it goes back: without the fields that only the server's own items have.

    Source:
        types of the openai package 3.57, ResponseOutputItem next to ResponseInputItemParam
        (read 2026-11-27)
    """
    kind = item.get("type")
    dropped = {"created_by"}
    if kind == "custom_tool_call_output":
        dropped = {"created_by", "status"}
    elif kind == "message" and item.get("role") != "assistant":
        dropped = {"created_by", "id"}
    return {key: plain_json(value) for key, value in item.items() if key not in dropped}


def is_sealed_compaction(item: JsonObject) -> bool:
    """Whether the item is a compaction that its server can open."""
    return item.get("type") == "compaction" and bool(as_text(item.get("encrypted_content")))


def _is_complete(item: JsonObject) -> bool:
    """Whether an item has what its type requires: what a call asks for, and an id to answer by."""
    kind = as_text(item.get("type"))
    if kind in ("tool_search_call", "tool_search_output"):
        return True
    native = NATIVE_CALLS.get(kind)
    if native is not None and not native.fits(item):
        return False
    needs_id = native is not None or kind.endswith("_output") or kind == "program"
    return bool(answered_id(item)) or not needs_id


def _server_id(fields: JsonObject, prefixes: tuple[str, ...]) -> str:
    given = as_text(fields.get("id"))
    return given if given.startswith(prefixes) and len(given) <= ID_RULE.max_chars else ""


def _kind(extras: JsonObject, keeps: bool) -> str:
    """Return the type of the item that a call goes back as; empty for a function's."""
    kind = as_text(extras.get("type"))
    native = NATIVE_CALLS.get(kind)
    if native is None or (native.needs_id and not (keeps and _server_id(extras, _CALL_IDS))):
        return ""
    return kind


def _flaw_of(block: JsonObject, role: str) -> str | None:
    """Return why an item or a piece would be refused, half a sentence; `None`: nothing is known.

    Source:
        types of the openai package 3.57, ResponseInputItemParam and
        ResponseInputMessageContentListParam (read 2026-11-28)
    """
    kind = kind_of(block)
    if not kind:
        return "it has neither a type nor a role"
    if role == "assistant" and kind.startswith("input_"):
        return "it is not taken from the assistant"
    if role != "assistant" and kind in _SAID:
        return "only the model says that"
    required = _REQUIRED.get(kind)
    if required and not any(isinstance(block.get(key), str) for key in required):
        return f"it has no {' or '.join(required)}"
    if kind == "mcp_approval_response" and not isinstance(block.get("approve"), bool):
        return "it does not say whether it approves"
    if kind == "input_image" and block.get("detail") not in (
        None,
        "auto",
        "low",
        "high",
        "original",
    ):
        return "its detail is unknown"
    if kind == "additional_tools" and not all(
        t.get("type") for t in objects_in(block.get("tools"))
    ):
        return "one of its tools has no type"
    return None


# ---- what other models can read of an item ----

_TOLD: Final = [
    "server_label",
    "name",
    "query",
    "queries",
    "code",
    "input",
    "arguments",
    "action",
    "actions",
    "operation",
    "revised_prompt",
    "output",
    "outputs",
    "results",
    "error",
    "reasoning",
    "text",
    "reason",
]


def describe(item: JsonObject) -> str:
    """Return what of an item another model can read; never the bytes of pictures."""
    kind = kind_of(item)
    if kind == "compaction":
        return "[The conversation before this point was compacted by OpenAI; only it can read it.]"
    if kind in ("message", ""):
        content = item.get("content")
        pieces = [content] if isinstance(content, str) else as_list(content)
        texts = (p if isinstance(p, str) else _said(as_object(p)) for p in pieces)
        return "\n".join(filter(None, texts))
    told = [_without_bytes(item[key]) for key in _TOLD if item.get(key)]
    if names := [_tool_name(tool) for tool in objects_in(item.get("tools"))]:
        told.append(", ".join(names))
    if kind == "program_output":
        told.append(as_text(item.get("result")))
    if isinstance(item.get("approve"), bool):
        told.append("approved" if item["approve"] else "not approved")
    if kind == "item_reference":
        told.append(as_text(item.get("id")))
    shown = (one if isinstance(one, str) else compact_json(one) for one in told)
    return f"[{': '.join([kind, *shown])}]"


def _said(piece: JsonObject) -> str:
    return as_text(piece.get("text")) or as_text(piece.get("refusal"))


def _tool_name(tool: JsonObject) -> str:
    keys = ("name", "server_label", "type")
    return next((name for key in keys if (name := as_text(tool.get(key)))), "unnamed")


def _without_bytes(value: Json) -> Json:
    if isinstance(value, str):
        return "[data]" if value.startswith("data:") else value
    if isinstance(value, Mapping):
        return {key: _without_bytes(held) for key, held in value.items()}
    return [_without_bytes(held) for held in value] if isinstance(value, list) else value


# ---- reading ----

_FINAL_EVENTS: Final = ("response.completed", "response.incomplete", "response.failed")
_FIRST_EVENTS: Final = ("response.created", "response.queued", "response.in_progress")
_GROWING: Final[Mapping[str, tuple[str, str]]] = {  # by event: what grows by its delta
    "response.function_call_arguments.delta": ("", "arguments"),
    "response.custom_tool_call_input.delta": ("", "input"),
    "response.output_text.delta": ("output_text", "text"),
    "response.refusal.delta": ("refusal", "refusal"),
}
_OF_SDK: Final = ("parsed", "parsed_arguments")  # what it adds to a parsed reply
_OF_DEVELOPER: Final = ("additional_tools", "configuration_update")
_OF_USER: Final = ("item_reference", "mcp_approval_response")
_IN_WORDS: Final = ("function_call_output", "custom_tool_call_output")


def matches_reply(reply: Any) -> bool:
    """Whether the reply is a response, a compaction's result, or a stream's events (or the last)."""
    if isinstance(reply, list | tuple):
        kinds = (as_text(wire.field_of(event, "type")) for event in reply)
        return any(kind in _FIRST_EVENTS + _FINAL_EVENTS for kind in kinds)
    if wire.field_of(reply, "type") in _FINAL_EVENTS:
        return True
    is_one = wire.field_of(reply, "object") in ("response", "response.compaction")
    return is_one and isinstance(wire.field_of(reply, "output"), list)


def read_reply(reply: Any, request: Request | None = None) -> wire.Reply:
    """Return the reply's parts in their order.

    Encrypted reasoning and the items of server tools are kept verbatim; calls that the client runs
    become calls. Tools get back the names that they have in the request. Of a compaction's result
    the compaction is kept: next to it are messages that were sent.

    Raises:
        ReplyError: The reply is no finished response.
    """
    warnings: list[str] = []
    if isinstance(reply, list | tuple):
        body = _join_events(wire.read_stream(reply, warnings))
    else:
        body = wire.read_object(reply, warnings)
        if body is not None and body.get("type") in _FINAL_EVENTS:
            body = as_object(body.get("response"))
    if body is None:
        raise ReplyError(reply, reason="it is neither a dict nor an SDK object")
    output, status = body.get("output"), as_text(body.get("status"))
    error = as_object(body.get("error"))
    failure = as_text(error.get("message")) or as_text(error.get("code")) or "no reason was given"
    if not isinstance(output, list):
        raise ReplyError(reply, reason="it has no list of output items")
    if status in ("queued", "in_progress"):
        raise ReplyError(reply, reason=f"its status is {status!r}, so it is not finished")
    if status == "failed" and not output:
        raise ReplyError(reply, reason=f"the model failed ({failure})")
    items = [_without(_OF_SDK, item) for item in objects_in(output)]
    if body.get("object") == "response.compaction":
        items = [item for item in items if item.get("type") != "message"]
    for item in items:
        if isinstance(item.get("content"), list):
            item["content"] = [_without(_OF_SDK, p) for p in item["content"]]
    answered = {answered_id(i) for i in items if as_text(i.get("type")).endswith("_output")}
    names = _names(request).own() if request is not None else {}
    parts = [part for item in items for part in _read_item(item, names, warnings, answered)]
    unfinished = tuple(
        as_text(item.get("call_id")) or as_text(item.get("id"))
        for item in items
        if item.get("status") == "incomplete" and as_text(item.get("type")).endswith("_call")
    )
    warnings += map(wire.say_unfinished, unfinished)
    if status == "failed":
        warnings.append(f"The model failed before it was done ({failure}).")
    # docstrings of the openai package 3.57, Response.input_transformations (read 2026-11-27)
    changes = objects_in(body.get("input_transformations"))
    for reason, n in Counter(as_text(c.get("reason")) or "unknown" for c in changes).items():
        warnings.append(f"{n} reasoning item(s) of the request were not used: {reason}.")
    return wire.Reply(
        provider=NAME,
        model=as_text(body.get("model")),
        parts=parts,
        unfinished_calls=unfinished,
        response_id=as_text(body.get("id")) or None,
        stop_reason=as_text(as_object(body.get("incomplete_details")).get("reason"))
        or status
        or None,
        usage=openai.read_usage(body.get("usage"), asked="input", answered="output"),
        warnings=tuple(warnings),
    )


def _without(keys: Iterable[str], value: Json) -> Json:
    return {k: v for k, v in value.items() if k not in keys} if isinstance(value, dict) else value


def _join_events(events: Sequence[Item]) -> Item | None:
    """Return the response as far as it came; `None` if the events report none.

    Of what was not done when the stream broke off, text and calls of the client's are kept, as
    `incomplete`; unfinished reasoning has no seal yet, and a server's tool no result.

    Source:
        https://platform.openai.com/docs/api-reference/responses-streaming (read 2026-11-28)
    """
    response: Item | None = None
    items: dict[Json, Item] = {}
    pieces: dict[Json, dict[Json, Item]] = {}
    done: set[Json] = set()
    for event in events:
        kind, at = as_text(event.get("type")), event.get("output_index", 0)
        if kind in _FINAL_EVENTS:
            return as_object(event.get("response"))
        if kind in _FIRST_EVENTS:
            response = as_object(event.get("response"))
        elif kind in ("response.output_item.added", "response.output_item.done"):
            items[at] = as_object(event.get("item"))
            done |= {at} if kind.endswith("done") else set()
        elif at in items and kind in _GROWING:
            piece_type, key = _GROWING[kind]
            grown = items[at]
            if piece_type:
                found = pieces.setdefault(at, {})
                grown = found.setdefault(event.get("content_index", 0), {"type": piece_type})
            grown[key] = as_text(grown.get(key)) + as_text(event.get("delta"))
    if response is None:
        return None
    output: list[Item] = []
    for at, item in sorted(items.items()):
        if at in done:
            output.append(item)
        elif item.get("type") == "message" and at in pieces:
            content = [piece for _, piece in sorted(pieces[at].items())]
            output.append({**item, "status": "incomplete", "content": content})
        elif item.get("type") in ("function_call", "custom_tool_call"):
            output.append({**item, "status": "incomplete"})
    return {**response, "status": "incomplete", "output": output}


def _read_item(
    item: JsonObject, names: Mapping[str, str], warnings: list[str], answered: Iterable[str] = ()
) -> list[JsonObject]:
    """Return the stored parts of one item that a model made.

    Args:
        names: Names on the wire → the tools' own.
        answered: Ids of calls that the provider ran itself.
    """
    kind = as_text(item.get("type")) or "message"
    name = as_text(item.get("name"))
    if kind == "message":
        return _read_message(item)
    if kind == "reasoning":
        # Only an encrypted item can go back.
        # https://developers.openai.com/api/docs/guides/reasoning (read 2026-11-27)
        thoughts = [*as_list(item.get("summary")), *as_list(item.get("content"))]
        texts = filter(None, (as_text(as_object(one).get("text")) for one in thoughts))
        part: Item = {"type": "thinking", "text": "\n\n".join(texts), "provider": NAME}
        kept = wire.without_nulls(item)
        sealed = as_text(item.get("encrypted_content"))
        part |= {"block": kept} if sealed else {"extras": {NAME: kept}}
        return [_without(() if part["text"] else ("text",), part)]
    if kind == "function_call":
        extras = wire.without_nulls(_without(("type", "call_id", "name", "arguments"), item))
        call_id, given = as_text(item.get("call_id")), item.get("arguments") or None
        own = {NAME: extras} if extras else None
        return [wire.read_call(call_id, names.get(name, name), given, warnings, extras=own)]
    if item.get("call_id") not in answered and is_left_to_client(item):
        native = NATIVE_CALLS[kind]
        extras = wire.without_nulls(_without(("call_id", "name", *native.asks), item))
        given = {key: item[key] for key in native.asks if item.get(key) is not None}
        if native.shape == "object":
            given = item[native.asks[0]]
        own_name = names.get(name or native.name, name or native.name)
        return [
            wire.read_call(
                as_text(item["call_id"]), own_name, given, warnings, extras={NAME: extras}
            )
        ]
    return [_whole(item)]


def is_left_to_client(item: JsonObject) -> bool:
    """Whether the item is a call that the client runs: of a known kind, not run by a server."""
    native = NATIVE_CALLS.get(as_text(item.get("type")))
    if native is None or not native.fits(item) or not as_text(item.get("call_id")):
        return False
    environment = as_object(item.get("environment")).get("type")
    return environment not in _HOSTED and item.get("execution") != "server"


def _whole(item: JsonObject) -> JsonObject:
    part = {"type": "opaque", "provider": NAME, "block": dict(item)}
    return part | ({"text": told} if (told := describe(item)) else {})


def _read_message(item: JsonObject) -> list[JsonObject]:
    """Return one text for each piece of a message; a message with anything else stays whole."""
    content, about = item.get("content"), _without(("type", "role", "content"), item)
    pieces = [{"text": content}] if isinstance(content, str) else objects_in(content)
    parts: list[JsonObject] = []
    for piece in pieces:
        kind = piece.get("type", "output_text")
        if kind not in ("output_text", "input_text") or not isinstance(piece.get("text"), str):
            return [_whole(item)]
        marks = {k: v for k, v in piece.items() if v and k not in ("type", "text")}
        kept = wire.without_nulls({**about, **marks})
        parts.append(wire.text_part(piece["text"]) | ({"extras": {NAME: kept}} if kept else {}))
    return parts


def read_messages(
    items: Json, note: Callable[[str, str], None] = lambda _where, _what: None
) -> list[tuple[str, Item]]:
    """Return the events of a list of items, or of a request: type and stored body.

    What a model made in a row is one reply. `instructions` of a request come first.

    Args:
        note: Gets the place and half a sentence for everything that is not kept as it came.
    """
    events: list[tuple[str, Item]] = []
    if isinstance(items, Mapping):
        if given := items.get("instructions"):
            said = [{"role": "developer", "content": given}] if isinstance(given, str) else given
            events = read_messages(said, note)
        items = items.get("input") if "input" in items else items.get("output")
        if isinstance(items, str):
            items = [{"role": "user", "content": items}]
    reply: list[JsonObject] | None = None
    server_calls: set[str] = set()
    for at, item in enumerate(as_list(items)):
        where, kind = f"input[{at}]", kind_of(item) if isinstance(item, Mapping) else ""
        if not kind:
            note(where, "is no item: it has neither a type nor a role; left out")
        elif _is_of_model(item, kind, server_calls):
            warnings: list[str] = []
            if reply is None:
                reply = []
                events.append(("assistant", {"parts": reply}))
            reply += _read_item(item, {}, warnings)
            if kind != "function_call" and not is_left_to_client(item):
                server_calls.add(as_text(item.get("call_id")))
            for warning in warnings:
                note(where, warning)
        else:
            reply = None
            events += _read_input(item, kind, where, note)
    return events


def _is_of_model(item: JsonObject, kind: str, server_calls: Iterable[str]) -> bool:
    if kind == "message":
        return bool(item.get("role") == "assistant")
    if kind.endswith("_output"):
        call_id = answered_id(item)
        return kind not in _IN_WORDS and (not call_id or call_id in server_calls)
    return kind not in (*_OF_DEVELOPER, *_OF_USER, "compaction_trigger")


def _read_input(
    item: JsonObject, kind: str, where: str, note: Callable[[str, str], None]
) -> Iterator[tuple[str, Item]]:
    if kind == "compaction_trigger":
        note(where, "asks for one compaction, which is no part of a session; left out")
    elif kind == "message":
        role = as_text(item.get("role"))
        if role not in ("user", "system", "developer"):
            note(f"{where}.role", f"{role!r:.40} is unknown; the message is left out")
            return
        kept = _without(("type", "role", "content"), item)
        kept |= {"role": role} if role == "system" else {}
        body: Item = {"parts": _read_content(item.get("content"), f"{where}.content", note)}
        body |= {"metadata": {NAME: kept}} if kept else {}
        yield "user" if role == "user" else "system", body
    elif kind.endswith("_output"):
        call_id = answered_id(item)
        if not call_id:
            note(f"{where}.call_id", "is missing: nobody knows which call this answers")
        result: Item = {"type": "tool_result", "call_id": call_id}
        kept = _without(("type", "call_id", "output", *_ABOUT_CALL), item)
        if kind not in _IN_WORDS:
            result["content"], kept = [_whole(item)], {}
        else:
            kept |= {"type": kind} if kind != "function_call_output" else {}
            result["content"] = _read_content(item.get("output"), f"{where}.output", note)
            if about := {key: item[key] for key in _ABOUT_CALL if key in item}:
                result["extras"] = {NAME: about}
        yield "tool_result", {"parts": [result]} | ({"metadata": {NAME: kept}} if kept else {})
    else:
        yield "system" if kind in _OF_DEVELOPER else "user", {"parts": [_whole(item)]}


def _read_content(content: Json, where: str, note: Callable[[str, str], None]) -> list[JsonObject]:
    """Return what a message of the user, or an output, holds; text is one part."""
    if isinstance(content, str):
        return [wire.text_part(content)] if content else []
    if content is not None and not isinstance(content, list | tuple):
        note(where, f"is neither text nor a list of pieces ({content!r:.40}); left out")
    parts: list[JsonObject] = []
    for at, piece in enumerate(as_list(content)):
        if isinstance(piece, str):
            parts.append(wire.text_part(piece))
        elif isinstance(piece, Mapping):
            parts.append(_read_piece(piece, f"{where}[{at}]", note))
        else:
            note(f"{where}[{at}]", f"is no piece of content ({piece!r:.40}); left out")
    return parts


def _read_piece(piece: JsonObject, where: str, note: Callable[[str, str], None]) -> JsonObject:
    kind = piece.get("type")
    known = ("type", "text")
    part: Item | None = None
    if kind == "input_text" and isinstance(piece.get("text"), str):
        part = wire.text_part(piece["text"])  # type: ignore[assignment]  # made here
    elif kind == "input_image" and (source := _read_source(piece, "image_url")):
        known = ("type", "detail", "image_url", "file_id")
        detail = piece.get("detail")
        if detail in (None, "low", "high", "auto", "original"):
            part = {"type": "image", "source": source} | ({"detail": detail} if detail else {})
    elif kind == "input_file":
        known = ("type", "filename", "file_data", "file_url", "file_id")
        source = _read_source(piece, "file_url") or _read_source(piece, "file_data")
        title = as_text(piece.get("filename"))
        if source:
            part = {"type": "document", "source": source} | ({"title": title} if title else {})
    if part is None:
        told = _said(piece) or f"[{as_text(kind)}]"
        return {"type": "opaque", "provider": NAME, "block": dict(piece), "text": told}
    for key in piece.keys() - {*known, "prompt_cache_breakpoint"}:
        note(where, f"has the field {key!r}, which has no place in a session")
    return part


def _read_source(piece: JsonObject, key: str) -> JsonObject | None:
    from context_assembler.providers.media import source_of

    if url := as_text(piece.get(key)):
        source = source_of(url)
        return source if key != "file_data" or source["type"] == "base64" else None
    file_id = as_text(piece.get("file_id"))
    return {"type": "file", "provider": NAME, "file_id": file_id} if file_id else None
