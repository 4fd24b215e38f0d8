"""The rules of Chat Completions."""

from collections.abc import Callable, Iterable
from datetime import date
from typing import Final

from context_assembler.providers.openai_chat.message_rules import (
    check_calls,
    check_content,
    check_media,
    check_order,
    check_pairs,
    check_shape,
)
from context_assembler.providers.openai_chat.rule_book import Sent, open_payload
from context_assembler.providers.openai_chat.setting_rules import (
    check_cache,
    check_dates,
    check_limits,
    check_reasoning,
    check_sampling,
)
from context_assembler.providers.openai_chat.tool_rules import (
    check_format,
    check_tool_choice,
    check_tools,
)
from context_assembler.values.limits import ModelLimits
from context_assembler.values.parts import JsonObject
from context_assembler.values.report import Violation

_RULES: Final[tuple[Callable[[Sent], Iterable[Violation]], ...]] = (
    check_shape,
    check_dates,
    check_tools,
    check_tool_choice,
    check_format,
    check_reasoning,
    check_sampling,
    check_limits,
    check_cache,
    check_order,
    check_content,
    check_pairs,
    check_calls,
    check_media,
)


def check_payload(
    payload: JsonObject, /, *, limits: ModelLimits | None = None, today: date | None = None
) -> list[Violation]:
    """Return the rules of Chat Completions that a payload, or any other JSON, breaks.

    Those of OpenAI's own server hold where `open_payload` takes it to be asked; without `today` no
    model is shut down.
    """
    sent = open_payload(payload, limits=limits, today=today)
    return [violation for check in _RULES for violation in check(sent)]
