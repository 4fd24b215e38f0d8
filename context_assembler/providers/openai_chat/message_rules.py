"""Rules on messages: their shape and order, calls and results, content."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from context_assembler.providers.openai_chat.content import PART_TYPES
from context_assembler.providers.openai_chat.dialect import ID_RULE, NAME_RULE
from context_assembler.providers.openai_chat.joining import MAX_CALLS
from context_assembler.providers.openai_chat.rule_book import Sent, SentMessage, breach, breaches
from context_assembler.values.breaches import level_if
from context_assembler.values.json_bounds import broken_bound
from context_assembler.values.media.media_claims import WEB_SCHEMES, object_to_inlined, scheme_of
from context_assembler.values.openai.flaws import image_count_flaws
from context_assembler.values.openai.media import MAX_IMAGE_CHARS
from context_assembler.values.parts import Json
from context_assembler.values.reading import as_array, as_object, as_text
from context_assembler.values.report import Violation
from context_assembler.values.wire import parse_json_object

_ROLES: Final = frozenset({"developer", "system", "user", "assistant", "tool", "function"})
_INSTRUCTIONS: Final = frozenset({"developer", "system"})
_FILE_KEYS: Final = frozenset({"file_data", "file_id", "filename"})
_MISTRAL_STRINGS: Final = re.compile(r".*mistral.*")


def check_shape(sent: Sent) -> Iterator[Violation]:
    """C0: the payload and its messages are of the documented shape, and JSON."""
    if (broken := broken_bound(sent.payload)) is not None:
        yield breach("C0", "", f"cannot be sent as JSON: {broken}")
    if not as_text(sent.payload.get("model")):
        yield breach(
            "C0", "model", "a model id belongs here, unless the URL names it", level="avoid"
        )
    if not sent.messages:
        yield breach("C0", "messages", "at least one message is required")
    for message in sent.messages:
        if message.role not in _ROLES:
            yield breach("C0", f"{message.where}.role", f"unknown role {message.role!r}")
        content = message.fields.get("content")
        if content is not None and not isinstance(content, str | list | tuple):
            yield breach("C0", f"{message.where}.content", "must be text or a list of parts")
        yield from _check_parts(sent, message)


def _check_parts(sent: Sent, message: SentMessage) -> Iterator[Violation]:
    for index, part in enumerate(as_array(message.fields.get("content"))):
        where = f"{message.where}.content[{index}]"
        if isinstance(part, str):
            level = level_if(_MISTRAL_STRINGS.fullmatch(sent.model) is not None)
            yield breach("C0", where, "must be an object, not text", level=level)
        elif not (kind := as_text(as_object(part).get("type"))):
            yield breach("C0", f"{where}.type", "is missing")
        elif kind not in PART_TYPES:
            level = level_if(sent.is_openai)
            yield breach("C0", f"{where}.type", f"unknown type {kind!r}", level=level)


def check_content(sent: Sent) -> Iterator[Violation]:
    """C10: nothing is sent without content."""
    for message in sent.messages:
        content, where = message.fields.get("content"), f"{message.where}.content"
        has_calls = bool(message.calls or message.fields.get("function_call"))
        if message.role == "assistant":
            is_silent = not has_calls and not message.fields.get("audio")
            if content is None and is_silent and not message.fields.get("refusal"):
                level = level_if(sent.is_openai)
                yield breach("C10", where, "neither content nor calls", level=level)
            elif has_calls and content in ("", []):
                yield breach("C10", where, "leave it out beside calls", level="avoid")
            elif content in ("", []):
                yield breach("C10", where, "is empty", level="avoid")
        elif content is None or content == []:
            yield breach("C10", where, "is missing")
        elif content == "":
            yield breach("C10", where, "is empty", level="avoid")
        for place, part in message.parts:
            if part.get("type") == "text" and not as_text(part.get("text")):
                yield breach("C10", f"{place}.text", "is empty", level="avoid")


def check_media(sent: Sent) -> Iterator[Violation]:
    """C11, C14: images in user messages only, with a URL, not too many; files with known fields."""
    yield from _check_images(sent)
    sees = sent.limits is None or sent.limits.features.get("vision") is not False
    for message in sent.messages:
        for where, part in message.parts:
            kind = part.get("type")
            if kind == "image_url":
                yield from _check_image(sent, message, part, where=where)
                if not sees:
                    yield breach("C14", where, "the model takes no images")
            elif message.role == "tool" and kind in ("file", "input_audio"):
                yield breach("C11", where, "a tool message takes text only")
            elif kind == "file" and sent.is_openai:
                yield from _check_file(as_object(part.get("file")), where=f"{where}.file")


def _check_images(sent: Sent) -> Iterator[Violation]:
    parts = (part for message in sent.messages for _, part in message.parts)
    images = [part.get("image_url") for part in parts if part.get("type") == "image_url"]
    yield from breaches("C14", image_count_flaws(len(images), where="messages"))
    if any(len(as_text(as_object(image).get("url"))) > MAX_IMAGE_CHARS for image in images):
        text = f"an image of more than {MAX_IMAGE_CHARS:,} characters"
        yield breach("C14", "messages", text, level="avoid")


def _check_file(file: dict[str, Json], *, where: str) -> Iterator[Violation]:
    for key in file.keys() - _FILE_KEYS:
        yield breach("C14", f"{where}.{key}", "unknown field")
    objection = object_to_inlined(as_text(file.get("file_data")))
    if objection is not None:
        yield breach("C14", f"{where}.file_data", objection, level="avoid")


def _check_image(
    sent: Sent, message: SentMessage, part: dict[str, Json], *, where: str
) -> Iterator[Violation]:
    if message.role != "user":
        yield breach("C11", where, "images are taken from the user only")
    image = part.get("image_url")
    url = image if isinstance(image, str) else as_object(image).get("url")
    place, scheme = f"{where}.image_url.url", scheme_of(as_text(url))
    objection = object_to_inlined(as_text(url))
    if not as_text(url).strip():
        yield breach("C14", place, "a URL or data URL is required")
    elif objection is not None:
        yield breach("C14", place, objection, level="avoid")
    elif scheme != "data" and scheme not in WEB_SCHEMES:
        text = f"cannot be fetched: {scheme or 'no'} scheme, only https and data"
        yield breach("C14", place, text, level=level_if(sent.is_openai))


def check_pairs(sent: Sent) -> Iterator[Violation]:
    """C1: every call is answered once, right behind its message, and nothing else is answered."""
    waiting: dict[str, str] = {}
    answered: set[str] = set()
    for message in sent.messages:
        if message.role == "tool":
            call_id = as_text(message.fields.get("tool_call_id"))
            if call_id in waiting:
                del waiting[call_id]
                answered.add(call_id)
            else:
                what = "is answered twice" if call_id in answered else "does not stand before it"
                yield breach("C1", message.where, f"call {call_id!r} {what}")
            continue
        yield from _unanswered(waiting)
        answered = set()
        waiting = {
            as_text(as_object(call).get("id")): f"{message.where}.tool_calls[{index}]"
            for index, call in enumerate(message.calls)
        }
    yield from _unanswered(waiting)


def _unanswered(waiting: dict[str, str]) -> Iterator[Violation]:
    for call_id, where in waiting.items():
        yield breach("C1", where, f"call {call_id!r} is not answered by the next messages")


def check_calls(sent: Sent) -> Iterator[Violation]:
    """C6, C7: number, ids, names and arguments of calls."""
    for message in sent.messages:
        if message.calls and message.role != "assistant":
            yield breach("C1", f"{message.where}.tool_calls", "only the assistant calls tools")
        if "tool_calls" in message.fields and not message.calls and sent.is_openai:
            level = level_if(message.fields["tool_calls"] == [])
            yield breach("C7", f"{message.where}.tool_calls", "must not be empty", level=level)
        if len(message.calls) > MAX_CALLS:
            yield breach("C6", f"{message.where}.tool_calls", f"at most {MAX_CALLS} are taken")
        seen: set[str] = set()
        for index, call in enumerate(message.calls):
            call_id = as_text(as_object(call).get("id"))
            where = f"{message.where}.tool_calls[{index}]"
            if call_id in seen:
                yield breach("C7", f"{where}.id", "is used twice in one message")
            seen.add(call_id)
            yield from _check_call(sent, as_object(call), where=where)


def _check_call(sent: Sent, call: dict[str, Json], *, where: str) -> Iterator[Violation]:
    call_id, level = as_text(call.get("id")), level_if(sent.is_openai)
    if not call_id:
        yield breach("C7", f"{where}.id", "is missing")
    elif len(call_id) > ID_RULE.max_chars:
        message = f"has {len(call_id)} characters, at most {ID_RULE.max_chars} are taken"
        yield breach("C6", f"{where}.id", message, level=level)
    if call.get("type") == "custom":
        return
    function = as_object(call.get("function"))
    if not NAME_RULE.allows(as_text(function.get("name"))):
        message = f"must match {NAME_RULE.pattern.pattern}"
        yield breach("C7", f"{where}.function.name", message, level=level)
    arguments = function.get("arguments")
    if not isinstance(arguments, str):
        yield breach("C7", f"{where}.function.arguments", "must be JSON text", level=level)
    elif parse_json_object(arguments) is None:
        yield breach("C7", f"{where}.function.arguments", "is no JSON object", level="avoid")


def check_order(sent: Sent) -> Iterator[Violation]:
    """C5, C16: which role may stand where."""
    roles = {message.role for message in sent.messages}
    if roles >= _INSTRUCTIONS:
        yield breach("C5", "messages", "developer and system should not be mixed", level="avoid")
    for before, message in pairwise(sent.messages):
        if message.role in _INSTRUCTIONS and before.role not in _INSTRUCTIONS:
            if sent.is_strict_about_order:
                yield breach("C16", message.where, "instructions stand in front only")
            elif not sent.takes_late_instructions:
                yield breach("C16", message.where, "stands late for some servers", level="avoid")
    last = sent.messages[-1] if sent.messages else None
    if last is not None and last.role == "assistant":
        yield breach("C16", last.where, "the assistant should not speak last", level="avoid")
