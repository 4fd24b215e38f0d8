"""A step that goes on from the last one is the step of a new process, and only adds to it."""

import copy
import json
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_assembler import (
    AssemblerConfig,
    AssemblyError,
    ContextAssembler,
    ContextOverflowError,
    InMemoryStore,
    SessionEvent,
    ToolCall,
    ToolSpec,
    assistant_event,
)
from tests.core.sessions import HAIKU, OPUS, PROVIDERS, QUIET, add, asks, opened, stored, turns
from tests.history.logs import broken_logs, sound_logs
from tests.history.talk import block, result, talk

every_provider = pytest.mark.parametrize("provider", PROVIDERS)


def outcome(assembler: ContextAssembler, **asked: Any) -> Any:
    """Return all that may not depend on what came before, or how the step was refused."""
    try:
        context = assembler.assemble_sync("s", **asked)
    except AssemblyError as error:
        return repr(error)
    payload = context.to_request()
    assert context.check() == []
    report, ledger = context.report, context.metadata.ledger
    # That a model retires is told once in a process.
    warnings = [one for one in report.warnings if "retire" not in one]
    return json.dumps(payload), report.entries, warnings, ledger, context.metadata.cut_id


def appended(events: Sequence[SessionEvent], steps: Sequence[int]) -> Any:
    """Yield a store as it grows by batches of these sizes."""
    store, end = InMemoryStore(), 0
    for number in range(len(events)):
        size = steps[number % len(steps)]
        batch = [replace(event, id="", seq=0) for event in events[end : end + size]]
        if batch:
            store.append_now("s", batch)
            yield store
        end += size


sizes = st.lists(st.integers(1, 5), min_size=1, max_size=4)


@every_provider
@given(events=broken_logs, steps=sizes, room=st.none() | st.integers(60, 400))
@settings(max_examples=12)
def test_any_step_is_that_of_a_new_process(
    provider: str, events: list[SessionEvent], steps: list[int], room: int | None
) -> None:
    asked = {"model": PROVIDERS[provider], "max_tokens": 50, "on_overflow": "shorten"}
    asked |= {"max_context_tokens": room + 50} if room else {}
    old: ContextAssembler | None = None
    for store in appended(events, steps):
        old = old or opened(store)
        assert outcome(old, **asked) == outcome(opened(store), **asked)


PAUSED = [
    assistant_event(
        [block("anthropic", type="server_tool_use", id="srvtoolu_a", name="x", input={})]
    ),
    assistant_event(
        [block("anthropic", type="web_search_tool_result", tool_use_id="srvtoolu_a", content=[])]
    ),
    *talk("U hi", "A yo", "N note", "S rule"),
]
MIXED = [
    assistant_event([*PAUSED[0].parts, ToolCall(call_id="c1", name="look")]),
    assistant_event([ToolCall(call_id="c2", name="look")]),
    *talk("T[c1] one", "T[c2] two"),
    PAUSED[1],
    *talk("U hi"),
]


@pytest.mark.parametrize("kinds", [PAUSED, MIXED])
def test_a_paused_call_goes_on_as_in_a_new_process_whatever_comes_between(
    kinds: list[SessionEvent],
) -> None:
    asked, checked = {"model": OPUS, "max_tokens": 50}, set[tuple[int, ...]]()
    for events in (each for each in product(kinds, repeat=3) if kinds[0] in each):
        old: ContextAssembler | None = None
        for end, store in enumerate(appended(events, [1]), start=1):
            old = old or opened(store)
            step, begun = outcome(old, **asked), tuple(map(id, events[:end]))
            # The beginning that several logs share is compared once.
            assert begun in checked or step == outcome(opened(store), **asked)
            checked.add(begun)


@every_provider
@given(events=sound_logs, steps=sizes, room=st.none() | st.integers(250, 600))
@settings(max_examples=8)
def test_while_the_cut_stays_a_payload_is_the_one_before_and_more(
    provider: str, events: list[SessionEvent], steps: list[int], room: int | None
) -> None:
    asked: dict[str, Any] = {"model": PROVIDERS[provider], "cache": "off", "max_tokens": 50}
    asked |= {"max_context_tokens": room + 50, "on_overflow": "shorten"} if room else {}
    before, cut, old = list[str](), 0, None
    for store in appended(events, steps):
        old = old or opened(store, **QUIET)
        if is_waiting(store):
            continue
        try:
            context = old.assemble_sync("s", **asked)
        except ContextOverflowError:
            return
        sent = [json.dumps(one) for one in list_in(context.to_request())]
        if context.metadata.cut_id == cut:
            assert sent[: len(before)] == before
        before, cut = sent[:-1], context.metadata.cut_id


def is_waiting(store: InMemoryStore) -> bool:
    """Whether a call has no result yet."""
    kinds = [part["type"] for body in store.bodies("s", [(1, 99)]) for part in body["parts"]]
    return kinds.count("tool_call") > kinds.count("tool_result")


def list_in(payload: Mapping[str, Any]) -> list[Any]:
    found: list[Any] = next(
        payload[key] for key in ("messages", "input", "contents") if key in payload
    )
    return found


# What reaches back: events, and what is appended when they were sent.
WAITING = ["U a", "A[c1] b", "U meanwhile", "A[c2]", "T[c2] two"]
REACHING: dict[str, tuple[list[str], list[str | SessionEvent], list[str]]] = {
    "a result comes for a call that was given up": (
        WAITING,
        ["T[c1] one", "U c"],
        ["U a", "A[c1] b", "T[c1] one", "U meanwhile", "A[c2]", "T[c2] two", "U c"],
    ),
    "a compaction covers what was sent": (
        ["U a", "A b", "U c"],
        ["M1-2 so far"],
        ["M so far", "U c"],
    ),
    "a reply answers an earlier moment": (
        ["U a", "U b"],
        [replace(talk("A late")[0], answers_seq=1), "U c"],
        ["U a", "A late", "U b", "U c"],
    ),
}


@pytest.mark.parametrize(("before", "late", "rows"), REACHING.values(), ids=REACHING.keys())
def test_what_reaches_back_is_noticed(
    before: list[str], late: list[str | SessionEvent], rows: list[str]
) -> None:
    store = stored(*before)
    assembler = opened(store, **QUIET)
    first = assembler.assemble_sync("s", model=OPUS)
    sent = first.to_request()

    add(store, *late)

    assert turns(assembler.assemble_sync("s", model=OPUS)) == rows
    assert first.to_request() == sent


def test_a_refused_step_leaves_nothing_behind() -> None:
    store = stored("U a", "A b", "U c")
    old = opened(store, **QUIET)
    old.assemble_sync("s", model=OPUS)
    asked: dict[str, Any] = {"model": OPUS, "max_tokens": 50}
    asked["additional_system_prompt"] = "Be kind. " * 100

    with pytest.raises(ContextOverflowError):
        old.assemble_sync("s", max_context_tokens=60, **asked)

    assert outcome(old, **asked) == outcome(opened(store, **QUIET), **asked)


REPORTED: dict[str, tuple[list[str | SessionEvent], str, list[str]]] = {
    # events of the first step, one of the second, ids in the report's order
    "results in another order than their calls": (
        ["U a", "A[c1 c2] b", "T[c2] two", "T[c1] one"],
        "T[c1] again",
        ["evt_5", "evt_1", "evt_2", "evt_3", "evt_4"],
    ),
    "a result in a message of another kind, before its call": (
        ["U a", replace(talk("S b")[0], parts=(result("c1", "one"),))],
        "C[c1]",
        ["evt_1", "evt_3", "evt_3", "evt_2"],
    ),
}


@pytest.mark.parametrize(("before", "late", "ids"), REPORTED.values(), ids=REPORTED.keys())
def test_a_step_is_reported_as_by_a_new_process(
    before: list[str | SessionEvent], late: str, ids: list[str]
) -> None:
    store = stored(*before)
    old = opened(store, **QUIET)
    old.assemble_sync("s", model=OPUS)

    add(store, late)

    entries = old.assemble_sync("s", model=OPUS).report.entries
    assert entries == opened(store, **QUIET).assemble_sync("s", model=OPUS).report.entries
    assert [entry.id for entry in entries] == ids


# ---- a payload belongs to its caller ----


def ruin(value: Any) -> None:
    """Change everything in a payload that can be changed."""
    if isinstance(value, dict):
        for held in value.values():  # pyright: ignore[reportUnknownVariableType]  # any JSON
            ruin(held)
        value.clear()
    elif isinstance(value, list):
        for held in value:  # pyright: ignore[reportUnknownVariableType]  # any JSON
            ruin(held)
        value.clear()


@every_provider
def test_whatever_a_caller_does_to_a_payload_stays_in_it(provider: str) -> None:
    store = stored("S Be kind.", "U a", "A[c1] b", "T[c1] one", "U c")
    assembler = opened(store)
    first = assembler.assemble_sync("s", model=PROVIDERS[provider])
    whole = copy.deepcopy(first.to_request())

    ruin(first.to_request())
    ruin(first.messages)

    assert first.to_request() == whole
    add(store, "A d", "U e")
    later = assembler.assemble_sync("s", model=PROVIDERS[provider])
    assert (
        later.to_request()
        == opened(store).assemble_sync("s", model=PROVIDERS[provider]).to_request()
    )
    assert first.to_request() == whole
    assert [one["parts"] for one in later.messages[: len(first.messages)]] == [
        one["parts"] for one in first.messages
    ]
    assert store.bodies("s", [(1, 1)])[0]["parts"] == [{"type": "text", "text": "Be kind."}]


def test_a_context_says_the_same_however_its_session_grows() -> None:
    store = stored("U a", "A b", "U c")
    assembler = opened(store)
    context = assembler.assemble_sync("s", model=OPUS)
    others = {name: context.to_request(name) for name in PROVIDERS}

    for number in range(5):
        add(store, "A more", f"U {number}")
        assembler.assemble_sync("s", model=OPUS)

    assert {name: context.to_request(name) for name in PROVIDERS} == others
    assert context.check("gemini") == []
    assert context.metadata.ledger.used_tokens == context.report.ledger.used_tokens
    assert [entry.id for entry in context.report.entries] == ["evt_1", "evt_2", "evt_3"]
    assert turns(context) == ["U a", "A b", "U c"]
    assert context.sent().row.answers_seq == 3


def test_threads_may_ask_one_assembler_at_once() -> None:
    store = stored("U go", *("A[c1]", "T[c1] one") * 30)
    assembler, seen, failed = opened(store), list[str](), list[BaseException]()

    def work(number: int) -> None:
        try:
            for _ in range(10):
                add(store, f"U {number}")
                context = assembler.assemble_sync("s", model=OPUS)
                seen.append(json.dumps(context.to_request()))
                assert context.check() == []
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failed == []
    assert len(seen) == 40
    last = assembler.assemble_sync("s", model=OPUS).to_request()
    assert last == opened(store).assemble_sync("s", model=OPUS).to_request()


@pytest.mark.parametrize(
    ("model", "withdrawn_at"), [(OPUS, at) for at in (9, 11, 12)] + [(HAIKU, at) for at in (12, 14)]
)
async def test_a_cut_that_is_near_is_made_with_the_rewrite_for_a_tool_that_went(
    model: str, withdrawn_at: int
) -> None:
    """Every process sends the same; the removal makes room, which would put the cut off a little."""
    look = ToolSpec(name="look", description="d", input_schema={"type": "object"})
    large = ToolSpec(name="large", description="x " * 400, input_schema={"type": "object"})
    store, before, rewritten = stored("U go"), dict[str, Any](), list[str]()
    for step in range(20):
        tools = [look, large] if step < withdrawn_at else [look]
        assembler = ContextAssembler(store, config=AssemblerConfig(**QUIET), tools=tools)
        options: dict[str, Any] = {"model": model, "max_tokens": 100, "max_context_tokens": 4_200}
        context = await assembler.assemble("s", **options)
        text = json.dumps(context.to_anthropic())
        sent = json.loads(re.sub(r', "cache_control": \{[^}]*\}', "", text))
        if before:
            told = sent["messages"][: len(before["messages"]) - 1] != before["messages"][:-1]
            declared = sent["tools"] != before["tools"]
            rewritten.append("T" * declared + "M" * told or ".")
        before = sent
        await assembler.record("s", asks((f"c{step}", "look", {}), id=f"m{step}"), context)
        add(store, f"T[c{step}] " + "word " * 200)

    steps = "".join(one[0] for one in rewritten)
    assert "T" in steps
    assert not re.search("[TM]..?[TM]|[TM][TM]", steps)
