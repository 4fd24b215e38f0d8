"""Rules on settings: cached content, thinking, limits, what API version takes what."""

import re
from collections.abc import Iterator
from typing import Final

from context_assembler.providers.gemini.generations import is_on_vertex
from context_assembler.providers.gemini.rule_book import Sent, breach
from context_assembler.providers.gemini.settings import (
    MAX_STOP_SEQUENCES,
    PREVIEW_VERSION,
    part_fields,
)
from context_assembler.values.breaches import level_if
from context_assembler.values.native.gemini_fields import snake_fields
from context_assembler.values.reading import as_array, as_number, as_text
from context_assembler.values.report import Violation

_IN_THE_CACHE: Final = ("system_instruction", "tools", "tool_config")
_MOVING_ALIAS: Final = re.compile(r"(models/)?gemini-.*-latest")
_MAX_TEMPERATURE: Final = 2

# Announced with implicit caching alone: its page of the models, and that of caching (read 2026-11-27).
_WITHOUT_CACHES: Final = re.compile(r"(models/)?gemini-4-argon(-.*)?")
_PREVIEW_VERSIONS: Final = (PREVIEW_VERSION, "v1alpha")


def check_cached_content(sent: Sent) -> Iterator[Violation]:
    """G9: what lies in the cache is not sent beside it, and the model has explicit caches."""
    if not sent.config.get("cached_content"):
        return
    if _WITHOUT_CACHES.fullmatch(sent.model):
        yield breach("G9", sent.where("cached_content"), "the model has no explicit caches")
    for key in _IN_THE_CACHE:
        if sent.config.get(key):
            yield breach("G9", sent.where(key), "belongs into the cached content")


def check_thinking(sent: Sent) -> Iterator[Violation]:
    """G10: a level or a budget, and one that the model has."""
    thinking = snake_fields(sent.config.get("thinking_config"))
    level, budget = thinking.get("thinking_level"), as_number(thinking.get("thinking_budget"))
    where = sent.where("thinking_config")
    if level is not None and budget is not None:
        yield breach("G10", where, "a level and a budget exclude each other")
    if level is not None and sent.is_unsigned:
        yield breach("G10", f"{where}.thinking_level", "the model takes a budget, no level")
    if budget is not None and sent.is_signed:
        message = "the model thinks by levels"
        yield breach("G10", f"{where}.thinking_budget", message, level="avoid")
    if sent.limits is None:
        return
    rule = sent.limits.thinking
    if isinstance(level, str) and rule.levels and level.lower() not in rule.levels:
        yield breach("G10", f"{where}.thinking_level", f"not a level of the model: {level!r}")
    if budget == 0 and rule.kinds and rule.disable == "no":
        level_of_breach = level_if("budget" in rule.kinds)
        message = "the model always thinks"
        yield breach("G10", f"{where}.thinking_budget", message, level=level_of_breach)


def check_limits(sent: Sent) -> Iterator[Violation]:
    """G10: sampling, length of the reply, stop sequences."""
    temperature = as_number(sent.config.get("temperature"))
    if temperature is not None and not 0 <= temperature <= _MAX_TEMPERATURE:
        yield breach("G10", sent.where("temperature"), "must be between 0 and 2")
    for key in ("temperature", "top_p", "top_k"):
        is_ignored = sent.limits is not None and sent.limits.parameters.temperature == "ignored"
        if sent.config.get(key) is not None and is_ignored:
            yield breach("G10", sent.where(key), "is ignored by the model", level="avoid")
    max_tokens = as_number(sent.config.get("max_output_tokens"))
    if max_tokens is not None and max_tokens < 1:
        yield breach("G10", sent.where("max_output_tokens"), "must be at least 1")
    largest = None if sent.limits is None else sent.limits.output_tokens
    if max_tokens is not None and largest is not None and max_tokens > largest:
        message = f"the model's longest reply has {largest:,} tokens"
        yield breach("G10", sent.where("max_output_tokens"), message)
    stops = as_array(sent.config.get("stop_sequences"))
    if len(stops) > MAX_STOP_SEQUENCES:
        message = f"{len(stops)} sequences, at most {MAX_STOP_SEQUENCES} are taken"
        yield breach("G10", sent.where("stop_sequences"), message)


def check_versions(sent: Sent) -> Iterator[Violation]:
    """G11: what the SDK's default version of the API, v1, does not know."""
    options = snake_fields(sent.config.get("http_options"))
    is_preview = as_text(options.get("api_version")) in _PREVIEW_VERSIONS
    if is_preview or is_on_vertex(sent.limits):
        return
    if sent.is_sdk and _MOVING_ALIAS.fullmatch(as_text(sent.payload.get("model"))):
        message = "this alias needs http_options with api_version v1beta"
        yield breach("G11", "model", message)
    for content in sent.contents:
        for part in content.parts:
            if any("media_resolution" in fields for fields in part_fields(part.fields)):
                message = "needs http_options with api_version v1beta"
                yield breach("G11", f"{part.where}.media_resolution", message)
