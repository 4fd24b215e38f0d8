"""Rules on parameters."""

import re
from collections.abc import Iterator
from typing import Final

from context_assembler.providers.openai_chat.dialect import WITHOUT_STOP
from context_assembler.providers.openai_chat.rule_book import Sent, breach, breaches
from context_assembler.providers.openai_chat.settings import MAX_STOP_SEQUENCES
from context_assembler.values.breaches import level_if
from context_assembler.values.openai.flaws import (
    cache_flaws,
    metadata_flaws,
    retirement_flaws,
    sampling_flaws,
)
from context_assembler.values.openai.own_models import ALWAYS_REASON, DATE, can_reason, reasons_at
from context_assembler.values.reading import as_array, as_number, as_object, as_text
from context_assembler.values.report import Violation

# What the id alone decides. Each was refused in so many words: "'messages[0].role' does not support
# 'developer' with this model.", "Web search options not supported with this model." …
_ALWAYS_REASONS: Final = re.compile(ALWAYS_REASON)
_WITHOUT_DEVELOPER: Final = re.compile(rf"o1-(mini|preview){DATE}")
_WITHOUT_JSON_SCHEMA: Final = re.compile(
    r"gpt-4(-\d{4})?|gpt-4-turbo.*|gpt-3\.5-turbo.*|gpt-4o-2024-05-13"
)
_WITH_WEB_SEARCH: Final = re.compile(r".*search.*")


def check_reasoning(sent: Sent) -> Iterator[Violation]:
    """C2, C13: effort by model, and beside tools."""
    effort = sent.payload.get("reasoning_effort")
    routed = as_object(sent.payload.get("reasoning"))
    limits = sent.limits
    if limits is None:
        return
    levels = limits.thinking.levels
    for where, level in (("reasoning_effort", effort), ("reasoning.effort", routed.get("effort"))):
        if isinstance(level, str) and levels and level not in levels:
            yield breach("C13", where, f"not a level of the model: {level!r}")
    is_off = routed.get("enabled") is False
    if is_off and levels and "none" not in levels and limits.thinking.disable == "no":
        yield breach("C13", "reasoning.enabled", "the model always reasons")
    has_tools = bool(as_array(sent.payload.get("tools")))
    if not has_tools or limits.features.get("chat_tools_with_reasoning") is not False:
        return
    if effort is None and "none" in levels:
        message = "should be 'none' beside function tools"
        yield breach("C2", "reasoning_effort", message, level="avoid")
    elif effort != "none":
        level = level_if(sent.is_openai)
        message = "function tools are taken without reasoning only; use the Responses API"
        yield breach("C2", "reasoning_effort", message, level=level)


def check_sampling(sent: Sent) -> Iterator[Violation]:
    """C3, C4: what reasoning models do not take."""
    if not sent.is_openai:
        return
    reasons = _reasons(sent)
    if reasons:
        yield from breaches("C3", sampling_flaws(sent.payload))
    for name in ("presence_penalty", "frequency_penalty"):
        if reasons and as_number(sent.payload.get(name)):
            yield breach("C3", name, "is not taken while the model reasons")
    if reasons and sent.payload.get("logprobs") is True:
        yield breach("C3", "logprobs", "is not taken while the model reasons")
    if sent.payload.get("max_tokens") is not None:
        level = level_if(reasons or (sent.limits is not None and can_reason(sent.limits)))
        yield breach("C4", "max_tokens", "use max_completion_tokens", level=level)
    if sent.payload.get("stop") and WITHOUT_STOP.fullmatch(sent.model):
        yield breach("C3", "stop", "is not taken by this model")


def _reasons(sent: Sent) -> bool:
    """Whether the model reasons with this payload: by its id, its row and the effort asked for."""
    is_known_to = _ALWAYS_REASONS.fullmatch(sent.model) is not None
    return is_known_to or reasons_at(sent.limits, sent.payload.get("reasoning_effort"))


def check_limits(sent: Sent) -> Iterator[Violation]:
    """C9, C12, C15: response format, stop sequences, metadata, cache key."""
    payload = sent.payload
    chosen = as_object(payload.get("response_format"))
    if chosen.get("type") == "json_object" and sent.is_openai and not _mentions_json(sent):
        yield breach("C9", "response_format", "the word 'json' must stand in a message")
    if chosen.get("type") == "json_schema" and _WITHOUT_JSON_SCHEMA.fullmatch(sent.model):
        yield breach("C12", "response_format.type", "json_schema is not taken by this model")
    searches = payload.get("web_search_options") is not None
    if searches and sent.is_openai and not _WITH_WEB_SEARCH.fullmatch(sent.model):
        yield breach("C12", "web_search_options", "is not taken by this model")
    if len(as_array(payload.get("stop"))) > MAX_STOP_SEQUENCES and sent.is_openai:
        yield breach("C9", "stop", f"at most {MAX_STOP_SEQUENCES} are taken")
    yield from breaches("C9", metadata_flaws(payload))
    yield from _check_lengths(sent)


def _check_lengths(sent: Sent) -> Iterator[Violation]:
    most = sent.limits.output_tokens if sent.limits is not None else None
    for name in ("max_completion_tokens", "max_tokens"):
        value = as_number(sent.payload.get(name))
        if value is not None and value < 1:
            yield breach("C9", name, "must be at least 1")
        elif value is not None and most is not None and value > most and sent.is_openai:
            yield breach("C9", name, f"the model's most is {most:,}")
    for message in sent.messages:
        if message.role == "developer" and _WITHOUT_DEVELOPER.fullmatch(sent.model):
            yield breach("C5", f"{message.where}.role", "developer is not taken by this model")


def check_cache(sent: Sent) -> Iterator[Violation]:
    """C15: key, lifetime and marks of the prompt cache."""
    flaws = cache_flaws(
        sent.payload,
        model=sent.model,
        is_openai=sent.is_openai,
        pieces=(part for message in sent.messages for _, part in message.parts),
        where="messages",
    )
    yield from breaches("C15", flaws)


def check_dates(sent: Sent) -> Iterator[Violation]:
    """C17: the model is still there."""
    if sent.is_openai:
        yield from breaches("C17", retirement_flaws(sent.limits, today=sent.today))


def _mentions_json(sent: Sent) -> bool:
    texts = [as_text(message.fields.get("content")) for message in sent.messages]
    texts += [as_text(part.get("text")) for message in sent.messages for _, part in message.parts]
    return any("json" in text.lower() for text in texts)
