import pytest

from context_assembler.values.native.part_signatures import (
    bears_signature,
    unsigned_block,
    without_signature,
)
from context_assembler.values.parts import Opaque, Part, Text, Thinking, ToolCall, ToolResult

SIGNED: dict[str, tuple[Part, Part]] = {
    "text": (Text("a", signature="e"), Text("a")),
    "a call": (ToolCall(call_id="c", name="f", signature="e"), ToolCall(call_id="c", name="f")),
    "a block of Gemini's": (
        Opaque(provider="gemini", block={"a": 1, "thoughtSignature": "e"}),
        Opaque(provider="gemini", block={"a": 1}),
    ),
}
UNSIGNED: dict[str, Part] = {
    "text": Text("a"),
    "a call": ToolCall(call_id="c", name="f"),
    "a result": ToolResult(call_id="c"),
    "a block of Gemini's": Opaque(provider="gemini", block={"a": 1, "thought_signature": None}),
    "a block of somebody else's": Opaque(provider="x", block={"thought_signature": "e"}),
    "reasoning, which says nothing": Thinking(provider="gemini", block={"thoughtSignature": "e"}),
}


@pytest.mark.parametrize(("part", "bare"), SIGNED.values(), ids=SIGNED.keys())
def test_a_signature_can_be_taken_off(part: Part, bare: Part) -> None:
    assert bears_signature(part)
    assert without_signature(part) == bare
    assert not bears_signature(bare)


@pytest.mark.parametrize("part", UNSIGNED.values(), ids=UNSIGNED.keys())
def test_a_part_without_one_stays_the_same_object(part: Part) -> None:
    assert not bears_signature(part)
    assert without_signature(part) is part


def test_both_spellings_are_known() -> None:
    assert unsigned_block({"thoughtSignature": "a", "thought_signature": "b", "x": 1}) == {"x": 1}
