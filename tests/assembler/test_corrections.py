"""What reported usage corrects counts new messages alone: what was sent stays, in any process."""

from itertools import pairwise
from typing import Any

from context_assembler import ContextAssembler, assistant_event, user_event
from tests.core.sessions import answer, text

CALL: dict[str, Any] = {"model": "claude-opus-5-5", "max_tokens": 200, "max_context_tokens": 2300}


async def test_a_correction_cuts_nothing_that_was_sent_and_a_cold_process_agrees() -> None:
    assembler = ContextAssembler(bootstrap=None)
    for number in range(10):
        said = f"q{number} " + "hello " * 100
        await assembler.store.append("s", [user_event(said), assistant_event("hello " * 100)])
    await assembler.add_user("s", "go")
    factors: list[float] = []
    cuts: set[int] = set()
    before: list[object] = []
    sizes: list[int] = []
    for number in range(7):
        context = await assembler.assemble("s", **CALL, reserve_tokens=0)
        cold = await ContextAssembler(assembler.store, bootstrap=None).assemble(
            "s", **CALL, reserve_tokens=0
        )
        messages = list(context.to_anthropic()["messages"])
        ledger = context.metadata.ledger
        assert cold.metadata.ledger == ledger
        assert [one["content"] for one in messages[: len(before)]] == before
        before = [one["content"] for one in messages]
        factors.append(ledger.factor)
        cuts.add(context.metadata.cut_id)
        sizes.append(ledger.tokens_of("history"))
        used = int(ledger.used_tokens * 1.3)
        await assembler.record("s", answer(text("ok"), id=f"m{number}", input_tokens=used), context)
        await assembler.add_user("s", f"again {number}")
    assert factors[0] == 1.0 < factors[-1]
    assert len(cuts) == 1
    added = [after - before for before, after in pairwise(sizes)]
    assert added[-1] > added[1], "what is new is corrected"
