"""Width and height of images, as stated or as their headers say."""

import struct
from typing import Final, TypeAlias

from context_assembler.values.media.data_urls import decode_base64
from context_assembler.values.parts import Base64Source, Image

Size: TypeAlias = tuple[int, int]

_HEADER_CHARS: Final = 8_192  # base64; enough for all but JPEGs with large metadata
_JPEG_CHARS: Final = 1_048_576


def measure_image(image: Image) -> Size | None:
    """Return width and height in pixels, as stated or read from the header; `None`: unknown."""
    if image.width_px and image.height_px:
        return image.width_px, image.height_px
    return measure_base64(image.source.data) if isinstance(image.source, Base64Source) else None


def measure_base64(encoded: str) -> Size | None:
    """Return the size that the header of an image in base64 states; `None`: unknown."""
    header = decode_base64(encoded[:_HEADER_CHARS])
    size = read_size(header)
    if size is None and header.startswith(b"\xff\xd8") and len(encoded) > _HEADER_CHARS:
        size = read_size(decode_base64(encoded[:_JPEG_CHARS]))
    return size


def read_size(header: bytes) -> Size | None:
    """Return the size that a PNG, GIF, WebP or JPEG header states; `None` for anything else."""
    try:
        if header.startswith(b"\x89PNG\r\n\x1a\n"):
            return _positive(struct.unpack_from(">II", header, 16))
        if header.startswith((b"GIF87a", b"GIF89a")):
            return _positive(struct.unpack_from("<HH", header, 6))
        if header[:4] == b"RIFF" and header[8:12] == b"WEBP":
            return _positive(_webp_size(header))
        if header.startswith(b"\xff\xd8"):
            return _positive(_jpeg_size(header))
    except (struct.error, IndexError):
        return None
    return None


def _positive(size: tuple[int, ...]) -> Size | None:
    width, height = size
    return (width, height) if width > 0 and height > 0 else None


def _webp_size(header: bytes) -> Size:
    kind = header[12:16]
    if kind == b"VP8X":
        width = int.from_bytes(header[24:27], "little")
        height = int.from_bytes(header[27:30], "little")
        return (width + 1, height + 1) if len(header) >= 30 else (0, 0)
    if kind == b"VP8L":
        (bits,) = struct.unpack_from("<I", header, 21)
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    width, height = struct.unpack_from("<HH", header, 26)
    return width & 0x3FFF, height & 0x3FFF


def _jpeg_size(header: bytes) -> Size:
    position = 2
    while True:
        while header[position] != 0xFF:
            position += 1
        while header[position] == 0xFF:
            position += 1
        marker = header[position]
        position += 1
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack_from(">HH", header, position + 3)
            return width, height
        if marker not in (0x01, *range(0xD0, 0xD9)):
            (length,) = struct.unpack_from(">H", header, position)
            position += max(2, length)
