"""Bytes and addresses by what they say of themselves."""

import base64

import pytest

from context_assembler.values.media.media_claims import (
    is_base64,
    object_to_inlined,
    object_to_type,
    scheme_of,
    type_of_bytes,
)
from tests.providers.drafts import PIXEL

PDF = base64.b64encode(b"%PDF-1.7 the rest").decode()
LATE_PDF = base64.b64encode(b"\n" * 1000 + b"%PDF-1.7").decode()


@pytest.mark.parametrize(
    ("encoded", "told"),
    [
        (PIXEL, "image/png"),
        ("/9j/AAAA", "image/jpeg"),
        (PDF, "application/pdf"),
        (LATE_PDF, "application/pdf"),
        ("QUJD", ""),
        ("%%%", ""),
        ("", ""),
    ],
)
def test_bytes_tell_their_type(encoded: str, told: str) -> None:
    assert type_of_bytes(encoded) == told


@pytest.mark.parametrize("encoded", ["", "QUJD", "QQ==", "Q-_Q", "QU\nJD\n", "QQ==\n"])
def test_is_base64(encoded: str) -> None:
    assert is_base64(encoded)


@pytest.mark.parametrize("encoded", ["%%%", "data:x", "QQ==QQ", "QQ===", "Größe"])
def test_is_no_base64(encoded: str) -> None:
    assert not is_base64(encoded)


@pytest.mark.parametrize(
    ("media_type", "encoded", "reason"),
    [
        ("image/png", PIXEL, None),
        ("image/jpg", "/9j/AAAA", None),
        ("text/plain", "QUJD", None),
        ("audio/mpeg", "QUJD", None),
        ("application/pdf", PDF, None),
        ("image/jpeg", PIXEL, "its bytes are image/png, not image/jpeg"),
        ("application/pdf", PIXEL, "its bytes are image/png, not application/pdf"),
        ("application/pdf", "QUJD", "its bytes are no PDF"),
        ("", PIXEL, "its bytes are image/png, not said to be so"),
    ],
)
def test_bytes_are_held_against_their_type(
    media_type: str, encoded: str, reason: str | None
) -> None:
    assert object_to_type(media_type, encoded) == reason


@pytest.mark.parametrize(
    ("url", "is_wrong"),
    [
        (f"data:image/png;base64,{PIXEL}", False),
        (f"data:image/jpeg;base64,{PIXEL}", True),
        ("data:image/png;base64,%%%", True),
        ("https://example.com/a.png", False),
    ],
)
def test_a_data_url_holds_what_it_says(url: str, is_wrong: bool) -> None:
    assert (object_to_inlined(url) is not None) == is_wrong


@pytest.mark.parametrize(
    ("url", "scheme"),
    [("HTTPS://a.org", "https"), (" gs://a", "gs"), ("file:///a", "file"), ("a/b:c", "")],
)
def test_an_address_has_a_scheme(url: str, scheme: str) -> None:
    assert scheme_of(url) == scheme
