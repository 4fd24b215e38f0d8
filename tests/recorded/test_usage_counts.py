"""Our counts beside those that providers reported for recorded requests."""

import json
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from context_assembler.errors import UnknownModelError
from context_assembler.limits import ModelRegistry
from context_assembler.tokens import counter_for
from context_assembler.values.json_shapes import is_object
from context_assembler.values.limits import ModelLimits
from context_assembler.values.messages import Message
from context_assembler.values.parts import Part, Text, ToolCall, ToolResult
from context_assembler.values.tools import ToolSpec

REGISTRY = ModelRegistry(overrides=[])

pytestmark = pytest.mark.recorded


class NotTextOnlyError(Exception):
    """The request holds something that this comparison leaves out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One accepted request in our terms, with the input tokens that were charged."""

    limits: ModelLimits
    system: str
    messages: list[Message]
    tools: list[ToolSpec]
    charged_tokens: int

    @property
    def error(self) -> float:
        counter = counter_for(self.limits)
        counted = (
            counter.request_overhead_tokens
            + counter.count_system(self.system)
            + sum(map(counter.count_message, self.messages))
            + sum(map(counter.count_tool, self.tools))
            + counter.count_tools_overhead(self.tools)
        )
        return counted / self.charged_tokens - 1


def chat_parts(content: Any) -> list[Part]:
    parts: list[Part] = []
    for block in blocks(content or []):
        if not is_object(block) or block.get("type") != "text":
            raise NotTextOnlyError
        parts.append(Text(block["text"]))
    return parts


def read_chat(request: dict[str, Any]) -> tuple[str, list[Message], list[ToolSpec]]:
    if request.get("response_format") or request.get("functions"):
        raise NotTextOnlyError
    system = ""
    messages: list[Message] = []
    for spoken in request["messages"]:
        parts: list[Part] = chat_parts(spoken.get("content"))
        if spoken["role"] in ("system", "developer"):
            system += "".join(part.text for part in parts if isinstance(part, Text))
            continue
        if spoken["role"] == "tool":
            texts = tuple(part for part in parts if isinstance(part, Text))
            result: Part = ToolResult(call_id=spoken["tool_call_id"], content=texts)
            parts = [result]
        for call in spoken.get("tool_calls") or ():
            function = call["function"]
            parts.append(
                ToolCall(
                    call_id=call["id"],
                    name=function["name"],
                    arguments_json=function["arguments"],
                )
            )
        messages.append(Message(role=spoken["role"], parts=tuple(parts)))
    return system, messages, [spec(t["function"], "parameters") for t in request.get("tools") or ()]


def spec(tool: dict[str, Any], schema: str) -> ToolSpec:
    if "name" not in tool or (schema == "input_schema" and schema not in tool):
        raise NotTextOnlyError
    return ToolSpec(
        name=tool["name"],
        description=tool.get("description") or "",
        input_schema=tool.get(schema) or {},
    )


def read_anthropic(request: dict[str, Any]) -> tuple[str, list[Message], list[ToolSpec]]:
    text = json.dumps(request)
    if (
        "MASSIVE_TEXT" in text
        or "output_format" in request
        or "format" in request.get("output_config", {})
    ):
        raise NotTextOnlyError
    system = request.get("system") or ""
    if not isinstance(system, str):
        system = "".join(block["text"] for block in system)
    messages = [
        Message(role=spoken["role"], parts=tuple(map(anthropic_part, blocks(spoken["content"]))))
        for spoken in request["messages"]
    ]
    return system, messages, [spec(tool, "input_schema") for tool in request.get("tools") or ()]


def blocks(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def anthropic_part(block: dict[str, Any]) -> Part:
    match block["type"]:
        case "text":
            return Text(block["text"])
        case "tool_use":
            return ToolCall(call_id=block["id"], name=block["name"], arguments=block["input"])
        case "tool_result":
            content = chat_parts(block.get("content", ""))
            texts = tuple(part for part in content if isinstance(part, Text))
            return ToolResult(call_id=block["tool_use_id"], content=texts)
        case _:
            raise NotTextOnlyError


READERS = {"accepted_openai_chat": read_chat, "accepted_anthropic": read_anthropic}
USAGE = {
    "accepted_openai_chat": ("prompt_tokens",),
    "accepted_anthropic": (
        "input_tokens",
        "cache_creation_input_tokens",
        "cache_read_input_tokens",
    ),
}


def recorded(corpus: Path, name: str) -> Iterator[Recorded]:
    """Yield the text-only requests to the vendor's own host whose usage nobody edited."""
    for line in (corpus / "requests" / f"{name}.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        usage: dict[str, int | None] = row["response_usage"] or {}
        charged_tokens = sum(usage.get(field) or 0 for field in USAGE[name])
        if not row["first_party"] or row["suspect_edited"] or not charged_tokens:
            continue
        # These cassettes hold made-up usage, or a placeholder instead of the text that was sent.
        if "TestTokenCounts" in row["path"] or "caching" in row["path"]:
            continue
        try:
            limits = REGISTRY.get(row["request"]["model"])
            system, messages, tools = READERS[name](row["request"])
        except (UnknownModelError, NotTextOnlyError):
            continue
        yield Recorded(
            limits=limits,
            system=system,
            messages=messages,
            tools=tools,
            charged_tokens=charged_tokens,
        )


# The largest median and 95th percentile of the relative error, and the least number of requests.
BOUNDS = {
    "accepted_openai_chat": (0.02, 0.20, 150),
    "accepted_anthropic": (0.08, 0.50, 150),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_counts_are_near_what_the_provider_charged(
    corpus: Path,
    name: str,
    record_property: Callable[[str, object], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    most_median, most_p95, least_requests = BOUNDS[name]

    errors = sorted(abs(request.error) for request in recorded(corpus, name))

    median, p95 = statistics.median(errors), errors[int(0.95 * len(errors))]
    for key, value in {"requests": len(errors), "median": median, "p95": p95}.items():
        record_property(key, value)
    with capsys.disabled():
        print(f"\n{name}: {len(errors)} requests, median {median:.1%}, p95 {p95:.1%}")
    assert len(errors) >= least_requests
    assert median <= most_median
    assert p95 <= most_p95


def test_a_chat_request_without_tools_is_counted_exactly(corpus: Path) -> None:
    plain = [
        request
        for request in recorded(corpus, "accepted_openai_chat")
        if not request.tools and not request.limits.thinking.kinds
    ]

    exact = sum(request.error == 0 for request in plain)

    assert exact / len(plain) > 0.75
