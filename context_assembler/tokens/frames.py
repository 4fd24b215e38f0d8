"""What messages, calls and tools cost around their text."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

ToolForm: TypeAlias = Literal["json", "typescript", "words"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """Tokens of one vendor's request beside the text in it.

    Attributes:
        request: Once per request.
        system: For the system prompt.
        message: Per message; each result counts as one of its own.
        reply: More for a message of the model that says something.
        call: Per tool call, its own frame included.
        parallel: Once in place of the calls' own frames where one message has several; 0: they
            keep them.
        names: How often a call's name is read: with its result once more, where the vendor repeats
            it there.
        result: Per tool result beside a message's own cost.
        tools: Once, where there are tools and the model's row states no figure.
        tool: Per tool definition; negative where two definitions share what parts them.
        tool_form: The form in which the model reads definitions.
        splits_replies: Whether each piece of what the model said is an item of its own.
    """

    request: int = 3
    system: int = 4
    message: int = 4
    reply: int = 0
    call: int = 11
    parallel: int = 0
    names: int = 1
    result: int = 0
    tools: int = 24
    tool: int = 8
    tool_form: ToolForm = "json"
    splits_replies: bool = False


# Per message, call and request, the figures that OpenAI published for Chat Completions (4, 3 and 3)
# are the least for its own models. The rest is fitted on counts that the vendors reported for
# recorded requests (`python -m benchmarks.usage` compares them); for `claude` (the tokenizer of
# Opus 4.7 and later) it is the older figure, a third larger. A row behind a slash holds for one
# protocol or one host: the same model frames a request differently there.
# Source: https://github.com/openai/openai-cookbook, How_to_count_tokens_with_tiktoken.ipynb;
# https://platform.claude.com/docs/en/agents-and-tools/tool-use/overview (both read 2026-11-27).
FRAMES: Final[Mapping[str, Frame]] = {
    "openai": Frame(call=9, parallel=33, names=2, tools=17, tool=-1, tool_form="typescript"),
    "openai/openai_responses": Frame(
        call=9, names=2, tools=10, tool=-1, tool_form="typescript", splits_replies=True
    ),
    "openai-5": Frame(request=2, call=15, names=2, tools=98, tool=-1, tool_form="typescript"),
    "openai-5/openai_responses": Frame(
        request=2,
        reply=2,
        call=15,
        names=2,
        tools=16,
        tool=-1,
        tool_form="typescript",
        splits_replies=True,
    ),
    "claude": Frame(request=4, system=0, message=3, call=42, result=32, tools=354, tool=25),
    "claude-legacy": Frame(request=4, system=0, message=3, call=32, result=23, tools=497, tool=19),
    "gemini": Frame(
        request=0, system=0, message=0, reply=2, call=9, names=2, result=8, tools=0, tool=0
    ),
    "gemini/vertex_ai": Frame(
        request=0, system=0, message=0, reply=2, call=0, tools=0, tool=0, tool_form="words"
    ),
    "other": Frame(),
}


def frame_for(name: str, *, usual: str, protocol: str | None, host: str | None) -> Frame:
    """Return the frame of a model's row, as its protocol or host has it.

    Args:
        name: What the row says; a name without a frame means the usual one.
        usual: The frame of the tokenizer.
    """
    name = name if name in FRAMES else usual
    for place in (protocol, host):
        if (frame := FRAMES.get(f"{name}/{place}")) is not None:
            return frame
    return FRAMES[name]
