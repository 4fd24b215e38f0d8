"""What messages, calls and tools cost around their text."""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

from context_assembler.models import ModelLimits

ToolForm: TypeAlias = Literal["json", "typescript", "harmony", "words"]


class Frame(NamedTuple):
    """Tokens of one vendor's request next to the text in it.

    Attributes:
        request: Once per request.
        system: For the system prompt.
        message: Per message; each result counts as one of its own.
        reply: More for a message of the model that says something; negative if the frame of what it
            answers holds its beginning.
        joint: Between two texts of one message.
        call: Per tool call, its own frame included.
        kept_id: More for a call that goes back alone under the id that the vendor gave it.
        parallel: Once and per call, in place of the calls' own frames, if one message has several:
            they are read as one call, each name once, and their results as JSON strings. 0: each
            counts by itself.
        names: How often a call's name is read: with its result once more, if the vendor repeats it
            there.
        argument: Per argument of a call next to its name and value, if each is read by itself; 0:
            all of them are read as one JSON text.
        several: More for a message with several calls.
        result: Per tool result next to a message's own cost.
        document: Around a document that is text.
        tools: Once, if there are tools and the model's row states no figure.
        shared: Less if there are tools and a system prompt: one message holds both.
        required: More if the model must call some tool, whichever.
        sequential: More if it must not call two tools at once.
        tool: Per tool definition; negative if two definitions share what parts them.
        type: Per value of a definition that is read in words, if its type is stated.
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
_RESPONSES: Final = _CHAT._replace(
    call=7, kept_id=3, parallel=(0, 0), tools=10, shared=0, required=8, splits_replies=True
)
_GPT_5: Final = Frame(request=2, call=15, names=2, tools=98, tool=-1, tool_form="harmony")
_CLAUDE: Final = Frame(request=1, system=0, message=6, reply=-6, call=18, argument=21)._replace(
    several=37, result=32, document=48, tools=354, tool=25
)
_GEMINI: Final = Frame(request=0, system=1, message=1, joint=0, call=9, names=2)._replace(
    result=7, tools=9, type=10, tool_form="words"
)
# Gemini on Vertex AI, and elsewhere before it could think, counts words alone, wherever they are, and
# one for each type that a definition states. Since 2.5 its own API counts one more for each message
# and for the system prompt. If recorded requests are counted by Gemma 3's vocabulary, 56 of 62 without
# tools come to the token, and of those with tools on Vertex AI 30 of 34 to one token.
_GEMINI_WORDS: Final = _GEMINI._replace(
    system=0, message=0, call=0, result=0, tools=0, tool=1, type=1, reads_words=True
)
# Per message and request, the figures that OpenAI published for Chat Completions (4 and 3) are the
# least for its own models. The rest was read off counts that the vendors reported for recorded
# requests (`python -m benchmarks.usage` compares them); for `claude` (the tokenizer of Opus 4.7 and
# later) it is the older figure, a third larger. A row after a slash holds for one protocol or one
# host: the same model frames a request differently there.
# Source: https://github.com/openai/openai-cookbook, How_to_count_tokens_with_tiktoken.ipynb;
# https://platform.claude.com/docs/en/agents-and-tools/tool-use/overview (both read 2026-11-27).
FRAMES: Final[Mapping[str, Frame]] = {
    "openai": _CHAT,
    "openai/openai_responses": _RESPONSES,
    "openai-o": _CHAT._replace(request=2),
    "openai-o/openai_responses": _RESPONSES._replace(request=2),
    "openai-5": _GPT_5,
    "openai-5/openai_responses": _GPT_5._replace(
        reply=2, call=13, kept_id=3, tools=16, sequential=78, splits_replies=True
    ),
    "claude": _CLAUDE,
    "claude-legacy": _CLAUDE._replace(
        call=13, argument=16, several=27, result=23, document=36, tools=497, tool=19
    ),
    "gemini": _GEMINI,
    "gemini/vertex_ai": _GEMINI_WORDS,
    "gemini-2": _GEMINI_WORDS,
    "other": Frame(),
}


class Tokenizer(NamedTuple):
    """How texts of one encoding are counted.

    Attributes:
        exact: The vocabulary that counts exactly; empty if none is public.
        family: The weights in weights.json that estimate.
        frame: The key of `FRAMES` for models whose own row names none.
    """

    exact: str = ""
    family: str = "o200k"
    frame: str = "other"


_GEMMA: Final = Tokenizer(family="gemma3", frame="gemini")
TOKENIZERS: Final[Mapping[str, Tokenizer]] = {
    "o200k_base": Tokenizer("o200k_base", frame="openai"),
    "o200k_harmony": Tokenizer("o200k_base", frame="openai-5"),
    "cl100k_base": Tokenizer("cl100k_base", "cl100k", frame="openai"),
    "anthropic-new": Tokenizer(family="claude_v48", frame="claude"),
    "anthropic-legacy": Tokenizer(family="claude_v3", frame="claude-legacy"),
    "gemini": _GEMMA,
    "gemma3": _GEMMA,
    "gemma4": _GEMMA,
}
# Any other encoding is estimated as o200k, the largest vocabulary that there are weights for.
OTHER_TOKENIZER: Final = Tokenizer()


def frame_name(limits: ModelLimits, protocol: str) -> str:
    """Return the key of the frame that surrounds the text of a model's request in one protocol."""
    name = limits.token_frame
    if name not in FRAMES:
        name = TOKENIZERS.get(limits.encoding, OTHER_TOKENIZER).frame
        if limits.thinking.kinds:  # one tokenizer serves models that reason and others
            name = "openai-o" if name == "openai" else name
        elif name == "gemini":
            name = "gemini-2"
    places = (f"{name}/{place}" for place in (protocol, limits.host))
    return next((place for place in places if place in FRAMES), name)
