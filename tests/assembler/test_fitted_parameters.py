"""What a provider does not take of the options is in the report, whether or not it was rendered."""

from typing import Any

import pytest

from context_assembler import AssemblerConfig, ContextAssembler
from context_assembler.errors import UnsupportedRequestError


def ping(host: str) -> str:
    """See whether a host answers."""
    return host


async def test_an_option_that_the_provider_cannot_express_is_reported_once() -> None:
    assembler = ContextAssembler(tools=[ping])
    await assembler.add_user("s", "Is it up?")
    choice = {"mode": "auto", "allowed": ["ping"]}

    context = await assembler.assemble("s", model="claude-opus-5-5", tool_choice=choice)
    rules = [entry.rule for entry in context.report.entries]
    context.to_request()
    rendered = await assembler.assemble("s", model="claude-opus-5-5", tool_choice=choice)

    assert rules.count("parameter.allowed_tools") == 1
    assert "allowed_tools" in str(context.report.warnings)
    assert [entry.rule for entry in rendered.report.entries] == rules


LETTER = {"type": "object", "properties": {"words": {"type": "string", "maxLength": 900}}}


@pytest.mark.parametrize("model", ["claude-opus-5-5", "gpt-4.1", "gpt-6.2-sol", "gemini-4-argon"])
async def test_the_schema_of_a_reply_is_sent_and_counted(model: str) -> None:
    assembler = ContextAssembler()
    await assembler.add_user("s", "Write a letter.")

    plain = await assembler.assemble("s", model=model)
    asked = await assembler.assemble("s", model=model, response_format=LETTER)

    rows = {row.name: row.tokens for row in asked.report.ledger.rows}
    assert rows["response format"] > 10
    before, after = plain.report.ledger.used_tokens, asked.report.ledger.used_tokens
    assert after - before == rows["response format"]
    assert "words" in str(asked.to_request())
    assert not asked.check().refused


async def test_plain_text_wins_over_the_schema_of_a_lower_layer() -> None:
    assembler = ContextAssembler(config=AssemblerConfig(defaults={"response_format": LETTER}))
    await assembler.add_user("s", "Write a letter.")

    context = await assembler.assemble("s", model="gpt-4.1", response_format={"type": "text"})

    assert "response_format" not in context.to_openai_chat()
    assert "response format" not in {row.name for row in context.report.ledger.rows}


async def test_a_schema_that_cannot_be_enforced_is_changed_with_an_entry_or_refused() -> None:
    assembler = ContextAssembler()
    await assembler.add_user("s", "Write a letter.")
    schemas = {
        "claude-opus-5-5": LETTER,
        "gpt-4.1": {"type": "object", "additionalProperties": {"type": "string"}},
    }
    for model, schema in schemas.items():
        context = await assembler.assemble("s", model=model, response_format=schema)
        rules = [entry.rule for entry in context.report.entries]
        assert rules.count("parameter.response_format") == 1

    for given in (schemas["gpt-4.1"], {"type": "json_object"}):
        context = await assembler.assemble("s", model="claude-opus-5-5", response_format=given)
        with pytest.raises(UnsupportedRequestError):
            context.to_anthropic()


_TEXT = {"type": "string"}
STRICT: dict[str, tuple[dict[str, Any], bool]] = {
    "all are required": ({"a": _TEXT}, True),
    "one may be null": ({"a": _TEXT, "b": {"anyOf": [_TEXT, {"type": "null"}]}}, True),
    "one may be null in short": ({"a": _TEXT, "b": {"type": ["string", "null"]}}, True),
    "one has a default": ({"a": _TEXT, "b": {"type": "string", "default": "x"}}, True),
    "one is optional": ({"a": _TEXT, "b": _TEXT}, False),
    "one is required that is not there": ({}, False),
    "one is the whole again": ({"a": _TEXT, "next": {"$ref": "#"}}, False),
}


@pytest.mark.parametrize(("properties", "is_strict"), STRICT.values(), ids=STRICT.keys())
async def test_strict_mode_requires_only_what_a_reply_can_leave_empty(
    properties: dict[str, Any], *, is_strict: bool
) -> None:
    assembler = ContextAssembler()
    await assembler.add_user("s", "Write a letter.")
    schema = {"type": "object", "properties": properties, "required": ["a"]}

    context = await assembler.assemble("s", model="gpt-4.1", response_format=schema)
    payload: Any = context.to_openai_chat()
    sent = payload["response_format"]["json_schema"]

    assert sent["strict"] is is_strict
    assert sent["schema"]["required"] == ([*properties] if is_strict else ["a"])
    said = [entry for entry in context.report.entries if entry.rule == "parameter.response_format"]
    assert bool(said) is not is_strict
    assert not context.check().refused
