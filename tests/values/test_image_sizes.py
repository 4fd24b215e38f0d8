import base64
import struct
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_assembler.values.media.image_sizes import Size, measure_image, read_size
from context_assembler.values.parts import Base64Source, Image, UrlSource


def png(width: int, height: int) -> bytes:
    ihdr = struct.pack(">4sIIBBBBB", b"IHDR", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + ihdr + struct.pack(">I", zlib.crc32(ihdr))


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\0\0\0"


def webp(kind: bytes, payload: bytes) -> bytes:
    return b"RIFF\0\0\0\0WEBP" + kind + struct.pack("<I", len(payload)) + payload


def lossy(width: int, height: int) -> bytes:
    return webp(b"VP8 ", b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", width, height))


def lossless(width: int, height: int) -> bytes:
    return webp(b"VP8L", b"\x2f" + struct.pack("<I", (width - 1) | (height - 1) << 14))


def extended(width: int, height: int) -> bytes:
    sides = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return webp(b"VP8X", b"\0\0\0\0" + sides)


def jpeg(width: int, height: int, *, before: bytes = b"") -> bytes:
    frame = b"\xff\xc2" + struct.pack(">HBHH", 11, 8, height, width)
    return b"\xff\xd8\xff\xe0\x00\x04ab" + before + b"\xff\xd0\xff" + frame


def jpeg_with_metadata(width: int, height: int) -> bytes:
    segment = b"\xff\xe1" + struct.pack(">H", 60_002) + b"x" * 60_000
    return jpeg(width, height, before=segment * 3)


MAKERS = {
    "png": png,
    "gif": gif,
    "lossy webp": lossy,
    "lossless webp": lossless,
    "extended webp": extended,
    "jpeg": jpeg,
    "jpeg with metadata": jpeg_with_metadata,
}

UNREADABLE = {
    "nothing": b"",
    "text": b"<svg/>",
    "a cut png": png(10, 10)[:18],
    "a cut gif": gif(10, 10)[:7],
    "a cut lossy webp": lossy(10, 10)[:27],
    "a cut lossless webp": lossless(10, 10)[:22],
    "a cut extended webp": extended(10, 10)[:28],
    "a cut jpeg": jpeg(10, 10)[:9],
    "an empty png": png(0, 10),
    "a jpeg of padding": b"\xff\xd8" + b"\xff" * 50,
}


def encoded(data: bytes) -> Image:
    return Image(source=Base64Source(media_type="image/png", data=base64.b64encode(data).decode()))


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
@pytest.mark.parametrize("size", [(1, 1), (640, 480), (3000, 4000)])
def test_the_size_is_read_from_the_header(make: Callable[[int, int], bytes], size: Size) -> None:
    assert measure_image(encoded(make(*size))) == size


@pytest.mark.parametrize("data", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_an_unreadable_header_has_no_size(data: bytes) -> None:
    assert read_size(data) is None


@given(
    data=st.binary(max_size=80), start=st.sampled_from([b"", *(m(9, 9) for m in MAKERS.values())])
)
def test_no_header_makes_reading_fail(data: bytes, start: bytes) -> None:
    size = read_size(start[: len(data) % (len(start) + 1)] + data)

    assert size is None or min(size) > 0


def test_a_stated_size_is_believed() -> None:
    image = Image(source=UrlSource(url="https://x/y.png"), width_px=10, height_px=20)

    assert measure_image(image) == (10, 20)


def test_a_data_url_is_read_like_base64() -> None:
    data = base64.b64encode(png(30, 40)).decode()
    image = Image(source=UrlSource(url=f"data:image/png;base64,{data}"))

    assert measure_image(image) == (30, 40)
