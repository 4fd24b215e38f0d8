"""What a provider does not take of the options is in the report, whether or not it was rendered."""

import pytest

from context_assembler import ContextAssembler
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
