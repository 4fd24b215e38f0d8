"""A backup is restored, and somebody writes on: another history with the same ids and numbers."""

import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from context_assembler import AssembledContext, ContextAssembler, InvalidParameterError, SqliteStore
from context_assembler.ports import BatchStore
from context_assembler.values.events import SessionEvent, assistant_event, user_event

MODEL = "gpt-4.1"
REPLY = {
    "id": "c1",
    "object": "chat.completion",
    "created": 1,
    "model": MODEL,
    "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Done."}}
    ],
}


def copy_database(source: Path, target: Path) -> None:
    with closing(sqlite3.connect(source)) as one, closing(sqlite3.connect(target)) as other:
        one.backup(other)


class Branching:
    """A file whose session can be set back, and two processes that work on it."""

    def __init__(self, folder: Path) -> None:
        self._file, self._backup = folder / "agent.db", folder / "backup.db"
        self.mine, self.others = SqliteStore(self._file), SqliteStore(self._file)
        self.assembler = ContextAssembler(self.mine)

    def back_up(self) -> None:
        copy_database(self._file, self._backup)

    def restore(self) -> None:
        copy_database(self._backup, self._file)

    async def sent(self) -> AssembledContext:
        """Return what the first process sends, which is what one sends that has seen nothing."""
        context = await self.assembler.assemble("s", model=MODEL)
        anew = await ContextAssembler(self.others).assemble("s", model=MODEL)
        assert context.to_openai_chat() == anew.to_openai_chat()
        assert context.metadata.last_mark == anew.metadata.last_mark
        return context


@pytest.fixture
async def branching(tmp_path: Path) -> AsyncIterator[Branching]:
    branching = Branching(tmp_path)
    await branching.mine.append("s", [user_event("hello")])
    branching.back_up()
    yield branching
    await branching.mine.close()
    await branching.others.close()


def talk(first: str, *more: str) -> list[SessionEvent]:
    return [user_event(first), *map(assistant_event, more)]


BRANCHES: dict[str, tuple[Sequence[SessionEvent], Sequence[SessionEvent]]] = {
    "as many events": (talk("delete it"), talk("keep it")),
    "as many, the last one alike": (talk("delete it", "go on"), talk("keep it", "go on")),
    "more events": (talk("delete it"), talk("keep it", "fine", "and now")),
    "more events, the last known one alike": (
        talk("delete it", "go on"),
        talk("keep it", "go on", "and now"),
    ),
    "fewer events": (talk("delete it", "sure", "gone"), talk("keep it")),
    "fewer events, the last one alike": (
        talk("delete it", "go on", "more"),
        talk("keep it", "go on"),
    ),
    "nothing yet": (talk("delete it"), ()),
}


@pytest.mark.parametrize(("gone", "other"), BRANCHES.values(), ids=BRANCHES.keys())
async def test_what_a_restored_backup_does_not_hold_is_never_sent(
    branching: Branching, gone: Sequence[SessionEvent], other: Sequence[SessionEvent]
) -> None:
    await branching.mine.append("s", gone)
    for _ in range(3):
        assert "delete it" in str((await branching.sent()).to_openai_chat())

    branching.restore()
    if other:
        await branching.others.append("s", other)

    assert "delete it" not in str((await branching.sent()).to_openai_chat())
    await branching.others.append("s", [user_event("on and on")])
    assert "delete it" not in str((await branching.sent()).to_openai_chat())


@pytest.mark.parametrize(("gone", "other"), BRANCHES.values(), ids=BRANCHES.keys())
async def test_a_reply_to_a_history_that_is_gone_is_not_recorded(
    branching: Branching, gone: Sequence[SessionEvent], other: Sequence[SessionEvent]
) -> None:
    await branching.mine.append("s", gone)
    context = await branching.sent()

    branching.restore()
    if other:
        await branching.others.append("s", other)

    with pytest.raises(InvalidParameterError, match="set back"):
        await branching.assembler.record("s", REPLY, context)


async def test_a_reply_is_recorded_where_others_wrote_behind_what_it_answers(
    branching: Branching,
) -> None:
    context = await branching.sent()
    await branching.others.append("s", [user_event("one more thing")])

    [reply] = await branching.assembler.record("s", REPLY, context)

    assert reply.seq == 3


async def test_replies_of_a_loop_are_recorded_one_after_the_other(branching: Branching) -> None:
    for number in range(3):
        await branching.assembler.record("s", REPLY, await branching.sent())
        await branching.assembler.add_user("s", f"and {number}?")

    said = [event.text async for event in branching.mine.load("s") if event.type == "assistant"]
    assert said == ["Done."] * 3


async def test_events_of_one_append_share_a_mark_that_no_other_append_has(
    branching: Branching,
) -> None:
    await branching.mine.append("s", talk("one", "two"))
    marks: list[str] = []
    for seq in (1, 2, 3):
        assert isinstance(branching.mine, BatchStore)
        batch = await branching.mine.read_batch("s", after_seq=seq - 1, until_seq=seq)
        assert batch.first_mark == batch.last_mark
        assert batch.mark_before == (marks[-1] if marks else "")
        marks.append(batch.first_mark)

    assert marks[1] == marks[2] != marks[0]
    assert all(marks)
    assert (await branching.mine.head("s")).last_mark == marks[2]
