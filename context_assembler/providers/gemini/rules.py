"""The rules of `generate_content`."""

from collections.abc import Callable, Iterable
from datetime import date
from typing import Final

from context_assembler.providers.gemini.call_rules import (
    check_order,
    check_pairs,
    check_responses,
    check_signatures,
)
from context_assembler.providers.gemini.content_rules import (
    check_media,
    check_roles,
    check_shape,
    check_text,
)
from context_assembler.providers.gemini.rule_book import Sent, open_payload
from context_assembler.providers.gemini.setting_rules import (
    check_cached_content,
    check_limits,
    check_thinking,
    check_versions,
)
from context_assembler.providers.gemini.tool_rules import (
    check_functions,
    check_mixed_tools,
    check_tool_choice,
)
from context_assembler.values.limits import ModelLimits
from context_assembler.values.parts import JsonObject
from context_assembler.values.report import Violation

_RULES: Final[tuple[Callable[[Sent], Iterable[Violation]], ...]] = (
    check_shape,
    check_roles,
    check_pairs,
    check_order,
    check_signatures,
    check_responses,
    check_functions,
    check_tool_choice,
    check_mixed_tools,
    check_cached_content,
    check_thinking,
    check_limits,
    check_versions,
    check_media,
    check_text,
)


def check_payload(
    payload: JsonObject, /, *, limits: ModelLimits | None = None, today: date | None = None
) -> list[Violation]:
    """Return the rules that a payload breaks, in the order of the rules.

    Keyword arguments of the SDK are read, and bodies of requests, whose model stands in the URL.
    `refused` marks what the API answers with an error; no request that is known to have been
    accepted breaks such a rule. Any JSON may be passed.

    Args:
        limits: The model's row; without it the rules that depend on the row are left out, and those
            of a generation of models where the payload names no model.
        today: From the day on that a model retires another one answers for it, and the rules of its
            generation are left out.
    """
    sent = open_payload(payload, limits=limits, today=today)
    return [violation for check in _RULES for violation in check(sent)]
