"""What `record` stores: notes, replies, compactions, the row of the call."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from context_assembler import (
    AssembledContext,
    AssemblerConfig,
    ContextAssembler,
    Opaque,
    SessionEvent,
    SqliteStore,
    Text,
    Thinking,
    ToolCall,
    UnknownSessionError,
)
from context_assembler.errors import ContentError, InvalidParameterError
from context_assembler.events import Usage
from tests.core.sessions import OPUS, answer, text

ASTRA = "gpt-6.2-astra"
THRESHOLD: dict[str, Any] = {"type": "compaction", "content": "They planned a trip."}
FAILED: dict[str, Any] = {"type": "compaction", "content": None}
THOUGHT: dict[str, Any] = {"type": "thinking", "thinking": "", "signature": "EqQB"}
SEALED: dict[str, Any] = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAA"}
CALL = ToolCall(call_id="c1", name="look", arguments={"city": "Lima"})


def message(said: str) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "output_text", "text": said, "annotations": []}]
    kind = {"type": "message", "role": "assistant", "id": "m", "status": "completed"}
    return {**kind, "content": content}


def response(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"object": "response", "id": "r", "status": "completed", "output": list(entries)}


ASKED = {"name": "look", "arguments": '{"city":"Lima"}'}
USES = {"type": "tool_use", "id": "c1", "name": "look", "input": {"city": "Lima"}}
USED = {"input_tokens": 7, "output_tokens": 5, "total_tokens": 12}
CHAT_CALL = {"id": "c1", "type": "function", "function": ASKED}
CHAT: dict[str, Any] = {"role": "assistant", "content": "Let me look.", "tool_calls": [CHAT_CALL]}
ITEM = {"type": "function_call", "id": "fc_1", "call_id": "c1", **ASKED, "status": "completed"}
PARTS: list[dict[str, Any]] = [
    {"text": "Let me look."},
    {"functionCall": {"id": "c1", "name": "look", "args": {"city": "Lima"}}},
]
REPLIES: dict[str, tuple[str, Any]] = {
    "anthropic": (
        OPUS,
        answer(text("Let me look."), USES, id="id_1", input_tokens=7) | {"stop_reason": "tool_use"},
    ),
    "openai_chat": (
        "gpt-4.1",
        {
            "id": "id_1",
            "object": "chat.completion",
            "model": "gpt-4.1-2025-04-14",
            "choices": [{"index": 0, "finish_reason": "tool_calls", "message": CHAT}],
            "usage": {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12},
        },
    ),
    "openai_responses": (
        "gpt-5.5",
        {**response(message("Let me look."), ITEM), "id": "id_1", "usage": USED},
    ),
    "gemini": (
        "gemini-2.5-pro",
        {
            "responseId": "id_1",
            "modelVersion": "gemini-2.5-pro",
            "candidates": [{"finishReason": "STOP", "content": {"role": "model", "parts": PARTS}}],
            "usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 5},
        },
    ),
}


@pytest.fixture
async def assembler() -> ContextAssembler:
    made = ContextAssembler("memory:")
    await made.add_user("trip", "Plan a trip to Lima.")
    return made


async def context_of(assembler: ContextAssembler, model: str = OPUS) -> AssembledContext:
    return await assembler.assemble("trip", model=model, max_tokens=1000)


async def turn(
    assembler: ContextAssembler, reply: Any, *, model: str = OPUS, summary: str | None = None
) -> list[SessionEvent]:
    return await assembler.record("trip", reply, await context_of(assembler, model), summary)


async def sent(assembler: ContextAssembler, model: str = OPUS) -> list[dict[str, Any]]:
    context = await context_of(assembler, model)
    assert context.check() == []
    payload = context.to_request()
    messages: list[dict[str, Any]] = payload.get("messages") or payload["input"]
    return messages


def kinds(events: list[SessionEvent]) -> list[str]:
    return [event.note or event.type for event in events]


# ---- replies ----


@pytest.mark.parametrize(("model", "reply"), REPLIES.values(), ids=REPLIES.keys())
async def test_a_reply_is_stored_as_one_event_that_says_where_it_came_from(
    assembler: ContextAssembler, model: str, reply: dict[str, Any]
) -> None:
    clock, stored = await turn(assembler, reply, model=model)

    assert (clock.note, clock.answers_seq) == ("clock", 1)
    assert (stored.type, stored.seq, stored.origin, stored.answers_seq) == (
        "assistant",
        3,
        "model",
        1,
    )
    assert stored.text == "Let me look."
    assert [replace(call, extras=None, arguments_json=None) for call in stored.tool_calls] == [CALL]
    assert stored.made_by is not None
    assert stored.made_by.usage is not None
    assert (stored.made_by.model, stored.made_by.response_id) == (model, "id_1")
    assert (stored.made_by.usage.input_tokens, stored.made_by.usage.output_tokens) == (7, 5)
    assert stored.made_by.prefix


async def test_the_row_of_the_call_says_what_was_sent(tmp_path: Path) -> None:
    at = datetime(2026, 5, 4, 9, 30, tzinfo=UTC)
    store = SqliteStore(tmp_path / "agent.db")
    (tmp_path / "AGENT.md").write_text("Be kind.")
    assembler = ContextAssembler(store, bootstrap=tmp_path, now=lambda: at)
    await assembler.add_user("trip", "Where to?")
    context = await context_of(assembler)

    await assembler.record("trip", answer(text("Lima."), input_tokens=9), context)

    row = store.last_call("trip")
    assert row is not None
    assert (row.provider, row.model, row.answers_seq, row.reply_seq) == ("anthropic", OPUS, 1, 3)
    assert (row.cut, row.first_seq, row.factor, row.created_at) == (0, 1, 1.0, at)
    assert row.usage == Usage(input_tokens=9, output_tokens=5)
    assert row.estimated_tokens == context.metadata.ledger.used_tokens
    assert store.text(row.system_hash) == "Be kind."
    assert store.text(row.tools_hash) is not None
    await store.close()


async def test_a_note_between_a_pause_and_what_goes_on_costs_neither_call_nor_result(
    assembler: ContextAssembler,
) -> None:
    asked = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    pause = answer(text("I look."), asked) | {"stop_reason": "pause_turn"}
    await assembler.record("trip", pause, await context_of(assembler))

    noted = await assembler.assemble("trip", model=OPUS, additional_system_prompt="Be kind.")
    await assembler.record("trip", answer(found, text("None."), id="msg_2"), noted)
    await assembler.add_user("trip", "And then?")

    replies = [one["content"] for one in await sent(assembler) if one["role"] == "assistant"]
    assert replies == [[text("I look."), asked, found, text("None.")]]


# ---- which session ----


async def test_a_reply_belongs_to_the_session_of_its_context(assembler: ContextAssembler) -> None:
    await assembler.add_user("other", "Hello.")
    context = await assembler.assemble("other", model=OPUS)

    with pytest.raises(InvalidParameterError, match="must be one of session 'trip'"):
        await assembler.record("trip", answer(text("Hi.")), context)


async def test_a_reply_does_not_go_into_a_session_begun_again(assembler: ContextAssembler) -> None:
    context = await context_of(assembler)
    await assembler.sessions.delete("trip")

    with pytest.raises(UnknownSessionError):
        await assembler.record("trip", answer(text("Hi.")), context)
    await assembler.add_user("trip", "Another trip.")
    with pytest.raises(InvalidParameterError, match="rewound or deleted"):
        await assembler.record("trip", answer(text("Hi.")), context)

    assert (await assembler.sessions.head("trip")).last_seq == 1


async def test_what_arrives_while_the_model_works_stands_after_its_reply(
    assembler: ContextAssembler,
) -> None:
    context = await context_of(assembler)
    await assembler.add_user("trip", "Or Cusco?")

    await assembler.record("trip", answer(text("Lima.")), context)

    said = [part["text"] for one in await sent(assembler) for part in one["content"]]
    assert said.index("Lima.") < said.index("Or Cusco?")


# ---- again ----


async def test_a_reply_that_is_recorded_twice_is_stored_once(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    first, second = ContextAssembler(SqliteStore(path)), ContextAssembler(SqliteStore(path))
    await first.add_user("trip", "Where to?")
    contexts = [await context_of(assembler) for assembler in (first, second)]
    stored = await first.record("trip", answer(THOUGHT, text("Lima.")), contexts[0])
    await first.add_user("trip", "Good.")

    again = await second.record("trip", answer(THOUGHT, text("Lima.")), contexts[1])

    assert again == stored
    assert (await second.sessions.head("trip")).last_seq == 4
    await first.sessions.close()
    await second.sessions.close()


async def test_of_deliveries_at_once_one_is_stored(tmp_path: Path) -> None:
    assembler = ContextAssembler(SqliteStore(tmp_path / "agent.db"))
    await assembler.add_user("trip", "Where to?")
    context = await context_of(assembler)
    reply = answer(text("Lima."))

    stored = await asyncio.gather(*(assembler.record("trip", reply, context) for _ in range(8)))

    assert all(events == stored[0] for events in stored)
    assert (await assembler.sessions.head("trip")).last_seq == 3
    await assembler.sessions.close()


OTHERS: dict[str, dict[str, Any]] = {
    "another id": answer(text("Lima."), id="msg_2"),
    "another text": answer(text("Cusco.")),
    "another usage": answer(text("Lima."), input_tokens=11),
    "no id": {key: held for key, held in answer(text("Lima.")).items() if key != "id"},
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS.keys())
async def test_another_reply_is_stored_as_well(
    assembler: ContextAssembler, other: dict[str, Any]
) -> None:
    context = await context_of(assembler)
    await assembler.record("trip", answer(text("Lima.")), context)

    await assembler.record("trip", other, context)

    assert (await assembler.sessions.head("trip")).last_seq == 5


async def test_a_fake_that_says_the_same_every_time_is_heard_every_time(
    assembler: ContextAssembler,
) -> None:
    for _ in range(3):
        await turn(assembler, answer(text("Lima.")))
        await assembler.add_user("trip", "Say it again.")

    replies = [e async for e in assembler.sessions.load("trip") if e.type == "assistant"]
    assert len(replies) == 3


# ---- compactions ----


async def test_a_compaction_in_a_reply_covers_what_was_sent(assembler: ContextAssembler) -> None:
    await turn(assembler, answer(text("Where from?")))
    await assembler.add_user("trip", "From Quito.")

    events = await turn(assembler, answer(THRESHOLD, THOUGHT, text("Fly on Friday."), id="msg_2"))
    await assembler.add_user("trip", "Good.")

    assert kinds(events)[-2:] == ["compaction", "assistant"]
    compaction, reply = events[-2:]
    assert compaction.covers is not None
    assert (compaction.covers.first_seq, compaction.covers.last_seq) == (1, compaction.seq - 1)
    summary, native = compaction.parts
    assert summary == Text("They planned a trip.")
    assert isinstance(native, Opaque)
    assert native.block == THRESHOLD
    assert isinstance(reply.parts[0], Thinking)
    first, second, *_ = await sent(assembler)
    assert (first["role"], first["content"]) == (
        "assistant",
        [THRESHOLD, THOUGHT, text("Fly on Friday.")],
    )
    assert second["role"] == "user"


async def test_signed_thinking_after_a_compaction_stays_step_after_step(
    assembler: ContextAssembler,
) -> None:
    await turn(assembler, answer(THRESHOLD, THOUGHT, text("Fly on Friday.")))
    thoughts = []

    for number, said in enumerate(("Good.", "Book it.", "Thanks.")):
        await assembler.add_user("trip", said)
        thoughts.append(str(await sent(assembler)).count("'thinking', "))
        await turn(assembler, answer(THOUGHT, text(f"About {said}"), id=f"msg_{number + 2}"))

    assert thoughts == [1, 2, 3]


SHAPES: dict[str, tuple[str, Any, list[str]]] = {
    "what was said before it is covered": (
        OPUS,
        answer(THOUGHT, text("First."), THRESHOLD, text("Then.")),
        ["assistant", "compaction", "assistant"],
    ),
    "nothing was said after it": (OPUS, answer(THRESHOLD), ["clock", "compaction"]),
    "the latest of two counts": (
        OPUS,
        answer(THRESHOLD, text("One."), THRESHOLD, text("Two.")),
        ["assistant", "compaction", "assistant"],
    ),
    "one that failed is a block like any other": (
        OPUS,
        answer(FAILED, text("Hm.")),
        ["clock", "assistant"],
    ),
    "one that is sealed": (ASTRA, response(SEALED, message("Fly.")), ["compaction", "assistant"]),
}


@pytest.mark.parametrize(("model", "reply", "expected"), SHAPES.values(), ids=SHAPES.keys())
async def test_a_reply_with_a_compaction_is_stored_in_pieces(
    assembler: ContextAssembler, model: str, reply: Any, expected: list[str]
) -> None:
    events = await turn(assembler, reply, model=model)

    assert kinds(events)[-len(expected) :] == expected
    assert [event.made_by.usage for event in events[:-1] if event.made_by] == [None] * sum(
        event.made_by is not None for event in events[:-1]
    )
    assert await context_of(assembler, model)


async def test_a_sealed_compaction_needs_a_text_for_those_who_cannot_read_it(
    assembler: ContextAssembler,
) -> None:
    events = await turn(assembler, response(SEALED, message("Fly.")), model=ASTRA)
    await assembler.add_user("trip", "Good.")

    assert "summary=…" in events[-1].metadata["warnings"]
    assert "Plan a trip" not in str(await sent(assembler, ASTRA))
    assert "Plan a trip" in str(await sent(assembler))


async def test_a_sealed_compaction_may_be_given_a_text(assembler: ContextAssembler) -> None:
    await turn(assembler, response(SEALED, message("Fly.")), model=ASTRA, summary="A plan.")
    await assembler.add_user("trip", "Good.")

    messages = str(await sent(assembler))
    assert "A plan." in messages
    assert "Plan a trip" not in messages


async def test_a_summary_without_a_compaction_is_not_used(assembler: ContextAssembler) -> None:
    events = await turn(assembler, answer(text("Lima.")), summary="A plan.")

    assert "it was not used" in events[-1].metadata["warnings"]


async def test_a_window_that_was_compacted_on_demand_goes_back_whole(
    assembler: ContextAssembler,
) -> None:
    user = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Plan."}]}
    reply = {"object": "response.compaction", "id": "r", "output": [user, SEALED], "usage": None}

    [*_, compaction] = await turn(assembler, reply, model=ASTRA)
    await assembler.add_user("trip", "Good.")

    assert [part.block["type"] for part in compaction.parts if isinstance(part, Opaque)] == [
        "message",
        "compaction",
    ]
    assert (await sent(assembler, ASTRA))[:2] == [user, SEALED]


async def test_what_arrived_meanwhile_is_not_covered(assembler: ContextAssembler) -> None:
    context = await context_of(assembler)
    [late] = [await assembler.add_user("trip", "By train?")]

    events = await assembler.record("trip", answer(THRESHOLD, text("Fly.")), context)

    assert events[-2].covers is not None
    assert events[-2].covers.excluded_ids == (late.id,)
    assert "By train?" in str(await sent(assembler))


async def test_a_compaction_that_is_recorded_twice_is_stored_once(
    assembler: ContextAssembler,
) -> None:
    context, reply = await context_of(assembler), answer(text("Hm."), THRESHOLD, text("Fly."))

    stored = await assembler.record("trip", reply, context)

    assert await assembler.record("trip", reply, context) == stored


# ---- what reported usage teaches ----


async def talk(assembler: ContextAssembler, turns: int, *, ratio: float) -> list[float]:
    """Hold a conversation that is charged more than is counted; return the factors in force."""
    uncorrected = ContextAssembler(
        assembler.sessions, config=AssemblerConfig(calibrates_tokens=False)
    )
    factors = []
    for number in range(turns):
        await assembler.add_user(
            "trip", f"Question {number}: " + "where to go next, and why? " * 90
        )
        context = await assembler.assemble("trip", model=OPUS)
        raw = (await uncorrected.assemble("trip", model=OPUS)).metadata.ledger.used_tokens
        factors.append(context.metadata.ledger.factor)
        reply = answer(text("Lima."), id=f"msg_{number}", input_tokens=round(raw * ratio))
        await assembler.record("trip", reply, context)
    return factors


async def test_counts_come_near_what_is_charged_from_the_third_call_on() -> None:
    factors = await talk(ContextAssembler(), 9, ratio=1.2)

    assert factors[:3] == [1.0, 1.0, 1.0]
    assert factors == sorted(factors)
    assert 1.1 < factors[-1] <= 1.2


@pytest.mark.parametrize("ratio", [0.1, 10.0])
async def test_an_implausible_charge_teaches_nothing(ratio: float) -> None:
    assert set(await talk(ContextAssembler(), 6, ratio=ratio)) == {1.0}


async def test_nothing_is_learned_if_the_settings_say_so() -> None:
    config = AssemblerConfig(calibrates_tokens=False)

    assert set(await talk(ContextAssembler(config=config), 6, ratio=1.2)) == {1.0}


# ---- single events ----


async def test_a_session_begins_with_what_the_user_says() -> None:
    at = datetime(2026, 5, 4, 9, 30, tzinfo=UTC)
    assembler = ContextAssembler(now=lambda: at)

    await assembler.add_user("trip", "Where to?", agent_id="pilot")
    await assembler.add_user("trip", [Text("Or"), Text("not?")], agent_id="guest", is_pinned=True)

    head = await assembler.sessions.head("trip")
    assert (head.session.agent_id, head.session.created_at) == ("pilot", at)
    events = [event async for event in assembler.sessions.load("trip")]
    assert [(event.text, event.is_pinned) for event in events] == [
        ("Where to?", False),
        ("Or\nnot?", True),
    ]


async def test_what_cannot_be_stored_is_refused_by_name(assembler: ContextAssembler) -> None:
    with pytest.raises(ContentError, match="a function"):
        await assembler.add_tool_result("trip", "c1", lambda: None)
    with pytest.raises(UnknownSessionError):
        await assembler.add_tool_result("trap", "c1", "done")
