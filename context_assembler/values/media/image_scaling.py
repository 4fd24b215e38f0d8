"""Pictures within bounds: made smaller, or spelled in another format; bytes in, bytes out."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from io import BytesIO
from typing import TYPE_CHECKING, Final

from context_assembler.values.media.image_sizes import Size, read_size

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

# Pillow's own threshold for what may be a decompression bomb.
MAX_PIXELS: Final = 89_478_485

_READ_FORMATS: Final = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF", "AVIF", "HEIF")
_PLUGIN_FORMATS: Final = frozenset({"HEIF"})  # read where another package has taught Pillow
_LOSSLESS: Final = frozenset({"PNG", "GIF", "BMP", "TIFF"})
_TYPES_BY_FORMAT: Final = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp"}
# A PNG over this size is a photograph, which other formats hold as well in a tenth of it.
_MAX_PNG_BYTES: Final = 2 * 1024 * 1024
_QUALITIES: Final = (90, 75)
_SHRINK: Final = 0.7
_MIN_SIDE_PX: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageBounds:
    """What a picture may be; `None`: no bound.

    Attributes:
        types: Media types that it may have.
        has_animations: Whether it may move.
    """

    types: tuple[str, ...]
    max_side_px: int | None = None
    max_bytes: int | None = None
    has_animations: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledPicture:
    """A picture within its bounds, and what it was before, turned upright."""

    media_type: str
    content: bytes
    size_px: Size
    old_size_px: Size
    was_animated: bool


class UnscalableError(ValueError):
    """Why a picture cannot be brought within its bounds, in half a sentence."""


def has_pillow() -> bool:
    """Whether the package that reads pictures is installed."""
    return find_spec("PIL") is not None


def scale_picture(content: bytes, *, bounds: ImageBounds) -> ScaledPicture | None:
    """Return the picture within the bounds; `None` where it is already, as it stands.

    The same bytes give the same bytes. A picture is turned as its EXIF orientation says; of one that
    moves only the first frame stays. Transparency stays where a format that holds it is among
    the types. Nothing is unpacked whose header states more than `MAX_PIXELS`.

    Raises:
        UnscalableError: It is no picture that can be read, too large to unpack, or cannot be made
            small enough.
    """
    _check_pixels(read_size(content))
    try:
        return _scale(content, bounds)
    except UnscalableError:
        raise
    except Exception as error:  # broken bytes break each decoder in a way of its own
        raise UnscalableError("its bytes cannot be read as a picture") from error


def _scale(content: bytes, bounds: ImageBounds) -> ScaledPicture | None:
    from PIL import Image, ImageOps  # noqa: PLC0415 - optional, and slow to load

    formats = [name for name in _READ_FORMATS if name not in _PLUGIN_FORMATS or name in Image.OPEN]
    with Image.open(BytesIO(content), formats=formats) as opened:
        _check_pixels(opened.size)
        is_animated = bool(getattr(opened, "is_animated", False))
        file_format, stated = str(opened.format), opened.size
        if _is_within(content, opened, is_animated=is_animated, bounds=bounds):
            return None
        if bounds.max_side_px is not None:
            opened.draft(opened.mode, _fit_size(stated, bounds.max_side_px))
        upright = ImageOps.exif_transpose(opened)
        upright.load()
    is_turned = (upright.width > upright.height) != (stated[0] > stated[1])
    for picture in _ever_smaller(_in_plain_mode(upright), bounds.max_side_px):
        for media_type, encoded in _encodings(picture, file_format, bounds.types):
            if bounds.max_bytes is None or len(encoded) <= bounds.max_bytes:
                return ScaledPicture(
                    media_type=media_type,
                    content=encoded,
                    size_px=picture.size,
                    old_size_px=(stated[1], stated[0]) if is_turned else stated,
                    was_animated=is_animated,
                )
    raise UnscalableError("it cannot be made small enough")


def _check_pixels(size: Size | None) -> None:
    pixels = 0 if size is None else size[0] * size[1]
    if pixels > MAX_PIXELS:
        raise UnscalableError(f"its {pixels:,} pixels are too many to unpack")


def _is_within(
    content: bytes, picture: "Picture", *, is_animated: bool, bounds: ImageBounds
) -> bool:
    return (
        _TYPES_BY_FORMAT.get(str(picture.format), f"image/{picture.format}".lower()) in bounds.types
        and (bounds.max_side_px is None or max(picture.size) <= bounds.max_side_px)
        and (bounds.max_bytes is None or len(content) <= bounds.max_bytes)
        and (bounds.has_animations or not is_animated)
    )


def _fit_size(size: Size, max_side_px: int) -> Size:
    longest = max(size)
    if longest <= max_side_px:
        return size
    width, height = (max(1, round(side * max_side_px / longest)) for side in size)
    return width, height


def _in_plain_mode(picture: "Picture") -> "Picture":
    """Return the picture with eight bits a channel, grey or in colours, and alpha if it shows."""
    from PIL.Image import frombytes  # noqa: PLC0415 - optional, and slow to load

    if picture.mode.startswith("I;16"):  # sixteen bits of grey
        upper_bytes = picture.tobytes()[picture.mode != "I;16B" :: 2]
        return frombytes("L", picture.size, upper_bytes)
    if picture.has_transparency_data:
        clear = picture.convert("RGBA")
        if clear.getchannel("A").getextrema() != (255, 255):
            return clear
        return clear.convert("RGB")
    return picture.convert("L" if picture.mode in ("1", "L", "I", "F") else "RGB")


def _ever_smaller(picture: "Picture", max_side_px: int | None) -> Iterator["Picture"]:
    side_px = max(picture.size) if max_side_px is None else min(max(picture.size), max_side_px)
    first = side_px
    while side_px >= _MIN_SIDE_PX or side_px == first:
        size = _fit_size(picture.size, side_px)
        is_whole = size == picture.size
        yield picture if is_whole else _resize(picture, size)
        side_px = int(side_px * _SHRINK)


def _resize(picture: "Picture", size: Size) -> "Picture":
    from PIL.Image import Resampling  # noqa: PLC0415 - optional, and slow to load

    return picture.resize(size, Resampling.LANCZOS, reducing_gap=3.0)  # pyright: ignore[reportUnknownMemberType] - it names NumPy


def _encodings(
    picture: "Picture", file_format: str, types: tuple[str, ...]
) -> Iterator[tuple[str, bytes]]:
    """Yield the picture in one format after the other, the best for its kind first.

    What was drawn stays exact as long as that is small; what was lossy already is not blown up.
    """
    has_alpha = picture.mode == "RGBA"
    exact = _encode(picture, "PNG") if file_format in _LOSSLESS or has_alpha else b""
    if exact and len(exact) <= _MAX_PNG_BYTES and "image/png" in types:
        yield "image/png", exact
    lossy = "WEBP" if has_alpha else "JPEG"
    if _TYPES_BY_FORMAT[lossy] in types:
        for quality in _QUALITIES:
            yield _TYPES_BY_FORMAT[lossy], _encode(picture, lossy, quality=quality)
    elif "image/png" in types:
        yield "image/png", exact or _encode(picture, "PNG")


def _encode(picture: "Picture", file_format: str, **settings: int) -> bytes:
    stream = BytesIO()
    bare = picture.copy()
    bare.info.clear()  # no place, no camera, no profile: nothing but the picture
    bare.save(stream, file_format, **settings)
    return stream.getvalue()
