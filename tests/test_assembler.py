"""The facade: one step of an agent loop, through public names alone."""

import asyncio
import copy
import json
import pickle
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from context_assembler import (
    AssembledContext,
    AssemblerConfig,
    Base64Source,
    ContentError,
    ContextAssembler,
    ContextOverflowError,
    EmptySessionError,
    Image,
    InMemoryStore,
    InvalidParameterError,
    PromptSection,
    Provenance,
    ReplyError,
    Session,
    SessionEvent,
    Text,
    Thinking,
    ToolChoice,
    UnknownModelError,
    UnknownOptionError,
    UnknownSessionError,
    UnknownStoreSchemeError,
    UnsafePathError,
    UnsupportedRequestError,
    assistant_event,
    create_context_assembler,
    system_event,
    tool_result_event,
    user_event,
)
from context_assembler.values.events import CompactionBody
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import ToolCall

CLAUDE = "claude-opus-5-5"
GPT = "gpt-5.5"
FIRST_DAY = datetime(2026, 11, 27, 9, 59, 59, tzinfo=UTC)


def find_flights(city: str) -> str:
    """Find flights to a city."""
    return city


class Ticking:
    """A clock that moves on by a minute at every look."""

    def __init__(self, step: timedelta = timedelta(minutes=1)) -> None:
        self.moment = FIRST_DAY
        self._step = step

    def __call__(self) -> datetime:
        self.moment += self._step
        return self.moment


def make_assembler(**given: Any) -> ContextAssembler:
    arguments: dict[str, Any] = {"tools": [find_flights], "now": Ticking(), **given}
    return ContextAssembler(**arguments)


def claude_reply(*blocks: dict[str, Any], reply_id: str = "msg_1") -> dict[str, Any]:
    return {
        "id": reply_id,
        "type": "message",
        "role": "assistant",
        "model": CLAUDE,
        "content": list(blocks),
        "stop_reason": "end_turn",
        "usage": {
            "input_tokens": 10,
            "output_tokens": 5,
            "cache_read_input_tokens": 90,
            "cache_creation_input_tokens": 0,
        },
    }


def said(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def called(call_id: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "find_flights", "input": {"city": "Faro"}}


def thought(signature: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": "", "signature": signature}


async def fill(assembler: ContextAssembler, session_id: str, *events: SessionEvent) -> None:
    await assembler.sessions.append(session_id, events)


def without_cache_marks(payload: Any) -> Any:
    if is_object(payload):
        return {k: without_cache_marks(v) for k, v in payload.items() if k != "cache_control"}
    if is_array(payload):
        return [without_cache_marks(entry) for entry in payload]
    return payload


# ---- assembling ----


async def test_a_first_message_becomes_a_request_for_both_sdks() -> None:
    assembler = make_assembler()
    await assembler.add_user("trip", "To Lisbon, please.")

    context = await assembler.assemble("trip", model=CLAUDE)

    assert context.to_anthropic()["messages"][0]["role"] == "user"
    assert context.to_openai_chat()["messages"][0]["content"] == "To Lisbon, please."
    assert context.check("anthropic") == context.check("openai_chat") == []
    json.dumps([context.to_anthropic(), context.to_openai_chat()])


async def test_to_request_is_the_models_own_provider() -> None:
    assembler = make_assembler()
    await assembler.add_user("trip", "Hello")

    claude = await assembler.assemble("trip", model=CLAUDE)
    older = await assembler.assemble("trip", model="gpt-4.1")
    newer = await assembler.assemble("trip", model=GPT)
    gemini = await assembler.assemble("trip", model="gemini-4-argon")

    assert claude.to_request() == claude.to_anthropic()
    assert older.to_request() == older.to_openai_chat()
    assert newer.to_request() == newer.to_openai_responses()
    assert gemini.to_request() == gemini.to_gemini()


async def test_an_unknown_provider_is_answered_with_the_known_ones() -> None:
    assembler = make_assembler()
    await assembler.add_user("trip", "Hello")
    context = await assembler.assemble("trip", model=GPT)

    with pytest.raises(UnsupportedRequestError, match=r"anthropic, gemini, openai_chat"):
        context.to_request("cohere")


@pytest.mark.parametrize("model", [CLAUDE, GPT, "gpt-4.1", "gemini-4-argon"])
@pytest.mark.parametrize("provider", ["anthropic", "openai_chat", "openai_responses", "gemini"])
async def test_any_model_renders_for_every_provider(model: str, provider: str) -> None:
    assembler = make_assembler()
    call = ToolCall(call_id="c1", name="find_flights", arguments={"city": "Faro"})
    await fill(
        assembler,
        "s",
        user_event("Hello"),
        assistant_event((Text("Looking."), call)),
        tool_result_event("c1", {"flights": 2}),
    )

    context = await assembler.assemble("s", model=model)

    assert context.check(provider) == []
    json.dumps(context.to_request(provider))


async def test_assembling_writes_nothing() -> None:
    assembler = make_assembler()
    await assembler.add_user("trip", "Hello")
    before = await assembler.sessions.head("trip")

    await assembler.assemble("trip", model=CLAUDE, additional_system_prompt="Be brief.")
    await assembler.explain("trip", model=CLAUDE)
    await assembler.check_compaction("trip", model=CLAUDE)

    assert await assembler.sessions.head("trip") == before


async def test_the_same_inputs_give_the_same_bytes() -> None:
    events = [user_event("Hello", created_at=FIRST_DAY), assistant_event("Hi"), user_event("Go on")]
    payloads: list[str] = []
    for _ in range(2):
        assembler = make_assembler()
        await fill(assembler, "s", *events)
        context = await assembler.assemble("s", model=GPT)
        payloads.append(json.dumps(context.to_openai_chat()))

    assert payloads[0] == payloads[1]


async def test_a_history_that_fits_is_sent_whole_and_the_report_says_unchanged() -> None:
    assembler = make_assembler()
    call = ToolCall(call_id="c1", name="find_flights", arguments={"city": "Faro"})
    await fill(
        assembler,
        "s",
        user_event("Hello"),
        assistant_event(call),
        tool_result_event("c1", "two"),
        assistant_event("There are two."),
        user_event("Thanks"),
    )

    context = await assembler.assemble("s", model=CLAUDE, max_context_tokens=100_000)

    assert [message.role for message in context.messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
    ]
    assert not context.report.changed
    assert not context.metadata.truncated


async def test_an_imported_sessions_own_system_prompt_is_never_lost() -> None:
    assembler = make_assembler()
    await fill(assembler, "s", system_event("You are the airline's agent."), user_event("Hello"))

    context = await assembler.assemble("s", model=CLAUDE)

    assert "You are the airline's agent." in context.system_prompt
    assert [message.role for message in context.messages] == ["user"]


async def test_a_session_over_budget_is_cut_and_the_report_says_what_and_why() -> None:
    assembler = make_assembler()
    events = [user_event("Migrate the billing table.")]
    for number in range(30):
        call = ToolCall(call_id=f"c{number}", name="find_flights", arguments={"city": "Faro"})
        events += [assistant_event(call), tool_result_event(f"c{number}", "row " * 400)]
    await fill(assembler, "s", *events)

    context = await assembler.assemble("s", model=GPT, max_context_tokens=4000)

    assert context.metadata.truncated_by == "smart"
    assert context.metadata.ledger.used_tokens <= 4000
    assert context.messages[0].text == "Migrate the billing table."
    assert context.check() == []
    changed = context.report.of("dropped", "shortened")
    assert changed
    assert all(entry.reason and entry.rule for entry in changed)


async def test_every_setting_names_the_layer_it_came_from() -> None:
    config = AssemblerConfig(defaults={"max_tokens": 500}, agents={"guide": {"temperature": 0.5}})
    assembler = make_assembler(config=config)
    await assembler.sessions.create(
        Session(id="s", agent_id="guide", defaults={"model": "gpt-4o", "top_p": 0.9})
    )
    await assembler.add_user("s", "Hello")

    context = await assembler.assemble("s", stop_sequences=["END"])

    layers = {parameter.name: parameter.layer for parameter in context.report.parameters}
    assert layers["model"] == layers["top_p"] == "session"
    assert layers["temperature"] == "agent"
    assert layers["max_tokens"] == "system"
    assert layers["stop_sequences"] == "request"


async def test_an_addition_for_one_call_goes_behind_the_history() -> None:
    assembler = make_assembler()
    await assembler.add_user("s", "Hello")

    context = await assembler.assemble("s", model=CLAUDE, additional_system_prompt="Be brief.")

    assert "Be brief." not in context.system_prompt
    assert context.notes[-1].text == "Be brief."


async def test_prompt_sections_of_the_application_are_placed_by_priority() -> None:
    sections = [
        PromptSection(name="rules", content="Rules.", priority=10),
        PromptSection(name="role", content="Role.", priority=20),
    ]
    assembler = make_assembler(prompt_sections=sections)
    await assembler.add_user("s", "Hello")

    context = await assembler.assemble("s", model=CLAUDE)

    assert context.system_prompt == "Role.\n\n---\n\nRules."


# ---- bad input ----

BAD_CALLS: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "unknown model": ({"model": "claude-opus-5-6"}, UnknownModelError, "claude-opus-5-5"),
    "unknown option": ({"model": GPT, "temprature": 1}, UnknownOptionError, "temperature"),
    "unknown strategy": (
        {"model": GPT, "truncation_strategy": "clever"},
        UnknownOptionError,
        "smart",
    ),
    "temperature out of range": ({"model": "gpt-4o", "temperature": 3}, InvalidParameterError, "2"),
    "temperature refused by the model": (
        {"model": CLAUDE, "temperature": 0.5},
        InvalidParameterError,
        "temperature",
    ),
    "no model at all": ({}, ValueError, "Model ID is required"),
    "a forced tool that is not there": (
        {"model": "gpt-4o", "tool_choice": {"name": "find_flight"}},
        InvalidParameterError,
        "find_flights",
    ),
}


@pytest.mark.parametrize(
    ("options", "error", "hint"), BAD_CALLS.values(), ids=list(BAD_CALLS.keys())
)
async def test_a_bad_call_is_refused_with_a_hint(
    options: dict[str, Any], error: type[Exception], hint: str
) -> None:
    assembler = make_assembler()
    await assembler.add_user("s", "Hello")

    with pytest.raises(error, match=hint):
        await assembler.assemble("s", **options)


async def test_an_unknown_session_names_the_nearest() -> None:
    assembler = make_assembler()
    await assembler.add_user("trip-42", "Hello")

    with pytest.raises(UnknownSessionError, match="trip-42"):
        await assembler.assemble("trip-41", model=CLAUDE)


async def test_an_empty_session_is_named_as_such() -> None:
    assembler = make_assembler()
    await assembler.sessions.create(Session(id="s"))

    with pytest.raises(EmptySessionError, match="add_user"):
        await assembler.assemble("s", model=CLAUDE)


async def test_an_agent_id_cannot_leave_the_bootstrap_folder(tmp_path: Path) -> None:
    assembler = make_assembler(bootstrap=tmp_path)
    await assembler.add_user("s", "Hello")

    with pytest.raises(UnsafePathError):
        await assembler.assemble("s", agent_id="../../etc/passwd", model=CLAUDE)


def test_an_unknown_store_scheme_names_the_known_ones() -> None:
    with pytest.raises(UnknownStoreSchemeError, match="sqlite"):
        ContextAssembler(sessions="sqlight:x.db")


async def test_a_message_bigger_than_the_window_says_so_or_is_shortened() -> None:
    assembler = make_assembler()
    await assembler.add_user("s", "word " * 5000)

    with pytest.raises(ContextOverflowError) as caught:
        await assembler.assemble("s", model=GPT, max_context_tokens=1000)
    shortened = await assembler.assemble(
        "s", model=GPT, max_context_tokens=1000, on_overflow="shorten"
    )

    assert caught.value.budget_tokens < 1001 < caught.value.needed_tokens
    assert shortened.metadata.ledger.used_tokens <= 1000


async def test_a_system_prompt_bigger_than_the_window_names_the_culprit(tmp_path: Path) -> None:
    (tmp_path / "AGENT.md").write_text("rule " * 5000)
    assembler = make_assembler(bootstrap=tmp_path)
    await assembler.add_user("s", "hi")

    with pytest.raises(ContextOverflowError, match="agent"):
        await assembler.assemble("s", model=GPT, max_context_tokens=500)


async def test_a_tool_without_an_object_schema_is_left_out_by_name() -> None:
    bad = {"name": "broken", "description": "", "input_schema": {"type": "string"}}
    assembler = make_assembler(tools=[find_flights, bad])
    await assembler.add_user("s", "Hello")

    context = await assembler.assemble("s", model=CLAUDE)

    assert [tool.name for tool in context.tools] == ["find_flights"]
    assert any(e.id == "broken" and e.decision != "kept" for e in context.report.entries)


# ---- recording ----


async def test_recording_stores_the_notes_that_were_sent_then_the_reply() -> None:
    assembler = make_assembler()
    await assembler.add_user("s", "Hello")
    context = await assembler.assemble("s", model=CLAUDE, additional_system_prompt="Be brief.")

    events = await assembler.record("s", claude_reply(thought("sig"), said("Hi")), context)

    assert [event.type for event in events] == ["system", "system", "assistant"]
    assert events[-1].text == "Hi"
    assert isinstance(events[-1].parts[0], Thinking)


async def test_usage_provenance_and_fingerprint_are_stored_with_the_reply() -> None:
    assembler = make_assembler(config=AssemblerConfig(account="team-a"))
    await assembler.add_user("s", "Hello")
    context = await assembler.assemble("s", model=CLAUDE)

    *_, reply = await assembler.record("s", claude_reply(said("Hi")), context)

    made_by = getattr(reply.body, "made_by", None)
    assert made_by is not None
    assert (made_by.provider, made_by.model, made_by.account) == ("anthropic", CLAUDE, "team-a")
    assert made_by.prefix_fingerprint
    assert made_by.usage.input_tokens == 100


async def test_each_payload_is_the_one_before_plus_what_is_new() -> None:
    assembler = make_assembler(now=Ticking(timedelta(minutes=7)))
    await assembler.add_user("s", "Hello")
    previous: list[Any] = []
    for number in range(6):
        context = await assembler.assemble("s", model=CLAUDE)
        messages = without_cache_marks(context.to_anthropic()["messages"])
        assert messages[: len(previous)] == previous
        previous = messages
        reply = claude_reply(thought(f"sig{number}"), called(f"toolu_{number}"))
        await assembler.record("s", reply, context)
        await assembler.add_tool_result("s", f"toolu_{number}", f"answer {number}")
        if number % 2:
            await assembler.add_user("s", f"And {number}?")


async def test_signed_thinking_goes_back_verbatim_while_the_prefix_stands() -> None:
    assembler = make_assembler()
    await assembler.add_user("s", "Hello")
    context = await assembler.assemble("s", model=CLAUDE)
    await assembler.record("s", claude_reply(thought("sig"), said("Hi")), context)
    await assembler.add_user("s", "Go on")

    payload = (await assembler.assemble("s", model=CLAUDE)).to_anthropic()

    assistant = next(message for message in payload["messages"] if message["role"] == "assistant")
    assert assistant["content"][0] == thought("sig")


Change = Callable[[ContextAssembler], dict[str, Any]]

PREFIX_CHANGES: dict[str, dict[str, Any]] = {
    "another model": {"model": "claude-sonnet-5-5"},
    "other tools": {"model": CLAUDE, "disabled_tools": ["find_flights"]},
    "another account": {"model": CLAUDE},
    "another provider": {"model": GPT},
}


@pytest.mark.parametrize("change", PREFIX_CHANGES)
async def test_signed_thinking_is_left_out_and_reported_when_its_prefix_changed(
    change: str,
) -> None:
    store = InMemoryStore()
    assembler = make_assembler(sessions=store)
    await assembler.add_user("s", "Hello")
    context = await assembler.assemble("s", model=CLAUDE)
    await assembler.record("s", claude_reply(thought("sig"), said("Hi")), context)
    await assembler.add_user("s", "Go on")
    config = AssemblerConfig(account="other") if change == "another account" else None
    other = make_assembler(sessions=store, config=config)

    context = await other.assemble("s", **PREFIX_CHANGES[change])

    assert "sig" not in json.dumps(context.to_request())
    assert any(
        "reasoning" in entry.rule or "think" in entry.reason.lower()
        for entry in context.report.entries
        if entry.decision != "kept"
    )


async def test_a_reply_of_an_unknown_shape_is_refused() -> None:
    assembler = make_assembler()
    await assembler.add_user("s", "Hello")
    context = await assembler.assemble("s", model=CLAUDE)

    with pytest.raises(ReplyError, match="anthropic"):
        await assembler.record("s", {"answer": 42}, context)


async def test_a_result_for_an_unknown_session_is_refused() -> None:
    assembler = make_assembler()

    with pytest.raises(UnknownSessionError):
        await assembler.add_tool_result("s", "c1", "done")


@pytest.mark.parametrize("agent_id", [None, "guide"])
async def test_a_session_that_a_user_begins_has_its_time(agent_id: str | None) -> None:
    moment = datetime(2026, 8, 1, 9, 30, tzinfo=UTC)
    assembler = ContextAssembler(now=lambda: moment)

    await assembler.add_user("s", "Hello", agent_id=agent_id)

    head = await assembler.sessions.head("s")
    assert (head.session.created_at, head.session.agent_id) == (moment, agent_id)


async def test_a_session_begun_for_an_agent_belongs_to_it(tmp_path: Path) -> None:
    (tmp_path / "AGENT.md").write_text("General.")
    (tmp_path / "AGENT.guide.md").write_text("For the guide.")
    assembler = make_assembler(bootstrap=tmp_path)
    await assembler.add_user("s", "Hello", agent_id="guide")
    await assembler.add_user("s", "Hello again", agent_id="guide")

    context = await assembler.assemble("s", model=CLAUDE)

    assert context.system_prompt == "For the guide."
    assert context.metadata.agent_id == "guide"


async def test_a_session_moves_to_the_other_provider() -> None:
    assembler = make_assembler()
    await assembler.add_user("s", "Hello")
    context = await assembler.assemble("s", model=CLAUDE)
    await assembler.record("s", claude_reply(called("toolu_1")), context)
    await assembler.add_tool_result("s", "toolu_1", "two", is_error=True)

    context = await assembler.assemble("s", model=GPT)

    roles = [message["role"] for message in context.to_openai_chat()["messages"]]
    assert roles[-2:] == ["assistant", "tool"]
    assert context.check() == []


# ---- compaction ----


async def test_a_long_history_should_be_compacted() -> None:
    assembler = make_assembler()
    talk = [
        user_event("question") if n % 2 else assistant_event("answer " * 50) for n in range(120)
    ]
    await fill(assembler, "s", user_event("Hello"), *talk)

    check = await assembler.check_compaction("s", model=CLAUDE)
    context = await assembler.assemble("s", model=CLAUDE)

    assert (check.needed, check.reason) == (True, "message_count")
    assert (context.metadata.should_compact, context.metadata.compaction_reason) == (
        True,
        "message_count",
    )


async def test_a_fixed_part_over_the_trigger_is_infeasible_and_stays_so(tmp_path: Path) -> None:
    (tmp_path / "AGENT.md").write_text("rule " * 9000)
    assembler = make_assembler(bootstrap=tmp_path)
    await assembler.add_user("s", "Hello")
    options: dict[str, Any] = {"model": GPT, "max_context_tokens": 10_000}

    first = await assembler.check_compaction("s", **options)
    second = await assembler.check_compaction("s", **options)

    assert (first.needed, first.feasible) == (False, False)
    assert first == second
    assert first.details["culprits"]


async def test_compaction_can_be_asked_for() -> None:
    assembler = make_assembler()
    await fill(assembler, "s", user_event("a"), assistant_event("b"), user_event("c"))

    check = await assembler.check_compaction("s", model=CLAUDE, is_explicit=True)

    assert (check.needed, check.reason) == (True, "explicit")


# ---- caching, concurrency, life time ----


async def test_a_repeated_call_is_answered_from_the_cache_until_an_event_comes() -> None:
    assembler = make_assembler()
    await assembler.add_user("s", "Hello")

    hits = [(await assembler.assemble("s", model=CLAUDE)).metadata.cache_hit for _ in range(2)]
    await assembler.add_user("s", "More")
    after = await assembler.assemble("s", model=CLAUDE)

    assert hits == [False, True]
    assert not after.metadata.cache_hit
    assert after.messages[-1].text == "More"


async def test_a_session_deleted_and_begun_again_is_not_answered_from_the_cache() -> None:
    assembler = make_assembler()
    await assembler.add_user("s", "Old")
    await assembler.assemble("s", model=CLAUDE)
    await assembler.sessions.delete("s")
    await assembler.add_user("s", "New")

    context = await assembler.assemble("s", model=CLAUDE)

    assert context.messages[0].text == "New"


async def test_an_edited_file_shows_on_the_next_call(tmp_path: Path) -> None:
    file = tmp_path / "AGENT.md"
    file.write_text("version 1")
    assembler = make_assembler(bootstrap=tmp_path)
    await assembler.add_user("s", "Hello")
    first = await assembler.assemble("s", model=CLAUDE)
    file.write_text("version 2")

    second = await assembler.assemble("s", model=CLAUDE)

    assert (first.system_prompt, second.system_prompt) == ("version 1", "version 2")


async def test_fresh_and_invalidation_go_around_the_cache() -> None:
    assembler = make_assembler()
    await assembler.add_user("s", "Hello")
    await assembler.assemble("s", model=CLAUDE)

    fresh = await assembler.assemble("s", model=CLAUDE, fresh=True)
    forgotten = assembler.invalidate_cache()
    again = await assembler.assemble("s", model=CLAUDE)

    assert not fresh.metadata.cache_hit
    assert forgotten == 1
    assert not again.metadata.cache_hit
    assert assembler.cache_stats().misses == 2


async def test_many_sessions_may_be_assembled_at_once() -> None:
    assembler = make_assembler()
    names = [f"s{number}" for number in range(25)]
    for name in names:
        await assembler.add_user(name, f"I am {name}")

    contexts = await asyncio.gather(*(assembler.assemble(name, model=CLAUDE) for name in names))

    assert [context.messages[0].text for context in contexts] == [f"I am {n}" for n in names]


def test_assembling_without_a_loop(tmp_path: Path) -> None:
    assembler = make_assembler(sessions=f"sqlite:{tmp_path / 'agent.db'}")

    async def begin() -> None:
        await assembler.add_user("s", "Hello")

    asyncio.run(begin())
    context = assembler.assemble_sync("s", model=CLAUDE)

    assert context.messages[0].text == "Hello"
    asyncio.run(assembler.close())


async def test_assembling_synchronously_inside_a_running_loop() -> None:
    assembler = make_assembler()
    await assembler.add_user("s", "Hello")

    context = assembler.assemble_sync("s", model=CLAUDE)

    assert isinstance(context, AssembledContext)
    with pytest.raises(UnknownSessionError):
        assembler.assemble_sync("t", model=CLAUDE)


async def test_entering_watches_and_leaving_closes(tmp_path: Path) -> None:
    async with create_context_assembler(
        sessions=f"sqlite:{tmp_path / 'agent.db'}", bootstrap=tmp_path
    ) as assembler:
        await assembler.add_user("s", "Hello")
        context = await assembler.assemble("s", model=CLAUDE)

    assert context.messages[0].text == "Hello"


async def test_tool_choice_reaches_the_payload() -> None:
    assembler = make_assembler()
    await assembler.add_user("s", "Hello")

    context = await assembler.assemble("s", model="gpt-4o", tool_choice="any")

    assert context.parameters.tool_choice == ToolChoice(mode="any")
    assert context.to_openai_chat()["tool_choice"] == "required"


async def test_a_query_without_memory_is_not_ignored_in_silence() -> None:
    assembler = make_assembler()
    await assembler.add_user("s", "Hello")

    context = await assembler.assemble("s", model=CLAUDE, query="flights")

    assert any("memory" in warning for warning in context.report.warnings)


def test_text_parts_can_be_given_as_parts() -> None:
    assert user_event(Text("a")).parts == (Text("a"),)


async def test_only_the_notes_at_the_end_become_events() -> None:
    assembler = make_assembler()
    later = FIRST_DAY + timedelta(hours=3)
    await fill(
        assembler,
        "s",
        user_event("Hello", created_at=FIRST_DAY),
        assistant_event("Hi", created_at=FIRST_DAY),
        user_event("And now?", created_at=later),
    )
    context = await assembler.assemble("s", model=CLAUDE)
    before = [message.text for message in context.messages]

    events = await assembler.record("s", claude_reply(said("Soon")), context)
    after = await assembler.assemble("s", model=CLAUDE)

    assert [event.type for event in events] == ["system", "assistant"]
    assert [message.text for message in after.messages][: len(before)] == before


async def test_a_reply_of_thinking_alone_does_not_part_later_ones_from_their_prefix() -> None:
    assembler = make_assembler()
    await assembler.add_user("s", "Hello")
    for number in range(3):
        context = await assembler.assemble("s", model=CLAUDE)
        blocks = [thought(f"sig{number}"), *([said("Hi")] if number != 1 else [])]
        await assembler.record("s", claude_reply(*blocks), context)
        await assembler.add_user("s", f"Go on {number}")

    payload = (await assembler.assemble("s", model=CLAUDE)).to_anthropic()

    assert "sig2" in json.dumps(payload)


async def test_a_wanted_note_is_given_again_once_its_exchange_was_cut() -> None:
    assembler = make_assembler()
    for number in range(20):
        await assembler.add_user("s", f"question {number} " + "word " * 100)
        context = await assembler.assemble(
            "s", model=GPT, max_context_tokens=1500, additional_system_prompt="Answer in French."
        )
        payload = json.dumps(context.to_openai_chat())
        assert "Answer in French." in payload, number
        assert context.metadata.ledger.used_tokens <= 1500
        reply = {
            "id": "x",
            "object": "chat.completion",
            "model": GPT,
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "stop",
                    "message": {"role": "assistant", "content": "Oui."},
                }
            ],
        }
        await assembler.record("s", reply, context)


async def test_what_arrives_while_the_model_is_at_work_stands_behind_its_answer() -> None:
    assembler = make_assembler()
    await assembler.add_user("s", "first")
    context = await assembler.assemble("s", model=CLAUDE)
    sent = without_cache_marks(context.to_anthropic()["messages"])
    await assembler.add_user("s", "second")
    await assembler.record("s", claude_reply(said("answer to the first")), context)

    after = await assembler.assemble("s", model=CLAUDE)

    messages = without_cache_marks(after.to_anthropic()["messages"])
    texts = [message.text for message in after.messages if message.role != "system"]
    assert texts == ["first", "answer to the first", "second"]
    assert messages[: len(sent)] == sent


async def test_a_turn_that_waits_for_the_provider_is_sent_back_as_it_is() -> None:
    assembler = make_assembler()
    await assembler.add_user("s", "Search the web")
    context = await assembler.assemble("s", model=CLAUDE)
    search: dict[str, Any] = {
        "type": "server_tool_use",
        "id": "srvtoolu_1",
        "name": "web_search",
        "input": {},
    }
    await assembler.record("s", claude_reply(said("Searching"), search), context)

    context = await assembler.assemble("s", model=CLAUDE)

    assert context.to_anthropic()["messages"][-1]["role"] == "assistant"
    assert context.check() == []


async def test_the_cut_level_tells_whether_the_payload_only_grew() -> None:
    assembler = make_assembler()
    previous: list[Any] = []
    previous_level = 0
    rewrites = 0
    for number in range(40):
        await assembler.add_user("s", f"question {number} " + "word " * 60)
        context = await assembler.assemble("s", model=GPT, max_context_tokens=1500)
        messages = context.to_openai_chat()["messages"]
        if context.metadata.cut_level == previous_level:
            assert messages[: len(previous)] == previous
        else:
            rewrites += 1
        previous, previous_level = messages, context.metadata.cut_level

    assert 0 < rewrites < 20


async def test_a_long_history_is_built_beside_the_event_loop() -> None:
    assembler = make_assembler()
    talk = [user_event("q") if n % 2 == 0 else assistant_event("a") for n in range(401)]
    await fill(assembler, "s", *talk)

    context = await assembler.assemble("s", model=GPT)

    assert len(context.messages) == 401


async def test_a_reply_belongs_to_the_session_of_its_context() -> None:
    assembler = make_assembler()
    await assembler.add_user("a", "Hello")
    await assembler.add_user("b", "Hello")
    context = await assembler.assemble("a", model=CLAUDE)

    with pytest.raises(InvalidParameterError, match="'a'"):
        await assembler.record("b", claude_reply(said("Hi")), context)


async def test_explaining_reports_what_assembling_reports() -> None:
    assembler = make_assembler()
    await assembler.add_user("s", "Hello")

    context = await assembler.assemble("s", model=CLAUDE)
    report = await assembler.explain("s", model=CLAUDE)

    assert (report.entries, report.parameters) == (
        context.report.entries,
        context.report.parameters,
    )


async def test_a_context_can_be_pickled() -> None:
    assembler = make_assembler()
    await assembler.add_user("s", "Hello")
    context = await assembler.assemble("s", model=CLAUDE)

    again = pickle.loads(pickle.dumps(context))

    assert again.to_anthropic() == context.to_anthropic()
    assert again.report == copy.deepcopy(context).report == context.report
    assert again.report.forecast == context.report.forecast


@pytest.mark.parametrize("value", [{"flights": 2}, [1, 2], None, 3, True])
async def test_a_tool_may_return_any_json_value(value: Any) -> None:
    assembler = make_assembler()
    await assembler.add_user("s", "Hello")

    event = await assembler.add_tool_result("s", "c1", value)

    assert json.loads(event.text) == value


@pytest.mark.parametrize("content", [{"a": 1}, 3, [1], object()])
async def test_content_that_is_neither_text_nor_parts_is_refused_by_name(content: Any) -> None:
    assembler = make_assembler()

    with pytest.raises(ContentError, match="text or parts"):
        await assembler.add_user("s", content)


async def test_the_report_adds_up_to_the_ledger() -> None:
    assembler = make_assembler()
    events = [user_event("Migrate the billing table.")]
    for number in range(20):
        call = ToolCall(call_id=f"c{number}", name="find_flights", arguments={"city": "Faro"})
        events += [assistant_event(call), tool_result_event(f"c{number}", "row " * 300)]
    await fill(assembler, "s", *events)

    report = await assembler.explain("s", model=GPT, max_context_tokens=4000)

    rows = [entry for entry in report.entries if entry.kind in ("message", "note")]
    listed = sum(row.tokens_after for row in rows if row.decision != "dropped")
    assert listed == report.ledger.tokens_of("history", "notes")


async def test_a_blank_compaction_covers_nothing() -> None:
    assembler = make_assembler()
    blank = SessionEvent(body=CompactionBody(summary=" ", first_seq=1, last_seq=2))
    await fill(
        assembler, "s", user_event("one"), assistant_event("two"), blank, user_event("three")
    )

    context = await assembler.assemble("s", model=CLAUDE)

    assert [message.text for message in context.messages] == ["one", "two", "three"]
    assert any(entry.decision == "dropped" for entry in context.report.entries)


async def test_a_session_without_events_needs_no_compaction() -> None:
    assembler = make_assembler()
    await assembler.sessions.create(Session(id="s"))

    check = await assembler.check_compaction("s", model=CLAUDE)

    assert (check.needed, check.feasible) == (False, True)


async def test_a_history_that_fits_without_its_stale_reasoning_is_not_cut() -> None:
    assembler = make_assembler()
    stale = Provenance(provider="anthropic", model=CLAUDE, prefix_fingerprint="stale")
    block = {"type": "thinking", "thinking": "", "signature": "x" * 4000}
    thinking = Thinking(provider="anthropic", block=block)
    await fill(
        assembler,
        "s",
        user_event("one"),
        assistant_event("two"),
        user_event("three"),
        assistant_event((thinking, Text("four")), made_by=stale),
        user_event("five"),
    )
    whole = await assembler.assemble("s", model=CLAUDE)

    context = await assembler.assemble(
        "s", model=CLAUDE, max_context_tokens=whole.metadata.ledger.used_tokens
    )

    assert context.messages == whole.messages
    assert not context.metadata.truncated


async def test_an_image_that_cannot_be_sent_is_told_of_and_its_line_counts() -> None:
    assembler = make_assembler()
    picture = Image(source=Base64Source(media_type="image/png", data="iVBORw0KGgo="))
    await fill(assembler, "s", user_event("Draw"), assistant_event(picture), user_event("Thanks"))
    whole = await assembler.assemble("s", model=CLAUDE)

    size = whole.metadata.ledger.used_tokens
    context = await assembler.assemble("s", model=CLAUDE, max_context_tokens=size)

    assert context.metadata.ledger.used_tokens <= size
    assert any("image" in warning.lower() for warning in context.report.warnings)
    assert any(entry.rule.startswith("media.") for entry in context.report.entries)
