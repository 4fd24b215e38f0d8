"""The rules of the Messages API."""

from collections.abc import Callable, Iterable
from datetime import date
from typing import Final

from context_assembler.providers.anthropic.beta_rules import (
    check_betas,
    check_compactions,
    check_context_editing,
)
from context_assembler.providers.anthropic.block_rules import (
    check_assistant_blocks,
    check_cache_marks,
    check_text,
    check_thinking_blocks,
)
from context_assembler.providers.anthropic.media_rules import check_documents, check_images
from context_assembler.providers.anthropic.rule_book import Sent, open_payload
from context_assembler.providers.anthropic.setting_rules import (
    check_reply_settings,
    check_sampling,
    check_thinking,
    check_tool_choice,
    check_tools,
)
from context_assembler.providers.anthropic.turn_rules import (
    check_call_ids,
    check_order,
    check_pairs,
    check_server_tools,
    check_shape,
    check_system_turns,
)
from context_assembler.values.limits import ModelLimits
from context_assembler.values.parts import JsonObject
from context_assembler.values.report import Violation

_RULES: Final[tuple[Callable[[Sent], Iterable[Violation]], ...]] = (
    check_shape,
    check_tools,
    check_tool_choice,
    check_sampling,
    check_thinking,
    check_reply_settings,
    check_context_editing,
    check_order,
    check_system_turns,
    check_pairs,
    check_server_tools,
    check_call_ids,
    check_text,
    check_thinking_blocks,
    check_assistant_blocks,
    check_images,
    check_documents,
    check_cache_marks,
    check_compactions,
    check_betas,
)


def check_payload(
    payload: JsonObject, /, *, limits: ModelLimits | None = None, today: date | None = None
) -> list[Violation]:
    """Return the rules that a payload breaks, in the order of the rules.

    `refused` marks what the API answers with an error; no request that is known to have been
    accepted breaks such a rule. Any JSON may be passed.

    Args:
        limits: The model's row; without it the rules that depend on the model are left out.
        today: Decides the API version of a payload that names none; `None` means the newest.
    """
    sent = open_payload(payload, limits=limits, today=today)
    return [violation for check in _RULES for violation in check(sent)]
