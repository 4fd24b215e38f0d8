"""Messages as one provider can take them: what it cannot take becomes a line that names it."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TypeAlias

from context_assembler.errors.base import with_article
from context_assembler.values.limits import ModelLimits
from context_assembler.values.media.crowding import find_surplus
from context_assembler.values.media.document_texts import tell_about
from context_assembler.values.media.media_rules import (
    CURABLE,
    MediaRules,
    Objection,
    left_out,
    object_to_document,
    object_to_image,
)
from context_assembler.values.media.media_types import retype
from context_assembler.values.messages import Message, Role
from context_assembler.values.native.citations import tell_sources
from context_assembler.values.native.unfolding import unfold
from context_assembler.values.parts import (
    Document,
    Image,
    Opaque,
    Part,
    ResultPart,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from context_assembler.values.report import Decision, ReportEntry
from context_assembler.values.tool_changes import ASSEMBLER


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A part that cannot be sent as it is: what is sent instead, and why.

    That is `image`, or `parts`, each of them judged in its turn, or else `text` (blank: nothing).
    `decision` is what becomes of the part: `dropped`, `repaired` where what is sent says the same,
    `shortened` where an image was scaled.
    """

    text: str
    decision: Decision
    rule: str
    reason: str
    image: Image | None = field(default=None, compare=False)
    parts: tuple[ResultPart, ...] = field(default=(), compare=False)


Judge: TypeAlias = Callable[[ResultPart, Role], Change | None]
"""Says what a part of a message, or of a result in one, is changed to; `None`: it stays."""


def judge_media(
    *, rules: MediaRules, limits: ModelLimits, takes_from_assistant: bool = False
) -> Judge:
    """Return the judge of images and documents, each by itself.

    Args:
        takes_from_assistant: Whether they may stand in an assistant message.
    """

    def judge(part: ResultPart, role: Role) -> Change | None:
        if not isinstance(part, Image | Document):
            return None
        if (other := retype(part)) is not None:
            return _retyped(part, other)
        if role == "assistant" and not takes_from_assistant:
            reason = "not taken from an assistant"
            return leave_out(part, Objection(rule="media.role", reason=reason))
        if isinstance(part, Image):
            return _judge_image(part, rules=rules, limits=limits)
        objection = object_to_document(part, rules=rules, limits=limits)
        return None if objection is None else leave_out(part, objection)

    return judge


def _retyped(part: Image | Document, other: Image | Document) -> Change:
    """Return the change to what the bytes are; what is said of a document stays with it."""
    was, kind = ("document", "an image") if isinstance(part, Document) else ("image", "a document")
    told = tell_about(part) if isinstance(part, Document) else ""
    return Change(
        text="",
        decision="repaired",
        rule="media.retyped",
        reason=f"What came as {'an' if was == 'image' else 'a'} {was} is sent as {kind}: it is one.",
        parts=(Text(told), other) if told else (other,),
    )


def _judge_image(image: Image, *, rules: MediaRules, limits: ModelLimits) -> Change | None:
    """Return the scaled image where one is needed; where none can be made, the limits decide."""
    objection = object_to_image(image, rules=rules, limits=limits)
    if objection is not None and objection.rule not in CURABLE:
        return leave_out(image, objection)
    from context_assembler.values.media.image_fitting import (  # noqa: PLC0415 - only with images
        FittedImage,
        fit_image,
    )

    fitted = fit_image(image, rules=rules)
    if isinstance(fitted, FittedImage):
        rule = "image.scaled" if fitted.is_smaller else "image.recoded"
        return Change(
            text="", decision="shortened", rule=rule, reason=fitted.told, image=fitted.image
        )
    return None if objection is None else leave_out(image, objection, beside=fitted)


def leave_out(part: Image | Document, objection: Objection, *, beside: str | None = None) -> Change:
    """Return the change that leaves an image or a document out.

    Args:
        beside: What people should know beside the objection.
    """
    kind = "image" if isinstance(part, Image) else "document"
    text = left_out(kind, part.source, reason=objection.reason)
    reason = with_article(kind, begins_sentence=True)
    told = objection.reason if beside is None else f"{objection.reason}; {beside}"
    return Change(
        text=text,
        decision="dropped",
        rule=objection.rule,
        reason=f"{reason} is left out: {told}.",
    )


def judge_foreign(*, provider: str) -> Judge:
    """Return the judge of other providers' own blocks: as their text, and the media in them.

    A line stands for those with neither, except beside what the model itself said. What a text cites
    is told in words where it would be lost. Blocks of the assembler's own are for each to spell.
    """

    def judge(part: ResultPart, role: Role) -> Change | None:
        if (cited := tell_sources(part, provider=provider)) is not None:
            reason = "The sources that a text cites are told in words, long quotes cut."
            return Change(
                text="",
                decision="repaired",
                rule="content.citations",
                reason=reason,
                parts=(cited,),
            )
        if not isinstance(part, Opaque) or part.provider in (provider, ASSEMBLER):
            return None
        sent = unfold(part)
        kind = part.block.get("type")
        block = f"block of {part.provider}" + (f" ({kind})" if isinstance(kind, str) else "")
        if sent:
            told = "its text" if sent == (Text(part.text),) else "what is in it"
            return Change(
                text="",
                decision="repaired",
                rule="content.foreign",
                reason=f"A {block} is sent as {told}.",
                parts=sent,
            )
        return Change(
            text="" if role == "assistant" else f"[{block} left out: it has no text]",
            decision="dropped",
            rule="content.foreign",
            reason=f"A {block} is left out: it has no text.",
        )

    return judge


def adapt_messages(
    messages: Sequence[Message], *, judges: Sequence[Judge], rules: MediaRules
) -> tuple[tuple[Message, ...], list[ReportEntry]]:
    """Return the messages as the provider can take them, and a row for every change of one.

    Their number and order stay the same. Parts are judged one by one first; then the oldest images
    and documents make way until the rest is not too many and not too large together.
    """
    settled, rows = _apply(messages, judges)
    surplus = find_surplus([media for m in settled for media in _media_of(m)], rules=rules)
    if surplus:
        settled, more = _apply(settled, [_judge_surplus(surplus)])
        rows += more
    return tuple(settled), rows


def _apply(
    messages: Iterable[Message], judges: Sequence[Judge]
) -> tuple[list[Message], list[ReportEntry]]:
    settled: list[Message] = []
    rows: list[ReportEntry] = []
    for message in messages:
        if all(map(is_plain, message.parts)):
            settled.append(message)
            continue
        changes: list[Change] = []
        parts = tuple(
            part for old in message.parts for part in _settle(old, message.role, judges, changes)
        )
        if changes and not parts:  # it was all that the message held
            parts = (Text(f"[{changes[0].reason}]"),)
        settled.append(replace(message, parts=parts) if changes else message)
        rows.extend(_rows(message, changes))
    return settled, rows


def is_plain(part: Part) -> bool:
    """Whether a part is nothing that a provider could not take."""
    if isinstance(part, ToolResult):
        return all(isinstance(inner, Text) and not inner.extras for inner in part.content)
    return (isinstance(part, Text) and not part.extras) or isinstance(part, ToolCall | Thinking)


def _settle(
    part: Part, role: Role, judges: Sequence[Judge], changes: list[Change]
) -> Iterator[Part]:
    """Yield what stays of a part, and note what changed."""
    if isinstance(part, ToolResult):
        before = len(changes)
        content = tuple(
            kept for inner in part.content for kept in _settle_content(inner, role, judges, changes)
        )
        yield part if len(changes) == before else replace(part, content=content)
    elif isinstance(part, Text | Image | Document | Opaque):
        yield from _settle_content(part, role, judges, changes)
    else:
        yield part


def _settle_content(
    part: ResultPart, role: Role, judges: Sequence[Judge], changes: list[Change]
) -> Iterator[ResultPart]:
    change = _first_change(part, role, judges)
    if change is None:
        yield part
        return
    changes.append(change)
    if change.image is not None:
        yield change.image
    elif change.parts:
        for inner in change.parts:
            yield from _settle_content(inner, role, judges, changes)
    elif change.text.strip():
        yield Text(change.text)


def _first_change(part: ResultPart, role: Role, judges: Sequence[Judge]) -> Change | None:
    return next((change for judge in judges if (change := judge(part, role)) is not None), None)


def _rows(message: Message, changes: Sequence[Change]) -> Iterator[ReportEntry]:
    """Yield a row per kind of change, with its number; a message that lost a part is shortened."""
    for first, times in Counter(changes).items():
        yield ReportEntry(
            kind="message",
            id=message.id or message.note or message.kind,
            decision="shortened" if first.decision == "dropped" else first.decision,
            reason=first.reason if times == 1 else f"{times} times: {first.reason}",
            rule=first.rule,
        )


def _media_of(message: Message) -> Iterator[Image | Document]:
    """Yield what is sent as bytes; a document whose text is known is sent as text."""
    for part in message.parts:
        content = part.content if isinstance(part, ToolResult) else (part,)
        for inner in content:
            if isinstance(inner, Image) or (isinstance(inner, Document) and inner.text is None):
                yield inner


def _judge_surplus(surplus: dict[int, Objection]) -> Judge:
    places = count()

    def judge(part: ResultPart, _role: Role) -> Change | None:
        if isinstance(part, Opaque | Text) or (
            isinstance(part, Document) and part.text is not None
        ):
            return None
        objection = surplus.get(next(places))
        return None if objection is None else leave_out(part, objection)

    return judge
