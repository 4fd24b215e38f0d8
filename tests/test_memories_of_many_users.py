"""One assembler for many users: whose memories a call may recall."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from context_assembler import (
    AssembledContext,
    AssemblerConfig,
    ContextAssembler,
    InMemoryStore,
    MemoryRecord,
    Session,
    TaskStack,
    UnknownOptionError,
)

CODES = [
    MemoryRecord(text="Ada's door code is 1234.", namespace="ada"),
    MemoryRecord(text="Bob's door code is 4711.", namespace="bob"),
    MemoryRecord(text="The door code of the yard is 0000."),
]
ALL = {"1234", "4711", "0000"}


@pytest.fixture
async def assembler() -> AsyncIterator[ContextAssembler]:
    async with ContextAssembler(memory="memory:") as assembler:
        await assembler.remember(CODES)
        yield assembler


async def ask(
    assembler: ContextAssembler, session_id: str = "s", **options: Any
) -> AssembledContext:
    return await assembler.assemble(
        session_id, model="gpt-5.5", max_tokens=500, query="What is the door code?", **options
    )


def codes(context: AssembledContext) -> set[str]:
    told = "\n".join(message.text for message in context.messages if message.note == "memory")
    return {code for code in ALL if code in told}


NAMED: dict[str, tuple[Any, set[str]]] = {
    "not named": (None, ALL),
    "one": (["ada"], {"1234"}),
    "one, as text": ("bob", {"4711"}),
    "several": (["ada", "bob"], {"1234", "4711"}),
    "with what belongs to nobody": (["ada", ""], {"1234", "0000"}),
    "one that has none": (["eve"], set()),
    "none": ([], set()),
}


@pytest.mark.parametrize(("named", "expected"), NAMED.values(), ids=NAMED.keys())
async def test_a_call_names_whose_memories_it_may_recall(
    named: Any, expected: set[str], assembler: ContextAssembler
) -> None:
    await assembler.add_user("s", "hello")

    context = await ask(assembler, recall_namespaces=named)

    assert codes(context) == expected
    assert not context.report.warnings
    rules = {row.rule for row in context.report.entries if row.kind == "memory"}
    assert rules == ({"memory.recalled"} if expected else {"memory.nothing"})


async def test_one_session_asked_for_two_users_is_not_answered_from_the_cache(
    assembler: ContextAssembler,
) -> None:
    await assembler.add_user("s", "hello")

    told = [codes(await ask(assembler, recall_namespaces=[who])) for who in ("ada", "bob", "ada")]

    assert told == [{"1234"}, {"4711"}, {"1234"}]


DEFAULTS: dict[str, tuple[Any, set[str], bool]] = {
    "a list": (["ada"], {"1234"}, False),
    "what cannot be read": (7, set(), True),
}


@pytest.mark.parametrize(("default", "expected", "warns"), DEFAULTS.values(), ids=DEFAULTS.keys())
async def test_a_session_may_hold_whose_memories_it_recalls(
    default: Any, expected: set[str], warns: bool
) -> None:
    sessions = InMemoryStore()
    await sessions.create(Session(id="s", defaults={"recall_namespaces": default}))
    async with ContextAssembler(sessions, memory="memory:") as assembler:
        await assembler.remember(CODES)
        await assembler.add_user("s", "hello")

        context = await ask(assembler)
        own = await ask(assembler, recall_namespaces=["bob"])

    assert codes(context) == expected
    assert bool(context.report.warnings) == warns
    assert codes(own) == {"4711"}


async def test_a_call_may_name_others_than_the_settings() -> None:
    config = AssemblerConfig(memory={"namespaces": ["ada"]})
    async with ContextAssembler(memory="memory:", config=config) as assembler:
        await assembler.memory.remember(CODES)
        await assembler.add_user("s", "hello")

        assert codes(await ask(assembler)) == {"1234"}
        assert codes(await ask(assembler, recall_namespaces=["bob"])) == {"4711"}


async def test_who_spells_it_otherwise_is_told_the_name(assembler: ContextAssembler) -> None:
    await assembler.add_user("s", "hello")

    with pytest.raises(UnknownOptionError, match="Did you mean 'recall_namespaces'"):
        await ask(assembler, namespaces=["ada"])


MISSPELT: dict[str, Any] = {"namespaces": ["ada"]}
CALLS: dict[str, Callable[[ContextAssembler], Awaitable[object]]] = {
    "recall": lambda assembler: assembler.recall("code", **MISSPELT),
    "get_premortem_context": lambda assembler: assembler.get_premortem_context(
        "deploys", **MISSPELT
    ),
    "assemble_stack": lambda assembler: assembler.assemble_stack(TaskStack(), **MISSPELT),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
async def test_an_option_of_another_call_is_told_with_those_there_are(
    assembler: ContextAssembler, call: Callable[[ContextAssembler], Awaitable[object]]
) -> None:
    with pytest.raises(UnknownOptionError, match=r"'namespaces'.*filters"):
        await call(assembler)
