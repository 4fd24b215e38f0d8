"""A payload's tokens from scratch: one count per protocol that shares no formula with the library.

Only the text counter is the library's: every text that a message says counts, with the frame that
stands around it. OpenAI's are as published for Chat Completions: 4 tokens a message, 3 the
request. What is not published is the least that recorded requests were charged
for: Anthropic 3 a message, 12 a call with 15 an argument, 22 a result; Gemini 16 a call with its
response, its name in both; Responses 4 a message or output, 7 a call; Chat Completions 4 a call.
Tool definitions are left to the ledger.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from context_assembler.limits import get_model_limits
from context_assembler.tokens import counter_for
from context_assembler.values.reading import as_array

REQUEST_TOKENS: Final = 3
_CHAT_TOKENS: Final = 4
_CHAT_CALL_TOKENS: Final = 4
_ITEM_TOKENS: Final = 4
_ITEM_CALL_TOKENS: Final = 7
_CLAUDE_TOKENS: Final = 3
_CLAUDE_CALL_TOKENS: Final = 12
_CLAUDE_ARGUMENT_TOKENS: Final = 15
_CLAUDE_RESULT_TOKENS: Final = 22
_GEMINI_CALL_TOKENS: Final = 8
_GEMINI_RESPONSE_TOKENS: Final = 8

Count = Callable[[str], int]


def recount(provider: str, payload: Mapping[str, Any], *, model: str) -> int:
    """Return about what a payload takes without its tools; never more than it really does."""
    count = counter_for(get_model_limits(model)).count_text
    return REQUEST_TOKENS + _RECOUNTS[provider](payload, count)


def _recount_messages(payload: Mapping[str, Any], count: Count) -> int:
    """Anthropic Messages."""
    total = count("".join(block["text"] for block in payload.get("system", ())))
    for message in payload["messages"]:
        total += _CLAUDE_TOKENS + _recount_content(message["content"], count)
    return total


def _recount_chat(payload: Mapping[str, Any], count: Count) -> int:
    """Chat Completions."""
    total = 0
    for message in payload["messages"]:
        total += _CHAT_TOKENS + _recount_content(message.get("content"), count)
        for call in message.get("tool_calls", ()):
            called = call.get("function") or call["custom"]
            given = called.get("arguments", called.get("input", ""))
            total += _CHAT_CALL_TOKENS + count(called["name"]) + count(given)
    return total


def _recount_content(content: Any, count: Count) -> int:
    if content is None:
        return 0
    if isinstance(content, str):
        return count(content)
    total = 0
    for block in content:
        match block.get("type"):
            case "text" | "input_text" | "output_text":
                total += count(block["text"])
            case "tool_use":
                total += _CLAUDE_CALL_TOKENS + count(block["name"])
                total += sum(_recount_argument(pair, count) for pair in block["input"].items())
            case "tool_result":
                total += _CLAUDE_RESULT_TOKENS + _recount_content(block.get("content"), count)
            case _:
                pass  # images, documents and signed blocks are no text
    return total


def _recount_argument(pair: tuple[str, Any], count: Count) -> int:
    name, value = pair
    spelled = value if isinstance(value, str) else _compact(value)
    return _CLAUDE_ARGUMENT_TOKENS + count(name) + count(spelled)


def _recount_items(payload: Mapping[str, Any], count: Count) -> int:
    """Responses: each message, each call and each output is framed."""
    total = 0
    for entry in payload["input"]:
        kind = entry.get("type", "message")
        if kind == "message":
            total += _ITEM_TOKENS + _recount_content(entry["content"], count)
        elif kind == "function_call":
            total += _ITEM_CALL_TOKENS + count(entry["name"]) + count(entry["arguments"])
        elif kind == "function_call_output":
            total += _ITEM_TOKENS + _recount_content(entry["output"], count)
    return total


def _recount_contents(payload: Mapping[str, Any], count: Count) -> int:
    """Gemini: calls and responses alone are framed; a response counts by the texts in it."""
    system = payload["config"].get("system_instruction")
    total = count(system) if system else 0
    for content in payload["contents"]:
        for part in content["parts"]:
            if call := part.get("function_call"):
                total += _GEMINI_CALL_TOKENS + count(call["name"])
                total += count(_compact(call.get("args", {})))
            elif response := part.get("function_response"):
                total += _GEMINI_RESPONSE_TOKENS + count(response["name"])
                total += _recount_response(response["response"], count)
            elif not part.get("thought"):
                total += count(part.get("text", ""))
    return total


def _recount_response(response: Mapping[str, Any], count: Count) -> int:
    said: Iterable[Any] = (
        response.values() if response.keys() <= {"output", "error"} else [response]
    )
    texts: list[Any] = [text for one in said for text in (as_array(one) or [one])]
    return sum(count(text if isinstance(text, str) else _compact(text)) for text in texts)


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


_RECOUNTS: Final[Mapping[str, Callable[[Mapping[str, Any], Count], int]]] = {
    "anthropic": _recount_messages,
    "openai_chat": _recount_chat,
    "openai_responses": _recount_items,
    "gemini": _recount_contents,
}
