"""Whatever is passed in the place of something else is refused by its name, or taken."""

from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from context_assembler import (
    ContextAssembler,
    CutPolicy,
    MemoryAssembler,
    TaskStack,
    create_context_assembler,
)
from context_assembler.errors import InvalidParameterError
from context_assembler.memory import (
    MemoryRecord,
    PostgresMemoryStore,
    Retention,
    SqliteMemoryStore,
    export_memories,
    forget_faded,
    import_memories,
    open_memory,
)
from tests.wrong_types import Call, call_of, find_bare_errors

MODEL = "claude-opus-5-5"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
REPLY: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": MODEL,
    "content": [{"type": "text", "text": "Hello."}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 10, "output_tokens": 2},
}


@pytest.fixture
async def assembler() -> AsyncIterator[ContextAssembler]:
    async with ContextAssembler(memory="memory:") as made:
        await made.add_user("s", "hi")
        yield made


async def _recalled(recall: MemoryAssembler, **arguments: Any) -> None:
    async with recall:
        await recall.remember(["a boat"])
        await recall.assemble_context("boat", **arguments)


async def _recall_from(sources: Any, **arguments: Any) -> None:
    await _recalled(MemoryAssembler(sources, **arguments))


async def _keep_in(path: Any, **arguments: Any) -> None:
    async with SqliteMemoryStore(path, **arguments) as store:
        await store.remember([MemoryRecord(text="a boat")])
        await store.search("boat")


FACADE: dict[str, Callable[[ContextAssembler], Call]] = {
    "new": lambda _: call_of(ContextAssembler, "memory:"),
    "create": lambda _: Call(function=create_context_assembler, others=("config", "registry")),
    "assemble": lambda a: call_of(a.assemble, "s", model=MODEL, max_tokens=500),
    "assemble_sync": lambda a: call_of(a.assemble_sync, "s", model=MODEL, max_tokens=500),
    "add_user": lambda a: call_of(a.add_user, "s", "hi"),
    "add_tool_result": lambda a: call_of(a.add_tool_result, "s", "c1", "done"),
    "check_compaction": lambda a: call_of(a.check_compaction, "s", model=MODEL),
    "explain": lambda a: call_of(a.explain, "s", model=MODEL),
    "simulate": lambda a: call_of(a.simulate, "s", model=MODEL, policies=[CutPolicy()]),
    "recall": lambda a: Call(function=a.recall, args=("q",), others=("filters", "settings")),
    "premortem": lambda a: call_of(a.get_premortem_context, "tests", "plan"),
    "stack": lambda a: call_of(a.assemble_stack, TaskStack()),
    "remember": lambda a: call_of(a.remember, "a boat"),
    "forget": lambda a: call_of(a.forget, "an id"),
    "invalidate_cache": lambda a: call_of(a.invalidate_cache, "s"),
}


@pytest.mark.parametrize("name", FACADE)
async def test_no_method_of_the_facade_raises_a_bare_error(
    assembler: ContextAssembler, name: str
) -> None:
    assert await find_bare_errors(FACADE[name](assembler)) == []


async def test_a_context_is_recorded_and_spelled_without_a_bare_error(
    assembler: ContextAssembler,
) -> None:
    context = await assembler.assemble("s", model=MODEL, max_tokens=500)

    for call in (
        call_of(assembler.record, "s", REPLY, context),
        call_of(context.to_request, "anthropic"),
        call_of(context.check, "anthropic"),
        call_of(context.for_provider, "anthropic"),
    ):
        assert await find_bare_errors(call) == []


RECALL: dict[str, Callable[[MemoryAssembler], Call]] = {
    "new": lambda _: call_of(MemoryAssembler, "memory:"),
    "used": lambda _: Call(
        function=_recall_from,
        args=("memory:",),
        others=("preset", "settings", "embed", "counter", "merges_alike", "clock", "sleep"),
    ),
    "assemble_context": lambda m: call_of(m.assemble_context, "boat"),
    "rank": lambda m: call_of(m.rank, "boat"),
    "premortem": lambda m: call_of(m.get_premortem_context, "boats"),
    "stack": lambda m: call_of(m.assemble_stack, TaskStack().push("a goal")),
    "remember": lambda m: call_of(m.remember, ["a ferry"]),
    "forget": lambda m: call_of(m.forget, ["an id"]),
    "open": lambda _: call_of(open_memory, "memory:"),
}


@pytest.mark.parametrize("name", RECALL)
async def test_nothing_that_recalls_raises_a_bare_error(name: str) -> None:
    async with MemoryAssembler("memory:") as recall:
        await recall.remember("a boat sails")

        assert await find_bare_errors(RECALL[name](recall)) == []


async def test_no_change_of_a_recalled_context_raises_a_bare_error() -> None:
    async with MemoryAssembler("memory:") as recall:
        await recall.remember("a boat sails")
        context = await recall.assemble_context("boat")
        ranked = await recall.rank("boat")

        for call in (
            call_of(recall.update_context, context, "it sank"),
            call_of(recall.compress, context, target_tokens=50),
            call_of(ranked.within, 100),
        ):
            assert await find_bare_errors(call) == []


STORED: Mapping[str, Callable[[SqliteMemoryStore, Path], Call]] = {
    "new": lambda _s, _f: call_of(SqliteMemoryStore, None),
    "postgres": lambda _s, _f: call_of(PostgresMemoryStore, "postgresql://localhost/x"),
    "used": lambda _s, _f: Call(function=_keep_in, args=(None,), others=("clock", "busy_seconds")),
    "remember": lambda s, _: call_of(s.remember, [MemoryRecord(text="a ferry")]),
    "search": lambda s, _: call_of(s.search, "boat"),
    "list_records": lambda s, _: call_of(s.list_records),
    "neighbours": lambda s, _: call_of(s.neighbours, ["an id"]),
    "forget": lambda s, _: call_of(s.forget, ["an id"]),
    "touch": lambda s, _: call_of(s.touch, ["an id"]),
    "prune": lambda s, _: call_of(s.prune, Retention(max_records=100)),
    "export": lambda s, _: call_of(s.export),
    "forget_faded": lambda s, _: call_of(forget_faded, s, half_life_days=3, now=NOW),
    "import": lambda s, f: call_of(import_memories, s, f),
    "export to a file": lambda s, f: call_of(export_memories, s, f),
}


@pytest.mark.parametrize("name", STORED)
@pytest.mark.parametrize("kept", ["in memory", "in a file"])
async def test_no_store_of_memories_raises_a_bare_error(
    name: str, kept: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # "x" is a good name for a file
    lines = tmp_path / "lines.jsonl"
    lines.write_text('{"text": "a boat"}\n')
    async with SqliteMemoryStore(tmp_path / "m.db" if kept == "in a file" else None) as store:
        await store.remember([MemoryRecord(text="a boat")])

        assert await find_bare_errors(STORED[name](store, lines)) == []


def test_what_is_refused_is_named_with_what_to_pass() -> None:
    with pytest.raises(InvalidParameterError) as caught:
        MemoryAssembler("memory:", settings={"a": 3})  # type: ignore[arg-type] # on purpose

    said = "settings must be RecallSettings; got {'a': 3}. Pass RecallSettings(…), or None."
    assert str(caught.value) == said
