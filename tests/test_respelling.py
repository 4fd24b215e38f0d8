"""A context spelled for a provider that it was not made for: nothing is lost without a row."""

import json
import pickle
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from context_assembler import AssembledContext, ContextAssembler, UnsupportedRequestError
from context_assembler.config import AssemblerConfig
from context_assembler.errors import ContextOverflowError, EmptySessionError
from context_assembler.providers import PROVIDER_FUNCTIONS, PROVIDERS, provider_for
from context_assembler.respelling import respell
from context_assembler.stages.split_window import count_draft
from context_assembler.tokens import calibrate, counter_for
from context_assembler.values.context import ContextMetadata
from context_assembler.values.draft import Draft
from context_assembler.values.events import (
    AssistantBody,
    EventBody,
    Provenance,
    SessionEvent,
    UserBody,
)
from context_assembler.values.factors import TokenFactors, read_factors
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
    UrlSource,
)
from context_assembler.values.report import Report, ReportEntry
from context_assembler.values.tools import ToolSpec
from tests.adding_up import differences
from tests.providers.drafts import GEMINI_4, HAIKU_45, MODELS, OPUS, draft
from tests.strategies import event_logs, paired_conversations

every_provider = pytest.mark.parametrize("provider", PROVIDERS)
SIGNED: Final[dict[str, Json]] = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
SEALED: Final[dict[str, Json]] = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [],
    "encrypted_content": "gAAAA" + "x" * 4000,
}
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


def test_the_row_of_a_change_stands_for_the_message_with_the_size_that_is_sent() -> None:
    context = context_of(talk(Thinking(provider="anthropic", block=SIGNED), Text("Four.")))

    [first, lost, last] = context.for_provider("gemini").report.entries

    assert (lost.decision, lost.id) == ("cleared", "evt_2")
    assert lost.reason == (
        "1 thinking part(s), the last one here, cannot be sent to gemini: "
        "it takes none that others signed."
    )
    assert lost.tokens_before > lost.tokens_after > 0
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
    tight = replace(context.metadata.ledger, budget_tokens=10)
    context = replace(context, metadata=replace(context.metadata, ledger=tight))

    warnings = context.for_provider("openai_chat").report.warnings

    assert "over its budget of 10" in warnings[-1]
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

    assert again is context


def test_the_models_own_provider_is_the_context_itself() -> None:
    context = context_of(talk(Text("x")))

    assert context.for_provider("anthropic") is context


def test_a_context_without_a_speller_is_all_there_is() -> None:
    context = replace(context_of(talk(Text("x"))), respell=None)

    assert context.for_provider("gemini") is context
    assert replace(context, origin=context).for_provider("gemini") is context


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


# ---- sizes ----


def with_factor(event: SessionEvent, *, model: str, factor: float | None) -> SessionEvent:
    """Return the event, a reply as one of this model that was counted with this factor."""
    if not isinstance(event.body, AssistantBody):
        return event
    made_by = event.body.made_by or Provenance(provider="anthropic", model=model)
    made_by = replace(made_by, model=model, token_factor=factor)
    return replace(event, body=replace(event.body, made_by=made_by))


async def assemble_log(
    events: list[SessionEvent], *, model: str, factor: float | None, limit: int | None
) -> AssembledContext:
    assembler = ContextAssembler(sessions="memory:")
    replies = [with_factor(event, model=model, factor=factor) for event in events]
    await assembler.sessions.append("s", [replace(event, seq=0) for event in replies])
    try:
        return await assembler.assemble("s", model=model, max_tokens=100, max_context_tokens=limit)
    except (ContextOverflowError, EmptySessionError):
        return await assemble_log(LOG_THAT_FITS, model=model, factor=factor, limit=None)
    finally:
        await assembler.close()


def payload_of(context: AssembledContext, provider: str) -> Any:
    """Return the payload, or why there is none."""
    try:
        return context.to_request(provider)
    except UnsupportedRequestError as error:
        return error.problem


BODIES_THAT_FIT: Final[list[EventBody]] = [
    UserBody(parts=(Text("Hello. " * 100),)),
    AssistantBody(parts=(Thinking(provider="anthropic", block=SIGNED), Text("Four."))),
    UserBody(parts=(Text("And?"),)),
]
LOG_THAT_FITS: Final = [
    SessionEvent(body=body, id=f"evt_{at}") for at, body in enumerate(BODIES_THAT_FIT, start=1)
]


@pytest.mark.parametrize(
    "model",
    ["claude-opus-5-5", "claude-haiku-4-5", "gpt-6.2-sol", "gpt-4.1", "o3", "gemini-4-argon"],
)
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    events=event_logs,
    factor=st.sampled_from([None, 0.7, 1.8]),
    limit=st.sampled_from([None, 300, 600, 1500]),
)
async def test_rows_add_up_to_the_ledger_and_the_way_makes_no_difference(
    model: str, events: list[SessionEvent], factor: float | None, limit: int | None
) -> None:
    context = await assemble_log(events, model=model, factor=factor, limit=limit)

    direct = {provider: context.for_provider(provider) for provider in PROVIDERS}

    for other in direct.values():
        assert differences(other.report) == {}
        assert other.report.ledger == other.metadata.ledger
        for provider, expected in direct.items():
            assert other.for_provider(provider) == expected
            assert payload_of(other, provider) == payload_of(context, provider)


@pytest.mark.parametrize("factor", [None, 1.8])
async def test_everything_is_counted_as_the_other_protocol_frames_it(factor: float | None) -> None:
    said = await record_reply("gpt-6.2-sol", REASONED)
    replies = [with_factor(event, model="gpt-6.2-sol", factor=factor) for event in said]
    context = await assemble_log(replies, model="gpt-6.2-sol", factor=factor, limit=None)

    other = context.for_provider("openai_chat")

    factors = read_factors(replies, model="gpt-6.2-sol")
    counter = calibrate(counter_for(other.draft.limits, protocol="openai_chat"), factors)
    assert other.report.ledger.used_tokens == count_draft(other.draft, counter=counter)
    [lost] = [row for row in other.report.entries if row.rule == "reasoning.provider"]
    [before], [after] = (
        [one for one in each.messages if one.id == lost.id] for each in (context, other)
    )
    assert (lost.tokens_before, lost.tokens_after) == (
        counter.count_message(before),
        counter.count_message(after),
    )
    assert differences(other.report) == {}


async def record_reply(model: str, reply: dict[str, Any]) -> list[SessionEvent]:
    """Return the events of a session with one reply, and a question behind it."""
    assembler = ContextAssembler(sessions="memory:")
    await assembler.add_user("s", "hi")
    context = await assembler.assemble("s", model=model, max_tokens=800)
    await assembler.record("s", {"model": model, **reply}, context)
    await assembler.add_user("s", "more")
    return [event async for event in assembler.sessions.load("s")]


async def test_what_was_counted_to_fit_exactly_is_corrected_alike_elsewhere() -> None:
    context = context_of(talk(Text("Four. " * 50)))
    doubled = partial(respell, corrections=[TokenFactors(current=2.0)])

    [plain, scaled] = [
        replace(context, respell=spell).for_provider("openai_chat").report.ledger
        for spell in (respell, doubled)
    ]

    assert scaled.tokens_of("history") == 2 * plain.tokens_of("history")


def test_what_was_cut_keeps_the_size_that_it_had_before() -> None:
    context = context_of(talk(Thinking(provider="anthropic", block=SIGNED), Text("Four. " * 9)))
    [first, said, last] = context.report.entries
    cut = replace(said, decision="shortened", tokens_before=900, tokens_after=30)
    context = replace(context, report=replace(context.report, entries=(first, cut, last)))

    [_, lost, sent, _] = context.for_provider("gemini").report.entries

    assert (sent.decision, sent.tokens_before) == ("shortened", 900)
    assert (lost.decision, lost.tokens_after) == ("cleared", 0)
    assert sent.tokens_after < 30


async def test_a_document_that_one_provider_does_not_take_is_sent_to_the_next() -> None:
    assembler = ContextAssembler(sessions="memory:")
    pdf = UrlSource(url="https://example.org/a.pdf", media_type="application/pdf")
    await assembler.add_user("s", [Text("Read it."), Document(source=pdf)])
    context = await assembler.assemble("s", model="gemini-4-argon", max_tokens=500)

    chat = pickle.loads(pickle.dumps(context.for_provider("openai_chat")))

    assert "a.pdf'" not in str(chat.to_request())
    assert "a.pdf'" in str(chat.to_anthropic())
    assert chat.for_provider("anthropic").report.warnings == ()
    assert chat.check("anthropic") == context.check("anthropic")


# ---- tools ----


def plain_tool(name: str) -> ToolSpec:
    return ToolSpec(name=name, description=f"Does {name}.", input_schema={"type": "object"})


READ: Final = plain_tool("read")
REASONED: dict[str, Any] = {
    "id": "r",
    "object": "response",
    "created_at": 1,
    "status": "completed",
    "output": [
        SEALED,
        {
            "type": "message",
            "id": "m",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Yes.", "annotations": []}],
        },
    ],
}
REPLIES: dict[str, dict[str, Any]] = {
    "gpt-4.1": {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Yes."}}],
    },
    "claude-opus-5-5": {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "content": [{"type": "text", "text": "Yes."}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 9, "output_tokens": 1},
    },
}


async def second_call(model: str, tools: list[Any], **options: Any) -> AssembledContext:
    """Return the context of a session's second call, the options of which are its alone."""
    config = AssemblerConfig(tools=options.pop("settings", {}))
    assembler = ContextAssembler(sessions="memory:", tools=tools, config=config)
    await assembler.add_user("s", "hi")
    context = await assembler.assemble("s", model=model, max_tokens=800)
    await assembler.record("s", {"model": model, **REPLIES[model]}, context)
    await assembler.add_user("s", "more")
    return await assembler.assemble("s", model=model, max_tokens=800, **options)


# The model, what its second call changes, and the rule of the tool's row: of its own, and elsewhere.
TOLD_OTHERWISE: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "withdrawn by the choice": ("gpt-4.1", {"disabled_tools": ["read"]}, "disabled", "disabled"),
    "withdrawn by a note": (
        "claude-opus-5-5",
        {"disabled_tools": ["read"]},
        "disabled",
        "disabled",
    ),
    "deferred": (
        "claude-opus-5-5",
        {"settings": {"defers_above": 1}},
        "tool.deferred",
        "tool.declared",
    ),
    "declared as ever": ("claude-opus-5-5", {}, "", ""),
}


@pytest.mark.parametrize(
    ("model", "options", "own", "elsewhere"), TOLD_OTHERWISE.values(), ids=TOLD_OTHERWISE.keys()
)
async def test_the_row_of_a_tool_says_whether_it_is_in_the_list(
    model: str, options: dict[str, Any], own: str, elsewhere: str
) -> None:
    context = await second_call(model, [READ, plain_tool("write")], **options)

    other = context.for_provider("gemini")

    [row] = [row for row in other.report.entries if row.id == "read"]
    is_sent = "'read'" in str(other.to_request()["config"])
    assert [row.rule for row in context.report.entries if row.id == "read"] == [own]
    assert (row.rule, row.decision) == (elsewhere, "kept" if is_sent else "dropped")
    assert bool(row.tokens_after) == is_sent
    assert differences(other.report) == {}
    assert other.report.warnings == context.report.warnings


async def test_a_tool_that_was_added_behind_the_history_is_declared_elsewhere() -> None:
    context = await second_call("claude-opus-5-5", [READ], additional_tools=(plain_tool("write"),))

    other = context.for_provider("openai_chat")

    [own], [row] = (
        [row for row in one.report.entries if row.id == "write"] for one in (context, other)
    )
    assert (own.rule, own.tokens_after) == ("tool.added", 0)
    assert (row.rule, row.decision) == ("tool.declared", "kept")
    assert row.tokens_after == other.report.ledger.tokens_of("tools") - row_of_read(other)
    assert differences(other.report) == {}


def row_of_read(context: AssembledContext) -> int:
    [row] = [row for row in context.report.entries if row.id == "read"]
    return row.tokens_after


async def test_a_tool_of_another_providers_own_is_told_where_it_is_sent() -> None:
    context = await second_call("gpt-4.1", [READ, SEARCH])

    [own], [row], [gone] = (
        [row for row in one.report.entries if row.id == "search"]
        for one in (context, context.for_provider("anthropic"), context.for_provider("gemini"))
    )

    assert (own.rule, own.decision) == (gone.rule, gone.decision) == ("tool.native", "dropped")
    assert (row.rule, row.decision) == ("tool.declared", "kept")
    assert "search" in str(context.to_anthropic()["tools"])


async def test_what_a_model_takes_less_of_is_told_in_the_size_it_has_there() -> None:
    shorter = ReportEntry(
        kind="tool", id="read", decision="shortened", tokens_before=500, tokens_after=3
    )
    made = replace(talk(Text("Four.")), tools=(READ,))
    context = context_of(made)
    context = replace(context, report=replace(context.report, entries=(shorter,)))

    other = context.for_provider("gemini")

    [row] = other.report.entries
    assert (row.decision, row.tokens_before) == ("shortened", 500)
    assert row.tokens_after == other.report.ledger.tokens_of("tools")
