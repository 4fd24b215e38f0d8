"""A request body as a provider reads it: one flat row of pieces, in the order of its prompt."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from context_assembler.ports import TokenCounter
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import Json, JsonObject
from context_assembler.values.wire import compact_json

_MEDIA_TOKENS: Final = {"image": 1500, "image_url": 1500, "document": 3000, "file": 3000}
_MESSAGE_OVERHEAD_TOKENS: Final = 4
_UNHASHED: Final = ("cache_control", "prompt_cache_breakpoint")


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One tool, one system block, or one block of a message.

    Attributes:
        path: Where it stands in the body.
        key: What it says, as text; cache marks do not count.
        mark: Its cache mark, where it has one.
        thinking: The block itself, where it is one of signed thinking.
    """

    path: str
    key: str
    tokens: int
    mark: JsonObject | None = None
    thinking: JsonObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A block of signed reasoning that the provider took and did not use, and why."""

    path: str
    reason: str


def split_segments(body: JsonObject, *, counter: TokenCounter) -> list[Segment]:
    """Return settings that are part of the prompt, tools, system blocks, then those of messages."""
    return [*_fixed_segments(body, counter), *_message_segments(body, counter)]


def sum_tokens(segments: Iterable[Segment], *, counter: TokenCounter) -> int:
    """Return the size of the whole prompt."""
    return counter.request_overhead_tokens + sum(segment.tokens for segment in segments)


def prefix_digests(segments: Iterable[Segment], *, with_thinking: bool) -> Iterator[str]:
    """Yield one digest per segment: of everything up to it, itself included."""
    rolling = blake2b(digest_size=16)
    for segment in segments:
        if with_thinking or segment.thinking is None:
            rolling.update(f"{len(segment.key)}:{segment.key}".encode("utf-8", "surrogatepass"))
        yield rolling.hexdigest()


def blocks_of(content: Json) -> list[Json]:
    """Return content as blocks: text alone is one text block."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return list(content) if is_array(content) else []


def last_user_text(body: JsonObject) -> str:
    """Return what the user, or a tool, said last."""
    for message in reversed(_messages(body)):
        if message.get("role") in ("user", "tool"):
            blocks = blocks_of(message.get("content"))
            return " ".join(filter(None, (_text_of(block) for block in blocks)))
    return ""


def _fixed_segments(body: JsonObject, counter: TokenCounter) -> Iterator[Segment]:
    if settings := body.get("prompt_settings"):
        yield Segment(path="settings", key=f"settings\n{compact_json(settings)}", tokens=0)
    tools = body.get("tools")
    for position, tool in enumerate(tools if is_array(tools) else ()):
        text = compact_json(_unmarked(tool))
        yield _segment(f"tools[{position}]", "tool", tool, counter.count_text(text))
    for position, block in enumerate(blocks_of(body.get("system"))):
        yield _segment(f"system[{position}]", "system", block, _block_tokens(block, counter))


def _message_segments(body: JsonObject, counter: TokenCounter) -> Iterator[Segment]:
    for number, message in enumerate(_messages(body)):
        role = str(message.get("role"))
        calls = message.get("tool_calls")
        blocks = [*blocks_of(message.get("content")), *(calls if is_array(calls) else ())]
        overhead_tokens = _MESSAGE_OVERHEAD_TOKENS
        for position, block in enumerate(blocks):
            tokens = overhead_tokens + _block_tokens(block, counter)
            path = f"messages.{number}.content.{position}"
            yield _segment(path, f"{role}{message.get('tool_call_id', '')}", block, tokens)
            overhead_tokens = 0


def _segment(path: str, owner: str, block: Json, tokens: int) -> Segment:
    fields: JsonObject = block if is_object(block) else {}
    is_thinking = fields.get("type") == "thinking"
    return Segment(
        path=path,
        key=f"{owner}\n{compact_json(_unmarked(block))}",
        tokens=tokens,
        mark=fields.get("cache_control"),
        thinking=fields if is_thinking else None,
    )


def _unmarked(value: Json) -> Json:
    """Return the value without cache marks and nulls; the order of keys counts, as in a prompt."""
    if is_object(value):
        kept = {key: inner for key, inner in value.items() if key not in _UNHASHED}
        return {key: _unmarked(inner) for key, inner in kept.items() if inner is not None}
    if is_array(value):
        return [_unmarked(inner) for inner in value]
    return value


def _block_tokens(block: Json, counter: TokenCounter) -> int:
    if not is_object(block):
        return 0
    kind = block.get("type")
    if kind in _MEDIA_TOKENS:
        return _MEDIA_TOKENS[kind]
    if kind == "tool_result":
        return sum(_block_tokens(inner, counter) for inner in blocks_of(block.get("content")))
    return counter.count_text(_text_of(block))


def _text_of(block: Json) -> str:
    """Return what a model reads of a block."""
    if not is_object(block):
        return ""
    match block.get("type"):
        case "text":
            return str(block.get("text", ""))
        case "thinking":
            return str(block.get("thinking", ""))
        case "tool_use":
            return f"{block.get('name')} {compact_json(block.get('input'))}"
        case "tool_result":
            return " ".join(map(_text_of, blocks_of(block.get("content"))))
        case "function":
            called = block.get("function", {})
            return f"{called.get('name')} {called.get('arguments')}"
        case kind if kind in _MEDIA_TOKENS:
            return f"[{kind}]"
        case _:
            return compact_json(_unmarked(block))


def _messages(body: JsonObject) -> list[JsonObject]:
    messages = body.get("messages")
    return [m for m in messages if is_object(m)] if is_array(messages) else []
