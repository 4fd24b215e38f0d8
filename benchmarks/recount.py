"""A payload's tokens from scratch: one count per protocol that shares no formula with the library.

Only the text counter is the library's: every text that a message says counts. OpenAI's messages are
framed as published: 4 tokens a message of Chat Completions, 3 an item of Responses, 3 a call, 3 the
request. For Anthropic and Gemini no frame is published: their texts count alone. Tool definitions
are left to the ledger: no formula for them is published.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from context_assembler.limits import get_model_limits
from context_assembler.tokens import counter_for
from context_assembler.values.reading import as_array

REQUEST_TOKENS: Final = 3
_CHAT_TOKENS: Final = 4
_ITEM_TOKENS: Final = 3
_CALL_TOKENS: Final = 3

Count = Callable[[str], int]


def recount(provider: str, payload: Mapping[str, Any], *, model: str) -> int:
    """Return about what a payload takes without its tools; never more than it really does."""
    count = counter_for(get_model_limits(model)).count_text
    return REQUEST_TOKENS + _RECOUNTS[provider](payload, count)


def _recount_messages(payload: Mapping[str, Any], count: Count) -> int:
    """Anthropic Messages."""
    system = count("".join(block["text"] for block in payload.get("system", ())))
    return system + sum(_recount_content(m["content"], count) for m in payload["messages"])


def _recount_chat(payload: Mapping[str, Any], count: Count) -> int:
    """Chat Completions."""
    total = 0
    for message in payload["messages"]:
        total += _CHAT_TOKENS + _recount_content(message.get("content"), count)
        for call in message.get("tool_calls", ()):
            called = call.get("function") or call["custom"]
            given = called.get("arguments", called.get("input", ""))
            total += _CALL_TOKENS + count(called["name"]) + count(given)
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
                total += count(block["name"]) + count(_compact(block["input"]))
            case "tool_result":
                total += _recount_content(block.get("content"), count)
            case _:
                pass  # images, documents and signed blocks are no text
    return total


def _recount_items(payload: Mapping[str, Any], count: Count) -> int:
    """Responses: each message and each output is framed; calls stand in their reply's frame."""
    total = 0
    for entry in payload["input"]:
        kind = entry.get("type", "message")
        if kind == "message":
            total += _ITEM_TOKENS + _recount_content(entry["content"], count)
        elif kind == "function_call":
            total += _CALL_TOKENS + count(entry["name"]) + count(entry["arguments"])
        elif kind == "function_call_output":
            total += _ITEM_TOKENS + _recount_content(entry["output"], count)
    return total


def _recount_contents(payload: Mapping[str, Any], count: Count) -> int:
    """Gemini: nothing is framed; a response counts by the texts in it."""
    system = payload["config"].get("system_instruction")
    total = count(system) if system else 0
    for content in payload["contents"]:
        for part in content["parts"]:
            if call := part.get("function_call"):
                total += count(call["name"]) + count(_compact(call.get("args", {})))
            elif response := part.get("function_response"):
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
