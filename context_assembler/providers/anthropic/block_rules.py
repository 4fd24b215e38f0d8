"""Rules on single content blocks: text, thinking, media, cache markers."""

from collections.abc import Iterator
from typing import Final

from context_assembler.providers.anthropic.adapt import (
    CROWD_IMAGES,
    CROWD_SIDE_PX,
    IMAGE_TYPES,
    MAX_IMAGE_CHARS,
    MAX_REQUEST_CHARS,
    MAX_SIDE_PX,
    max_images,
)
from context_assembler.providers.anthropic.blocks import THINKING_TYPES
from context_assembler.providers.anthropic.rule_book import (
    VERSION_WITHOUT_SAMPLING,
    Block,
    Sent,
    breach,
)
from context_assembler.values.image_sizes import measure_base64
from context_assembler.values.json_shapes import is_object
from context_assembler.values.parts import Json
from context_assembler.values.reading import as_array, as_object, as_text, count_text_chars
from context_assembler.values.report import Violation

_MAX_BREAKPOINTS: Final = 4


def all_blocks(sent: Sent) -> Iterator[Block]:
    """Yield the blocks of all messages, those inside tool results included."""
    for turn in sent.turns:
        for block in turn.blocks:
            yield block
            if block.kind == "tool_result":
                yield from _nested(block)


def _nested(block: Block) -> Iterator[Block]:
    for index, entry in enumerate(as_array(block.body.get("content"))):
        yield Block(where=f"{block.where}.content[{index}]", body=as_object(entry))


def _system_blocks(sent: Sent) -> Iterator[Block]:
    for index, entry in enumerate(as_array(sent.payload.get("system"))):
        yield Block(where=f"system[{index}]", body=as_object(entry))


def check_text(sent: Sent) -> Iterator[Violation]:
    """A9: no blank text, in the system prompt and in tool results neither."""
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


def check_media(sent: Sent) -> Iterator[Violation]:
    """A21, A22: types, numbers and sizes of images and documents."""
    images = [block for block in all_blocks(sent) if block.kind == "image"]
    window = sent.limits.window_tokens if sent.limits is not None else None
    most = max_images(window)
    if len(images) > most:
        yield breach("A21", images[most].where, f"at most {most} images are taken")
    for block in images:
        yield from _check_image(block, is_crowd=len(images) > CROWD_IMAGES)
        if sent.limits is not None and sent.limits.features.get("vision") is False:
            yield breach("A21", block.where, "the model takes no images")
    for block in all_blocks(sent):
        source = as_object(block.body.get("source"))
        is_base64 = block.kind == "document" and source.get("type") == "base64"
        if is_base64 and source.get("media_type") != "application/pdf":
            yield breach("A22", f"{block.where}.source.media_type", "must be application/pdf")
    if count_text_chars(sent.payload) > MAX_REQUEST_CHARS:
        yield breach("A22", "messages", "a request has at most 32 MB")


def _check_image(block: Block, *, is_crowd: bool) -> Iterator[Violation]:
    source = as_object(block.body.get("source"))
    kind, where = source.get("type"), f"{block.where}.source"
    if kind == "base64":
        if source.get("media_type") not in IMAGE_TYPES:
            yield breach("A21", f"{where}.media_type", "must be JPEG, PNG, GIF or WebP")
        encoded = as_text(source.get("data"))
        if not encoded or encoded.startswith("data:"):
            yield breach("A21", f"{where}.data", "must be base64 without a data: prefix")
        if len(encoded) > MAX_IMAGE_CHARS:
            yield breach("A21", f"{where}.data", "an image has at most 10 MB")
        yield from _check_side(encoded, where=f"{where}.data", is_crowd=is_crowd)
    elif kind == "url":
        if not as_text(source.get("url")).strip():
            yield breach("A21", f"{where}.url", "a URL is required")
        elif as_text(source.get("url")).lower().startswith("data:"):
            yield breach("A21", f"{where}.url", "bytes are sent as base64, not as a data: URL")
    elif kind != "file":
        yield breach("A21", where, "must be base64, url or file")


def _check_side(encoded: str, *, where: str, is_crowd: bool) -> Iterator[Violation]:
    most = CROWD_SIDE_PX if is_crowd else MAX_SIDE_PX
    size = measure_base64(encoded)
    if size is not None and max(size) > most:
        when = f" where there are more than {CROWD_IMAGES}" if is_crowd else ""
        yield breach("A21", where, f"an image has at most {most:,} pixels a side{when}")


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
