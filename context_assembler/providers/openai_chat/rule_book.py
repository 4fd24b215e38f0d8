"""Where each rule of Chat Completions is written, and payloads as the rules look at them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Final

from context_assembler.providers.openai_chat.dialect import dialect_of
from context_assembler.values.breaches import RuleBook
from context_assembler.values.limits import ModelLimits
from context_assembler.values.openai.own_models import is_own_id
from context_assembler.values.parts import Json, JsonObject
from context_assembler.values.reading import as_array, as_object, as_text

_SPEC: Final = "https://github.com/openai/openai-openapi, CreateChatCompletionRequest"

# Rule → where it is written. All were read on 2026-11-27.
SOURCES: Final[Mapping[str, str]] = {
    "C0": _SPEC,
    "C1": "https://github.com/agno-agi/agno/issues/4345",
    "C2": "https://github.com/danny-avila/LibreChat/issues/14231",
    "C3": "https://developers.openai.com/api/docs/guides/latest-model",
    "C4": f"{_SPEC}.max_tokens",
    "C5": f"{_SPEC}, ChatCompletionRequestDeveloperMessage",
    "C6": f"{_SPEC}.tools",
    "C7": f"{_SPEC}, FunctionObject",
    "C8": "https://developers.openai.com/api/docs/guides/function-calling",
    "C9": f"{_SPEC}.response_format, .stop, .metadata",
    "C10": f"{_SPEC}, ChatCompletionRequestAssistantMessage.content",
    "C11": f"{_SPEC}, ChatCompletionRequestToolMessage.content",
    "C12": "https://developers.openai.com/api/docs/guides/structured-outputs",
    "C13": "https://developers.openai.com/api/docs/guides/reasoning",
    "C14": "https://developers.openai.com/api/docs/guides/images-vision",
    "C15": "https://developers.openai.com/api/docs/guides/prompt-caching",
    "C16": "https://docs.mistral.ai/api (chat completions, order of roles)",
    "C17": "https://developers.openai.com/api/docs/deprecations",
}

# What no look at a payload can find, by the rule that it belongs to.
UNCHECKED: Final[Mapping[str, str]] = {
    "C2": "Without the model's row nobody knows whether it takes tools beside reasoning in this API; "
    "some gateways lift the rule, and for them it is advice.",
    "C3": "Which models reason without being asked is known by their rows, and by the ids of those "
    "that always do.",
    "C14": "The type of an uploaded file, and what lies behind a URL, are known to the server alone.",
}

# What gateways put in front of OpenAI's ids.
_PREFIX: Final = "(azure-)?(openai/)?"
_ALTERNATING_ID: Final = re.compile(r"(.*/)?(sonar|(open-|codestral|magistral|mi[nx]?i?stral)).*")

_BOOK: Final = RuleBook(sources=SOURCES, read_on="2026-11-27")
breach: Final = _BOOK.breach
breaches: Final = _BOOK.breaches


@dataclass(frozen=True, slots=True, kw_only=True)
class SentMessage:
    """A message and where it stands; a message that is no object has no fields.

    Attributes:
        calls: What stands in `tool_calls`.
        parts: The content parts with their places; text by itself is none.
    """

    where: str
    fields: dict[str, Json]
    role: str
    calls: list[Json]
    parts: list[tuple[str, dict[str, Json]]]


def _sent_message(entry: Json, *, where: str) -> SentMessage:
    fields = as_object(entry)
    return SentMessage(
        where=where,
        fields=fields,
        role=as_text(fields.get("role")),
        calls=as_array(fields.get("tool_calls")),
        parts=[
            (f"{where}.content[{index}]", as_object(part))
            for index, part in enumerate(as_array(fields.get("content")))
        ],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A payload with what the rules need to know beside it.

    `model` is the id without the vendor's name in front of it.
    """

    payload: dict[str, Json]
    messages: tuple[SentMessage, ...]
    limits: ModelLimits | None
    today: date | None
    model: str
    is_openai: bool
    takes_late_instructions: bool
    is_strict_about_order: bool


def open_payload(
    payload: JsonObject, *, limits: ModelLimits | None, today: date | None = None
) -> Sent:
    """Return the payload as the server will see it: `extra_body` merged in.

    The server is OpenAI's own where the row, or without one the model's id, says so.
    """
    body = as_object(payload)
    merged = body | as_object(body.pop("extra_body", None))
    asked = as_text(merged.get("model"))
    dialect = None if limits is None else dialect_of(limits)
    is_openai = is_own_id(asked, prefix=_PREFIX) if dialect is None else dialect.is_openai
    return Sent(
        payload=merged,
        messages=tuple(
            _sent_message(entry, where=f"messages[{index}]")
            for index, entry in enumerate(as_array(merged.get("messages")))
        ),
        limits=limits,
        today=today,
        model=asked.removeprefix("openai/"),
        is_openai=is_openai,
        takes_late_instructions=is_openai if dialect is None else dialect.takes_late_instructions,
        is_strict_about_order=_ALTERNATING_ID.fullmatch(asked) is not None,
    )
