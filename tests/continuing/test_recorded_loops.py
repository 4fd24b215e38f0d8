"""Agent loops over real HTTP: every step that goes on from a recorded reply is that of a new assembler."""

from collections.abc import Iterator
from typing import Any

import pytest

from context_assembler import ContextAssembler
from context_assembler.config import AssemblerConfig
from context_assembler.sessions import InMemoryStore
from context_assembler.testing import ScriptedReply, serve_providers
from context_assembler.values.parts import ToolCall
from tests.calling import call_model
from tests.continuing.test_going_on import everything

STEPS = 16


def read_log(part: int) -> str:
    """Return a part of the build log."""
    return f"compiled module {part}\n" * 60


def script() -> Iterator[ScriptedReply]:
    """Steps with a thought and a call or two, and an answer at every eighth."""
    for step in range(STEPS):
        thought = f"Consider {step}."
        if step % 8 == 7:
            yield ScriptedReply(text=f"Part {step} is fine.", thinking=thought)
            continue
        calls = tuple(
            ToolCall(call_id=f"call_{step}_{n}", name="read_log", arguments={"part": step + n})
            for n in range(1 + step % 3 // 2)
        )
        yield ScriptedReply(text="", thinking=thought, tool_calls=calls)


async def walk(model: str, *, window_tokens: int | None) -> None:
    """Hold each step of a recorded loop against that of an assembler that never saw the session."""
    store = InMemoryStore()

    def make() -> ContextAssembler:
        return ContextAssembler(store, tools=[read_log], config=AssemblerConfig())

    asked: dict[str, Any] = {
        "model": model,
        "max_tokens": 1_000,
        "max_context_tokens": window_tokens,
    }
    old = make()
    with serve_providers(script()) as server:
        for step in range(STEPS):
            if step % 8 == 0:
                await old.add_user("loop", f"Look at part {step}.")
            context = await old.assemble("loop", **asked)
            assert everything(context) == everything(await make().assemble("loop", **asked))
            answer = (await old.record("loop", await call_model(server, context), context))[-1]
            for call in answer.tool_calls:
                await old.add_tool_result("loop", call.call_id, read_log(**call.arguments))
    assert [seen.refusal for seen in server.requests] == [None] * STEPS


@pytest.mark.parametrize(
    ("model", "least"),
    [
        ("gpt-4.1", 14),
        ("gpt-5.5", 14),
        ("claude-opus-5-5", 14),
        ("claude-haiku-4-5", 14),
        ("gemini-3.5-flash", 0),
    ],
)
async def test_every_step_of_a_recorded_loop_is_that_of_a_new_assembler(
    model: str, least: int, steps: list[bool]
) -> None:
    await walk(model, window_tokens=None)

    assert sum(steps) >= least


@pytest.mark.parametrize("model", ["gpt-5.5", "claude-opus-5-5"])
async def test_so_is_every_step_of_one_that_is_cut(model: str, steps: list[bool]) -> None:
    await walk(model, window_tokens=3_500)

    assert sum(steps) >= 4
