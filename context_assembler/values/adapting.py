"""Messages as one provider can take them: what it cannot take becomes a line that names it."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Final, TypeAlias

from context_assembler.values.image_sizes import measure_base64
from context_assembler.values.limits import ModelLimits
from context_assembler.values.media import (
    MediaRules,
    Objection,
    left_out,
    object_to_document,
    object_to_image,
)
from context_assembler.values.messages import Message, Role
from context_assembler.values.parts import (
    Base64Source,
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

# What is left out for its number goes in steps of this share of the limit: so the payloads of the
# next calls begin as this one does, and are found in the provider's cache.
_STEPS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A part that cannot be sent as it is: the text sent instead (blank: nothing), and why.

    `decision` is what becomes of the part: `dropped`, or `repaired` where the text says the same.
    """

    text: str
    decision: Decision
    rule: str
    reason: str


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
        if role == "assistant" and not takes_from_assistant:
            reason = "not taken from an assistant"
            return leave_out(part, Objection(rule="media.role", reason=reason))
        objection = (
            object_to_image(part, rules=rules, limits=limits)
            if isinstance(part, Image)
            else object_to_document(part, rules=rules, limits=limits)
        )
        return None if objection is None else leave_out(part, objection)

    return judge


def leave_out(part: Image | Document, objection: Objection) -> Change:
    """Return the change that leaves an image or a document out."""
    kind = "image" if isinstance(part, Image) else "document"
    text = left_out(kind, part.source, reason=objection.reason)
    reason = f"An {kind}" if kind == "image" else f"A {kind}"
    return Change(
        text=text,
        decision="dropped",
        rule=objection.rule,
        reason=f"{reason} is left out: {objection.reason}.",
    )


def judge_foreign(*, provider: str) -> Judge:
    """Return the judge of other providers' own blocks: without a text they cannot be told.

    A line stands for them, except beside what the model itself said.
    """

    def judge(part: ResultPart, role: Role) -> Change | None:
        if not isinstance(part, Opaque) or part.provider == provider or part.text.strip():
            return None
        kind = part.block.get("type")
        block = f"block of {part.provider}" + (f" ({kind})" if isinstance(kind, str) else "")
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
    surplus = _find_surplus([media for m in settled for media in _media_of(m)], rules=rules)
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
        if all(map(_is_plain, message.parts)):
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


def _is_plain(part: Part) -> bool:
    """Whether a part is nothing that a provider could not take."""
    if isinstance(part, ToolResult):
        return all(isinstance(inner, Text) for inner in part.content)
    return isinstance(part, Text | ToolCall | Thinking)


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
    change = None if isinstance(part, Text) else _first_change(part, role, judges)
    if change is None:
        yield part
        return
    changes.append(change)
    if change.text.strip():
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


def _find_surplus(media: Sequence[Image | Document], *, rules: MediaRules) -> dict[int, Objection]:
    """Return the places of those that have to make way, oldest first, and why."""
    images = [index for index, part in enumerate(media) if isinstance(part, Image)]
    surplus: dict[int, Objection] = {}
    number = count_oldest([1] * len(images), most=rules.max_images)
    reason = f"at most {rules.max_images} images are taken, the oldest make way"
    surplus |= dict.fromkeys(images[:number], Objection(rule="media.count", reason=reason))
    number = count_oldest(list(map(_chars_of, media)), most=rules.max_media_chars)
    reason = "a request takes no more bytes, the oldest make way"
    surplus |= dict.fromkeys(range(number), Objection(rule="media.bytes", reason=reason))
    images = [index for index in images if index not in surplus]
    number = _count_crowd([media[index] for index in images], rules=rules)
    reason = (
        f"of more than {rules.crowd_images} images none may have a side over "
        f"{rules.crowd_side_px} pixels, the oldest make way"
    )
    return surplus | dict.fromkeys(images[:number], Objection(rule="media.crowd", reason=reason))


def _count_crowd(images: Sequence[Image | Document], *, rules: MediaRules) -> int:
    """Return how many of the oldest go, until they are no crowd or all of them are small."""
    if rules.crowd_images is None or len(images) <= rules.crowd_images:
        return 0
    large = [index for index, image in enumerate(images) if _side_of(image) > _crowd_side(rules)]
    if not large:
        return 0
    return min(large[-1] + 1, count_oldest([1] * len(images), most=rules.crowd_images))


def _crowd_side(rules: MediaRules) -> int:
    assert rules.crowd_side_px is not None
    return rules.crowd_side_px


def _side_of(part: Image | Document) -> int:
    source = part.source
    size = measure_base64(source.data) if isinstance(source, Base64Source) else None
    return max(size) if size is not None else 0


def _chars_of(part: Image | Document) -> int:
    return len(part.source.data) if isinstance(part.source, Base64Source) else 0


def count_oldest(weights: Sequence[int], *, most: int | None) -> int:
    """Return how many of the oldest go, so that the rest weigh at most so much.

    In steps of a part of what is allowed: as long as one more step suffices, the same ones go.
    """
    excess = 0 if most is None else sum(weights) - most
    if most is None or excess <= 0:
        return 0
    step = max(1, most // _STEPS)
    target = -(-excess // step) * step
    total = 0
    for number, weight in enumerate(weights):
        if total >= target:
            return number
        total += weight
    return len(weights)


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
