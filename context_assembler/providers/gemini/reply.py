"""A reply of `generate_content` as parts."""

from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from hashlib import sha256
from typing import Any, Final

from context_assembler.errors import ReplyError
from context_assembler.providers.gemini.units import tool_names
from context_assembler.values.arguments import spell_json
from context_assembler.values.draft import Draft, Reply
from context_assembler.values.events import Usage
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.native.gemini_arguments import is_unfinished, join_calls
from context_assembler.values.native.gemini_fields import CONTINUATION, own_extras, snake_fields
from context_assembler.values.native.gemini_parts import PROVIDER, read_part
from context_assembler.values.parts import Json, JsonObject, Opaque, Part, Text, Thinking, ToolCall
from context_assembler.values.reading import as_array, as_object, as_text, objects_in
from context_assembler.values.texts.cleaning import clean_text
from context_assembler.values.unfinished import say_unfinished
from context_assembler.values.wire import count_of, object_of, with_leaves

_CUT_OFF: Final = frozenset({"MAX_TOKENS"})
_GOES_ON: Final = "CONTINUATION"
_GOOD_ENDS: Final = frozenset({"", "STOP", "FINISH_REASON_UNSPECIFIED", *_CUT_OFF, _GOES_ON})
_ID_CHARS: Final = 16
_ABOUT_THE_TEXT: Final = ("grounding_metadata", "citation_metadata", "url_context_metadata")

# What a caller can do about some of the ends of a reply.
# Docstrings of `google.genai.types.FinishReason`, google-genai 3.6 (read 2026-11-27)
_REMEDIES: Final[Mapping[str, str]] = {
    "MALFORMED_FUNCTION_CALL": "Its call cannot be parsed: ask again.",
    "MALFORMED_RESPONSE": "It cannot be parsed: ask again.",
    "MISSING_THOUGHT_SIGNATURE": "A call of the history was sent without its signature.",
    "TOO_MANY_TOOL_CALLS": "The server stopped calling its tools before there was an answer.",
    "UNEXPECTED_TOOL_CALL": "It calls a function that was not offered.",
}


def matches_reply(reply: Any) -> bool:
    """Whether the reply is a `GenerateContentResponse`, its dict, or the chunks of a stream."""
    chunks = _chunks_of(reply)
    return bool(chunks) and all(map(_is_chunk, chunks))


def read_reply(reply: Any, draft: Draft | None = None) -> Reply:
    """Return the first candidate's parts in their order: thoughts, text, calls, and what else.

    The SDK does not join the chunks of a stream; a list of them is read as one reply, calls that were
    streamed in pieces included. Calls without an id get one that depends on the reply alone. Tools
    get back the names they have in the draft. What the SDK's own loop did before is not part of it.

    Raises:
        ReplyError: The reply is none of this API's.
    """
    chunks = _chunks_of(reply)
    if not chunks:
        raise ReplyError(reply, reason="it is neither a dict nor an SDK object")
    if not all(map(_is_chunk, chunks)):
        raise ReplyError(reply, reason="it has neither candidates nor feedback on the prompt")
    whole = _merge_chunks(chunks)
    warnings = list(_warn(chunks, whole))
    names = {} if draft is None else {sent: name for name, sent in tool_names(draft).items()}
    parts = _read_parts(chunks, whole, names)
    stop_reason = as_text(whole.get("finish_reason")) or None
    unfinished = tuple(_unfinished_calls(parts, is_cut_off=stop_reason in _CUT_OFF))
    warnings += map(say_unfinished, unfinished)
    return Reply(
        provider=PROVIDER,
        model=as_text(whole.get("model_version")),
        parts=tuple(parts),
        unfinished_calls=unfinished,
        response_id=as_text(whole.get("response_id")) or None,
        stop_reason=stop_reason,
        usage=_read_usage(whole.get("usage_metadata")),
        warnings=tuple(warnings),
    )


def _chunks_of(reply: Any) -> list[dict[str, Json]]:
    """Return the reply as dicts by the SDK's names; one, but for a stream. None if it is neither."""
    found = [
        object_of(with_leaves(chunk, _without_type))
        for chunk in (reply if is_array(reply) else [reply])
    ]
    return [snake_fields(chunk) for chunk in found] if all(found) else []


def _without_type(value: Any) -> Any:
    """Return what the SDK dumps an enum and bytes as, which JSON does not know."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, bytes):
        return urlsafe_b64encode(value).decode("ascii")
    return value


def _is_chunk(chunk: JsonObject) -> bool:
    candidates = chunk.get("candidates")
    has_candidates = is_array(candidates) and all(map(is_object, candidates))
    return has_candidates or bool(
        candidates is None and {"prompt_feedback", "usage_metadata"} & chunk.keys()
    )


def _candidate(chunk: JsonObject) -> dict[str, Json]:
    """Return the first candidate of a chunk, by its index where it has one; empty without."""
    candidates = [snake_fields(entry) for entry in as_array(chunk.get("candidates"))]
    nothing: dict[str, Json] = {}
    return next((entry for entry in candidates if not entry.get("index")), nothing)


def _index_of(candidate: Json) -> int:
    return count_of(snake_fields(candidate).get("index"))


def _merge_chunks(chunks: Sequence[JsonObject]) -> dict[str, Json]:
    """Return what the reply says about itself: of each field, the last word."""
    whole: dict[str, Json] = {}
    for chunk in chunks:
        candidate = _candidate(chunk)
        whole |= {key: held for key, held in chunk.items() if key != "candidates"}
        whole |= {key: held for key, held in candidate.items() if key != "content"}
    return whole


def _warn(chunks: Sequence[JsonObject], whole: JsonObject) -> Iterator[str]:
    candidates = [as_array(chunk.get("candidates")) for chunk in chunks]
    highest = max((_index_of(one) for some in candidates for one in some), default=0)
    candidate_count = max(*map(len, candidates), highest + 1 if any(candidates) else 0)
    if candidate_count > 1:
        yield f"Only the first of {candidate_count} candidates was read."
    feedback = snake_fields(whole.get("prompt_feedback"))
    blocked = as_text(feedback.get("block_reason"))
    if blocked:
        why = as_text(feedback.get("block_reason_message"))
        yield f"The prompt was blocked: {blocked}{f' ({why})' if why else ''}."
    elif candidate_count == 0:
        yield "The reply has no candidate."
    ended = as_text(whole.get("finish_reason"))
    if ended not in _GOOD_ENDS:
        why = as_text(whole.get("finish_message"))
        remedy = f" {_REMEDIES[ended]}" if ended in _REMEDIES else ""
        yield f"The reply ended with {ended}{f': {why}' if why else ''}.{remedy}"
    if _goes_on(whole):
        yield (
            "The reply goes on: the SDK fetches the rest by itself unless automatic_continuation is "
            "off, or send the same request again with its continuation_token."
        )


def _goes_on(whole: JsonObject) -> bool:
    """Whether there is more to come; a stream has tokens on the way, for when it breaks off.

    Source:
        `is_resumable_finish_reason` in google-genai 3.6 (read 2026-11-27)
    """
    ended = as_text(whole.get("finish_reason"))
    return ended == _GOES_ON or (not ended and bool(whole.get(CONTINUATION)))


def _unfinished_calls(parts: Sequence[Part], *, is_cut_off: bool) -> Iterator[str]:
    for place, part in enumerate(parts):
        if not isinstance(part, ToolCall):
            continue
        is_last = place == len(parts) - 1
        own = as_object(own_extras(part.extras, provider=PROVIDER).get("function_call"))
        if is_unfinished(own) or (is_last and is_cut_off):
            yield part.call_id


def _read_parts(
    chunks: Sequence[JsonObject], whole: JsonObject, names: Mapping[str, str]
) -> list[Part]:
    seed = as_text(whole.get("response_id"))
    parts: list[Part] = []
    for is_first, block in _blocks(chunks):
        part = read_part(block, call_id=_call_id(block, seed=seed, at=len(parts)))
        if isinstance(part, ToolCall):
            part = replace(part, name=names.get(part.name, part.name))
        joined = _join(parts[-1], part) if parts and is_first else None
        if joined is None:
            parts.append(part)
        else:
            parts[-1] = joined
    told = (*_ABOUT_THE_TEXT, CONTINUATION) if _goes_on(whole) else _ABOUT_THE_TEXT
    about = (_metadata(key, whole[key]) for key in told if whole.get(key))
    return [part for part in (*parts, *about) if part != Text("")]


def _blocks(chunks: Sequence[JsonObject]) -> Iterator[tuple[bool, dict[str, Json]]]:
    """Yield the parts of all chunks, each with whether it is the first of its chunk."""
    firsts: list[bool] = []
    blocks: list[dict[str, Json]] = []
    for chunk in chunks:
        content = snake_fields(_candidate(chunk).get("content"))
        for at, (_, block) in enumerate(objects_in(content.get("parts"))):
            firsts.append(at == 0)
            blocks.append(block)
    for place, block in join_calls(blocks):
        yield firsts[place], as_object(block)


def _join(before: Part, part: Part) -> Part | None:
    """Return two pieces of a stream as one; `None` where they are not of one part.

    What is signed stays as it came.

    Source:
        https://ai.google.dev/gemini-api/docs/thought-signatures (read 2026-11-27)
    """
    match before, part:
        case Text(text, signature=None), Text(more, signature=None):
            return Text(text + more)
        case Thinking(text=text, block=None), Thinking(text=more, block=None):
            return replace(before, text=text + more)
        case _:
            return None


def _call_id(block: JsonObject, *, seed: str, at: int) -> str:
    """Return an id that is the same whenever the same reply is read."""
    call = spell_json(snake_fields(block).get("function_call"))
    digest = sha256(clean_text(f"{seed}\0{at}\0{call}").encode()).hexdigest()
    return f"call_{digest[:_ID_CHARS]}"


def _metadata(key: str, held: Json) -> Opaque:
    return Opaque(provider=PROVIDER, block={key: held}, text=_sources(held))


def _sources(held: Json) -> str:
    """Return the sources that a reply names, one per line."""
    fields = snake_fields(held)
    lines: list[str] = []
    for _, chunk in objects_in(fields.get("grounding_chunks")):
        web = as_object(chunk.get("web"))
        lines.append(f"{as_text(web.get('title'))} {as_text(web.get('uri'))}".strip())
    for _, citation in objects_in(fields.get("citations")):
        lines.append(as_text(citation.get("uri")))
    named = "\n".join(dict.fromkeys(filter(None, lines)))
    return f"Sources:\n{named}" if named else ""


def _read_usage(usage: Json) -> Usage | None:
    """Return the usage: the prompt with its cached part, the answer with its thoughts.

    What server tools put into the prompt on the way is not counted; it was never sent.

    Source:
        docstring of `google.genai.types.GenerateContentResponseUsageMetadata`, google-genai 3.6
        (read 2026-11-27)
    """
    fields = snake_fields(usage)
    if not fields:
        return None
    thoughts = count_of(fields.get("thoughts_token_count"))
    return Usage(
        input_tokens=count_of(fields.get("prompt_token_count")),
        output_tokens=count_of(fields.get("candidates_token_count")) + thoughts,
        cache_read_tokens=count_of(fields.get("cached_content_token_count")),
        reasoning_tokens=thoughts,
    )
