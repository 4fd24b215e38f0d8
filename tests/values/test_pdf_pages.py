"""The pages of a PDF, counted in its bytes."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_assembler.values.media.pdf_pages import count_pdf_pages, decode_pdf, is_locked_pdf


def pdf(*objects: bytes, root: int | None = 1, tail: bytes = b"") -> bytes:
    """Return a file of these objects, numbered from 1."""
    body = b"".join(b"%d 0 obj\n%s\nendobj\n" % (n, o) for n, o in enumerate(objects, start=1))
    trailer = b"" if root is None else b"trailer\n<< /Root %d 0 R >>\n" % root
    return b"%PDF-1.7\n" + body + trailer + tail


def packed(*objects: tuple[int, bytes]) -> bytes:
    """Return a stream that holds these objects."""
    offsets: list[bytes] = []
    body = b""
    for number, inner in objects:
        offsets.append(b"%d %d" % (number, len(body)))
        body += inner + b" "
    head = b" ".join(offsets) + b" "
    dictionary = b"<< /Type /ObjStm /N %d /First %d >>" % (len(objects), len(head))
    return dictionary + b"\nstream\n" + zlib.compress(head + body) + b"\nendstream"


CATALOG = b"<< /Type /Catalog /Pages 2 0 R >>"
PAGE = b"<< /Type /Page /Parent 2 0 R >>"


def tree(count: bytes = b"3") -> bytes:
    return b"<< /Type /Pages /Kids [] /Count " + count + b" >>"


FILES = {
    "the tree that the catalog names": (pdf(CATALOG, tree(), tree(b"9")), 3),
    "a count that stands elsewhere": (pdf(CATALOG, tree(b"3 0 R"), b"12"), 12),
    "a count elsewhere that is none": (pdf(CATALOG, tree(b"9 0 R"), PAGE), 1),
    "a changed file": (
        pdf(CATALOG, tree(), tail=b"2 0 obj\n" + tree(b"4") + b"\nendobj\n"),
        4,
    ),
    "no trailer": (pdf(CATALOG, tree(), root=None), 3),
    "no tree": (pdf(CATALOG, PAGE, PAGE), 2),
    "a catalog without pages": (pdf(b"<< /Type /Catalog >>", PAGE), 1),
    "a tree without a count": (pdf(CATALOG, b"<< /Type /Pages >>", PAGE), 1),
    "packed objects": (pdf(packed((8, CATALOG), (2, tree(b"7"))), root=8), 7),
    "a plain object wins over a packed one": (
        pdf(CATALOG, tree(b"3"), packed((2, tree(b"7")))),
        3,
    ),
    "a damaged stream": (
        pdf(CATALOG, b"<< /Type /ObjStm /First 4 >>\nstream\nxxxx", PAGE),
        1,
    ),
    "a stream of something else": (pdf(CATALOG, tree(), b"<< /A 1 >>\nstream\nxx"), 3),
    "a tree of branches": (
        pdf(CATALOG, tree(b"5"), b"<< /Type /Pages /Parent 2 0 R /Count 2 >>"),
        5,
    ),
    "no pages at all": (pdf(b"<< /A 1 >>"), None),
    "no PDF": (b"hello", None),
    "nothing": (b"", None),
}


@pytest.mark.parametrize(("file", "pages"), FILES.values(), ids=FILES.keys())
def test_pages_are_counted(file: bytes, pages: int | None) -> None:
    assert count_pdf_pages(file) == pages


def test_a_file_of_more_objects_than_any_real_one_is_left_alone() -> None:
    assert count_pdf_pages(b"1 0 obj " * 300_001) is None


def test_a_bomb_is_unpacked_in_part_only() -> None:
    bomb = zlib.compress(b" " * (40 * 1024 * 1024))
    stream = b"<< /Type /ObjStm /First 4 >>\nstream\n" + bomb
    later = packed((2, tree(b"7")))

    assert count_pdf_pages(pdf(CATALOG.replace(b"2 0", b"9 0"), stream, PAGE, later)) == 1


def test_a_lock_is_seen() -> None:
    locked = pdf(CATALOG, tree(), tail=b"trailer << /Root 1 0 R /Encrypt 9 0 R >>")

    assert is_locked_pdf(locked)
    assert is_locked_pdf(b"<< /Encrypt << /V 4 >> >>")
    assert not is_locked_pdf(pdf(CATALOG, tree()))
    assert not is_locked_pdf(b"/EncryptMetadata true")


def test_base64_is_decoded_as_far_as_it_is_any() -> None:
    assert decode_pdf("JVBERi0=") == b"%PDF-"
    assert decode_pdf("A") == b""
    assert decode_pdf("é") == b""


@given(junk=st.binary(max_size=300), at=st.integers(0, 300))
def test_damage_is_no_error(junk: bytes, at: int) -> None:
    file = pdf(CATALOG, tree(), packed((7, PAGE)))

    count = count_pdf_pages(file[:at] + junk + file[at:])

    assert count is None or count > 0
