"""Counts that are corrected by what was charged, and stay where they were."""

from hypothesis import given
from hypothesis import strategies as st

from context_assembler.limits import ModelRegistry
from context_assembler.tokens import CalibratedCounter, calibrate, counter_for
from context_assembler.values.factors import TokenFactors
from context_assembler.values.messages import Message
from context_assembler.values.parts import Text
from context_assembler.values.tools import ToolSpec

PLAIN = counter_for(ModelRegistry(overrides=[]).get("claude-opus-5-5"))
TOOL = ToolSpec(name="look", description="Look around.")
FACTORS = TokenFactors(current=1.5, seqs=(1, 3), stored=(1.1, 1.3))


def message(seq: int) -> Message:
    return Message(role="user", parts=(Text("hello " * 200),), seq=seq)


def test_each_message_is_corrected_by_its_own_factor() -> None:
    counter = calibrate(PLAIN, FACTORS)
    tokens = PLAIN.count_message(message(1))

    counted = [counter.count_message(message(seq)) for seq in (1, 3, 4)]

    assert counted == [-(-tokens * thousandths // 1_000) for thousandths in (1_100, 1_300, 1_500)]


def test_what_every_call_shares_is_corrected_by_the_first_factor() -> None:
    counter = calibrate(PLAIN, FACTORS)

    for corrected, plain in (
        (counter.count_text("hello " * 50), PLAIN.count_text("hello " * 50)),
        (counter.count_system("hello " * 50), PLAIN.count_system("hello " * 50)),
        (counter.count_tool(TOOL), PLAIN.count_tool(TOOL)),
        (counter.count_tools_overhead([TOOL]), PLAIN.count_tools_overhead([TOOL])),
    ):
        assert corrected == -(-plain * 11 // 10)


def test_the_corrected_counter_goes_by_the_name_of_the_other() -> None:
    counter = calibrate(PLAIN, FACTORS)

    assert isinstance(counter, CalibratedCounter)
    assert (counter.name, counter.is_exact) == (PLAIN.name, PLAIN.is_exact)
    assert counter.request_overhead_tokens == PLAIN.request_overhead_tokens


def test_where_nothing_is_to_be_corrected_the_counter_is_the_same() -> None:
    assert calibrate(PLAIN, TokenFactors()) is PLAIN


@given(thousandths=st.integers(500, 2_000))
def test_a_corrected_count_is_rounded_up_to_the_next_token(thousandths: int) -> None:
    counter = calibrate(PLAIN, TokenFactors(current=thousandths / 1_000))
    exact = PLAIN.count_message(message(1)) * thousandths

    assert 0 <= counter.count_message(message(1)) * 1_000 - exact < 1_000
