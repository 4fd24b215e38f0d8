"""What a call adds to its session: compactions of the provider's own above all."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from context_assembler import ContextAssembler
from context_assembler.config import AssemblerConfig
from context_assembler.errors import InvalidParameterError
from context_assembler.sessions.in_memory import InMemoryStore
from context_assembler.values.events import (
    AssistantBody,
    CompactionBody,
    SessionEvent,
    SessionHead,
    UserBody,
)
from context_assembler.values.parts import Opaque, Text, Thinking

OPUS = "claude-opus-5-5"
THRESHOLD: dict[str, Any] = {"type": "compaction", "content": "They planned a trip."}
SIGNED = {**THRESHOLD, "signature": "c2ln"}
FAILED: dict[str, Any] = {"type": "compaction", "content": None}
THOUGHT: dict[str, Any] = {"type": "thinking", "thinking": "", "signature": "EqQB"}
SEALED: dict[str, Any] = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAA"}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def answer(*blocks: dict[str, Any], stop_reason: str = "end_turn") -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": OPUS,
        "content": list(blocks),
        "stop_reason": stop_reason,
        "usage": {"input_tokens": 10, "output_tokens": 5},
    }


def response(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"object": "response", "id": "r", "status": "completed", "output": list(entries)}


def message(said: str) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "output_text", "text": said, "annotations": []}]
    return {
        "type": "message",
        "role": "assistant",
        "id": "m",
        "status": "completed",
        "content": content,
    }


@pytest.fixture
async def assembler() -> AsyncIterator[ContextAssembler]:
    async with ContextAssembler(sessions="memory:") as made:
        await made.add_user("trip", "Plan a trip to Lima.")
        yield made


async def turn(
    assembler: ContextAssembler,
    reply: dict[str, Any],
    *,
    model: str = OPUS,
    summary: str | None = None,
) -> list[SessionEvent]:
    context = await assembler.assemble("trip", model=model, max_tokens=1000)
    return await assembler.record("trip", reply, context, summary)


async def sent(assembler: ContextAssembler, model: str = OPUS) -> list[dict[str, Any]]:
    context = await assembler.assemble("trip", model=model, max_tokens=1000)
    assert context.check() == []
    payload = context.to_request()
    messages: list[dict[str, Any]] = payload.get("messages") or payload["input"]
    return messages


async def rules(assembler: ContextAssembler, model: str) -> list[str]:
    context = await assembler.assemble("trip", model=model, max_tokens=1000)
    return [e.rule for e in context.report.entries if e.rule.startswith("compaction")]


def kinds(events: Sequence[SessionEvent]) -> list[str]:
    return [event.type for event in events]


async def test_a_compaction_at_the_head_of_a_reply_covers_what_was_sent(
    assembler: ContextAssembler,
) -> None:
    await turn(assembler, answer(text("Where from?")))
    await assembler.add_user("trip", "From Quito.")

    events = await turn(assembler, answer(THRESHOLD, THOUGHT, text("Fly on Friday.")))
    await assembler.add_user("trip", "Good.")

    assert kinds(events)[-2:] == ["compaction", "assistant"]
    first, second = (await sent(assembler))[:2]
    assert first["role"] == "assistant"
    assert first["content"] == [THRESHOLD, THOUGHT, text("Fly on Friday.")]
    assert second["role"] == "user"
    context = await assembler.assemble("trip", model=OPUS)
    assert context.to_anthropic()["extra_headers"] == {"anthropic-beta": "compact-2026-01-12"}


async def test_signed_thinking_behind_a_compaction_stays_step_after_step(
    assembler: ContextAssembler,
) -> None:
    await turn(assembler, answer(THRESHOLD, THOUGHT, text("Fly on Friday.")))
    payloads: list[list[dict[str, Any]]] = []

    for said in ("Good.", "Book it.", "Thanks."):
        await assembler.add_user("trip", said)
        payloads.append(await sent(assembler))
        await turn(assembler, answer(THOUGHT, text(f"About {said}")))

    thoughts = [str(payload).count("'thinking', ") for payload in payloads]
    assert thoughts == [1, 2, 3]
    context = await assembler.assemble("trip", model=OPUS)
    assert not [e for e in context.report.entries if e.rule.startswith("reasoning")]


async def test_thinking_from_before_a_compaction_is_covered_with_the_rest(
    assembler: ContextAssembler,
) -> None:
    await turn(assembler, answer(THOUGHT, text("Hm.")))
    await assembler.add_user("trip", "Go on.")

    events = await turn(assembler, answer(THOUGHT, text("First."), THRESHOLD, text("Then.")))
    await assembler.add_user("trip", "Good.")

    assert kinds(events)[-3:] == ["assistant", "compaction", "assistant"]
    assert [_has_usage(event) for event in events[-3:]] == [False, False, True]
    assert (await sent(assembler))[0]["content"] == [THRESHOLD, text("Then.")]


def _has_usage(event: SessionEvent) -> bool:
    body = event.body
    assert isinstance(body, AssistantBody | CompactionBody)
    return body.made_by is not None and body.made_by.usage is not None


async def test_a_compaction_on_demand_leaves_the_block_and_a_turn_to_go_on_from(
    assembler: ContextAssembler,
) -> None:
    events = await turn(assembler, answer(SIGNED, stop_reason="compaction"))

    assert kinds(events)[-1] == "compaction"
    body = events[-1].body
    assert isinstance(body, CompactionBody)
    assert (body.summary, body.native[0].block) == ("They planned a trip.", SIGNED)
    assert body.made_by is not None
    assert body.made_by.usage is not None
    messages = await sent(assembler)
    assert messages[0] == {"role": "assistant", "content": [SIGNED]}
    assert messages[1]["content"][0] == text("Continue.")
    payload = (await assembler.assemble("trip", model=OPUS)).to_anthropic()
    assert payload["extra_headers"] == {"anthropic-beta": "compact-2026-09-04"}


async def test_a_failed_compaction_is_a_block_like_any_other(assembler: ContextAssembler) -> None:
    events = await turn(assembler, answer(FAILED, text("Where from?")), summary="unused")
    await assembler.add_user("trip", "From Quito.")

    assert kinds(events)[-1] == "assistant"
    assert events[-1].parts[0] == Opaque(provider="anthropic", block=FAILED)
    assert "was not used" in events[-1].metadata["warnings"]
    messages = await sent(assembler)
    assert messages[0]["role"] == "user"
    assert {"role": "assistant", "content": [FAILED, text("Where from?")]} in messages


@pytest.mark.parametrize("model", ["claude-opus-5", "gpt-4.1", "gpt-6-sol"])
async def test_other_models_get_the_plain_text(assembler: ContextAssembler, model: str) -> None:
    await turn(assembler, answer(SIGNED))
    await assembler.add_user("trip", "Good.")

    messages = await sent(assembler, model)

    assert "They planned a trip." in str(messages)
    assert "signature" not in str(messages)
    assert "Plan a trip to Lima." not in str(messages)
    assert await rules(assembler, model) == ["compaction.twin", "compaction.covers"]


async def test_another_account_gets_the_plain_text() -> None:
    store = InMemoryStore()
    ours = ContextAssembler(sessions=store, config=AssemblerConfig(account="ours"))
    theirs = ContextAssembler(sessions=store, config=AssemblerConfig(account="theirs"))
    await ours.add_user("trip", "Plan a trip to Lima.")
    await turn(ours, answer(SIGNED, THOUGHT, text("Fly.")))
    await ours.add_user("trip", "Good.")

    assert "c2ln" in str(await sent(ours))
    messages = await sent(theirs)

    assert "<summary>" in str(messages)
    assert "c2ln" not in str(messages)
    assert "EqQB" not in str(messages)


async def test_a_sealed_compaction_covers_nothing_for_those_who_cannot_read_it(
    assembler: ContextAssembler,
) -> None:
    events = await turn(assembler, response(SEALED, message("Fly.")), model="gpt-6.2-astra")
    await assembler.add_user("trip", "Good.")

    assert kinds(events)[-2:] == ["compaction", "assistant"]
    assert "summary=…" in events[-2].metadata["warnings"]
    assert "Plan a trip to Lima." not in str(await sent(assembler, "gpt-6.2-astra"))
    assert "Plan a trip to Lima." in str(await sent(assembler))
    assert await rules(assembler, OPUS) == ["compaction.sealed"]


async def test_a_sealed_compaction_may_be_given_a_plain_text(assembler: ContextAssembler) -> None:
    summary = " They planned a trip. "
    await turn(assembler, response(SEALED, message("Fly.")), model="gpt-6.2-astra", summary=summary)
    await assembler.add_user("trip", "Good.")

    assert "gAAAA" in str(await sent(assembler, "gpt-6.2-astra"))
    assert "They planned a trip." in str(await sent(assembler))
    assert "Plan a trip to Lima." not in str(await sent(assembler))


async def test_what_arrived_meanwhile_is_not_covered(assembler: ContextAssembler) -> None:
    context = await assembler.assemble("trip", model=OPUS, max_tokens=1000)
    late = await assembler.add_user("trip", "From Quito, by the way.")

    events = await assembler.record("trip", answer(THRESHOLD, text("Fly.")), context)

    body = next(event.body for event in events if isinstance(event.body, CompactionBody))
    assert body.excluded_ids == (late.id,)
    assert body.last_seq == events[-2].seq - 1
    messages = await sent(assembler)
    assert messages[0]["content"] == [THRESHOLD, text("Fly.")]
    assert "From Quito" in str(messages[1])


class _Contested(InMemoryStore):
    """A store where somebody else comes first once."""

    is_contested = False

    async def append(
        self, session_id: str, events: Sequence[SessionEvent], *, expected_seq: int | None = None
    ) -> list[SessionEvent]:
        if expected_seq is not None and not self.is_contested:
            self.is_contested = True
            await super().append(session_id, [SessionEvent(body=UserBody(parts=(Text("First!"),)))])
        return await super().append(session_id, events, expected_seq=expected_seq)


async def test_whoever_comes_first_is_not_covered_either() -> None:
    assembler = ContextAssembler(sessions=_Contested())
    await assembler.add_user("trip", "Plan a trip to Lima.")

    events = await turn(assembler, answer(THRESHOLD, text("Fly.")))

    assert kinds(events)[-2:] == ["compaction", "assistant"]
    assert "First!" in str(await sent(assembler))
    assert "Lima" not in str(await sent(assembler))


async def test_a_compaction_in_a_tool_loop_keeps_the_loop_going() -> None:
    def look() -> str:
        """Look."""
        return "seen"

    assembler = ContextAssembler(sessions="memory:", tools=[look])
    await assembler.add_user("trip", "Look around.")
    use: dict[str, Any] = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
    await turn(assembler, answer(THOUGHT, use, stop_reason="tool_use"))
    await assembler.add_tool_result("trip", "toolu_1", "a wall")

    again = {**use, "id": "toolu_2"}
    await turn(assembler, answer(THRESHOLD, THOUGHT, again, stop_reason="tool_use"))
    await assembler.add_tool_result("trip", "toolu_2", "a door")

    messages = await sent(assembler)
    assert messages[0] == {"role": "assistant", "content": [THRESHOLD, THOUGHT, again]}
    assert messages[1]["content"][0]["tool_use_id"] == "toolu_2"
    assert "a wall" not in str(messages)


async def test_a_second_compaction_replaces_the_first(assembler: ContextAssembler) -> None:
    await turn(assembler, answer(THRESHOLD, text("Fly.")))
    await assembler.add_user("trip", "Good.")
    newer = {**THRESHOLD, "content": "They booked."}

    await turn(assembler, answer(newer, text("Done.")))
    await assembler.add_user("trip", "Thanks.")

    assert (await sent(assembler))[0]["content"] == [newer, text("Done.")]
    assert "They booked." in str(await sent(assembler, "gpt-4.1"))
    assert "They planned" not in str(await sent(assembler, "gpt-4.1"))


async def test_a_reply_without_signature_keeps_no_thinking(assembler: ContextAssembler) -> None:
    events = await turn(assembler, answer({**THOUGHT, "signature": ""}, text("Hm.")))

    assert isinstance(events[-1].parts[0], Thinking)
    assert not events[-1].parts[0].is_signed


REASONING: dict[str, Any] = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [],
    "encrypted_content": "gBBBB",
}


async def test_encrypted_reasoning_behind_a_sealed_compaction_stays(
    assembler: ContextAssembler,
) -> None:
    await turn(assembler, response(SEALED, REASONING, message("Fly.")), model="gpt-6.2-astra")
    await assembler.add_user("trip", "Good.")

    entries = await sent(assembler, "gpt-6.2-astra")

    assert [entry["type"] for entry in entries[:3]] == ["compaction", "reasoning", "message"]


async def test_a_window_that_was_compacted_on_demand_goes_back_whole(
    assembler: ContextAssembler,
) -> None:
    said: dict[str, Any] = {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": "Plan a trip to Lima."}],
    }
    result = {"object": "response.compaction", "id": "r", "output": [said, SEALED]}

    events = await turn(assembler, result, model="gpt-6.2-astra", summary="They planned a trip.")

    assert kinds(events)[-1] == "compaction"
    await assembler.add_user("trip", "Good.")
    entries = await sent(assembler, "gpt-6.2-astra")
    assert [entry["type"] for entry in entries[:3]] == ["message", "compaction", "message"]
    assert "Plan a trip to Lima." in str(entries[0])
    assert "Plan a trip to Lima." not in str(await sent(assembler))


async def test_a_compaction_counts_once(assembler: ContextAssembler) -> None:
    long = {**THRESHOLD, "content": "They planned a trip to Lima. " * 200}
    await turn(assembler, answer(long, text("Fly.")))
    await assembler.add_user("trip", "Good.")

    ours = await assembler.assemble("trip", model=OPUS)
    others = await assembler.assemble("trip", model="claude-opus-5")

    counted = [context.metadata.ledger.tokens_of("history") for context in (ours, others)]
    assert min(counted) > 1_000
    assert abs(counted[0] - counted[1]) < 50


async def test_a_reply_does_not_go_into_a_session_begun_again(assembler: ContextAssembler) -> None:
    context = await assembler.assemble("trip", model=OPUS)
    await assembler.sessions.delete("trip")
    await assembler.add_user("trip", "Something else.")

    with pytest.raises(InvalidParameterError, match="deleted, or set back"):
        await assembler.record("trip", answer(text("Go in May.")), context)

    stored = [event.text async for event in assembler.sessions.load("trip")]
    assert stored == ["Something else."]


class Nameless(InMemoryStore):
    """A store that cannot tell a session from an earlier one of the same id."""

    async def head(self, session_id: str) -> SessionHead:
        return replace(await super().head(session_id), incarnation="")


async def test_of_a_session_that_may_be_another_one_nothing_is_kept() -> None:
    assembler = ContextAssembler(sessions=Nameless())
    await assembler.add_user("s", "Private to one.")
    await assembler.assemble("s", model=OPUS)
    await assembler.sessions.delete("s")
    await assembler.add_user("s", "Said by another.")

    context = await assembler.assemble("s", model=OPUS)

    assert [message.text for message in context.messages if message.is_from_user] == [
        "Said by another."
    ]
    assert not context.metadata.cache_hit


async def test_a_reply_does_not_go_into_a_session_that_was_set_back() -> None:
    assembler = ContextAssembler(sessions=Nameless())
    await assembler.add_user("s", "One.")
    await assembler.add_user("s", "Two.")
    context = await assembler.assemble("s", model=OPUS)
    await assembler.sessions.delete("s")
    await assembler.add_user("s", "One.")

    with pytest.raises(InvalidParameterError, match="set back"):
        await assembler.record("s", answer(text("Three.")), context)


async def test_a_reply_in_the_place_of_its_context_is_told() -> None:
    assembler = ContextAssembler()
    await assembler.add_user("trip", "Hello")
    context: Any = await assembler.assemble("trip", model="gpt-4.1")

    with pytest.raises(InvalidParameterError, match=r"record\(session_id, reply, context\)"):
        await assembler.record("trip", context, {"object": "chat.completion"})  # type: ignore[arg-type]
