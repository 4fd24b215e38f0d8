"""Numbers that JSON does not have: one clear error, whichever provider is asked."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest

from context_assembler import InvalidParameterError, NotJsonError
from context_assembler.providers import PROVIDERS
from context_assembler.values.draft import Draft
from context_assembler.values.messages import Message, Role
from context_assembler.values.parts import Opaque, Part, Text, Thinking, ToolCall, ToolResult
from context_assembler.values.tools import ToolSpec
from context_assembler.values.wire import object_of, plain_json
from tests.providers.drafts import GEMINI_4, GPT_4O, GPT_6_SOL, OPUS, draft

NAN, ENDLESS = float("nan"), float("inf")
LIMITS = {
    "anthropic": OPUS,
    "openai_chat": GPT_4O,
    "openai_responses": GPT_6_SOL,
    "gemini": GEMINI_4,
}
SCHEMA = {"type": "object", "properties": {"a": {"type": "number", "maximum": ENDLESS}}}
every_provider = pytest.mark.parametrize("provider", PROVIDERS)


def said(*parts: Part) -> Draft:
    user = Message(role="user", parts=(Text("Go"),))
    answer = Message(role="tool", parts=(ToolResult(call_id="c1", content=(Text("ok"),)),))
    reply = Message(role="assistant", parts=parts)
    calls = any(isinstance(part, ToolCall) for part in parts)
    return draft([user, reply, answer if calls else user])


def with_tool(tool: ToolSpec) -> Draft:
    return replace(said(Text("So.")), tools=(tool,))


# Where a number can stand that somebody put there by hand, by the provider that is asked.
PLACES: dict[str, Callable[[str], Draft]] = {
    "a call": lambda _: said(ToolCall(call_id="c1", name="f", arguments={"x": [NAN]})),
    "a schema": lambda _: with_tool(ToolSpec(name="t", description="d", input_schema=SCHEMA)),
    "a tool of the server's": lambda provider: with_tool(
        ToolSpec(name="t", native_specs={provider: {"type": "t", "name": "t", "x": -ENDLESS}})
    ),
}
# A block that goes back verbatim.
BLOCKS: dict[str, dict[str, Any]] = {
    "anthropic": {"type": "text", "text": "a", "x": NAN},
    "openai_chat": {
        "type": "input_audio",
        "input_audio": {"data": "UklG", "format": "wav", "x": NAN},
    },
    "openai_responses": {"type": "compaction", "encrypted_content": "x", "id": NAN},
    "gemini": {"executable_code": {"language": "PYTHON", "code": NAN}},
}


@every_provider
@pytest.mark.parametrize("make", PLACES.values(), ids=PLACES.keys())
def test_a_number_that_json_has_not_is_an_error(
    make: Callable[[str], Draft], provider: str
) -> None:
    made = replace(make(provider), limits=LIMITS[provider])

    with pytest.raises(NotJsonError, match="JSON has no such number") as caught:
        PROVIDERS[provider].render(made)

    assert "finite" in caught.value.remedy
    assert caught.value.number in (ENDLESS, -ENDLESS) or caught.value.number != caught.value.number


@every_provider
def test_nor_does_a_block_that_goes_back_verbatim_carry_one(provider: str) -> None:
    part = Opaque(provider=provider, block=BLOCKS[provider], text="a")
    role: Role = "user" if provider == "openai_chat" else "assistant"
    talk = (
        Message(role="user", parts=(Text("Go"),)),
        Message(role=role, parts=(part,)),
        Message(role="user", parts=(Text("On"),)),
    )
    made = draft(talk, limits=LIMITS[provider])

    with pytest.raises(NotJsonError):
        PROVIDERS[provider].render(made)


SIGNED: Final = {"type": "thinking", "thinking": "", "signature": "s", "x": NAN}


@pytest.mark.parametrize("provider", ["anthropic", "gemini"])
def test_signed_thoughts_are_no_exception(provider: str) -> None:
    thought = Thinking(provider=provider, block=SIGNED)
    made = replace(said(thought, Text("So.")), limits=LIMITS[provider])

    with pytest.raises(NotJsonError):
        PROVIDERS[provider].render(made)


@pytest.mark.parametrize("value", [NAN, ENDLESS])
@pytest.mark.parametrize("name", ["max_tokens", "temperature", "top_p", "top_k", "thinking_budget"])
def test_no_parameter_is_one(name: str, value: float) -> None:
    asked: dict[str, Any] = {name: value}

    with pytest.raises(InvalidParameterError, match=f"{name} must be a finite number"):
        draft(**asked)


def test_an_integer_of_any_length_is_finite() -> None:
    assert draft(max_tokens=10**400).parameters.max_tokens == 10**400


def test_replies_are_read_with_them_however_deep() -> None:
    deep: Any = NAN
    for _ in range(3_000):
        deep = [deep]

    assert object_of({"x": NAN, "deep": deep}) is not None
    with pytest.raises(NotJsonError):
        plain_json(deep)
