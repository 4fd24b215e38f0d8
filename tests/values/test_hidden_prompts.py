import pytest

from context_assembler.limits import ModelRegistry
from context_assembler.values.draft import Parameters
from context_assembler.values.hidden_prompts import forced_tool_tokens, thinking_prompt_tokens
from context_assembler.values.tools import ToolChoice

REGISTRY = ModelRegistry(overrides=[])
NAMED, ANY = ToolChoice(mode="tool", name="look"), ToolChoice(mode="any")

FORCED: dict[str, tuple[str, ToolChoice | None, int]] = {
    "no choice": ("claude-opus-5", None, 0),
    "the model's own choice": ("claude-opus-5", ToolChoice(), 0),
    "Claude, any": ("claude-opus-5", ANY, 406 - 286),
    "Claude, one by name": ("claude-opus-4-7", NAMED, 804 - 675),
    "a Claude of no stated figure": ("claude-3-haiku", ANY, 120),
    "a Claude that is told less": ("claude-3-5-sonnet", ANY, 0),
    "OpenAI, one by name": ("gpt-4o", NAMED, 14),
    "OpenAI, any": ("gpt-4o", ANY, 0),
    "OpenAI, a model that reasons": ("gpt-5", NAMED, 0),
    "Gemini": ("gemini-2.5-pro", NAMED, 0),
}


@pytest.mark.parametrize(("model_id", "choice", "tokens"), FORCED.values(), ids=FORCED.keys())
def test_a_forced_tool_costs_what_its_vendor_adds(
    model_id: str, choice: ToolChoice | None, tokens: int
) -> None:
    assert forced_tool_tokens(REGISTRY.get(model_id), choice) == tokens


THINKING: dict[str, tuple[str, Parameters, int]] = {
    "a budget": ("claude-sonnet-4-5", Parameters(max_tokens=9, thinking_budget=4), 28),
    "a level": ("claude-opus-4-6", Parameters(max_tokens=9, thinking_level="high"), 17),
    "none": ("claude-sonnet-4-5", Parameters(max_tokens=9), 0),
    "switched off": ("claude-sonnet-4-5", Parameters(max_tokens=9, thinking_level="none"), 0),
    "another model": ("gpt-5", Parameters(max_tokens=9, thinking_level="high"), 0),
}


@pytest.mark.parametrize(("model_id", "asked", "tokens"), THINKING.values(), ids=THINKING.keys())
def test_thinking_costs_the_prompt_that_asks_for_it(
    model_id: str, asked: Parameters, tokens: int
) -> None:
    assert thinking_prompt_tokens(REGISTRY.get(model_id), asked) == tokens
