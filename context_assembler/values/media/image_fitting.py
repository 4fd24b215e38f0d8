"""Images as a provider takes them, each by itself: what fits goes as it is, the rest is scaled."""

import base64
import binascii
import threading
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Final

from cachetools import LRUCache, cached

from context_assembler.values.media.image_scaling import (
    ImageBounds,
    UnscalableError,
    has_pillow,
    scale_picture,
)
from context_assembler.values.media.image_sizes import Size, measure_base64
from context_assembler.values.media.media_rules import MediaRules
from context_assembler.values.media.media_types import media_type_of
from context_assembler.values.parts import Base64Source, Image

WITHOUT_PILLOW: Final = "pip install 'context-assembler[images]' has such images scaled"

_MAX_MEMO_CHARS: Final = 64 * 1024 * 1024
_MAX_READ_CHARS: Final = 256 * 1024 * 1024
_WORDS: Final = {"image/jpeg": "JPEG", "image/png": "PNG", "image/webp": "WebP"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedImage:
    """An image that is sent for another one, and what was done, as a sentence."""

    image: Image
    is_smaller: bool
    told: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fitted:
    """What is sent for some bytes: other bytes, or nothing other, and why not."""

    source: Base64Source | None = None
    size_px: Size = (0, 0)
    is_smaller: bool = False
    told: str = ""


def _digest_key(encoded: str, bounds: ImageBounds) -> tuple[str, ImageBounds]:
    return sha256(encoded.encode("utf-8", "surrogatepass")).hexdigest(), bounds


def _weigh_chars(fitted: _Fitted) -> int:
    return len(fitted.told) + (0 if fitted.source is None else len(fitted.source.data))


def fit_image(image: Image, *, rules: MediaRules) -> FittedImage | str | None:
    """Return what is sent instead of an image; a text says why nothing is; `None`: it fits.

    It depends on the image and the rules alone, never on what else is sent: what was sent once stays
    the same. Images at addresses, and those that need not change, are not looked into. Results are
    kept, within bounds, by the digest of the bytes.
    """
    source = image.source
    if not isinstance(source, Base64Source) or not _may_need_fitting(source, rules):
        return None
    if not has_pillow():
        return WITHOUT_PILLOW
    bounds = ImageBounds(
        types=rules.image_types,
        max_side_px=rules.fit_side_px or rules.max_side_px,
        max_bytes=None if (most := _max_chars(rules)) is None else most // 4 * 3,
        has_animations=rules.takes_animations,
    )
    fitted = _fit(source.data, bounds)
    if fitted.source is None:
        return fitted.told or None
    width_px, height_px = fitted.size_px
    scaled = replace(image, source=fitted.source, width_px=width_px, height_px=height_px)
    return FittedImage(image=scaled, is_smaller=fitted.is_smaller, told=fitted.told)


def _max_chars(rules: MediaRules) -> int | None:
    return rules.fit_image_chars or rules.max_image_chars


def _may_need_fitting(source: Base64Source, rules: MediaRules) -> bool:
    media_type = media_type_of(source)
    if media_type not in rules.image_types:
        return True
    if media_type == "image/gif" and not rules.takes_animations:
        return True
    most_chars, most_px = _max_chars(rules), rules.fit_side_px or rules.max_side_px
    if most_chars is not None and len(source.data) > most_chars:
        return True
    size = None if most_px is None else measure_base64(source.data)
    return size is not None and most_px is not None and max(size) > most_px


@cached(
    LRUCache[tuple[str, ImageBounds], _Fitted](_MAX_MEMO_CHARS, getsizeof=_weigh_chars),
    key=_digest_key,
    lock=threading.Lock(),
)
def _fit(encoded: str, bounds: ImageBounds) -> _Fitted:
    if len(encoded) > _MAX_READ_CHARS:
        return _Fitted(told=f"its {len(encoded):,} characters of base64 are too many to unpack")
    try:
        content = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return _Fitted(told="its text is no base64")
    try:
        scaled = scale_picture(content, bounds=bounds)
    except UnscalableError as error:
        return _Fitted(told=str(error))
    if scaled is None:
        return _Fitted()
    was, now = _sized(scaled.old_size_px, content), _sized(scaled.size_px, scaled.content)
    told = f"An image of {was} is sent as {_WORDS[scaled.media_type]} of {now}"
    return _Fitted(
        source=Base64Source(
            media_type=scaled.media_type, data=base64.b64encode(scaled.content).decode("ascii")
        ),
        size_px=scaled.size_px,
        is_smaller=scaled.size_px != scaled.old_size_px,
        told=f"{told}, its first frame alone." if scaled.was_animated else f"{told}.",
    )


def _sized(size_px: Size, content: bytes) -> str:
    width, height = size_px
    return f"{width:,} × {height:,} pixels and {len(content):,} bytes"
