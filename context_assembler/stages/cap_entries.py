"""The step that shortens an oversized entry when it is first sent, as a function of itself alone.

What a call returned, or a user pasted, is cut to its cap whatever else is sent, and an image scaled
to its own, so that no later step ever has to change it. The whole of it stays in the store.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from operator import is_
from typing import Final, TypeAlias

from context_assembler.errors import MissingExtraError
from context_assembler.values.media.media_rules import MediaRules
from context_assembler.values.messages import Message
from context_assembler.values.options import TruncationSettings
from context_assembler.values.parts import Image, Part, ResultPart, Text, ToolResult
from context_assembler.values.report import ReportEntry
from context_assembler.values.texts.shortening import CountText, shorten_text

RULE: Final = "entry.cap"

_MOST_BYTES_PER_CHAR: Final = 4  # in UTF-8, of which a token takes at least one
# Pictures that are scaled without being spelled otherwise; what else a provider does not take, it converts.
_SCALED_AS_THEY_ARE: Final = ("image/jpeg", "image/png", "image/gif", "image/webp")

Caps: TypeAlias = TruncationSettings


def cap_entries(
    messages: Sequence[Message], *, caps: Caps, count_text: CountText
) -> tuple[tuple[Message, ...], tuple[ReportEntry, ...]]:
    """Return the messages with every text and image within its cap, and a row for each change.

    A message that is within its caps is returned as the same object. Pinned messages stay whole, and
    so do images at addresses.

    Args:
        messages: A repaired history: a result stands behind its call.
        count_text: Must give the same count for the same text in every later call.

    Raises:
        MissingExtraError: An image is over its cap, and Pillow is not installed.
    """
    rows: list[ReportEntry] = []
    capped: list[Message] = []
    names: dict[str, str] = {}
    for message in messages:
        if message.role == "assistant":
            names = {call.call_id: call.name for call in message.tool_calls}
        capped.append(_capped(message, names, rows, caps=caps, count_text=count_text))
    return tuple(capped), tuple(rows)


def _capped(
    message: Message,
    names: dict[str, str],
    rows: list[ReportEntry],
    *,
    caps: Caps,
    count_text: CountText,
) -> Message:
    if message.is_pinned or message.kind != "said" or message.role not in ("user", "tool"):
        return message

    told: list[str] = []

    def shorten(part: Part) -> Part:
        if isinstance(part, ToolResult):
            cap = _cap_of(part.tool_name or names.get(part.call_id, ""), caps)
            content = _shorten_content(part.content, cap, count_text=count_text)
            content = _scale_images(content, caps.max_image_side_px, told)
            return part if content is part.content else replace(part, content=content)
        if isinstance(part, Text) and message.role == "user":
            return _shorten_content((part,), caps.max_user_tokens, count_text=count_text)[0]
        if isinstance(part, Image):
            return _scale_images((part,), caps.max_image_side_px, told)[0]
        return part

    parts = tuple(map(shorten, message.parts))
    if all(map(is_, parts, message.parts)):
        return message
    before, after = (sum(map(count_text, _texts(held))) for held in (message.parts, parts))
    if before != after:
        told.insert(0, "Longer than what one entry may take; the whole text stays in the session.")
    rows.append(
        ReportEntry(
            kind="message",
            id=message.id,
            decision="shortened",
            tokens_before=before,
            tokens_after=after,
            reason=" ".join(told),
            rule=RULE,
        )
    )
    return replace(message, parts=parts)


def _cap_of(tool: str, caps: Caps) -> int | None:
    """Return the longest text of what a tool of that name returned; `None`: any."""
    own = (cap for name, cap in caps.max_result_tokens_by_tool.items() if fnmatchcase(tool, name))
    return next(own, caps.max_result_tokens)


def _shorten_content(
    content: tuple[ResultPart, ...], cap_tokens: int | None, *, count_text: CountText
) -> tuple[ResultPart, ...]:
    """Return the content with its texts cut to one cap together; the same object if they fit.

    The first texts are kept longest; images and documents stay. A signed text stays as it is.
    """
    texts = [part for part in content if isinstance(part, Text) and part.signature is None]
    if cap_tokens is None or not _may_exceed(texts, cap_tokens):
        return content
    left = cap_tokens
    kept: list[ResultPart] = []
    for part in content:
        if not isinstance(part, Text) or part.signature is not None:
            kept.append(part)
            continue
        text = shorten_text(part.text, max_tokens=max(left, 0), count_text=count_text)
        left -= count_text(text)
        kept.append(part if text == part.text else replace(part, text=text))
    return content if all(map(is_, kept, content)) else tuple(kept)


def _scale_images(
    content: tuple[ResultPart, ...], side_px: int | None, told: list[str]
) -> tuple[ResultPart, ...]:
    """Return the content with its images scaled, and say of each what was done; the same if none is."""
    if side_px is None or not any(isinstance(part, Image) for part in content):
        return content
    scaled = tuple(
        _scaled(part, side_px, told) if isinstance(part, Image) else part for part in content
    )
    return content if all(map(is_, scaled, content)) else scaled


def _scaled(image: Image, side_px: int, told: list[str]) -> Image:
    """Return the image with no side longer; as it is where it is not larger, or cannot be read."""
    from context_assembler.values.media.image_fitting import (  # noqa: PLC0415 - only with images
        WITHOUT_PILLOW,
        FittedImage,
        fit_image,
    )

    fitted = fit_image(image, rules=_rules_of(side_px))
    if fitted == WITHOUT_PILLOW:
        raise MissingExtraError(f"Scaling images to {side_px:,} pixels", extra="images")
    if not (isinstance(fitted, FittedImage) and fitted.is_smaller):
        return image
    told.append(fitted.told)
    return fitted.image


def _rules_of(side_px: int) -> MediaRules:
    return MediaRules(
        api="",
        file_owner="",
        image_types=_SCALED_AS_THEY_ARE,
        image_words="",
        fit_side_px=side_px,
        takes_animations=True,
    )


def _may_exceed(texts: Sequence[Text], cap_tokens: int) -> bool:
    """Whether texts might be longer, judged without counting what is clearly short."""
    most = sum(len(one.text) * (1 if one.text.isascii() else _MOST_BYTES_PER_CHAR) for one in texts)
    return most > cap_tokens


def _texts(parts: Sequence[Part]) -> Iterator[str]:
    for part in parts:
        if isinstance(part, ToolResult):
            yield from (inner.text for inner in part.content if isinstance(inner, Text))
        elif isinstance(part, Text):
            yield part.text
