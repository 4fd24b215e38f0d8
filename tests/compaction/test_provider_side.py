"""Compaction and context editing by the provider, through the official SDKs."""

from collections.abc import Iterator
from typing import Any

import pytest
from anthropic import Anthropic
from openai import OpenAI

from context_assembler import ContextAssembler
from context_assembler.errors import InvalidParameterError
from context_assembler.events import ToolCall
from context_assembler.testing import ScriptedReply, serve_providers
from context_assembler.testing.server import ProviderServer

OPUS, ASTRA, SOL = "claude-opus-5-5", "gpt-6-astra", "gpt-6.2-sol"
SUMMARY = "They plan a trip to Lima; the user hates trains."


class Words:
    """A thousand tokens for each word."""

    name, is_exact = "words", True

    def count_text(self, text: str) -> int:
        return 1_000 * len(text.split())


class Loop:
    """One session, and the clients of a provider on this machine."""

    def __init__(self, server: ProviderServer) -> None:
        self.server, self.assembler = server, ContextAssembler()
        self.claude = Anthropic(base_url=server.anthropic_url, api_key="test", max_retries=0)
        self.openai = OpenAI(base_url=server.openai_url, api_key="test", max_retries=0)

    async def step(self, said: str = "", *, model: str = OPUS, **options: Any) -> Any:
        """Ask, record the reply, and return the context that was sent."""
        if said:
            await self.assembler.add_user("trip", said)
        context = await self.assembler.assemble("trip", model=model, **options)
        create: Any = self.claude.messages.create
        if context.provider == "openai_responses":
            create = self.openai.responses.create
        await self.assembler.record("trip", create(**context.to_request()), context)
        return context

    async def sent(self, model: str = OPUS, **options: Any) -> tuple[Any, Any]:
        """Return the next context and its messages."""
        context = await self.assembler.assemble("trip", model=model, **options)
        payload = context.to_request()
        return context, payload.get("messages") or payload.get("input") or payload["contents"]


def says(*lines: str, thinking: str | None = "Hm.") -> list[ScriptedReply]:
    return [ScriptedReply(line, thinking=thinking) for line in lines]


@pytest.fixture
def loop(request: pytest.FixtureRequest) -> Iterator[Loop]:
    script, counter = request.param
    with serve_providers(script, counter=counter) as server:
        yield Loop(server)
        assert server.refusals == ()


def served(script: Any, counter: Any = None) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("loop", [(script, counter)], indirect=True, ids=[""])


@served(says("Where from?", SUMMARY, "Fly.", "Bye."))
async def test_claude_compacts_on_demand_and_its_signed_block_goes_back_first(loop: Loop) -> None:
    await loop.step("Plan a trip. " * 400)
    await loop.step(provider_compaction="now", context_edits="clear_thinking")
    await loop.step("From Quito.")
    await loop.step("Thanks.", provider_compaction=60_000)

    context, (first, *_) = await loop.sent()
    [block] = first["content"][:1]
    assert (block["content"], bool(block["signature"])) == (SUMMARY, True)
    headers = [seen.headers["anthropic-beta"] for seen in loop.server.requests[1:]]
    assert headers == ["compact-2026-09-04"] * 3
    asked, _, last = [seen.body for seen in loop.server.requests[1:]]
    assert (asked["compaction"], "context_management" in asked) == ({"type": "summarize"}, False)
    assert "context_management" not in last  # no threshold next to a signed block
    assert "Plan a trip" not in str(first)
    assert context.metadata.ledger.used_tokens < 500
    kinds = [e.type async for e in loop.assembler.sessions.load("trip")]
    assert kinds.count("compaction") == 1
    assert SUMMARY in str((await loop.sent(ASTRA))[1])  # its plain text, for others
    assert SUMMARY in str((await loop.sent("gemini-4-argon"))[1])


@served(says("Where from?", SUMMARY, "Fly on Friday.", "Booked."), Words())
async def test_claude_compacts_at_a_threshold_and_what_follows_keeps_its_thinking(
    loop: Loop,
) -> None:
    options: dict[str, Any] = {"provider_compaction": 50_000}
    await loop.step("Plan a trip. " * 9, **options)
    await loop.step("From Quito. " * 20, **options)
    await loop.step("Good.", **options)

    _, (first, *_) = await loop.sent()
    assert [block["type"] for block in first["content"]] == ["compaction", "thinking", "text"]
    events = [e async for e in loop.assembler.sessions.load("trip")]
    [made] = [e for e in events if e.type == "compaction"]
    [after] = [e for e in events if e.text == "Fly on Friday."]
    assert made.text == SUMMARY
    assert after.made_by is not None
    assert after.made_by.usage is not None
    assert after.made_by.usage.input_tokens > 60_000  # what the summary cost is charged as well
    row = loop.assembler.store.calls("trip")[1]
    assert "learned" not in row.details


@served(says("Where from?", "unreadable", "Fly."))
async def test_openai_compacts_now_and_others_are_sent_what_that_covers(loop: Loop) -> None:
    await loop.step("Plan a trip.", model=ASTRA)
    await loop.step(model=ASTRA, provider_compaction="now")
    await loop.step("From Quito.", model=ASTRA)

    assert loop.server.requests[1].body["input"][-1] == {"type": "compaction_trigger"}
    _, (first, *_) = await loop.sent(ASTRA)
    assert first["type"] == "compaction"
    assert "Plan a trip." in str((await loop.sent())[1])


@served(says("Where from?", "unreadable", "Fly.", "Bye."), Words())
async def test_openai_compacts_at_a_threshold(loop: Loop) -> None:
    options: dict[str, Any] = {"model": SOL, "provider_compaction": 12_000}
    await loop.step("Plan a trip.", **options)
    await loop.step("From Quito. " * 9, **options)
    await loop.step("Thanks.", **options)

    assert loop.server.requests[-1].left_out == []
    _, messages = await loop.sent(SOL)
    assert messages[0]["type"] == "compaction"
    assert "Plan a trip." not in str(messages)


@served(says("Where from?", "unreadable", "Fly."))
async def test_the_separate_call_of_openai_is_recorded_and_replayed(loop: Loop) -> None:
    await loop.step("Plan a trip.", model=ASTRA)
    context = await loop.assembler.assemble("trip", model=ASTRA)
    payload = context.to_openai_responses()
    made = loop.openai.responses.compact(model=payload["model"], input=payload["input"])
    await loop.assembler.record("trip", made, context, summary="They plan a trip.")
    await loop.step("From Quito.", model=ASTRA)

    _, messages = await loop.sent(ASTRA)
    assert [one["type"] for one in messages[:3]] == ["message", "message", "compaction"]
    assert "They plan a trip." in str((await loop.sent())[1])


CALL = ToolCall(call_id="toolu_1", name="read", arguments={"path": "a"})
READS = [
    ScriptedReply(tool_calls=[ToolCall(call_id=f"toolu_{n}", name="read", arguments={"path": "a"})])
    for n in range(4)
]


@served([*READS, *says("Done.", thinking=None)])
async def test_what_claude_clears_is_recorded_reported_and_forecast(loop: Loop) -> None:
    edits = [
        {
            "type": "clear_tool_uses",
            "trigger": {"type": "input_tokens", "value": 1_000},
            "keep": {"type": "tool_uses", "value": 1},
        }
    ]
    options: dict[str, Any] = {"context_edits": edits, "additional_tools": [read]}
    await loop.step("Read four files.", **options)
    for number in range(4):
        await loop.assembler.add_tool_result("trip", f"toolu_{number}", "a line of text\n" * 200)
        await loop.step(**options)

    row = loop.assembler.store.calls("trip")[-1]
    [applied] = row.details["applied_edits"]
    assert applied["cleared_tool_uses"] == 3
    context, messages = await loop.sent(**options)
    assert str(messages).count("a line of text") == 800  # everything is sent
    ledger, report = context.metadata.ledger, context.report
    assert ledger.cleared_tokens == applied["cleared_input_tokens"]
    assert ledger.expected_tokens == ledger.used_tokens - ledger.cleared_tokens
    assert context.check_compaction().current_tokens == ledger.expected_tokens
    assert report.forecast.split.total_tokens == ledger.expected_tokens
    assert "clears" in report.forecast.split.remarks[-1]
    [entry] = [entry for entry in report.entries if entry.rule == "edits.applied"]
    assert "cleared_tool_uses 3" in entry.reason


def read(path: str) -> str:
    """Read a file."""
    return path


@served([ScriptedReply(tool_calls=[CALL])])
async def test_a_compaction_waits_for_the_results_of_calls(loop: Loop) -> None:
    await loop.step("Read.", additional_tools=[read])

    with pytest.raises(InvalidParameterError, match="must wait for the results"):
        await loop.assembler.assemble("trip", model=OPUS, provider_compaction="now")


async def test_a_summary_that_was_not_written_changes_nothing_and_is_a_warning() -> None:
    assembler = ContextAssembler()
    await assembler.add_user("trip", "Plan a trip.")
    context = await assembler.assemble("trip", model=OPUS, provider_compaction="now")
    empty = {"type": "message", "role": "assistant", "model": OPUS, "content": [], "id": "m"}

    [*_, event] = await assembler.record("trip", {**empty, "stop_reason": "max_tokens"}, context)

    assert "max_tokens" in str(event.metadata["warnings"])
    assert "Plan a trip." in str((await assembler.assemble("trip", model=OPUS)).to_request())


@pytest.mark.parametrize(
    ("model", "prefers"), [(OPUS, True), (SOL, True), ("claude-opus-5", False)]
)
async def test_on_models_that_bind_reasoning_the_provider_is_preferred(
    model: str, prefers: bool
) -> None:
    assembler = ContextAssembler()
    for number in range(9):
        await assembler.add_user("trip", f"{number} " + "Plan a trip. " * 400)

    check = await assembler.check_compaction(
        "trip", model=model, max_tokens=2_000, max_context_tokens=12_000
    )

    assert check.needed
    assert ("provider_compaction" in str(check.details.get("prefer"))) is prefers


@served(says(SUMMARY))
async def test_a_stream_is_recorded_with_its_block(loop: Loop) -> None:
    await loop.assembler.add_user("trip", "Plan a trip.")
    context = await loop.assembler.assemble("trip", model=OPUS, provider_compaction="now")
    payload: Any = context.to_request()

    events = [*loop.claude.messages.create(**payload, stream=True)]
    [*_, made] = await loop.assembler.record("trip", events, context)

    assert (made.type, made.text) == ("compaction", SUMMARY)
