"""What a provider does not take of the options is in the report, whether or not it was rendered."""

from context_assembler import ContextAssembler


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
