"""A reply of Responses as parts."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from context_assembler.errors import ReplyError
from context_assembler.providers.openai_responses.stream import FINAL_EVENTS, join_events
from context_assembler.providers.openai_responses.units import tool_names
from context_assembler.values.draft import Draft, Reply
from context_assembler.values.json_bounds import keep_numbers_sound
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.native.gathered_stream import pieces_of
from context_assembler.values.native.native_calls import answered_ids
from context_assembler.values.native.response_items import PROVIDER, read_entry
from context_assembler.values.openai.usage import read_usage
from context_assembler.values.parts import Json, JsonObject, Part
from context_assembler.values.reading import as_object, as_text, objects_in
from context_assembler.values.unfinished import say_unfinished
from context_assembler.values.wire import object_of

# What `responses.create` answers, and what `responses.compact` does.
_OBJECTS: Final = ("response", "response.compaction")
_UNFINISHED: Final = frozenset({"queued", "in_progress"})
# What the SDK adds to a parsed reply; the API knows none of it.
_OF_THE_SDK: Final = frozenset({"parsed", "parsed_arguments"})


def matches_reply(reply: Any) -> bool:
    """Whether the reply is a response of this API: an SDK object, its dict, or a stream's events.

    The last event is enough.

    The result of a compaction is one, too.
    """
    body = _body_of(reply)
    return (
        body is not None and body.get("object") in _OBJECTS and isinstance(body.get("output"), list)
    )


def read_reply(reply: Any, draft: Draft | None = None) -> Reply:
    """Return the reply's parts in their order.

    Encrypted reasoning and the items of server tools are kept verbatim. Calls that the client runs
    become calls, custom tools' and the shell's too. Tools get back the names they have in the draft.
    Of a compaction's result the compaction is kept: beside it stand messages that were sent.

    Raises:
        ReplyError: The reply is no finished response.
    """
    body = _body_of(reply)
    if body is None:
        raise ReplyError(reply, reason="it is neither a dict nor an SDK object")
    warnings: list[str] = []
    body = keep_numbers_sound(body, warnings)
    output = _output_of(body, reply)
    names = {} if draft is None else {sent: name for name, sent in tool_names(draft).items()}
    parts = tuple(_read_output(output, names, warnings))
    unfinished = tuple(_unfinished_calls(output))
    warnings += map(say_unfinished, unfinished)
    warnings.extend(_warnings_of(body))
    return Reply(
        provider=PROVIDER,
        model=as_text(body.get("model")),
        parts=parts,
        unfinished_calls=unfinished,
        response_id=as_text(body.get("id")) or None,
        stop_reason=as_text(as_object(body.get("incomplete_details")).get("reason"))
        or as_text(body.get("status"))
        or None,
        usage=read_usage(body.get("usage"), asked="input", answered="output"),
        warnings=tuple(warnings),
    )


def _body_of(reply: Any) -> dict[str, Json] | None:
    if is_array(reply):
        return join_events(pieces_of(reply))
    body = object_of(reply)
    if body is not None and as_text(body.get("type")) in FINAL_EVENTS:
        return as_object(body.get("response"))
    return body


def _output_of(body: JsonObject, reply: Any) -> list[Json]:
    """Return the items of a finished response; of a compaction's result without the messages.

    Raises:
        ReplyError: There are none, or the model is not done with them.
    """
    output, status = body.get("output"), as_text(body.get("status"))
    if not is_array(output):
        raise ReplyError(reply, reason="it has no list of output items")
    if status in _UNFINISHED:
        raise ReplyError(reply, reason=f"its status is {status!r}, so it is not finished")
    if status == "failed" and not output:
        raise ReplyError(reply, reason=f"the model failed ({_error_of(body)})")
    if body.get("object") != _OBJECTS[1]:
        return list(output)
    return [entry for _, entry in objects_in(output) if as_text(entry.get("type")) != "message"]


def _read_output(
    output: Sequence[Json], names: Mapping[str, str], warnings: list[str]
) -> Iterator[Part]:
    items = [_without_sdk_fields(entry) for _, entry in objects_in(output)]
    answered = answered_ids(items)
    for entry in items:
        is_answered = as_text(entry.get("call_id")) in answered
        yield from read_entry(entry, names=names, warnings=warnings, is_answered=is_answered)


def _unfinished_calls(output: Sequence[Json]) -> Iterator[str]:
    for _, entry in objects_in(output):
        if entry.get("status") == "incomplete" and as_text(entry.get("type")).endswith("_call"):
            yield as_text(entry.get("call_id")) or as_text(entry.get("id"))


def _without_sdk_fields(entry: JsonObject) -> dict[str, Json]:
    own = {key: value for key, value in entry.items() if key not in _OF_THE_SDK}
    if isinstance(own.get("content"), list):
        own["content"] = [_without_marks(piece) for piece in own["content"]]
    return own


def _without_marks(piece: Json) -> Json:
    if not is_object(piece):
        return piece
    return {key: value for key, value in piece.items() if key not in _OF_THE_SDK}


def _warnings_of(body: JsonObject) -> Iterator[str]:
    """Yield what the reply says of the request: failures, and reasoning that was not used.

    Source:
        docstrings of the openai package 3.57, Response.input_transformations (read 2026-11-27)
    """
    if body.get("status") == "failed":
        yield f"The model failed before it was done ({_error_of(body)})."
    changes = [change for _, change in objects_in(body.get("input_transformations"))]
    reasons = Counter(as_text(change.get("reason")) or "unknown" for change in changes)
    for reason, count in reasons.items():
        yield f"{count} reasoning item(s) of the request were not used: {reason}."


def _error_of(body: JsonObject) -> str:
    error = as_object(body.get("error"))
    return as_text(error.get("message")) or as_text(error.get("code")) or "no reason was given"
