"""Cuts of a history whose counts were corrected on the way: each message by a factor of its own."""

from itertools import pairwise

import pytest

from context_assembler import Message, Text, ToolCall, ToolResult, Truncator
from context_assembler.testing import WordCounter
from context_assembler.tokens.calibrated import calibrate
from context_assembler.values.factors import TokenFactors

ROOM_TOKENS = 9_000
FACTORS = {
    "smaller since": (1.0, 0.75),
    "larger since": (0.75, 1.0),
    "smaller and larger": (1.0, 0.7, 1.2),
    "never": (1.0,),
}


def history(turns: int, results: int) -> list[Message]:
    """Return turns of a question, a reply with calls, and results of 500 words each."""
    messages: list[Message] = []
    for turn in range(turns):
        seq = 3 * turn
        ids = [f"c{turn}.{n}" for n in range(results)]
        calls = tuple(ToolCall(call_id=call_id, name="read") for call_id in ids)
        words = Text("word " * 500)
        answers = tuple(ToolResult(call_id=call_id, content=(words,)) for call_id in ids)
        messages += [
            Message(role="user", parts=(Text(f"Question {turn}"),), seq=seq + 1),
            Message(role="assistant", parts=calls, origin="model", seq=seq + 2),
            Message(role="tool", parts=answers, origin="tool", seq=seq + 3),
        ]
    return messages


def corrected(turns: int, factors: tuple[float, ...]) -> TokenFactors:
    """Return the factors, each in force for as long as the others."""
    seqs = tuple(3 * turn + 1 for turn in range(turns))
    stored = tuple(factors[turn * len(factors) // turns] for turn in range(turns))
    return TokenFactors(current=factors[-1], seqs=seqs, stored=stored)


@pytest.mark.parametrize("results", [1, 2, 5])
@pytest.mark.parametrize("factors", FACTORS.values(), ids=FACTORS.keys())
def test_what_a_cut_holds_is_what_it_was_measured_at(
    factors: tuple[float, ...], results: int
) -> None:
    messages = history(40, results)
    counter = calibrate(WordCounter(), corrected(40, factors))
    levels: list[int] = []
    for turn in range(1, 41):
        cut = Truncator().truncate(messages[: 3 * turn], room_tokens=ROOM_TOKENS, counter=counter)
        assert sum(map(counter.count_message, cut.messages)) <= ROOM_TOKENS
        levels.append(cut.level)

    assert max(map(abs, levels)) < 1 << 46  # none that had to leave room beside its checkpoint
    if results < 5:  # five may leave no step beside the exchange in flight
        changed = [before != after for before, after in pairwise(levels)]
        assert not any(first and second for first, second in pairwise(changed))
