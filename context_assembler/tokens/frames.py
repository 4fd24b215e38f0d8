"""What messages, calls and tools cost around their text."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """Tokens of one vendor's request beside the text in it.

    Attributes:
        request: Once per request.
        message: Per message; a result in a `tool` message counts as one of its own.
        call: Per tool call.
        parallel_call: More per call where one message has several.
        result: Per tool result beside a message's own cost.
        tools: Once, where there are tools and the model's row states no figure.
        tool: Per tool definition.
        tool_form: The form in which the model reads definitions.
    """

    request: int = 3
    message: int = 4
    call: int = 3
    parallel_call: int = 0
    result: int = 0
    tools: int = 24
    tool: int = 8
    tool_form: Literal["json", "typescript"] = "json"


# No figure is below those OpenAI published for Chat Completions: 3 per request, 4 per message, and
# 3 per call.
# Source: https://github.com/openai/openai-cookbook, How_to_count_tokens_with_tiktoken.ipynb;
# https://platform.claude.com/docs/en/agents-and-tools/tool-use/overview (both read 2026-11-27).
# The rest is fitted on counts that the vendors reported for recorded requests; for `claude` (the
# tokenizer of Opus 4.7 and later) it is the older figure, a third larger.
FRAMES: Final[Mapping[str, Frame]] = {
    "openai": Frame(call=7, parallel_call=16, tools=18, tool=0, tool_form="typescript"),
    "openai-5": Frame(call=13, tools=98, tool=0, tool_form="typescript"),
    "claude": Frame(call=36, result=28, tools=354, tool=20),
    "claude-legacy": Frame(call=28, result=22, tools=497, tool=14),
    "other": Frame(call=7),
}
