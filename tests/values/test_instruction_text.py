"""Encodings and front matter of instruction files."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_assembler.values.texts.instruction_text import decode_text, split_front_matter

DEEP = "a: " + "[" * 40 + "]" * 40

FRONT: dict[str, tuple[str, Any, str, int]] = {
    "none": ("Hello\n---\n", {}, "Hello\n---\n", 0),
    "empty": ("---\n---\nHello", {}, "Hello", 0),
    "closed by dots": ("---\na: 1\n...\nHello", {"a": 1}, "Hello", 0),
    "never closed": ("---\na: 1\nHello", {}, "---\na: 1\nHello", 0),
    "a rule and prose": ("---\nHello\n---\nyou", {}, "---\nHello\n---\nyou", 0),
    "prose that YAML refuses": (
        "---\na: b: c\nIt's me\n---\nx",
        {},
        "---\na: b: c\nIt's me\n---\nx",
        0,
    ),
    "a colon too many": (
        "---\nname: 'x'\ndescription: use when: needed\n  more\n---\nHello",
        {"name": "x", "description": "use when: needed"},
        "Hello",
        1,
    ),
    "a dangerous tag": (
        "---\na: !!python/object:os.system x\n---\nHello",
        {"a": "!!python/object:os.system x"},
        "Hello",
        1,
    ),
    "nested too deeply": (f"---\n{DEEP}\n---\nx", {"a": DEEP[3:]}, "x", 1),
    "an impossible date": ("---\na: 2026-13-45\n---\nx", {"a": "2026-13-45"}, "x", 1),
    "bytes and sets": ("---\na: !!binary aGk=\n---\nx", {"a": "b'hi'"}, "x", 0),
}


@pytest.mark.parametrize(("text", "metadata", "rest", "warnings"), FRONT.values(), ids=FRONT.keys())
def test_front_matter_is_taken_off_and_nothing_else(
    text: str, metadata: Any, rest: str, warnings: int
) -> None:
    read = split_front_matter(text)

    assert read.metadata == metadata
    assert read.text == rest
    assert len(read.warnings) == warnings


def test_front_matter_without_end_in_sight_is_text() -> None:
    text = "---\n" + "a: b\n" * 20_000 + "---\nx"

    assert split_front_matter(text).text == text


@given(st.binary(max_size=60))
def test_any_bytes_decode(data: bytes) -> None:
    decoded = decode_text(data)

    assert "\r" not in decoded.text
    assert "\0" not in decoded.text
    decoded.text.encode()


@given(st.text(max_size=40))
def test_sound_text_decodes_to_itself(text: str) -> None:
    plain = text.replace("\0", "").replace("\r", "").replace("\ufeff", "")

    assert decode_text(plain.encode()).text == plain
