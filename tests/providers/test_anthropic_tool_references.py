"""Recorded changes of tools that refer to a tool which is not there are told in words."""

from itertools import product
from typing import Any

import pytest

from context_assembler import ContextAssembler, ToolSpec, read_transcript
from context_assembler.limits import get_model_limits
from context_assembler.providers.anthropic import ANTHROPIC

MODEL = "claude-opus-5-5"
SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}
DEFINITION = {"type": "tool_definition", "definition": {"name": "brush", "input_schema": SCHEMA}}
REFERENCE = {"type": "tool_reference", "name": "brush"}
FORMS = {
    "adds": {"type": "tool_addition", "tool": REFERENCE},
    "removes": {"type": "tool_removal", "tool": REFERENCE},
    "defines": {"type": "tool_addition", "tool": DEFINITION},
}


def recorded(*changes: str) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Paint it."}]
    for change in changes:
        messages += [
            {"role": "system", "content": [FORMS[change]]},
            {"role": "assistant", "content": [{"type": "text", "text": "Yes."}]},
            {"role": "user", "content": "Go on."},
        ]
    return messages


@pytest.mark.parametrize("offered", [(), ("brush",), ("pencil",), ("pencil", "brush")], ids=str)
@pytest.mark.parametrize("changes", list(product(FORMS, repeat=2)), ids="-".join)
async def test_whatever_was_recorded_of_tools_is_accepted(
    changes: tuple[str, ...], offered: tuple[str, ...]
) -> None:
    tools = [ToolSpec(name=name, description=name, input_schema=SCHEMA) for name in offered]
    async with ContextAssembler(sessions="memory:", bootstrap=None, tools=tools) as assembler:
        read = read_transcript(recorded(*changes), format="anthropic")
        await assembler.sessions.append("s", read.events)

        context = await assembler.assemble("s", model=MODEL)

        payload = context.to_anthropic()
        limits = get_model_limits(MODEL)
        assert not [
            v for v in ANTHROPIC.check_payload(payload, limits=limits) if v.level != "avoid"
        ]
        told = [row for row in context.report.entries if row.rule == "content.undeclared"]
        is_known = "brush" in offered or changes[0] == "defines"
        assert bool(told) == (not is_known)
