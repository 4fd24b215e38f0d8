"""A context spelled for a provider that it was not made for: nothing is lost without a row."""

import json
import pickle
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_assembler import AssembledContext, ContextAssembler, UnsupportedRequestError
from context_assembler.providers import PROVIDER_FUNCTIONS, PROVIDERS, provider_for
from context_assembler.respelling import respell
from context_assembler.values.context import ContextMetadata
from context_assembler.values.draft import Draft
from context_assembler.values.ledger import Ledger, LedgerRow
from context_assembler.values.limits import ModelLimits
from context_assembler.values.messages import Message
from context_assembler.values.parts import (
    Base64Source,
    Document,
    Image,
    Json,
    Opaque,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from context_assembler.values.report import Report, ReportEntry
from context_assembler.values.tools import ToolSpec
from tests.providers.drafts import GEMINI_4, HAIKU_45, MODELS, OPUS, draft
from tests.strategies import paired_conversations

every_provider = pytest.mark.parametrize("provider", PROVIDERS)
SIGNED: Final[dict[str, Json]] = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
PDF: Final = Base64Source(media_type="application/pdf", data="JVBERi0xLjQK")
SEARCH: Final = ToolSpec(
    name="search", native_specs={"anthropic": {"type": "web_search_20250305", "name": "search"}}
)


def context_of(made: Draft) -> AssembledContext:
    """Return the context of a draft, adapted as the assembler does, with a row per message."""
    provider = provider_for(made.limits)
    adapted, _ = PROVIDERS[provider].adapt(made)
    rows = tuple(
        ReportEntry(kind="message", id=message.id, decision="kept")
        for message in adapted.messages
        if message.id
    )
    ledger = Ledger(
        window_tokens=100_000,
        reserve_tokens=0,
        budget_tokens=100_000,
        rows=(
            *(LedgerRow(kind="tools", name=tool.name, tokens=9) for tool in adapted.tools),
            LedgerRow(kind="history", name="history", tokens=1000),
            LedgerRow(kind="notes", name="notes", tokens=0),
        ),
        anchored_tokens=1200,
    )
    return AssembledContext(
        draft=adapted,
        metadata=ContextMetadata(
            session_id="s",
            model_id=made.limits.id,
            agent_id=None,
            ledger=ledger,
            truncated=False,
            truncated_by=None,
            cut_level=0,
            should_compact=False,
            compaction_reason=None,
            active_skills=(),
            assembly_ms=1.0,
            cache_hit=False,
            last_seq=1,
        ),
        report=Report(ledger=ledger, entries=rows),
        provider=provider,
        functions=PROVIDER_FUNCTIONS,
        respell=respell,
    )


def talk(*parts: Part, role: Any = "assistant") -> Draft:
    """Return a draft for Claude: a question, a message of these parts, another question."""
    said = Message(role=role, parts=parts, id="evt_2", seq=2)
    return draft(
        [
            Message(role="user", parts=(Text("Hello"),), id="evt_1", seq=1),
            said,
            Message(role="user", parts=(Text("And?"),), id="evt_3", seq=3),
        ],
        limits=OPUS,
    )


def rules(context: AssembledContext) -> list[str]:
    return [row.rule for row in context.report.entries if row.id == "evt_2" and row.rule]


# What Claude is sent, and the rule of the row that tells what becomes of it at every other provider.
LOSSES: dict[str, tuple[Part, str]] = {
    "signed thinking": (Thinking(provider="anthropic", block=SIGNED), "reasoning.provider"),
    "what a server tool found": (
        Opaque(
            provider="anthropic",
            block={"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
        ),
        "content.foreign",
    ),
    "a cited text": (
        Opaque(
            provider="anthropic",
            block={
                "type": "text",
                "text": "It rains.",
                "citations": [{"type": "char_location", "cited_text": "rain", "document_index": 0}],
            },
            text="It rains.",
        ),
        "content.citations",
    ),
}


@pytest.mark.parametrize("provider", ["openai_chat", "openai_responses", "gemini"])
@pytest.mark.parametrize(("part", "rule"), LOSSES.values(), ids=LOSSES.keys())
def test_what_is_lost_on_the_way_has_a_row(part: Part, rule: str, provider: str) -> None:
    call = Opaque(
        provider="anthropic",
        block={"type": "server_tool_use", "id": "srvtoolu_1", "name": "search", "input": {}},
        text="[search: {}]",
    )
    context = context_of(talk(call, part, Text("So.")))

    other = context.for_provider(provider)

    assert rule in rules(other)
    assert rules(context) == []
    assert other.provider == provider
    assert other.to_request() == context.to_request(provider)


def test_media_that_a_provider_does_not_take_has_a_row_and_a_warning() -> None:
    made = replace(talk(Document(source=PDF), role="user"), limits=OPUS)
    context = context_of(made)

    other = context.for_provider("openai_chat")

    assert set(rules(other)) <= {row.rule for row in PROVIDERS["openai_chat"].adapt(made)[1]}
    assert len(other.report.warnings) == len(rules(other))


def test_rows_stand_before_the_message_and_its_size_is_what_is_sent() -> None:
    context = context_of(talk(Thinking(provider="anthropic", block=SIGNED), Text("Four.")))

    [first, lost, kept, last] = context.for_provider("gemini").report.entries

    assert (lost.decision, kept.decision, kept.id) == ("cleared", "kept", "evt_2")
    assert lost.reason == (
        "1 thinking part(s), the last one here, cannot be sent to gemini: "
        "it takes none that others signed."
    )
    assert lost.tokens_before > lost.tokens_after == kept.tokens_after
    assert (first.id, last.id) == ("evt_1", "evt_3")


def test_the_ledger_counts_what_is_sent_there() -> None:
    made = replace(talk(Thinking(provider="anthropic", block=SIGNED)), tools=(SEARCH,))
    context = context_of(made)

    ledger = context.for_provider("gemini").metadata.ledger

    assert ledger.tokens_of("tools") == 0 < context.metadata.ledger.tokens_of("tools")
    assert ledger.tokens_of("history") < 1000
    assert ledger.anchored_tokens is None
    assert ledger == context.for_provider("gemini").report.ledger


def test_a_request_that_is_larger_elsewhere_than_its_budget_is_warned_of() -> None:
    found = Opaque(provider="anthropic", block={"type": "fallback"}, text="")
    context = context_of(talk(found, role="user"))
    tight = replace(context.metadata.ledger, budget_tokens=1000)
    context = replace(context, metadata=replace(context.metadata, ledger=tight))

    warnings = context.for_provider("openai_chat").report.warnings

    assert "over its budget of 1,000" in warnings[-1]
    assert "was cut for anthropic; spelled for openai_chat" in warnings[-1]


def test_signatures_of_gemini_are_told_everywhere_else() -> None:
    call = ToolCall(call_id="c1", name="look", signature="c2ln")
    made = draft(
        [
            Message(role="user", parts=(Text("Look"),), id="evt_1"),
            Message(role="assistant", parts=(call,), id="evt_2"),
            Message(role="tool", parts=(ToolResult(call_id="c1", content=(Text("x"),)),)),
        ],
        limits=GEMINI_4,
    )
    context = context_of(made)

    other = context.for_provider("anthropic")

    assert rules(other) == ["reasoning.provider"]
    assert other.draft.messages[1].tool_calls[0].signature is None
    assert other.to_request() == context.to_anthropic()


def test_the_way_back_is_the_context_itself() -> None:
    context = context_of(talk(Thinking(provider="anthropic", block=SIGNED)))

    again = context.for_provider("gemini").for_provider("anthropic")

    assert again.draft == context.draft
    assert again.report == context.report


def test_the_models_own_provider_is_the_context_itself() -> None:
    context = context_of(talk(Text("x")))

    assert context.for_provider("anthropic") is context


def test_a_context_without_a_speller_is_all_there_is() -> None:
    context = replace(context_of(talk(Text("x"))), respell=None)

    assert context.for_provider("gemini") is context


def test_a_provider_that_is_not_bundled_is_an_error() -> None:
    with pytest.raises(UnsupportedRequestError, match="bundled"):
        context_of(talk(Text("x"))).for_provider("nobody")


async def test_the_assembler_makes_contexts_that_can_be_spelled_and_pickled() -> None:
    assembler = ContextAssembler(sessions="memory:")
    await assembler.add_user("s", "hello")
    context = await assembler.assemble("s", model="claude-opus-5-5")

    other = pickle.loads(pickle.dumps(context)).for_provider("gemini")

    assert other.to_request() == context.to_gemini()
    assert other.metadata.assembly_ms == context.metadata.assembly_ms


@every_provider
@settings(max_examples=40)
@given(history=paired_conversations, limits=st.sampled_from(list(MODELS.values())))
def test_what_is_spelled_is_what_is_reported(
    provider: str, history: list[Message], limits: ModelLimits
) -> None:
    numbered = [replace(message, id=f"evt_{at}") for at, message in enumerate(history)]
    context = context_of(draft(numbered, limits=limits))

    other = context.for_provider(provider)

    assert other.to_request() == context.to_request(provider)
    fingerprints = PROVIDERS[provider].fingerprints
    assert fingerprints(other.draft) == fingerprints(context.draft)
    changed = {
        old.id
        for old, new in zip(context.draft.messages, other.draft.messages, strict=True)
        if old != new and not any(isinstance(part, Thinking) for part in old.parts)
    }
    assert changed <= {row.id for row in other.report.entries if row.rule}


@every_provider
@settings(max_examples=40)
@given(history=paired_conversations, limits=st.sampled_from(list(MODELS.values())))
def test_whatever_text_is_missing_has_a_row(
    provider: str, history: list[Message], limits: ModelLimits
) -> None:
    numbered = [_numbered(message, at) for at, message in enumerate(history)]
    context = context_of(draft(numbered, limits=limits))

    other = context.for_provider(provider)

    spelled = json.dumps(context.to_request(provider), ensure_ascii=False)
    told = {row.id for row in other.report.entries if row.rule}
    for message in context.draft.messages:
        if _holds(message, f"<{message.id}>"):
            assert f"<{message.id}>" in spelled or message.id in told


def _numbered(message: Message, at: int) -> Message:
    """Return the message with its id in every text."""

    def number(part: Any) -> Any:
        match part:
            case Text():
                return replace(part, text=f"<evt_{at}>")
            case ToolResult(content=content):
                return replace(part, content=tuple(map(number, content)))
            case _:
                return part

    return replace(message, id=f"evt_{at}", parts=tuple(map(number, message.parts)))


def _holds(message: Message, text: str) -> bool:
    results = [inner for result in message.tool_results for inner in result.content]
    return Text(text) in (*message.parts, *results)


# A budget for thinking is Anthropic's; a level is no parameter of a model that has none.
UNSENT: dict[str, tuple[ModelLimits, str, dict[str, Any], list[str]]] = {
    "a budget has no field": (
        HAIKU_45,
        "openai_chat",
        {"thinking_budget": 2000},
        ["thinking_budget"],
    ),
    "a budget has one": (HAIKU_45, "gemini", {"thinking_budget": 2000}, []),
    "a level that the model has not": (
        HAIKU_45,
        "gemini",
        {"thinking_level": "max"},
        ["thinking_level"],
    ),
    "nothing was asked for": (HAIKU_45, "openai_chat", {}, []),
    "what cannot be spelled raises later": (OPUS, "gemini", {"thinking_level": "none"}, []),
}


@pytest.mark.parametrize(
    ("limits", "provider", "asked", "unsent"), UNSENT.values(), ids=UNSENT.keys()
)
def test_a_parameter_that_is_not_sent_has_a_row(
    limits: ModelLimits, provider: str, asked: dict[str, Any], unsent: list[str]
) -> None:
    hello = Message(role="user", parts=(Text("Hello"),))
    context = context_of(draft([hello], limits=limits, **asked))

    other = context.for_provider(provider)

    rows = [row for row in other.report.entries if row.rule.startswith("parameter.")]
    assert [row.id for row in rows] == unsent
    assert all(row.decision == "dropped" for row in rows)
    assert len(other.report.warnings) == len(unsent)


def test_images_stay_where_they_are_taken() -> None:
    png = Base64Source(media_type="image/png", data="iVBORw0KGgo=")
    context = context_of(talk(Image(source=png), role="user"))

    for provider in PROVIDERS:
        expected = {row.rule for row in PROVIDERS[provider].adapt(context.draft)[1]}
        assert set(rules(context.for_provider(provider))) == expected
