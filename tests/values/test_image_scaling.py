"""Pictures of every kind are brought within bounds, and broken ones break nothing."""

import random
import struct
import warnings
from collections.abc import Callable
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from context_assembler.values.media.image_scaling import (
    ImageBounds,
    ScaledPicture,
    UnscalableError,
    scale_picture,
)
from context_assembler.values.media.image_sizes import Size
from tests.values.test_image_sizes import png

TYPES = ("image/png", "image/jpeg", "image/webp")
SMALL = ImageBounds(types=TYPES, max_side_px=200, max_bytes=100_000, has_animations=False)
TURNED = Image.Exif()
TURNED[0x0112] = 6  # the camera was held upright


def encode(picture: Image.Image, file_format: str, **options: Any) -> bytes:
    stream = BytesIO()
    picture.save(stream, file_format, **options)
    return stream.getvalue()


def drawn(mode: str = "RGB", size: Size = (400, 100), colour: Any = 7) -> Image.Image:
    return Image.new(mode, size, colour)


def noise(size: Size) -> Image.Image:
    """Return a picture that no format makes small, the same in every run."""
    return Image.frombytes("RGB", size, random.Random(4).randbytes(size[0] * size[1] * 3))


def moving(file_format: str) -> bytes:
    frames = [drawn("RGB", (40, 30), (shade, 0, 0)) for shade in (0, 100, 200)]
    return encode(frames[0], file_format, save_all=True, append_images=frames[1:])


def scaled(content: bytes, bounds: ImageBounds = SMALL) -> ScaledPicture:
    found = scale_picture(content, bounds=bounds)
    assert found is not None
    return found


def opened(picture: ScaledPicture) -> Image.Image:
    return Image.open(BytesIO(picture.content))


KINDS: dict[str, tuple[Callable[[], bytes], str, str]] = {
    "a drawing stays exact": (lambda: encode(drawn(), "PNG"), "image/png", "RGB"),
    "a photograph stays one": (lambda: encode(drawn(), "JPEG"), "image/jpeg", "RGB"),
    "grey stays grey": (lambda: encode(drawn("L"), "PNG"), "image/png", "L"),
    "ink becomes light": (lambda: encode(drawn("CMYK", colour=0), "JPEG"), "image/jpeg", "RGB"),
    "a palette is resolved": (lambda: encode(drawn("P"), "PNG"), "image/png", "RGB"),
    "black and white": (lambda: encode(drawn("1"), "PNG"), "image/png", "L"),
    "sixteen bits of grey": (lambda: encode(drawn("I;16", colour=40_000), "PNG"), "image/png", "L"),
    "numbers that are no light": (lambda: encode(drawn("F"), "TIFF"), "image/png", "L"),
    "what shines through stays": (
        lambda: encode(drawn("RGBA", colour=(1, 2, 3, 90)), "PNG"),
        "image/png",
        "RGBA",
    ),
    "what shines through a lossy one stays": (
        lambda: encode(drawn("RGBA", colour=(1, 2, 3, 90)), "WEBP"),
        "image/png",
        "RGBA",
    ),
    "what only could shine through does not": (
        lambda: encode(drawn("RGBA", colour=(1, 2, 3, 255)), "PNG"),
        "image/png",
        "RGB",
    ),
    "a bitmap": (lambda: encode(drawn(), "BMP"), "image/png", "RGB"),
    "a scan": (lambda: encode(drawn(), "TIFF"), "image/png", "RGB"),
    "a photograph of a newer format": (lambda: encode(drawn(), "AVIF"), "image/jpeg", "RGB"),
}


@pytest.mark.parametrize(("make", "media_type", "mode"), KINDS.values(), ids=KINDS.keys())
def test_a_picture_is_scaled_to_the_side_and_keeps_its_kind(
    make: Callable[[], bytes], media_type: str, mode: str
) -> None:
    found = scaled(make())

    assert (found.size_px, found.old_size_px) == ((200, 50), (400, 100))
    assert (found.media_type, opened(found).mode, opened(found).size) == (
        media_type,
        mode,
        (200, 50),
    )


def test_sixteen_bits_keep_their_brightness() -> None:
    found = scaled(encode(drawn("I;16", colour=0x8000), "PNG"))

    assert opened(found).getpixel((0, 0)) == 0x80


def test_a_picture_within_the_bounds_stays_as_it_is() -> None:
    assert scale_picture(encode(drawn(size=(200, 200)), "PNG"), bounds=SMALL) is None


@pytest.mark.parametrize("file_format", ["JPEG", "TIFF", "PNG"])
def test_a_picture_is_turned_upright(file_format: str) -> None:
    found = scaled(encode(drawn(), file_format, exif=TURNED))

    assert (found.size_px, found.old_size_px) == ((50, 200), (100, 400))


def test_nothing_is_told_of_place_and_camera() -> None:
    found = scaled(encode(drawn(), "JPEG", exif=TURNED, comment=b"at home"))

    assert not opened(found).getexif()
    assert b"at home" not in found.content


@pytest.mark.parametrize("file_format", ["GIF", "WEBP"])
def test_of_what_moves_the_first_frame_stays(file_format: str) -> None:
    found = scaled(moving(file_format))
    pixel: Any = opened(found).convert("RGB").getpixel((0, 0))

    assert found.was_animated
    assert max(pixel) < 10


def test_what_may_move_goes_on_moving() -> None:
    bounds = ImageBounds(types=("image/gif",))

    assert scale_picture(moving("GIF"), bounds=bounds) is None


@pytest.mark.parametrize("file_format", ["PNG", "JPEG", "BMP"])
def test_the_same_bytes_give_the_same_bytes(file_format: str) -> None:
    content = encode(noise((300, 200)), file_format)

    assert scaled(content) == scaled(content)


def test_a_large_drawing_that_is_a_photograph_becomes_one() -> None:
    bounds = ImageBounds(types=TYPES, max_side_px=1_000, max_bytes=2_000_000)

    found = scaled(encode(noise((1_200, 1_000)), "BMP"), bounds)

    assert (found.media_type, found.size_px) == ("image/jpeg", (1_000, 833))


def test_thirty_megabytes_become_what_fits() -> None:
    content = encode(noise((4_000, 2_600)), "BMP")
    bounds = ImageBounds(types=TYPES, max_side_px=2_000, max_bytes=5_000_000)

    found = scaled(content, bounds)

    assert len(content) > 30_000_000
    assert found.size_px == (2_000, 1_300)
    assert len(found.content) <= 5_000_000


def test_what_is_still_too_large_gets_smaller_until_it_fits() -> None:
    bounds = ImageBounds(types=TYPES, max_bytes=10_000)

    found = scaled(encode(noise((600, 400)), "PNG"), bounds)

    assert len(found.content) <= 10_000
    assert found.size_px[0] < 600
    assert found.old_size_px == (600, 400)


def test_without_a_lossy_format_a_drawing_gets_smaller() -> None:
    bounds = ImageBounds(types=("image/png",), max_bytes=20_000)

    found = scaled(encode(noise((300, 200)), "JPEG"), bounds)

    assert found.media_type == "image/png"
    assert len(found.content) <= 20_000


def test_alpha_that_is_too_large_for_a_drawing_stays_in_a_lossy_format() -> None:
    picture = noise((1_000, 900))
    picture.putalpha(90)
    bounds = ImageBounds(types=TYPES, max_bytes=3_000_000)

    found = scaled(encode(picture, "TIFF"), bounds)

    assert (found.media_type, opened(found).mode) == ("image/webp", "RGBA")


BROKEN: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "cannot be read"),
    "text": (b"<svg xmlns='x'/>" * 9, "cannot be read"),
    "half a picture": (encode(noise((300, 200)), "PNG")[:9_000], "cannot be read"),
    "half a photograph": (encode(noise((300, 200)), "JPEG")[:9_000], "cannot be read"),
    "a header alone": (png(300, 300), "cannot be read"),
    "a header that promises too much": (png(60_000, 60_000), "3,600,000,000 pixels are too many"),
    "a bomb": (encode(Image.new("1", (20_000, 20_000)), "PNG"), "400,000,000 pixels"),
    "a header that states less than there is": (
        struct.pack(">8sI4sII", b"\x89PNG\r\n\x1a\n", 13, b"IHDR", 300, 300)
        + encode(drawn(), "PNG")[24:],
        "cannot be read",
    ),
}


@pytest.mark.parametrize(("content", "reason"), BROKEN.values(), ids=BROKEN.keys())
def test_what_cannot_be_scaled_says_why(content: bytes, reason: str) -> None:
    with pytest.raises(UnscalableError, match=reason):
        scale_picture(content, bounds=SMALL)


def test_a_bomb_without_a_plain_header_is_not_unpacked() -> None:
    content = encode(Image.new("1", (9_600, 9_600)), "TIFF", compression="group4")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(UnscalableError, match="92,160,000 pixels are too many"):
            scale_picture(content, bounds=SMALL)


def test_what_no_size_makes_fit_is_told() -> None:
    with pytest.raises(UnscalableError, match="small enough"):
        scale_picture(encode(drawn(), "PNG"), bounds=ImageBounds(types=TYPES, max_bytes=10))


def test_what_no_format_takes_is_told() -> None:
    with pytest.raises(UnscalableError, match="small enough"):
        scale_picture(encode(drawn(), "PNG"), bounds=ImageBounds(types=("image/gif",)))


_WHOLE = [encode(drawn(size=(80, 60)), name) for name in ("PNG", "JPEG", "GIF", "WEBP", "BMP")]


@settings(max_examples=60, deadline=None)
@given(whole=st.sampled_from(_WHOLE), at=st.integers(0, 3_000), more=st.binary(max_size=40))
def test_no_bytes_raise_anything_else(whole: bytes, at: int, more: bytes) -> None:
    place = at % len(whole)
    broken = whole[:place] + more + whole[place + len(more) :]

    try:
        found = scale_picture(broken, bounds=ImageBounds(types=TYPES, max_side_px=50))
    except UnscalableError:
        return
    assert found is None or max(found.size_px) <= 50
