"""Times our own assembling of a stored session; run by assemble.py in a process of its own.

python our_worker.py DATABASE BUDGET SECONDS
"""

import time

_STARTED = time.perf_counter()

import asyncio  # noqa: E402 - the clock starts before anything is imported
import json  # noqa: E402
import statistics  # noqa: E402
import sys  # noqa: E402

from context_assembler import ContextAssembler  # noqa: E402
from context_assembler.values.events import (  # noqa: E402
    SessionEvent,
    assistant_event,
    tool_result_event,
)
from context_assembler.values.parts import ToolCall  # noqa: E402

_STEPS = 7


async def measure(database: str, *, budget_tokens: int, seconds: float) -> dict[str, object]:
    """Return milliseconds: the first call with imports and tokenizer, then medians.

    `warm_ms` is a call with nothing new, past the assembly cache; `step_ms` one behind an exchange that
    was appended before it.
    """
    assembler = ContextAssembler(sessions=f"sqlite:///{database}")

    async def call() -> int:
        context = await assembler.assemble(
            "bench", model="gpt-5.5", max_context_tokens=budget_tokens, fresh=True
        )
        return len(context.to_openai_chat()["messages"])

    kept = await call()
    cold_ms = (time.perf_counter() - _STARTED) * 1e3
    samples: list[float] = []
    deadline = time.perf_counter() + seconds
    while len(samples) < 7 and (not samples or time.perf_counter() < deadline):
        started = time.perf_counter()
        await call()
        samples.append((time.perf_counter() - started) * 1e3)
    steps: list[float] = []
    for number in range(_STEPS):
        await assembler.sessions.append("bench", exchange(number))
        started = time.perf_counter()
        await call()
        steps.append((time.perf_counter() - started) * 1e3)
    await assembler.close()
    return {
        "cold_ms": cold_ms,
        "warm_ms": statistics.median(samples),
        "step_ms": statistics.median(steps),
        "kept": kept,
    }


def exchange(number: int) -> list[SessionEvent]:
    """Return a call and what it answered."""
    call = ToolCall(call_id=f"step_{number}", name="read", arguments={"path": f"src/{number}.py"})
    result = tool_result_event(call.call_id, f"def step_{number}() -> None: ...\n" * 40)
    return [assistant_event(call), result]


if __name__ == "__main__":
    _, path, budget, limit = sys.argv
    answer = asyncio.run(measure(path, budget_tokens=int(budget), seconds=float(limit)))
    print(json.dumps(answer))
