"""Microsoft Agent Framework: the messages of a model call in, those that fit out.

    agent = Agent(client, tools=[...], middleware=[FitMiddleware(max_tokens=100_000)])

The session keeps all messages; a request holds those that fit, next to the instructions and the
tools. Messages that stay are the framework's own objects, with every kind of content; what OpenAI
Chat has no form for is counted as its JSON. A message that is shortened or repaired is a copy in
which only texts, results and calls differ, marked as the framework marks such messages; an added one
has only its content. If a message cannot be read, a `TranscriptError` names it.
"""

import warnings
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from copy import copy
from itertools import groupby
from operator import itemgetter
from typing import Any

from agent_framework import (
    ChatContext,
    ChatMiddleware,
    Content,
    FunctionTool,
    Message,
    normalize_tools,
)

from context_assembler.events import compact_json
from context_assembler.integrations.fitting import Fitter


class FitMiddleware(Fitter, ChatMiddleware):
    """Fits the messages of each model call."""

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Replace the messages of the call by those that fit."""
        options: Any = context.options or {}
        if options.get("conversation_id"):
            told = "The service keeps the messages of this conversation, so they are not cut."
            warnings.warn(f"{told} Set the option store=False to let them be cut.", stacklevel=2)
        else:
            self._fit(context, options)
        await call_next()

    def _fit(self, context: ChatContext, options: Any) -> None:
        given = context.messages
        rows = [(own, *row) for own, message in enumerate(given) for row in _read(message)]
        tools = normalize_tools(options.get("tools"))
        fitted = self.fit(
            [read for *_, read in rows],
            model=options.get("model") or getattr(context.client, "model", None),
            system=options.get("instructions"),
            tools=[t.to_json_schema_spec() if isinstance(t, FunctionTool) else t for t in tools],
        )
        sizes = Counter(own for own, *_ in rows)
        sent: list[tuple[int, list[Content], Any, Any]] = [
            (-1 - n, [], {}, turn) if at is None else (*rows[at], turn)
            for n, (at, turn) in enumerate(zip(fitted.indices, fitted.messages, strict=True))
        ]
        made: list[Message] = []
        for own, run in groupby(sent, itemgetter(0)):
            turns = [*run]
            if len(turns) == sizes[own] and all(turn is read for *_, read, turn in turns):
                made.append(given[own])
                continue
            contents = list[Content]()
            for _, held, read, turn in turns:
                contents += held if turn is read else _write(held, turn)
            if own < 0:
                made.append(Message(turns[0][-1]["role"], contents))
                continue
            made.append(copy(given[own]))
            made[-1].contents = contents
            made[-1].additional_properties = {**given[own].additional_properties}
            context.record_message_replacement(made[-1], given[own])
        context.messages = made


def _read(message: Message) -> list[tuple[list[Content], dict[str, Any]]]:
    """Return a message as OpenAI Chat has it: what it says and calls, then each result."""
    results = [one for one in message.contents if one.type == "function_result"]
    said = [one for one in message.contents if one.type != "function_result"]
    read: list[tuple[list[Content], dict[str, Any]]] = [
        ([r], {"role": "tool", "tool_call_id": r.call_id, "content": _pieces(_items(r)) or ""})
        for r in results
    ]
    pieces, calls = _pieces(one for one in said if not _is_call(one)), [*filter(_is_call, said)]
    if pieces or calls:
        turn = {"role": "user" if message.role == "tool" else message.role, "content": pieces}
        read.insert(0, (said, turn | ({"tool_calls": [*map(_call, calls)]} if calls else {})))
    return read


def _is_call(one: Content) -> bool:
    return bool(one.type == "function_call" and not one.hosted)


def _call(one: Content) -> dict[str, Any]:
    given = one.arguments
    arguments = given if isinstance(given, str) else compact_json(dict(given or {}))
    function = {"name": one.name, "arguments": arguments}
    return {"id": one.call_id, "type": "function", "function": function}


def _items(result: Content) -> list[Content]:
    return [*(result.items or [Content.from_text(str(result.result or ""))])]


def _pieces(contents: Iterable[Content]) -> list[dict[str, Any]]:
    """Return contents as pieces of OpenAI Chat; blank texts are none."""
    read = map(_piece, contents)
    return [piece for piece in read if piece["type"] != "text" or piece["text"].strip()]


def _piece(one: Content) -> dict[str, Any]:
    if one.type in ("text", "text_reasoning") and one.text is not None:
        return {"type": "text", "text": one.text}
    if one.type in ("data", "uri") and one.has_top_level_media_type("image"):
        return {"type": "image_url", "image_url": {"url": one.uri}}
    if one.type == "data":
        return {"type": "file", "file": {"file_data": one.uri}}
    return {"type": "text", "text": compact_json(one.to_dict())}


def _write(held: Sequence[Content], turn: dict[str, Any]) -> list[Content]:
    """Return the contents of a turn that was changed: those it held, as far as they stand in it."""
    said = turn.get("content") or []
    pieces = [{"type": "text", "text": said}] if isinstance(said, str) else said
    if turn["role"] == "tool":
        known = _items(held[0]) if held else []
        items = [*_contents(known, pieces)]
        made = Content.from_function_result(turn["tool_call_id"], result=items)
        result = copy(held[0] if held else made)
        result.call_id, result.items, result.result = made.call_id, made.items, made.result
        return [result]
    contents = [*_contents((one for one in held if not _is_call(one)), pieces)]
    calls, sent = [*filter(_is_call, held)], turn.get("tool_calls") or []
    if len(calls) > len(sent):  # some were left out
        calls = [one for one in calls if one.call_id in {call["id"] for call in sent}]
    for own, one in zip(calls, sent, strict=True):
        contents.append(copy(own))
        contents[-1].call_id, contents[-1].arguments = one["id"], one["function"]["arguments"]
    return contents


def _contents(held: Iterable[Content], pieces: Iterable[dict[str, Any]]) -> Iterator[Content]:
    """Yield a content for each piece: the one that was read as it, or a new one."""
    known = [(_piece(one), one) for one in held]
    for piece in pieces:
        if same := next((one for read, one in known if read == piece), None):
            yield same
        elif "image_url" in piece:
            yield Content.from_uri(piece["image_url"]["url"], media_type="image/*")
        else:
            yield Content.from_text(piece.get("text") or compact_json(piece))
