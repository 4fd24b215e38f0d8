"""Rules on the order of messages, and on calls and their results."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from context_assembler.providers.anthropic.rule_book import Block, Sent, SentTurn, breach
from context_assembler.values.compactions import COMPACTION_TYPE
from context_assembler.values.parts import Json
from context_assembler.values.reading import as_array, as_object, as_text
from context_assembler.values.report import Violation

_ROLES: Final = frozenset({"user", "assistant", "system"})
_ID: Final = re.compile(r"[a-zA-Z0-9_-]+")
_SERVER_ID: Final = re.compile(r"srvtoolu_[a-zA-Z0-9_]+")
_SERVER_CALLS: Final = frozenset({"server_tool_use", "mcp_tool_use"})
_MAX_MESSAGES: Final = 100_000
_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_MAX_NAME_CHARS: Final = 200
_REQUIRED: Final = frozenset({"model", "max_tokens", "messages"})
_NOT_SENT: Final = frozenset({"betas", "extra_body", "extra_headers", "extra_query", "timeout"})


def check_shape(sent: Sent) -> Iterator[Violation]:
    """A0, A22: the payload and its messages are of the documented shape."""
    if not as_text(sent.payload.get("model")):
        yield breach("A0", "model", "a model id is required")
    max_tokens = sent.payload.get("max_tokens")
    if not isinstance(max_tokens, int) or isinstance(max_tokens, bool) or max_tokens < 0:
        yield breach("A0", "max_tokens", "a number of tokens is required")
    for name, value in sent.payload.items():
        if value is None and name not in _REQUIRED | _NOT_SENT:
            yield breach("A0", name, "is sent as null; leave it out", level="avoid")
    messages = as_array(sent.payload.get("messages"))
    if not messages:
        yield breach("A0", "messages", "at least one message is required")
    if len(messages) > _MAX_MESSAGES:
        yield breach("A22", "messages", f"at most {_MAX_MESSAGES:,} messages are taken")
    for index, message in enumerate(messages):
        is_last = index == len(messages) - 1
        yield from _check_message(message, where=f"messages[{index}]", is_last=is_last)


def _check_message(message: Json, *, where: str, is_last: bool) -> Iterator[Violation]:
    fields = as_object(message)
    role, content = fields.get("role"), fields.get("content")
    if not isinstance(role, str) or role not in _ROLES:
        yield breach("A0", f"{where}.role", "must be user, assistant or system")
    if not isinstance(content, str | list | tuple):
        yield breach("A0", f"{where}.content", "must be text or a list of blocks")
        return
    if not content and not (role == "assistant" and is_last):
        yield breach("A9", f"{where}.content", "must not be empty, the last assistant's excepted")
    for index, block in enumerate(as_array(content)):
        if not as_text(as_object(block).get("type")):
            yield breach("A0", f"{where}.content[{index}]", "must be an object with a type")


def check_order(sent: Sent) -> Iterator[Violation]:
    """A10, A11, A12: who speaks first and last."""
    if not sent.turns:
        return
    first, last = sent.turns[0], sent.turns[-1]
    if first.role == "assistant" and not any(b.kind == COMPACTION_TYPE for b in first.blocks):
        yield breach("A12", first.where, "the user should speak first", level="avoid")
    if last.role != "assistant":
        return
    takes_prefill = sent.limits is None or sent.limits.features.get("prefill") is not False
    if not takes_prefill and not _waits_for_server(last):
        yield breach("A11", last.where, "the model continues no assistant message")
    final = last.blocks[-1] if last.blocks else None
    if final is not None and final.kind == "text":
        text = as_text(final.body.get("text"))
        if text != text.rstrip():
            yield breach("A10", final.where, "the final text must not end in whitespace")


def _waits_for_server(turn: SentTurn) -> bool:
    """Whether a server tool's result is outstanding: such a turn is sent back as it is (A4)."""
    asked = {as_text(b.body.get("id")) for b in turn.blocks if b.kind in _SERVER_CALLS}
    return bool(asked - {as_text(b.body.get("tool_use_id")) for b in turn.blocks})


def check_system_turns(sent: Sent) -> Iterator[Violation]:
    """A13: a system message stands behind a user's, and last or before an assistant's."""
    for index, turn in enumerate(sent.turns):
        if turn.role != "system":
            continue
        before = sent.turns[index - 1] if index else None
        after = sent.turns[index + 1] if index + 1 < len(sent.turns) else None
        if before is None:
            yield breach("A13", turn.where, "a system message must not come first")
        elif before.role == "assistant" and not (
            before.blocks and before.blocks[-1].is_server_result
        ):
            yield breach("A13", turn.where, "must not stand right behind an assistant message")
        if after is not None and after.role == "user":
            yield breach("A13", turn.where, "must not stand right before a user message")
        if sent.limits is not None and sent.limits.features.get("mid_conversation_system") is False:
            message = "the model is not documented to take system messages here"
            yield breach("A13", turn.where, message, level="avoid")


def check_pairs(sent: Sent) -> Iterator[Violation]:
    """A1, A2, A3: every call is answered once, in the very next user message, results first."""
    before: SentTurn | None = None
    for turn in sent.turns:
        calls = _ids(before, "tool_use", "id") if before and before.role == "assistant" else {}
        yield from _check_results(turn, calls)
        before = turn
    if before is not None:
        yield from _unanswered(_ids(before, "tool_use", "id"), answered=set())


def _check_results(turn: SentTurn, calls: dict[str, Block]) -> Iterator[Violation]:
    answered: set[str] = set()
    is_past_results = False
    for block in turn.blocks:
        if block.kind != "tool_result":
            is_past_results = True
            continue
        call_id = as_text(block.body.get("tool_use_id"))
        if turn.role != "user":
            yield breach("A3", block.where, "a tool result belongs into a user message")
        elif call_id not in calls:
            message = f"there is no call {call_id!r} in the message before"
            yield breach("A3", block.where, message)
        elif call_id in answered:
            yield breach("A3", block.where, f"call {call_id!r} is answered twice")
        if turn.role == "user" and is_past_results:
            yield breach("A2", block.where, "tool results come first in their message")
        answered.add(call_id)
    yield from _unanswered(calls, answered=answered)


def _unanswered(calls: dict[str, Block], *, answered: set[str]) -> Iterator[Violation]:
    for call_id, block in calls.items():
        if call_id not in answered:
            message = f"call {call_id!r} is not answered in the next message"
            yield breach("A1", block.where, message)


def _ids(turn: SentTurn, kind: str, key: str) -> dict[str, Block]:
    return {as_text(b.body.get(key)): b for b in turn.blocks if b.kind == kind}


def check_server_tools(sent: Sent) -> Iterator[Violation]:
    """A4, A5: results of server tools follow their calls; a pending call is waited for."""
    seen: set[str] = set()
    for turn in sent.turns:
        for block in turn.blocks:
            if block.kind in _SERVER_CALLS:
                yield from _check_server_id(block)
                seen.add(as_text(block.body.get("id")))
            elif block.is_server_result and block.body["tool_use_id"] not in seen:
                yield breach("A4", block.where, "its server_tool_use does not stand before it")
    for before, turn in pairwise(sent.turns):
        if before.role == "assistant" and turn.role == "user" and _waits_for_server(before):
            for block in turn.blocks:
                if block.kind != "tool_result":
                    message = "a server tool is pending: only tool results are taken"
                    yield breach("A4", block.where, message)


def _check_server_id(block: Block) -> Iterator[Violation]:
    """A5: a provider gives the ids of its own calls, and knows them by their form."""
    call_id = as_text(block.body.get("id"))
    if block.kind == "server_tool_use" and not _SERVER_ID.fullmatch(call_id):
        yield breach("A5", f"{block.where}.id", "a server tool's id begins with srvtoolu_")


def check_call_ids(sent: Sent) -> Iterator[Violation]:
    """A5, A6: the characters of ids and names, and that a message does not use an id twice."""
    seen: set[str] = set()
    for turn in sent.turns:
        own: set[str] = set()
        for block in turn.blocks:
            if block.kind != "tool_use":
                continue
            call_id = as_text(block.body.get("id"))
            if turn.role != "assistant":
                yield breach("A0", block.where, "only the assistant calls tools")
            if not _ID.fullmatch(call_id):
                yield breach("A5", f"{block.where}.id", "only letters, digits, _ and - are taken")
            if call_id in own:
                yield breach("A5", f"{block.where}.id", "is used twice in one message")
            elif call_id in seen:
                yield breach("A5", f"{block.where}.id", "is used before", level="avoid")
            yield from _check_called(block)
            own.add(call_id)
        seen |= own


def _check_called(block: Block) -> Iterator[Violation]:
    """A6, A0: what is called, and with what.

    Source:
        https://github.com/anthropics/claude-code/issues/2673 (read 2026-11-28): "tool_use.name:
        String should have at most 200 characters"
    """
    name = as_text(block.body.get("name"))
    if len(name) > _MAX_NAME_CHARS:
        message = f"has {len(name)} characters, at most {_MAX_NAME_CHARS} are taken"
        yield breach("A6", f"{block.where}.name", message)
    elif not _NAME.fullmatch(name):
        message = "must match [a-zA-Z0-9_-]{1,64}, as the names of tools do"
        yield breach("A6", f"{block.where}.name", message, level="avoid")
    if not isinstance(block.body.get("input"), dict):
        yield breach("A0", f"{block.where}.input", "must be an object")
