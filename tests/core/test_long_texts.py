"""Texts of any kind take work in proportion to their length: twice the text, twice the calls."""

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from context_assembler import (
    AssemblerConfig,
    ContextAssembler,
    ContextOverflowError,
    SessionEvent,
    Text,
    ToolCall,
    assistant_event,
    tool_result_event,
    user_event,
)
from context_assembler.history import mask
from context_assembler.texts import escape_notes, escape_tag, one_line, shorten_text
from tests.core.sessions import PROVIDERS, stored

SIZE = 3_000
MASKED: Mapping[str, Any] = {
    "safety": {"masks_secrets_in": ["user", "tool_results"]},
    "truncation": {"max_result_tokens": 300, "max_user_tokens": 300},
}
TEXTS: dict[str, Callable[[int], str]] = {
    "marks on one letter": lambda n: "a" + "\u0301\u0316" * (n // 2),
    "joined emoji": lambda n: "\U0001f468\u200d" * (n // 2),
    "flags": lambda n: "\U0001f1e6" * n,
    "no spaces": lambda n: "abcdefghij" * (n // 10),
    "one letter": lambda n: "a" * n,
    "base64": lambda n: "QWxhZGRpbjpv" * (n // 12),
    "short lines": lambda n: "a\n" * (n // 2),
    "empty lines": lambda n: "\n" * n,
    "blanks": lambda n: " " * n,
    "angles": lambda n: "<" * n,
    "an angle and blanks": lambda n: "</" + " " * n,
    "open tags": lambda n: "<system-reminder" * (n // 16),
    "backslashes": lambda n: "\\" * n,
    "escapes": lambda n: "\x1b[" * (n // 2),
    "open settings": lambda n: "password = " * (n // 11),
    "keys": lambda n: "sk-a1b2c3d4e5f6g7h8i9j0 " * (n // 24),
    "URLs": lambda n: "://a:" * (n // 5),
    "commands": lambda n: "curl -u " * (n // 8),
    "brackets": lambda n: "[" * (n // 2) + "]" * (n // 2),
    "JSON": lambda n: json.dumps({f"key{i}": [i] for i in range(n // 12)}),
    "symbols": lambda n: "\u2500" * n,
}


def calls_of(act: Callable[[], object]) -> int:
    """Return how many functions are called meanwhile."""
    count = 0

    def note(_frame: object, event: str, _given: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    act()  # what is imported, compiled and remembered once
    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
    return count


def assert_linear(act: Callable[[int], object]) -> None:
    once, twice = calls_of(lambda: act(SIZE)), calls_of(lambda: act(2 * SIZE))

    assert twice <= 3 * once + 1_000  # a square would be four times as much


def assemble(provider: str, *events: SessionEvent, **options: Any) -> None:
    assembler = ContextAssembler(stored(*events), config=AssemblerConfig(**MASKED))
    try:
        context = assembler.assemble_sync("s", model=PROVIDERS[provider], **options)
    except ContextOverflowError:  # one line of it may be longer than all there is room for
        return
    context.to_request(provider)
    assert context.check() == []
    assert [*context.report.entries]


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
@pytest.mark.parametrize("provider", ["anthropic", "openai_chat"])
def test_assembling_takes_work_in_proportion(provider: str, text: Callable[[int], str]) -> None:
    read = assistant_event((ToolCall(call_id="c1", name="read"),))

    def act(size: int) -> None:
        said, result = user_event(text(size)), tool_result_event("c1", text(size))
        assemble(provider, said, read, result, user_event("go"), max_tokens=1_000)

    assert_linear(act)


ARGUMENTS: dict[str, Callable[[int], Mapping[str, Any]]] = {
    "keys": lambda n: {f"key{i}": i for i in range(n)},
    "a list": lambda n: {"a": list(range(n))},
    "texts": lambda n: {"a": ["b"] * n},
    "a long text": lambda n: {"a": "\u0301\u0316" * n},
}


@pytest.mark.parametrize("arguments", ARGUMENTS.values(), ids=ARGUMENTS.keys())
@pytest.mark.parametrize("provider", PROVIDERS)
def test_large_arguments_take_work_in_proportion(
    provider: str, arguments: Callable[[int], Mapping[str, Any]]
) -> None:
    def act(size: int) -> None:
        call = ToolCall(call_id="c1", name="read", arguments=arguments(size // 4))
        result = tool_result_event("c1", "ok")
        events = (user_event("hi"), assistant_event((call,)), result, user_event("go"))
        assemble(provider, *events, max_context_tokens=8_000, max_tokens=1_000)

    assert_linear(act)


def test_many_parts_take_work_in_proportion() -> None:
    def act(size: int) -> None:
        parts = tuple(Text(f"t{number}") for number in range(size // 8))
        assemble("anthropic", SessionEvent(type="user", parts=parts), max_tokens=1_000)

    assert_linear(act)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_a_text_is_counted_a_bounded_number_of_times_to_be_shortened(
    text: Callable[[int], str],
) -> None:
    def counted(size: int) -> int:
        seen = 0

        def count(piece: str) -> int:
            nonlocal seen
            seen += len(piece)
            return -(-len(piece) // 3)

        shorten_text(text(size), max_tokens=200, count_text=count)
        return seen

    assert counted(2 * SIZE) <= 2.5 * counted(SIZE) + 10_000


@pytest.mark.parametrize("act", [mask, escape_notes, one_line, lambda t: escape_tag("skill", t)])
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_a_text_is_cleaned_to_its_end(
    act: Callable[[str], object], text: Callable[[int], str]
) -> None:
    assert_linear(lambda size: act(text(10 * size)))
