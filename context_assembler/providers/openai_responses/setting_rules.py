"""Rules on parameters."""

import re
from collections.abc import Iterator
from typing import Final

from context_assembler.providers.openai_responses.rule_book import Sent, breach, breaches
from context_assembler.providers.openai_responses.settings import MIN_OUTPUT_TOKENS
from context_assembler.values.breaches import level_if
from context_assembler.values.openai.flaws import (
    cache_flaws,
    metadata_flaws,
    retirement_flaws,
    sampling_flaws,
)
from context_assembler.values.openai.own_models import ALWAYS_REASON, DATE, can_reason, reasons_at
from context_assembler.values.reading import as_array, as_number, as_object, as_text, objects_in
from context_assembler.values.report import Violation

_NO_SAMPLING: Final = re.compile(r"gpt-(6\.([2-9]|\d\d)|[7-9]).*")
_LEAST_THRESHOLD: Final = 1000

# Parameters of Chat Completions: "In the Responses API, this parameter has moved to 'text.format'."
_OF_CHAT: Final = (
    *("messages", "functions", "function_call", "response_format", "reasoning_effort", "verbosity"),
    *("max_tokens", "max_completion_tokens", "stop", "n", "logit_bias", "logprobs", "seed"),
    *("presence_penalty", "frequency_penalty", "modalities", "audio", "web_search_options"),
)

# What the id alone decides. Each was refused in so many words: "Unsupported value: 'none' is not
# supported with the 'gpt-5-pro' model", "'reasoning.effort' is not supported with this model" …
_ALWAYS_REASONS: Final = re.compile(rf"{ALWAYS_REASON}|gpt-5\.\d-(pro|chat-latest){DATE}")
_NEVER_REASONS: Final = re.compile(r"(gpt-4|gpt-3\.5|chatgpt-4o).*")
_CURRENT_TURN_ONLY: Final = re.compile(r"o[134](-.*)?")
_DEEP_RESEARCH: Final = re.compile(r".*-deep-research.*")
_CHAT_ONLY: Final = re.compile(r".*-search-(api|preview).*")
_RESEARCH_TOOLS: Final = ("web_search", "mcp", "file_search")


def check_parameters(sent: Sent) -> Iterator[Violation]:
    """R15, R14, R5: what this API does not know, and what excludes another."""
    if sent.is_openai:
        for name in _OF_CHAT:
            if sent.payload.get(name) is not None:
                yield breach("R15", name, "is a parameter of Chat Completions")
    if _CHAT_ONLY.fullmatch(sent.model):
        yield breach("R15", "model", "is not taken here, only by Chat Completions")
    kinds = [as_text(tool.get("type")) for _, tool in objects_in(sent.payload.get("tools"))]
    if _DEEP_RESEARCH.fullmatch(sent.model) and not any(
        kind.startswith(_RESEARCH_TOOLS) for kind in kinds
    ):
        yield breach("R14", "tools", "deep research needs web search, MCP or file search")
    if sent.payload.get("previous_response_id") and sent.payload.get("conversation"):
        yield breach("R5", "conversation", "excludes previous_response_id")


def check_reasoning(sent: Sent) -> Iterator[Violation]:
    """R13, R4: effort and context by model, and what is to be included."""
    asked = as_object(sent.payload.get("reasoning"))
    effort = as_text(asked.get("effort"))
    if effort and (message := _objection_to_effort(sent, effort)):
        yield breach("R13", "reasoning.effort", message)
    if asked.get("context") == "all_turns" and _CURRENT_TURN_ONLY.fullmatch(sent.model):
        yield breach("R13", "reasoning.context", "is auto or current_turn with this model")
    included = as_array(sent.payload.get("include"))
    if "reasoning.encrypted_content" in included and _does_not_reason(sent):
        yield breach("R4", "include", "the model does not reason", level="avoid")


def _objection_to_effort(sent: Sent, effort: str) -> str | None:
    if _does_not_reason(sent):
        return "the model does not reason"
    levels = () if sent.limits is None else sent.limits.thinking.levels
    if levels and effort not in levels:
        return f"not a level of the model: {effort!r}"
    if effort == "none" and sent.is_openai and _ALWAYS_REASONS.fullmatch(sent.model):
        return "the model always reasons"
    return None


def _does_not_reason(sent: Sent) -> bool:
    if not sent.is_openai:
        return False
    if sent.limits is None:
        return _NEVER_REASONS.fullmatch(sent.model) is not None
    return not can_reason(sent.limits)


def check_sampling(sent: Sent) -> Iterator[Violation]:
    """R10: what a model does not take while it reasons, or at all."""
    never = sent.is_openai and _NO_SAMPLING.fullmatch(sent.model)
    if not never and not (sent.is_openai and _is_reasoning(sent)):
        return
    if not never:
        yield from breaches("R10", sampling_flaws(sent.payload))
    for name in ("temperature", "top_p") if never else ():
        if as_number(sent.payload.get(name)) is not None:
            yield breach("R10", name, "is not taken by this model, the default neither")
    if as_number(sent.payload.get("top_logprobs")):
        yield breach("R10", "top_logprobs", "is not taken while the model reasons")


def _is_reasoning(sent: Sent) -> bool:
    """Whether the model reasons with this payload: by its id, its row and the effort asked for."""
    is_known_to = _ALWAYS_REASONS.fullmatch(sent.model) is not None
    effort = as_text(as_object(sent.payload.get("reasoning")).get("effort"))
    return is_known_to or reasons_at(sent.limits, effort)


def check_limits(sent: Sent) -> Iterator[Violation]:
    """R8, R9, R11: lengths, context management, metadata, format."""
    payload = sent.payload
    yield from _check_reply_length(sent)
    for index, edit in objects_in(payload.get("context_management")):
        threshold = as_number(edit.get("compact_threshold"))
        if threshold is not None and threshold < _LEAST_THRESHOLD:
            where = f"context_management[{index}].compact_threshold"
            yield breach("R9", where, f"must be at least {_LEAST_THRESHOLD}")
    if payload.get("truncation") == "auto":
        message = "leaves out the oldest items without a word"
        yield breach("R8", "truncation", message, level="avoid")
    yield from breaches("R11", metadata_flaws(payload))
    chosen = as_object(as_object(payload.get("text")).get("format")).get("type")
    is_checked = chosen == "json_object" and sent.is_openai and not sent.has_state
    if is_checked and not _mentions_json(sent):
        yield breach("R11", "text.format", "the word 'json' must stand in an input message")


def check_cache(sent: Sent) -> Iterator[Violation]:
    """R17: key, lifetime and marks of the prompt cache."""
    flaws = cache_flaws(
        sent.payload,
        model=sent.model,
        is_openai=sent.is_openai,
        pieces=(piece for entry in sent.items for _, piece in entry.pieces()),
        where="input",
    )
    yield from breaches("R17", flaws)


def check_dates(sent: Sent) -> Iterator[Violation]:
    """R19: the model is still there."""
    if sent.is_openai:
        yield from breaches("R19", retirement_flaws(sent.limits, today=sent.today))


def _check_reply_length(sent: Sent) -> Iterator[Violation]:
    value = as_number(sent.payload.get("max_output_tokens"))
    most = sent.limits.output_tokens if sent.limits is not None else None
    if value is None:
        return
    if value < MIN_OUTPUT_TOKENS:
        level = level_if(sent.is_openai)
        yield breach(
            "R8", "max_output_tokens", f"must be at least {MIN_OUTPUT_TOKENS}", level=level
        )
    elif most is not None and value > most and sent.is_openai:
        yield breach("R8", "max_output_tokens", f"the model's most is {most:,}")


def _mentions_json(sent: Sent) -> bool:
    texts = [as_text(entry.fields.get("content")) for entry in sent.items]
    texts += [as_text(piece.get("text")) for entry in sent.items for _, piece in entry.pieces()]
    return any("json" in text.lower() for text in texts)
