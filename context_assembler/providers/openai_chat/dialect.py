"""How the servers that speak Chat Completions differ."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from context_assembler.values.limits import ModelLimits
from context_assembler.values.names import NameRule
from context_assembler.values.openai.own_models import can_reason, is_own_api

# https://github.com/openai/openai-openapi, FunctionDefinition.name (read 2026-11-27)
NAME_RULE: Final = NameRule(pattern=re.compile(r"[a-zA-Z0-9_-]{1,64}"), max_chars=64)

# Longer ids are refused: "string too long. Expected a string with maximum length 40".
ID_RULE: Final = NameRule(pattern=re.compile(r"[!-~]{1,40}"), max_chars=40)

# https://github.com/badlogic/pi-mono/issues/3975 (read 2026-11-27)
_ID_RULES: Final[Mapping[str, NameRule]] = {
    "mistral": NameRule(pattern=re.compile(r"[a-zA-Z0-9]{9}"), max_chars=9, keeps_prefix=False),
}

# What these answer: Unsupported parameter, stop is not supported with this model.
WITHOUT_STOP: Final = re.compile(
    r"(o1(-mini|-preview)?|o3|o4-mini|gpt-5(-mini|-nano)?)(-\d{4}-\d{2}-\d{2})?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """What one model's server expects.

    Attributes:
        is_openai: Whether OpenAI's own API answers, not a server that imitates it.
        instruction_role: Role of the system prompt.
        takes_late_instructions: Whether that role may stand in the middle of a conversation.
        takes_stop: Whether stop sequences are taken.
        merges_users: Whether neighbouring user messages must become one.
        max_tokens_key: Parameter for the longest reply.
        id_rule: Which call ids are taken.
    """

    is_openai: bool
    instruction_role: Literal["system", "developer"]
    takes_late_instructions: bool
    takes_stop: bool
    merges_users: bool
    max_tokens_key: Literal["max_tokens", "max_completion_tokens"]
    id_rule: NameRule


def dialect_of(limits: ModelLimits) -> Dialect:
    """Return the dialect of the model's server.

    `developer` replaces `system` from the first reasoning models on, so the models that reason take
    it and the others do not. Other vendors know `system`, often in the first place only, and some
    insist that user and assistant alternate.

    Source:
        https://developers.openai.com/api/docs/guides/text, docstrings of the openai package 3.57
        (read 2026-11-27)
    """
    is_openai = is_own_api(limits)
    return Dialect(
        is_openai=is_openai,
        instruction_role="developer" if is_openai and can_reason(limits) else "system",
        takes_late_instructions=is_openai or limits.supports("mid_conversation_system"),
        takes_stop=not (is_openai and WITHOUT_STOP.fullmatch(limits.id)),
        merges_users=not is_openai,
        max_tokens_key="max_completion_tokens" if is_openai else "max_tokens",
        id_rule=_ID_RULES.get(limits.provider, ID_RULE),
    )
