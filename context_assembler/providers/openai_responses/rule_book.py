"""Where each rule of Responses is written, and payloads as the rules look at them."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Final

from context_assembler.values.breaches import RuleBook
from context_assembler.values.limits import ModelLimits
from context_assembler.values.native.native_calls import answered_id
from context_assembler.values.native.response_texts import kind_of
from context_assembler.values.openai.own_models import is_own_api, is_own_id
from context_assembler.values.parts import Json, JsonObject
from context_assembler.values.reading import as_array, as_object, as_text

_SPEC: Final = "https://github.com/openai/openai-openapi, CreateResponse"
_GUIDES: Final = "https://developers.openai.com/api/docs/guides"

# Rule → where it is written. All were read on 2026-11-27.
SOURCES: Final[Mapping[str, str]] = {
    "R0": f"{_SPEC}.input",
    "R1": "https://github.com/openai/openai-support-agent-demo/issues/12",
    "R2": "https://github.com/openai/openai-agents-python/issues/1611",
    "R4": "https://github.com/vercel/ai/issues/12869",
    "R5": f"{_SPEC}.previous_response_id",
    "R6": f"{_SPEC}.input, limits of lengths",
    "R7": f"{_SPEC}.tools, FunctionTool",
    "R8": f"{_SPEC}.max_output_tokens",
    "R9": f"{_SPEC}.context_management",
    "R10": f"{_GUIDES}/latest-model",
    "R11": f"{_SPEC}.metadata, .text.format",
    "R12": f"{_GUIDES}/images-vision, {_GUIDES}/file-inputs",
    "R13": f"{_GUIDES}/reasoning",
    "R14": f"{_GUIDES}/deep-research",
    "R15": f"{_GUIDES}/migrate-to-responses",
    "R16": f"{_SPEC}.tool_choice",
    "R17": f"{_GUIDES}/prompt-caching",
    "R18": f"{_GUIDES}/structured-outputs, strict mode",
    "R19": "https://developers.openai.com/api/docs/deprecations",
}

# What no look at a payload can find, by the rule that it belongs to.
UNCHECKED: Final[Mapping[str, str]] = {
    "R2": "Whether an item whose id the server gave had reasoning before it is known to the server "
    "alone; requests are rendered with both, or with neither.",
    "R3": "Encrypted content does not show which organization, route and model it is bound to; what "
    "was made elsewhere is left out by its recorded origin.",
    "R3b": "What stood before a reasoning item when it was made is not in the payload; fingerprints "
    "are recorded with each reply and compared before a request is rendered.",
    "R5": "The id of a compaction's result looks like that of any response.",
    "R11": "How many items a conversation is given at once concerns another endpoint.",
}

# What gateways put in front of OpenAI's ids.
_PREFIX: Final = "(azure/|openai/)?"

_OF_MODEL: Final = frozenset({"reasoning", "mcp_list_tools", "mcp_approval_request", "compaction"})

_BOOK: Final = RuleBook(sources=SOURCES, read_on="2026-11-27")
breach: Final = _BOOK.breach
breaches: Final = _BOOK.breaches


@dataclass(frozen=True, slots=True, kw_only=True)
class SentEntry:
    """An item and where it stands; one that is no object has no fields."""

    where: str
    fields: dict[str, Json]

    @property
    def kind(self) -> str:
        return kind_of(self.fields)

    @property
    def role(self) -> str:
        return as_text(self.fields.get("role"))

    @property
    def call_id(self) -> str:
        return answered_id(self.fields)

    @property
    def is_call(self) -> bool:
        return self.kind.endswith("_call") or self.kind == "program"

    @property
    def is_output(self) -> bool:
        return self.kind.endswith("_output")

    @property
    def is_of_model(self) -> bool:
        """Whether a model made the item."""
        if self.kind == "message":
            return self.role == "assistant"
        is_found = self.is_output and self.fields.get("execution") == "server"
        return self.is_call or is_found or self.kind in _OF_MODEL

    def pieces(self) -> Iterator[tuple[str, dict[str, Json]]]:
        """Yield the pieces of a message's content, or of an output, with their places."""
        key = "output" if self.is_output else "content"
        for index, piece in enumerate(as_array(self.fields.get(key))):
            yield f"{self.where}.{key}[{index}]", as_object(piece)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A payload with what the rules need to know beside it.

    `model` is the id without the vendor's name in front of it; `has_state` tells whether the server
    knows of items that are not in the payload.
    """

    payload: dict[str, Json]
    items: tuple[SentEntry, ...]
    limits: ModelLimits | None
    today: date | None
    model: str
    is_openai: bool
    has_state: bool

    @property
    def is_stored(self) -> bool:
        """Whether the server keeps the response, as it does unless told otherwise."""
        return self.payload.get("store") is not False


def open_payload(
    payload: JsonObject, *, limits: ModelLimits | None, today: date | None = None
) -> Sent:
    """Return the payload as the server will see it: `extra_body` merged in, text as a message.

    The server is OpenAI's own where the row, or without one the model's id, says so.
    """
    body = as_object(payload)
    merged = body | as_object(body.pop("extra_body", None))
    asked, given = as_text(merged.get("model")), merged.get("input")
    entries = [{"role": "user", "content": given}] if isinstance(given, str) else as_array(given)
    return Sent(
        payload=merged,
        items=tuple(
            SentEntry(where=f"input[{index}]", fields=as_object(entry))
            for index, entry in enumerate(entries)
        ),
        limits=limits,
        today=today,
        model=re.sub(f"^{_PREFIX}", "", asked),
        is_openai=is_own_id(asked, prefix=_PREFIX) if limits is None else is_own_api(limits),
        has_state=bool(merged.get("previous_response_id") or merged.get("conversation")),
    )
