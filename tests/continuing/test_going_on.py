"""A step that goes on from the last one is the step that a new assembler makes."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from context_assembler import ContextAssembler
from context_assembler.config import AssemblerConfig, BootstrapSettings
from context_assembler.errors import AssemblyError
from context_assembler.sessions import InMemoryStore
from context_assembler.values.context import AssembledContext
from context_assembler.values.events import (
    AssistantBody,
    CompactionBody,
    EventBody,
    Provenance,
    SessionEvent,
    SystemBody,
    ToolResultBody,
    Usage,
    UserBody,
    assistant_event,
    tool_result_event,
    user_event,
)
from context_assembler.values.messages import CLOCK
from context_assembler.values.options import BootstrapPolicy, ClockSettings
from context_assembler.values.parts import JsonObject, Part, Text, Thinking, ToolCall, ToolResult

REASONING: JsonObject = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [],
    "encrypted_content": "c2VjcmV0",
}
NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)
MODELS = ("gpt-5.5", "gpt-4.1", "claude-opus-5-5", "claude-haiku-4-5", "gemini-3.5-flash")


def look(path: str, lines: int = 1) -> str:
    """Look into a file."""
    return path * lines


def find(words: str) -> str:
    """Find words."""
    return words


def everything(context: AssembledContext) -> dict[str, Any]:
    """Return all that may not depend on what came before."""
    report, metadata = context.report, context.metadata
    return {
        "draft": context.draft,
        "metadata": replace(metadata, assembly_ms=0.0, cache_hit=False),
        "report": replace(report, timings_ms={}, outlook=None),
        "forecast": report.forecast,
        "epoch": context.epoch,
        "before": context.epoch_before,
        "notes": context.placed_notes,
        "others": {name: everything(one) for name, one in context.others.items()},
        "payload": context.to_request(),
    }


async def outcome(assembler: ContextAssembler, asked: dict[str, Any]) -> Any:
    """Return the step, or how it was refused."""
    try:
        return everything(await assembler.assemble("trip", **asked))
    except AssemblyError as error:
        return repr(error)


async def check_every_step(
    batches: Sequence[Sequence[SessionEvent]], make: Callable[..., ContextAssembler], **asked: Any
) -> None:
    """Append the batches, and hold each step of an old assembler against that of a new one."""
    store = InMemoryStore()
    old = make(store)
    for batch in batches:
        await store.append("trip", [replace(event, id="", seq=0) for event in batch])
        step = await outcome(old, asked)
        assert step == await outcome(make(store), asked)


def plainly(store: InMemoryStore) -> ContextAssembler:
    return ContextAssembler(store, tools=[look, find], config=AssemblerConfig())


def exchange(number: int, *, length: int = 30) -> list[SessionEvent]:
    call = ToolCall(call_id=f"call_{number}", name="look", arguments={"path": f"{number}.py"})
    return [assistant_event(call), tool_result_event(call.call_id, f"line {number}\n" * length)]


# ---- the usual step ----


@pytest.mark.parametrize("model", MODELS)
async def test_an_exchange_behind_a_long_beginning_is_put_there(
    model: str, steps: list[bool]
) -> None:
    batches = [[user_event("Go through all files.")], *(exchange(n) for n in range(30))]

    await check_every_step(batches, plainly, model=model)

    assert steps == [True] * 30


@pytest.mark.parametrize("strategy", ["smart", "simple"])
async def test_between_two_cuts_every_step_goes_on(strategy: str, steps: list[bool]) -> None:
    batches = [[user_event("Go through all files.")], *(exchange(n, length=60) for n in range(60))]

    await check_every_step(
        batches,
        plainly,
        model="gpt-4.1",
        max_tokens=500,
        max_context_tokens=6_000,
        truncation_strategy=strategy,
    )

    cuts = steps.count(False)
    assert 3 <= cuts <= 20
    assert len(steps) == 60


@pytest.mark.parametrize("strategy", ["smart", "simple"])
async def test_behind_an_exchange_that_was_shortened_in_flight_every_step_goes_on(
    strategy: str, steps: list[bool]
) -> None:
    sizes = [60, 60, 9_000, *[20] * 12, 9_000, *[20] * 12]
    batches = [exchange(number, length=size) for number, size in enumerate(sizes)]

    await check_every_step(
        [[user_event("Go through all files.")], *batches],
        plainly,
        model="gpt-4.1",
        max_tokens=500,
        max_context_tokens=6_000,
        truncation_strategy=strategy,
    )

    assert [number for number, goes_on in enumerate(steps) if not goes_on] == [2, 15]


@pytest.mark.parametrize(
    "asked", [{"truncation_strategy": "sliding", "window_turns": 3}, {"cache_stable": False}]
)
async def test_a_cut_that_moves_with_every_step_is_made_anew(
    asked: dict[str, Any], steps: list[bool]
) -> None:
    batches = [[user_event("Go."), *exchange(n, length=90)] for n in range(12)]

    await check_every_step(
        batches, plainly, model="gpt-4.1", max_tokens=500, max_context_tokens=4_000, **asked
    )

    assert steps.count(False) == 1
    assert len(steps) < 11


async def test_turns_of_a_chat_go_on_while_no_clock_is_due(steps: list[bool]) -> None:
    def said(body: EventBody, minutes: int) -> SessionEvent:
        return SessionEvent(body=body, created_at=NOON + timedelta(minutes=minutes))

    def turn(number: int) -> list[SessionEvent]:
        return [
            said(AssistantBody(parts=(Text(f"Answer {number}."),)), 2 * number + 1),
            said(UserBody(parts=(Text(f"Question {number}?"),)), 2 * number + 2),
        ]

    first = [
        said(UserBody(parts=(Text("Good day."),)), 0),
        said(SystemBody(parts=(Text("Time: noon"),), note=CLOCK), 0),
        said(AssistantBody(parts=(Text("Yes?"),)), 0),
        said(UserBody(parts=(Text("This."),)), 1),
    ]

    await check_every_step([first, *map(turn, range(1, 9))], plainly, model="gpt-4.1")

    assert steps == [True, True, True, True, False, True, True]


# ---- what comes between ----


def later_events() -> dict[str, list[SessionEvent]]:
    """What does more than to put messages behind the others, by what it does."""
    early = ToolResult(call_id="call_0", content=(Text("late news"),))
    return {
        "a compaction": [
            SessionEvent(body=CompactionBody(summary="All is well.", first_seq=1, last_seq=6))
        ],
        "a result of an earlier call": [SessionEvent(body=ToolResultBody(result=early))],
        "a reply to an earlier event": [
            replace(assistant_event("Late."), answers_seq=2),
            user_event("?"),
        ],
        "an instruction": [SessionEvent(body=SystemBody(parts=(Text("Be brief."),)))],
        "a reply without a question": [assistant_event("Well."), assistant_event("Well?")],
        "a call that is not answered": [*exchange(900)[:1], user_event("Stop.")],
        "a pinned message": [replace(user_event("Never delete."), is_pinned=True)],
        "text that cannot be sent": [user_event("a\0b \ud800")],
        "an empty message": [user_event(""), user_event("hello")],
        "the same call id again": exchange(0),
        "a reply of another protocol": [
            SessionEvent(
                body=AssistantBody(
                    parts=(Text("Over chat."),),
                    made_by=Provenance(provider="openai_chat", model="gpt-5.5"),
                )
            ),
            user_event("And?"),
        ],
        "reasoning": [
            SessionEvent(
                body=AssistantBody(
                    parts=(
                        Thinking(text="Hm.", provider="openai_responses", block=REASONING),
                        Text("So."),
                    ),
                    made_by=Provenance(provider="openai_responses", model="gpt-5.5"),
                )
            ),
            user_event("Go on."),
        ],
        "what a call was charged": [
            SessionEvent(
                body=AssistantBody(
                    parts=(Text("So."),),
                    made_by=Provenance(
                        provider="openai_responses",
                        model="gpt-5.5",
                        usage=Usage(input_tokens=900, output_tokens=9),
                        token_factor=1.25,
                    ),
                )
            ),
            user_event("Go on."),
        ],
    }


@pytest.mark.parametrize("model", ["gpt-5.5", "claude-opus-5-5", "gemini-3.5-flash"])
@pytest.mark.parametrize("what", later_events())
async def test_whatever_comes_between_every_step_is_made_alike(what: str, model: str) -> None:
    batches = [
        [user_event("Go through all files."), *exchange(0)],
        *(exchange(n) for n in range(1, 5)),
        later_events()[what],
        *(exchange(n) for n in range(5, 9)),
    ]

    await check_every_step(batches, plainly, model=model, max_tokens=500, max_context_tokens=3_000)


@pytest.mark.parametrize("model", ["gpt-5.5", "claude-opus-5-5", "gemini-3.5-flash"])
@pytest.mark.parametrize("recorded", ["gpt-4.1", "gpt-4o"])
async def test_steps_behind_a_call_of_another_model_declare_their_tools_alike(
    model: str, recorded: str
) -> None:
    store = InMemoryStore()
    old = plainly(store)
    await store.append("trip", [user_event("Go through all files.")])
    context = await old.assemble("trip", model=recorded)
    await old.record("trip", {**chat_reply(90), "model": recorded}, context)

    for number in range(4):
        await store.append("trip", exchange(number))
        assert await outcome(old, {"model": model}) == await outcome(
            plainly(store), {"model": model}
        )


@pytest.mark.parametrize("policy", ["refresh", "freeze"])
async def test_the_day_on_which_a_session_begins_is_told_once_it_is_known(
    policy: BootstrapPolicy,
) -> None:
    config = AssemblerConfig(
        clock=ClockSettings(date_in_system=True), bootstrap=BootstrapSettings(policy=policy)
    )

    def dated(store: InMemoryStore) -> ContextAssembler:
        return ContextAssembler(store, config=config)

    timed = [replace(event, created_at=NOON) for event in exchange(2)]
    batches = [[user_event("Go.")], exchange(0), exchange(1), timed, exchange(3)]

    await check_every_step(batches, dated, model="gpt-4.1")


async def test_other_settings_in_between_are_heeded(steps: list[bool]) -> None:
    store = InMemoryStore()
    old = plainly(store)
    await store.append("trip", [user_event("Go.")])
    calls: list[dict[str, Any]] = [
        {"model": "gpt-4.1"},
        {"model": "gpt-4.1", "temperature": 0.5},
        {"model": "gpt-4.1", "temperature": 0.5},
        {"model": "gpt-5.5"},
        {"model": "gpt-4.1", "temperature": 0.5},
        {"model": "gpt-4.1", "temperature": 0.5, "additional_system_prompt": "Be brief."},
    ]
    for number, asked in enumerate(calls):
        await store.append("trip", exchange(number))
        assert await outcome(old, asked) == await outcome(plainly(store), asked)

    assert steps == [False, True, True, False]


async def test_two_steps_at_once_do_not_mix() -> None:
    store = InMemoryStore()
    old = plainly(store)
    await store.append("trip", [user_event("Go."), *exchange(0)])
    await old.assemble("trip", model="gpt-4.1")
    await store.append("trip", exchange(1))
    asked: list[dict[str, Any]] = [
        {"model": "gpt-4.1"},
        {"model": "gpt-4.1", "fresh": True},
        {"model": "gpt-5.5"},
        {"model": "gpt-4.1", "max_context_tokens": 200, "max_tokens": 50},
    ]

    found = await asyncio.gather(*(outcome(old, one) for one in asked))

    assert found == [await outcome(plainly(store), one) for one in asked]


async def test_a_session_begun_anew_is_not_taken_for_the_old_one() -> None:
    store = InMemoryStore()
    old = plainly(store)
    for text in ("Go.", "Stay."):
        await store.append("trip", [user_event(text), *exchange(0)])
        await old.assemble("trip", model="gpt-4.1")
        await store.append("trip", exchange(1))
        step = await outcome(old, {"model": "gpt-4.1"})
        assert step == await outcome(plainly(store), {"model": "gpt-4.1"})
        await store.delete("trip")


# ---- any session ----


@st.composite
def _batches(draw: DrawFn) -> list[list[SessionEvent]]:
    """A session in the order of its events, as several appends."""
    numbers = iter(range(1_000))
    events = [user_event("Begin."), *draw(st.lists(_turns(numbers), max_size=9).map(_joined))]
    minutes = draw(st.lists(st.integers(0, 30), min_size=len(events), max_size=len(events)))
    if draw(st.booleans()):
        moments = [NOON + timedelta(minutes=sum(minutes[: at + 1])) for at in range(len(events))]
        events = [replace(e, created_at=at) for e, at in zip(events, moments, strict=True)]
    cuts = sorted(draw(st.sets(st.integers(1, len(events)), max_size=8)) | {len(events)})
    return [events[a:b] for a, b in zip([0, *cuts], cuts, strict=False) if a < b]


def _joined(lists: list[list[SessionEvent]]) -> list[SessionEvent]:
    return [event for events in lists for event in events]


_TEXTS = st.sampled_from(["yes", "no " * 20, "line\n" * 80, "", "a\0"])


@st.composite
def _turns(draw: DrawFn, numbers: Iterator[int]) -> list[SessionEvent]:
    kind = draw(st.sampled_from(["call", "call", "call", "answer", "user", "user", "odd"]))
    if kind == "user":
        pinned = draw(st.integers(0, 9)) == 9
        return [replace(user_event(draw(_TEXTS)), is_pinned=pinned)]
    if kind == "answer":
        return [assistant_event(draw(_TEXTS)), user_event(draw(_TEXTS))]
    if kind == "odd":
        body: EventBody = draw(
            st.one_of(
                st.builds(
                    CompactionBody, summary=_TEXTS, first_seq=st.just(1), last_seq=st.integers(1, 9)
                ),
                st.builds(SystemBody, parts=_TEXTS.map(lambda text: (Text(text),))),
                st.builds(AssistantBody, parts=st.just((Text("again"),))),
            )
        )
        return [SessionEvent(body=body, answers_seq=draw(st.sampled_from([0, 0, 1, 3])))]
    calls = [
        ToolCall(call_id=f"c{next(numbers)}", name="look", arguments={"path": "x"})
        for _ in range(draw(st.integers(1, 3)))
    ]
    parts: tuple[Part, ...] = (*draw(st.just(()) | _TEXTS.map(lambda text: (Text(text),))), *calls)
    answered = calls[: draw(st.sampled_from([len(calls)] * 4 + [0]))]
    results = [tool_result_event(call.call_id, draw(_TEXTS)) for call in answered]
    return [SessionEvent(body=AssistantBody(parts=parts)), *results]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    batches=_batches(),
    model=st.sampled_from(MODELS),
    room=st.sampled_from([None, 900, 1_500, 3_000]),
    strategy=st.sampled_from(["smart", "simple", "sliding"]),
    is_stable=st.booleans(),
)
def test_any_session_is_assembled_alike_at_every_step(
    *,
    batches: list[list[SessionEvent]],
    model: str,
    room: int | None,
    strategy: str,
    is_stable: bool,
) -> None:
    asked: dict[str, Any] = {
        "model": model,
        "max_tokens": 100,
        "max_context_tokens": room,
        "truncation_strategy": strategy,
        "cache_stable": is_stable,
    }
    asyncio.run(check_every_step(batches, plainly, **asked))


async def test_advice_on_compaction_is_that_of_a_context_made_anew() -> None:
    store = InMemoryStore()
    first = ContextAssembler(store)
    bounds: dict[str, Any] = {"model": "gpt-4.1", "max_tokens": 500, "max_context_tokens": 3_000}
    for _ in range(9):
        await first.add_user("s", "one two three four five six seven eight nine ten " * 20)
        context = await first.assemble("s", **bounds)
        charged = round(context.report.ledger.used_tokens * 1.25)
        await first.record("s", chat_reply(charged), context)
    await first.add_user("s", "go on")
    warm = ContextAssembler(store)
    await warm.assemble("s", **bounds)  # in a new process, which sees what was charged
    await warm.add_user("s", "are you there?")

    going_on = await warm.assemble("s", **bounds)

    anew = await ContextAssembler(store).assemble("s", **bounds)
    check = await warm.check_compaction("s", **bounds)
    assert going_on.report.ledger == anew.report.ledger
    assert going_on.metadata.should_compact is anew.metadata.should_compact is check.needed is True


def chat_reply(prompt_tokens: int) -> dict[str, Any]:
    message = {"role": "assistant", "content": "ok"}
    return {
        "id": "c1",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-4.1",
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": 5,
            "total_tokens": prompt_tokens + 5,
        },
    }
