"""Rules on single content blocks: text, thinking, cache markers."""

from collections.abc import Iterator
from typing import Final

from context_assembler.providers.anthropic.blocks import THINKING_TYPES
from context_assembler.providers.anthropic.rule_book import (
    VERSION_WITHOUT_SAMPLING,
    Block,
    Sent,
    breach,
)
from context_assembler.values.json_shapes import is_object
from context_assembler.values.parts import Json
from context_assembler.values.reading import as_array, as_object, as_text
from context_assembler.values.report import Violation

_MAX_BREAKPOINTS: Final = 4
_HOLDERS: Final = frozenset({"tool_result", "search_result", "document"})


def all_blocks(sent: Sent) -> Iterator[Block]:
    """Yield the blocks of all messages, those in results, search results and documents included."""
    waiting = [block for turn in reversed(sent.turns) for block in reversed(turn.blocks)]
    while waiting:
        block = waiting.pop()
        yield block
        waiting.extend(reversed(list(_nested(block))))


def _nested(block: Block) -> Iterator[Block]:
    held = as_object(block.body.get("source")) if block.kind == "document" else block.body
    within = f"{block.where}.source" if block.kind == "document" else block.where
    if block.kind in _HOLDERS:
        for index, entry in enumerate(as_array(held.get("content"))):
            yield Block(where=f"{within}.content[{index}]", body=as_object(entry))


def _system_blocks(sent: Sent) -> Iterator[Block]:
    for index, entry in enumerate(as_array(sent.payload.get("system"))):
        yield Block(where=f"system[{index}]", body=as_object(entry))


def check_text(sent: Sent) -> Iterator[Violation]:
    """A9: no blank text, neither in the system prompt nor in results and documents."""
    for block in (*_system_blocks(sent), *all_blocks(sent)):
        text = block.body.get("text")
        is_whole = block.where.endswith(".content")
        if block.kind != "text" or (is_whole and text == ""):
            continue  # empty content of a whole message is reported with the messages
        if not isinstance(text, str):
            yield breach("A0", block.where, "a text block holds text")
        elif not text.strip():
            yield breach("A9", block.where, "text must not be blank")


def check_thinking_blocks(sent: Sent) -> Iterator[Violation]:
    """A16: thinking is signed, and the assistant's alone."""
    for turn in sent.turns:
        for block in turn.blocks:
            if block.kind not in THINKING_TYPES:
                continue
            proof = "signature" if block.kind == "thinking" else "data"
            if not as_text(block.body.get(proof)):
                yield breach("A16", block.where, f"thinking without {proof} is invalid")
            if turn.role != "assistant":
                yield breach("A16", block.where, "only the assistant thinks")


def check_assistant_blocks(sent: Sent) -> Iterator[Violation]:
    """A14: what the newest API version took out of messages."""
    if sent.api_version < VERSION_WITHOUT_SAMPLING:
        return
    for turn in sent.turns:
        for block in turn.blocks:
            if turn.role == "assistant" and block.kind == "document":
                yield breach("A14", block.where, "no documents in an assistant message")
            if turn.role == "user" and block.kind == "text" and block.body.get("citations"):
                yield breach("A14", block.where, "no citations in a user's text")


def check_cache_marks(sent: Sent) -> Iterator[Violation]:
    """A19: number, order and places of cache breakpoints."""
    marked = list(_marked(sent))
    automatic = sent.payload.get("cache_control")
    marks = [(block.where, block.body["cache_control"]) for block in marked]
    if is_object(automatic):
        marks.append(("cache_control", automatic))
    if len(marks) > _MAX_BREAKPOINTS:
        message = f"{len(marks)} breakpoints, at most {_MAX_BREAKPOINTS} are taken"
        yield breach("A19", marks[_MAX_BREAKPOINTS][0], message)
    is_short = False
    for where, mark in marks:
        is_long = _ttl(mark) == "1h"
        if is_long and is_short:
            yield breach("A19", where, "1h breakpoints stand before 5m ones")
        is_short = is_short or not is_long
    for block in marked:
        yield from _check_marked(block)
    last = sent.turns[-1].blocks[-1] if sent.turns and sent.turns[-1].blocks else None
    own = last.body.get("cache_control") if last is not None else None
    if is_object(automatic) and own and last is not None and _ttl(own) != _ttl(automatic):
        yield breach("A19", last.where, "differs in ttl from the automatic breakpoint")


def _marked(sent: Sent) -> Iterator[Block]:
    tools = enumerate(as_array(sent.payload.get("tools")))
    blocks = [Block(where=f"tools[{index}]", body=as_object(tool)) for index, tool in tools]
    for block in (*blocks, *_system_blocks(sent), *all_blocks(sent)):
        if is_object(block.body.get("cache_control")):
            yield block


def _check_marked(block: Block) -> Iterator[Violation]:
    if block.kind in THINKING_TYPES:
        yield breach("A19", block.where, "no breakpoint on thinking")
    if block.kind == "text" and not as_text(block.body.get("text")):
        yield breach("A19", block.where, "no breakpoint on empty text")
    if block.body.get("defer_loading") is True:
        yield breach("A19", block.where, "no breakpoint on a deferred tool")


def _ttl(mark: Json) -> str:
    return as_text(as_object(mark).get("ttl")) or "5m"
