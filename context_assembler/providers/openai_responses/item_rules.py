"""Rules on items: their shape and content, reasoning and what follows it."""

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Final

from context_assembler.providers.openai_responses.rule_book import (
    Sent,
    SentEntry,
    breach,
    breaches,
)
from context_assembler.values.breaches import level_if
from context_assembler.values.json_bounds import broken_bound
from context_assembler.values.media.media_claims import WEB_SCHEMES, object_to_inlined, scheme_of
from context_assembler.values.openai.flaws import image_count_flaws
from context_assembler.values.openai.media import MAX_FILE_CHARS, MAX_IMAGE_CHARS
from context_assembler.values.openai.own_models import can_reason
from context_assembler.values.parts import Json
from context_assembler.values.reading import as_object, as_text
from context_assembler.values.report import Violation

_ROLES: Final = frozenset({"user", "assistant", "system", "developer"})
_SOURCES_OF_INPUT: Final = ("prompt", "previous_response_id", "conversation", "instructions")
_OF_ASSISTANT: Final = frozenset({"output_text", "refusal"})
_OF_OTHERS: Final = frozenset({"input_text", "input_image", "input_file", "input_audio"})
_OF_CHAT: Final = frozenset({"text", "image_url", "file"})
_FILE_URL: Final = re.compile(r"data:(?P<type>[^;,]*)", re.ASCII)
_NO_FILES: Final = ("audio/", "video/")
_MAX_COMPACTION_CHARS: Final = 20 * 1024 * 1024
_MAX_TEXT_CHARS: Final = 10_485_760

# What leads to a call, or stands for all that led to it; how ids of calls begin. A message may stand
# in front of all reasoning, and keeps its id there.
_LEADING: Final = frozenset({"reasoning", "compaction"})
_LED_TO: Final = "fc_"

# Of these a stored reasoning item is only taken together with the stored item that followed it.
_CHECKS_NEIGHBOURS: Final = re.compile(r"gpt-([6-9]|5)([.-].*)?")


def check_shape(sent: Sent) -> Iterator[Violation]:
    """R0: the payload and its items are of the documented shape, and JSON."""
    if (broken := broken_bound(sent.payload)) is not None:
        yield breach("R0", "", f"cannot be sent as JSON: {broken}")
    if not as_text(sent.payload.get("model")) and not sent.payload.get("prompt"):
        yield breach("R0", "model", "a model id belongs here", level="avoid")
    given = sent.payload.get("input")
    if given is not None and not isinstance(given, str | list | tuple):
        yield breach("R0", "input", "must be text or a list of items")
    elif not given and not any(sent.payload.get(name) for name in _SOURCES_OF_INPUT):
        yield breach("R0", "input", "text or items are required")
    for entry in sent.items:
        if not entry.kind:
            yield breach("R0", entry.where, "must be an object with a type or a role")
        elif entry.kind == "message":
            yield from _check_message(entry)


def _check_message(entry: SentEntry) -> Iterator[Violation]:
    if entry.role not in _ROLES:
        yield breach("R0", f"{entry.where}.role", f"unknown role {entry.role!r}")
    content = entry.fields.get("content")
    is_reply = entry.role == "assistant" and any(entry.pieces())
    missing = [key for key in ("id", "status") if is_reply and not entry.fields.get(key)]
    if missing:
        message = (
            f"pieces of a reply stand beside id and status; {' and '.join(missing)} is missing"
        )
        yield breach("R0", entry.where, message, level="avoid")
    if not isinstance(content, str | list | tuple):
        yield breach("R0", f"{entry.where}.content", "must be text or a list of pieces")


def check_content(sent: Sent) -> Iterator[Violation]:
    """R0: pieces of content are of the types that their item takes."""
    for entry in sent.items:
        taken = _OF_ASSISTANT if entry.role == "assistant" else _OF_OTHERS
        if entry.kind not in ("message", "function_call_output", "custom_tool_call_output"):
            continue
        for where, piece in entry.pieces():
            kind = as_text(piece.get("type"))
            if not kind:
                yield breach("R0", f"{where}.type", "is missing")
            elif kind not in taken:
                is_known = kind in _OF_CHAT | _OF_ASSISTANT | _OF_OTHERS
                message = f"{kind!r} is not taken here, only {', '.join(sorted(taken))}"
                level = level_if(sent.is_openai and is_known)
                yield breach("R0", f"{where}.type", message, level=level)


def check_media(sent: Sent) -> Iterator[Violation]:
    """R12: pictures and files say where their bytes are, and are of a type that is taken."""
    sees = sent.limits is None or sent.limits.features.get("vision") is not False
    for entry in sent.items:
        for where, piece in entry.pieces():
            if piece.get("type") == "input_image":
                yield from _check_image(sent, where, piece)
                if not sees:
                    yield breach("R12", where, "the model takes no images")
                if piece.get("detail") is None:
                    message = "should be told: auto, low, high or original"
                    yield breach("R12", f"{where}.detail", message, level="avoid")
            elif piece.get("type") == "input_file":
                yield from _check_file(sent, where, piece)


def check_media_count(sent: Sent) -> Iterator[Violation]:
    """R12: not more pictures than every version of the API takes."""
    pieces = (piece for entry in sent.items for _, piece in entry.pieces())
    images = sum(piece.get("type") == "input_image" for piece in pieces)
    yield from breaches("R12", image_count_flaws(images, where="input"))


def _check_image(sent: Sent, where: str, piece: dict[str, Json]) -> Iterator[Violation]:
    url = as_text(piece.get("image_url"))
    objection = object_to_inlined(url)
    if not (url or as_text(piece.get("file_id"))):
        yield breach("R12", where, "image_url, as text, or file_id is required")
    elif objection is not None:
        yield breach("R12", f"{where}.image_url", objection, level="avoid")
    elif url and scheme_of(url) != "data":
        yield from _check_address(sent, f"{where}.image_url", url)


def _check_address(sent: Sent, where: str, url: str) -> Iterator[Violation]:
    scheme = scheme_of(url)
    if scheme not in WEB_SCHEMES:
        message = f"cannot be fetched: {scheme or 'no'} scheme, only https"
        yield breach("R12", where, message, level=level_if(sent.is_openai))


def _check_file(sent: Sent, where: str, piece: dict[str, Json]) -> Iterator[Violation]:
    encoded = as_text(piece.get("file_data"))
    if not any(as_text(piece.get(key)) for key in ("file_data", "file_url", "file_id")):
        yield breach("R12", where, "file_data, file_url or file_id is required")
    if as_text(piece.get("file_url")):
        yield from _check_address(sent, f"{where}.file_url", as_text(piece["file_url"]))
    objection = object_to_inlined(encoded)
    if objection is not None:
        yield breach("R12", f"{where}.file_data", objection, level="avoid")
    declared = _FILE_URL.match(encoded)
    if declared is not None and declared["type"].startswith(_NO_FILES):
        yield breach("R12", f"{where}.file_data", f"files of type {declared['type']} are refused")


def check_lengths(sent: Sent) -> Iterator[Violation]:
    """R6: what the API reads at most."""
    for entry in sent.items:
        for key, most in (
            ("output", _MAX_TEXT_CHARS),
            ("content", _MAX_TEXT_CHARS),
            ("encrypted_content", _MAX_COMPACTION_CHARS),
        ):
            if len(as_text(entry.fields.get(key))) > most:
                message = f"at most {most:,} characters are taken"
                yield breach("R6", f"{entry.where}.{key}", message)
        for where, piece in entry.pieces():
            for key, most in (
                ("text", _MAX_TEXT_CHARS),
                ("image_url", MAX_IMAGE_CHARS),
                ("file_data", MAX_FILE_CHARS),
            ):
                if len(as_text(piece.get(key))) > most:
                    yield breach("R6", f"{where}.{key}", f"at most {most:,} characters are taken")


def check_reasoning_items(sent: Sent) -> Iterator[Violation]:
    """R2, R4: reasoning is complete, readable without the server's store, and led to something."""
    for index, entry in enumerate(sent.items):
        if entry.kind != "reasoning":
            continue
        after = sent.items[index + 1] if index + 1 < len(sent.items) else None
        if after is None or not after.is_of_model:
            yield breach("R2", entry.where, "must be followed by the item that it led to")
        elif _has_lost_neighbour(sent, entry, after):
            message = "must be followed by that item with its id, or go without an id"
            yield breach("R2", entry.where, message)
        if not isinstance(entry.fields.get("summary"), list | tuple):
            level = level_if(sent.is_openai)
            yield breach("R0", f"{entry.where}.summary", "is required, even if empty", level=level)
        if "status" in entry.fields:
            message = "is unknown to some versions of the API; leave it out"
            yield breach("R2", f"{entry.where}.status", message, level="avoid")
        if not as_text(entry.fields.get("encrypted_content")) and not sent.is_stored:
            message = "is required, since nothing is stored"
            level = level_if(sent.is_openai)
            yield breach("R4", f"{entry.where}.encrypted_content", message, level=level)
        if sent.limits is not None and not can_reason(sent.limits):
            message = "the model does not reason"
            yield breach("R2", entry.where, message, level="avoid")


def _has_lost_neighbour(sent: Sent, entry: SentEntry, after: SentEntry) -> bool:
    """Whether the server knows the reasoning by its id and will miss the item it led to."""
    if not sent.is_openai or not sent.is_stored or not _CHECKS_NEIGHBOURS.fullmatch(sent.model):
        return False
    return bool(entry.fields.get("id")) and not after.fields.get("id")


def check_lost_reasoning(sent: Sent) -> Iterator[Violation]:
    """R2: calls that keep the server's ids keep the reasoning that led to them.

    Whether there was any is known to the server alone, so this is advice.
    """
    if sent.limits is None or not sent.is_openai or sent.has_state or not can_reason(sent.limits):
        return
    if as_object(sent.payload.get("reasoning")).get("effort") == "none":
        return
    for is_of_model, run in groupby(sent.items, key=lambda entry: entry.is_of_model):
        reply = list(run)
        if not is_of_model or any(entry.kind in _LEADING for entry in reply):
            continue
        for entry in reply:
            if as_text(entry.fields.get("id")).startswith(_LED_TO):
                message = "keeps the server's id without the reasoning that led to it"
                yield breach("R2", f"{entry.where}.id", message, level="avoid")


def check_order(sent: Sent) -> Iterator[Violation]:
    """R9, R4, R0: what must come last, what nothing stored stands behind, who speaks last."""
    for entry in sent.items[:-1]:
        if entry.kind == "compaction_trigger":
            yield breach("R9", entry.where, "must be the last item")
    for entry in sent.items:
        if entry.kind == "item_reference" and not sent.is_stored and not sent.has_state:
            yield breach("R4", entry.where, "refers to an item that is not stored", level="avoid")
        if entry.kind == "compaction" and not as_text(entry.fields.get("encrypted_content")):
            yield breach("R9", entry.where, "encrypted_content is required")
    last = sent.items[-1] if sent.items else None
    if last is not None and last.role == "assistant":
        yield breach("R0", last.where, "the assistant should not speak last", level="avoid")
