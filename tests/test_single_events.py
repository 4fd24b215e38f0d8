"""Single events that a loop stores: what a user said, pinned or not, and what a tool returned."""

from pathlib import Path
from typing import Any

import pytest

from context_assembler import ContextAssembler, ToolCall, assistant_event
from context_assembler.config import AssemblerConfig
from context_assembler.errors import UnknownSessionError
from context_assembler.sessions import InMemoryStore, Session, SessionHead, SqliteStore
from context_assembler.values.options import TruncationStrategy

SMALL: dict[str, Any] = {"model": "gpt-4.1", "max_tokens": 500, "max_context_tokens": 3000}


@pytest.mark.parametrize("is_pinned", [True, False])
@pytest.mark.parametrize("strategy", ["smart", "simple", "sliding"])
async def test_a_pinned_message_outlives_every_cut(
    strategy: TruncationStrategy, is_pinned: bool
) -> None:
    assembler = ContextAssembler()
    await assembler.add_user("trip", "Plan a trip.")
    for number in range(60):
        if number == 20:
            await assembler.add_user("trip", "Never fly on a Friday.", is_pinned=is_pinned)
        await assembler.add_user("trip", f"Look at offer {number}. " * 20)
        await assembler.sessions.append("trip", [assistant_event("I looked. " * 20)])

    context = await assembler.assemble("trip", **SMALL, truncation_strategy=strategy)

    assert context.report.of("dropped")
    assert ("Never fly on a Friday." in str(context.messages)) is is_pinned


@pytest.mark.parametrize("is_pinned", [True, False])
async def test_no_cap_shortens_a_pinned_message(is_pinned: bool) -> None:
    config = AssemblerConfig(truncation={"max_user_tokens": 50})
    assembler = ContextAssembler(config=config)
    event = await assembler.add_user("trip", "Never fly. " * 100, is_pinned=is_pinned)
    await assembler.add_user("trip", "Plan a trip.")

    report = await assembler.explain("trip", model="gpt-4.1")

    assert event.is_pinned is is_pinned
    assert [entry.rule for entry in report.of("shortened")] == ([] if is_pinned else ["entry.cap"])


async def test_a_result_waits_for_its_call() -> None:
    assembler = ContextAssembler()
    await assembler.add_user("trip", "Look around.")
    await assembler.add_tool_result("trip", "call_1", "a wall")
    without = await assembler.assemble("trip", model="gpt-4.1")
    call = ToolCall(call_id="call_1", name="look", arguments={})
    await assembler.sessions.append("trip", [assistant_event(call)])

    whole = await assembler.assemble("trip", model="gpt-4.1")

    assert "a wall" not in str(without.to_request())
    assert [entry.rule for entry in without.report.of("dropped")] == ["repair.orphan_result"]
    assert "a wall" in str(whole.to_request())
    assert not whole.check()


MADE = Session(id="trip", agent_id="owner", defaults={"model": "gpt-4.1"})


class OvertakenInMemory(InMemoryStore):
    """A store in which somebody creates the session right behind the question whether it is there."""

    async def head(self, session_id: str) -> SessionHead:
        try:
            return await super().head(session_id)
        except UnknownSessionError:
            await self.create(MADE)
            raise


class OvertakenInAFile(SqliteStore):
    """The same in a file."""

    async def head(self, session_id: str) -> SessionHead:
        try:
            return await super().head(session_id)
        except UnknownSessionError:
            await self.create(MADE)
            raise


@pytest.mark.parametrize("is_file", [False, True], ids=["in memory", "in a file"])
async def test_a_user_who_speaks_first_takes_nothing_from_who_made_the_session(
    is_file: bool, tmp_path: Path
) -> None:
    store = OvertakenInAFile(tmp_path / "agent.db") if is_file else OvertakenInMemory()
    assembler = ContextAssembler(store)

    await assembler.add_user("trip", "Where to?", agent_id="guest")

    head = await store.head("trip")
    assert (head.session, head.last_seq) == (MADE, 1)
    await store.close()
