"""Models and drafts that the provider tests render."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from context_assembler.values.draft import Draft, Parameters
from context_assembler.values.limits import CacheRule, ModelLimits, ParameterRules, ThinkingRule
from context_assembler.values.messages import Message
from context_assembler.values.parts import (
    Base64Source,
    Document,
    Image,
    Part,
    ResultPart,
    Text,
    ToolCall,
    ToolResult,
)
from context_assembler.values.prompt import SystemPrompt
from context_assembler.values.tools import ToolSpec

OPUS: Final = ModelLimits(
    id="claude-opus-5-5",
    provider="anthropic",
    window_tokens=1_000_000,
    output_tokens=128_000,
    features={
        "forced_tools": False,
        "prefill": False,
        "mid_conversation_system": True,
        "vision": True,
        "pdf": True,
    },
    thinking=ThinkingRule(
        kinds=("adaptive",),
        levels=("low", "medium", "high", "xhigh", "max"),
        disable="no",
        is_prefix_bound=True,
    ),
    parameters=ParameterRules(temperature="never"),
    cache=CacheRule(mode="explicit", min_tokens=512, ttls=("5m", "1h")),
)
HAIKU_45: Final = ModelLimits(
    id="claude-haiku-4-5",
    provider="anthropic",
    window_tokens=200_000,
    output_tokens=64_000,
    features={"prefill": True, "forced_tools": True, "mid_conversation_system": False},
    thinking=ThinkingRule(kinds=("budget",), min_budget_tokens=1024),
    parameters=ParameterRules(temperature="legacy_api", accepts_top_p_with_temperature=False),
    cache=CacheRule(mode="explicit", min_tokens=4096, ttls=("5m", "1h")),
)
GPT_4O: Final = ModelLimits(
    id="gpt-4o", provider="openai", window_tokens=128_000, output_tokens=16_384
)
GPT_6_SOL: Final = ModelLimits(
    id="gpt-6-sol",
    provider="openai",
    window_tokens=1_050_000,
    output_tokens=128_000,
    features={"chat_tools_with_reasoning": False, "vision": True, "pdf": True},
    thinking=ThinkingRule(
        kinds=("effort",), levels=("none", "low", "medium", "high"), default_level="medium"
    ),
    parameters=ParameterRules(temperature="effort_none"),
    cache=CacheRule(mode="implicit", min_tokens=1024),
)
GPT_62: Final = replace(
    GPT_6_SOL,
    id="gpt-6.2-astra",
    thinking=ThinkingRule(kinds=("effort",), levels=("low", "high"), disable="no"),
)
MISTRAL: Final = ModelLimits(
    id="mistral-large-latest", provider="mistral", window_tokens=128_000, output_tokens=8_192
)
GEMINI_4: Final = ModelLimits(
    id="gemini-4-argon",
    provider="google",
    window_tokens=1_048_576,
    output_tokens=65_536,
    features={"vision": True, "pdf": True, "forced_tools": True, "prefill": False},
    thinking=ThinkingRule(
        kinds=("effort",), levels=("low", "medium", "high"), default_level="medium", disable="no"
    ),
    parameters=ParameterRules(temperature="ignored"),
    cache=CacheRule(mode="implicit", min_tokens=4096),
)
GEMINI_25: Final = ModelLimits(
    id="gemini-2.5-flash",
    provider="google",
    window_tokens=1_048_576,
    output_tokens=65_536,
    features={"vision": True, "pdf": True, "forced_tools": True, "prefill": False},
    thinking=ThinkingRule(kinds=("budget",), min_budget_tokens=1, max_budget_tokens=24_576),
    cache=CacheRule(mode="implicit", min_tokens=2048),
)
MODELS: Final = {
    model.id: model for model in (OPUS, HAIKU_45, GPT_4O, GPT_6_SOL, GEMINI_4, GEMINI_25, MISTRAL)
}

PIXEL: Final = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PICTURE: Final = Image(source=Base64Source(media_type="image/png", data=PIXEL))
SHARP_PICTURE: Final = replace(PICTURE, detail="high")
PDF: Final = Document(source=Base64Source(media_type="application/pdf", data="JVBERi0="))
READ_FILE: Final = ToolSpec(
    name="read_file",
    description="Read one file.",
    input_schema={
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "required": ["path"],
        "additionalProperties": False,
    },
)


def draft(
    messages: Iterable[Message] = (),
    *,
    limits: ModelLimits = OPUS,
    system: str = "You are a coding agent.",
    tools: tuple[ToolSpec, ...] = (READ_FILE,),
    **parameters: Any,
) -> Draft:
    """Return a draft; the remaining arguments are its parameters."""
    parameters.setdefault("max_tokens", 4000)
    return Draft(
        limits=limits,
        parameters=Parameters(**parameters),
        system=SystemPrompt(text=system),
        messages=tuple(messages) or (user("Hello."),),
        tools=tools,
        session_id="trip-42",
    )


def user(*parts: Part | str, **fields: Any) -> Message:
    return Message(role="user", parts=_parts(parts), **fields)


def assistant(*parts: Part | str, **fields: Any) -> Message:
    return Message(role="assistant", parts=_parts(parts), origin="model", **fields)


def note(text: str, **fields: Any) -> Message:
    fields.setdefault("origin", "assembler")
    return Message(role="system", parts=(Text(text),), kind="note", **fields)


def pdf(**fields: Any) -> Document:
    fields.setdefault("source", PDF.source)
    return Document(**fields)


def call(call_id: str, name: str = "read_file", **arguments: Any) -> ToolCall:
    return ToolCall(call_id=call_id, name=name, arguments=arguments)


def result(call_id: str, *content: ResultPart | str, is_error: bool = False) -> ToolResult:
    parts = tuple(Text(part) if isinstance(part, str) else part for part in content)
    return ToolResult(call_id=call_id, content=parts, is_error=is_error)


def results(*parts: ToolResult) -> Message:
    return Message(role="tool", parts=parts, origin="tool")


def _parts(parts: Iterable[Part | str]) -> tuple[Part, ...]:
    return tuple(Text(part) if isinstance(part, str) else part for part in parts)
