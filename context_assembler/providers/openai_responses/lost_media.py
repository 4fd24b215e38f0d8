"""Media of the server's own items, where these cannot go back: a line names each, and a row tells it."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from context_assembler.providers.openai_responses.content import is_content
from context_assembler.providers.openai_responses.forms import keeps_server_items
from context_assembler.values.adapting import Change
from context_assembler.values.limits import ModelLimits
from context_assembler.values.media.media_rules import left_out
from context_assembler.values.messages import Message, Role
from context_assembler.values.native.response_items import PROVIDER
from context_assembler.values.native.unfolding import is_label, media_in, unfold
from context_assembler.values.parts import Image, Opaque, Part, ResultPart
from context_assembler.values.report import ReportEntry

_REASON: Final = "the reasoning that led to it is not sent"


def judge_pieces(part: ResultPart, role: Role) -> Change | None:
    """Judge pieces of a user's content that stand in a reply: a model says text alone."""
    is_own = isinstance(part, Opaque) and part.provider == PROVIDER and is_content(part)
    if role != "assistant" or not is_own:
        return None
    assert isinstance(part, Opaque)
    kind = part.block.get("type")
    sent = unfold(part)
    if not sent:
        reason = f"A part of type {kind!r} is left out: it is not taken from the assistant."
        return Change(text="", decision="dropped", rule="content.type", reason=reason)
    reason = (
        f"A part of type {kind!r} is sent as what is in it: it is not taken from the assistant."
    )
    return Change(text="", decision="repaired", rule="content.type", reason=reason, parts=sent)


def tell_lost_media(
    messages: Iterable[Message], *, limits: ModelLimits
) -> tuple[tuple[Message, ...], list[ReportEntry]]:
    """Return the messages, with a line for each picture or file that stays behind with its item.

    The items themselves are left alone: their texts are sent in place of those that cannot go back,
    and nothing else of the request depends on which reasoning is sent.
    """
    told: list[Message] = []
    rows: list[ReportEntry] = []
    for message in messages:
        lost: list[str] = []
        parts = message.parts
        if message.role == "assistant" and not keeps_server_items(
            message, limits=limits, sends_reasoning=True
        ):
            parts = tuple(_with_lines(part, lost) for part in parts)
        told.append(replace(message, parts=parts) if lost else message)
        rows.extend(_rows(message, lost))
    return tuple(told), rows


def _with_lines(part: Part, lost: list[str]) -> Part:
    """Return an item with a text that names the media in it, and note what they are."""
    if not isinstance(part, Opaque) or part.provider != PROVIDER:
        return part
    media = list(media_in(part))
    kinds = ["image" if isinstance(found, Image) else "document" for found in media]
    lines = [
        left_out(kind, found.source, reason=_REASON)
        for kind, found in zip(kinds, media, strict=True)
    ]
    said = [] if is_label(part.text) or not part.text.strip() else [part.text]
    if not lines or part.text.endswith("\n".join(lines)):
        return part
    lost.extend(kinds)
    return replace(part, text="\n".join([*said, *lines]))


def _rows(message: Message, lost: list[str]) -> Iterator[ReportEntry]:
    for kind, times in Counter(lost).items():
        reason = f"{'An' if kind == 'image' else 'A'} {kind} is left out: {_REASON}."
        yield ReportEntry(
            kind="message",
            id=message.id or message.note or message.kind,
            decision="shortened",
            reason=reason if times == 1 else f"{times} times: {reason}",
            rule="media.reasoning",
        )
