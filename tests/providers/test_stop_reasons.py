"""A reply that a provider refused to give says so in its stop reason, whatever field told."""

from typing import Any

import pytest

from context_assembler.events import REFUSALS
from context_assembler.providers import PROVIDERS

REFUSAL = {"type": "refusal", "refusal": "I cannot."}
TEXT = {"type": "output_text", "text": "Well.", "annotations": []}


def chat(finish: str, **message: Any) -> dict[str, Any]:
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", **message}}
    return {"object": "chat.completion", "model": "m", "choices": [choice]}


def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"object": "chat.completion.chunk", "model": "m", "choices": [choice]}


def response(*pieces: Any, **fields: Any) -> dict[str, Any]:
    message = {"type": "message", "role": "assistant", "content": list(pieces)}
    made = {"object": "response", "status": "completed", "output": [message] if pieces else []}
    return made | fields


def candidate(finish: str, *parts: Any) -> dict[str, Any]:
    return {"candidates": [{"finishReason": finish, "content": {"parts": list(parts)}}]}


STOPPED: dict[str, tuple[str, Any, str | None]] = {
    "a refusal of Chat's": ("openai_chat", chat("stop", content=None, refusal="No."), "refusal"),
    "a refusal after text": (
        "openai_chat",
        chat("stop", content="Well.", refusal="No."),
        "refusal",
    ),
    "a refusal in pieces": (
        "openai_chat",
        [chunk({"refusal": "N"}), chunk({"refusal": "o."}), chunk({}, "stop")],
        "refusal",
    ),
    "a filter of Chat's": ("openai_chat", chat("content_filter", content="We"), "content_filter"),
    "no refusal": ("openai_chat", chat("stop", content="Well.", refusal=None), "stop"),
    "a refusal of Responses'": ("openai_responses", response(REFUSAL), "refusal"),
    "a refusal behind text": ("openai_responses", response(TEXT, REFUSAL), "refusal"),
    "a filter of Responses'": (
        "openai_responses",
        response(status="incomplete", incomplete_details={"reason": "content_filter"}),
        "content_filter",
    ),
    "a done response": ("openai_responses", response(TEXT), "completed"),
    **{
        f"Gemini's {reason}": ("gemini", candidate(reason), reason)
        for reason in ("SAFETY", "RECITATION", "PROHIBITED_CONTENT", "IMAGE_PROHIBITED_CONTENT")
    },
    **{
        f"a prompt blocked by {reason}": (
            "gemini",
            {"prompt_feedback": {"block_reason": reason}},
            reason,
        )
        for reason in ("SAFETY", "BLOCKLIST", "PROHIBITED_CONTENT", "MODEL_ARMOR", "JAILBREAK")
    },
    "a blocked prompt with no candidates": (
        "gemini",
        {"candidates": [], "promptFeedback": {"blockReason": "SAFETY"}},
        "SAFETY",
    ),
    "a stream that is stopped": (
        "gemini",
        [candidate("", {"text": "We"}), candidate("SAFETY")],
        "SAFETY",
    ),
    "a candidate that is done": ("gemini", candidate("STOP", {"text": "Well."}), "STOP"),
}


@pytest.mark.parametrize(("provider", "reply", "stop"), STOPPED.values(), ids=STOPPED.keys())
def test_a_refusal_is_the_reason_that_a_reply_stopped_for(
    provider: str, reply: Any, stop: str
) -> None:
    read = PROVIDERS[provider].read_reply(reply)

    assert read.stop_reason == stop
    assert (stop in REFUSALS) == (stop not in ("stop", "completed", "STOP"))
