"""What messages, calls and tools cost around their text."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

ToolForm: TypeAlias = Literal["json", "typescript", "harmony", "words"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """Tokens of one vendor's request beside the text in it.

    Attributes:
        request: Once per request.
        system: For the system prompt.
        message: Per message; each result counts as one of its own.
        reply: More for a message of the model that says something; negative where the frame of what it
            answers holds its beginning.
        joint: Between two texts of one message.
        call: Per tool call, its own frame included.
        kept_id: More for a call that goes back alone under the id that the vendor gave it.
        parallel: Once and per call, in place of the calls' own frames, where one message has several:
            they are read as one call, each name once, and their results as JSON strings. 0: each
            stands for itself.
        names: How often a call's name is read: with its result once more, where the vendor repeats
            it there.
        argument: Per argument of a call beside its name and value, where each is read by itself; 0:
            all of them are read as one JSON text.
        several: More for a message with several calls.
        result: Per tool result beside a message's own cost.
        document: Around a document that is text.
        tools: Once, where there are tools and the model's row states no figure.
        shared: Less where there are tools and a system prompt: one message holds both.
        required: More where the model must call some tool, whichever.
        sequential: More where it must not call two tools at once.
        tool: Per tool definition; negative where two definitions share what parts them.
        type: Per value of a definition that is read in words, where its type is stated.
        tool_form: The form in which the model reads definitions.
        reads_words: Whether of calls and results the names and values alone count, without JSON's
            punctuation.
        splits_replies: Whether each piece of what the model said is an item of its own.
    """

    request: int = 3
    system: int = 4
    message: int = 4
    reply: int = 0
    joint: int = 1
    call: int = 11
    kept_id: int = 0
    parallel: tuple[int, int] = (0, 0)
    names: int = 1
    argument: int = 0
    several: int = 0
    result: int = 0
    document: int = 0
    tools: int = 24
    shared: int = 0
    required: int = 0
    sequential: int = 0
    tool: int = 8
    type: int = 0
    tool_form: ToolForm = "json"
    splits_replies: bool = False
    reads_words: bool = False


_CHAT: Final = Frame(
    call=9, parallel=(22, 4), names=2, tools=17, shared=5, tool=-1, tool_form="typescript"
)
_RESPONSES: Final = Frame(
    call=7,
    kept_id=3,
    names=2,
    tools=10,
    required=8,
    tool=-1,
    tool_form="typescript",
    splits_replies=True,
)
# Gemini on Vertex AI, and elsewhere before it could think, counts words alone, wherever they stand,
# and one for each type that a definition states. Since 2.5 its own API counts one more for each
# message and for the system prompt. Where recorded requests are counted by Gemma 3's vocabulary, 56 of
# 62 without tools come to the token, and of those with tools on Vertex AI 30 of 34 to one token.
_GEMINI_WORDS: Final = Frame(
    request=0,
    system=0,
    message=0,
    joint=0,
    call=0,
    names=2,
    result=0,
    tools=0,
    tool=1,
    type=1,
    tool_form="words",
    reads_words=True,
)
# Per message and request, the figures that OpenAI published for Chat Completions (4 and 3) are the
# least for its own models. The rest was read off counts that the vendors reported for recorded
# requests (`python -m benchmarks.usage` compares them); for `claude` (the tokenizer of Opus 4.7 and
# later) it is the older figure, a third larger. A row behind a slash holds for one protocol or one
# host: the same model frames a request differently there.
# Source: https://github.com/openai/openai-cookbook, How_to_count_tokens_with_tiktoken.ipynb;
# https://platform.claude.com/docs/en/agents-and-tools/tool-use/overview (both read 2026-11-27).
FRAMES: Final[Mapping[str, Frame]] = {
    "openai": _CHAT,
    "openai/openai_responses": _RESPONSES,
    "openai-o": replace(_CHAT, request=2),
    "openai-o/openai_responses": replace(_RESPONSES, request=2),
    "openai-5": Frame(request=2, call=15, names=2, tools=98, tool=-1, tool_form="harmony"),
    "openai-5/openai_responses": Frame(
        request=2,
        reply=2,
        call=13,
        kept_id=3,
        names=2,
        tools=16,
        sequential=78,
        tool=-1,
        tool_form="harmony",
        splits_replies=True,
    ),
    "claude": Frame(
        request=1,
        system=0,
        message=6,
        reply=-6,
        call=18,
        argument=21,
        several=37,
        result=32,
        document=48,
        tools=354,
        tool=25,
    ),
    "claude-legacy": Frame(
        request=1,
        system=0,
        message=6,
        reply=-6,
        call=13,
        argument=16,
        several=27,
        result=23,
        document=36,
        tools=497,
        tool=19,
    ),
    "gemini": Frame(
        request=0,
        system=1,
        message=1,
        joint=0,
        call=9,
        names=2,
        result=7,
        tools=9,
        tool=8,
        type=10,
        tool_form="words",
    ),
    "gemini/vertex_ai": _GEMINI_WORDS,
    "gemini-2": _GEMINI_WORDS,
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
