"""How many pages a PDF has, and whether it is locked: told from its bytes without rendering it."""

import binascii
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice, pairwise
from typing import Final

_OBJECT: Final = re.compile(rb"(?<!\d)(\d{1,10})[ \t\r\n]+\d{1,5}[ \t\r\n]+obj\b")
_REFERENCE: Final = rb"[ \t\r\n]*(\d{1,10})[ \t\r\n]+\d{1,5}[ \t\r\n]+R\b"
_ROOT: Final = re.compile(rb"/Root" + _REFERENCE)
_PAGES: Final = re.compile(rb"/Pages" + _REFERENCE)
_COUNT_ELSEWHERE: Final = re.compile(rb"/Count" + _REFERENCE)
_COUNT: Final = re.compile(rb"/Count[ \t\r\n]*(\d{1,9})(?!\d)")
_IS_TREE: Final = re.compile(rb"/Type[ \t\r\n]*/Pages(?![A-Za-z])")
_IS_PAGE: Final = re.compile(rb"/Type[ \t\r\n]*/Page(?![A-Za-z])")
_IS_PACKED: Final = re.compile(rb"/Type[ \t\r\n]*/ObjStm(?![A-Za-z])")
_FIRST: Final = re.compile(rb"/First[ \t\r\n]+(\d{1,9})")
_ENCRYPT: Final = re.compile(rb"/Encrypt(?:" + _REFERENCE + rb"|[ \t\r\n]*<<)")
_STREAM: Final = re.compile(rb"stream\r?\n")

_MAX_OBJECTS: Final = 300_000
_OBJECT_BYTES: Final = 64 * 1024  # of one object's own dictionary, which is all that is looked at
_UNPACKED_BYTES: Final = 32 * 1024 * 1024  # of all packed objects together
_CHUNK_BYTES: Final = 1024 * 1024


def decode_pdf(encoded: str) -> bytes:
    """Return the bytes behind base64 text; none where it is not base64."""
    try:
        return binascii.a2b_base64(encoded)
    except (binascii.Error, ValueError):
        return b""


def count_pdf_pages(pdf: bytes) -> int | None:
    """Return the number of pages; `None` where the bytes do not tell, as in an encrypted file.

    The page tree's own count is believed; without it the pages are counted. Of an object that was
    changed later, the latest version holds. Bounded in time and memory, and never an error.

    Source:
        ISO 32000-1:2008, 7.5.4 to 7.5.8 and 7.7.3
        https://opensource.adobe.com/dc-acrobat-sdk-docs/pdfstandards/PDF32000_2008.pdf
        (read 2026-11-27)
    """
    if not pdf:
        return None
    spans = list(islice(_spans(pdf), _MAX_OBJECTS))
    if len(spans) == _MAX_OBJECTS:
        return None
    objects = {number: body for number, body, _ in spans}
    objects.update(_packed_objects(pdf, spans))
    for tree in _trees(pdf, objects):
        count = _count_of(tree, objects)
        if count:
            return count
    return sum(1 for body in objects.values() if _IS_PAGE.search(body)) or None


def is_locked_pdf(pdf: bytes) -> bool:
    """Whether the file is encrypted, with a password or without one."""
    return _ENCRYPT.search(pdf) is not None


def _spans(pdf: bytes) -> Iterator[tuple[int, bytes, int]]:
    """Yield number and dictionary of each object, and where its stream begins (0: it has none)."""
    for match, following in pairwise(chain(_OBJECT.finditer(pdf), [None])):
        assert match is not None
        end = len(pdf) if following is None else following.start()
        body = pdf[match.end() : min(end, match.end() + _OBJECT_BYTES)]
        stream = _STREAM.search(body)
        if stream is None:
            yield int(match[1]), body, 0
        else:
            yield int(match[1]), body[: stream.start()], match.end() + stream.end()


def _packed_objects(
    pdf: bytes, spans: Sequence[tuple[int, bytes, int]]
) -> Iterator[tuple[int, bytes]]:
    """Yield the objects inside compressed streams; those that a plain one replaces stay out."""
    room_bytes = _UNPACKED_BYTES
    plain = {number for number, _, _ in spans}
    for _, body, start in spans:
        first = _FIRST.search(body)
        if not start or first is None or not _IS_PACKED.search(body):
            continue
        unpacked = _unpack(pdf, start, room_bytes)
        room_bytes -= len(unpacked)
        for number, inner in _split(unpacked, int(first[1])):
            if number not in plain:
                yield number, inner


def _unpack(pdf: bytes, start: int, room_bytes: int) -> bytes:
    """Return what the compressed stream holds, as far as there is room for it."""
    unpacking = zlib.decompressobj()
    unpacked = b""
    packed = memoryview(pdf)[start:]
    for place in range(0, len(packed), _CHUNK_BYTES):
        if unpacking.eof or len(unpacked) >= room_bytes:
            break
        try:
            chunk = packed[place : place + _CHUNK_BYTES]
            unpacked += unpacking.decompress(chunk, room_bytes - len(unpacked))
        except zlib.error:
            break
    return unpacked


def _split(unpacked: bytes, first: int) -> Iterator[tuple[int, bytes]]:
    numbers = [int(word) for word in unpacked[:first].split() if word.isdigit()]
    ids, offsets = numbers[::2], numbers[1::2]
    ends = [*offsets[1:], len(unpacked) - first]
    for number, offset, end in zip(ids, offsets, ends, strict=False):
        yield number, unpacked[first + offset : first + end]


def _trees(pdf: bytes, objects: Mapping[int, bytes]) -> Iterator[bytes]:
    """Yield the roots of page trees, the one that the file names first."""
    for root in reversed(_ROOT.findall(pdf)):
        catalog = objects.get(int(root), b"")
        if pages := _PAGES.search(catalog):
            yield objects.get(int(pages[1]), b"")
    yield from (
        body for body in objects.values() if _IS_TREE.search(body) and b"/Parent" not in body
    )


def _count_of(tree: bytes, objects: Mapping[int, bytes]) -> int | None:
    if elsewhere := _COUNT_ELSEWHERE.search(tree):
        digits = objects.get(int(elsewhere[1]), b"").split()[:1]
        return int(digits[0]) if digits and digits[0].isdigit() else None
    count = _COUNT.search(tree)
    return int(count[1]) if count else None
