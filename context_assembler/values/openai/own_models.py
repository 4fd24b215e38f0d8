"""Which servers and models are OpenAI's own, and which of them reason."""

import re
from typing import Final

from context_assembler.values.limits import ModelLimits
from context_assembler.values.parts import Json

# The vendor itself, and clouds that offer its API unchanged.
_OWN_HOSTS: Final = frozenset({None, "azure"})

OWN_ID: Final = r"(gpt-(?!oss)|chatgpt-|o[134](-|$)).*"
"""Pattern of the ids of OpenAI's own models; everybody but OpenAI serves those with open weights."""

DATE: Final = r"(-\d{4}-\d{2}-\d{2})?"
"""Pattern of the date that may close an id."""

ALWAYS_REASON: Final = rf"(o[134]|gpt-5)(-(mini|nano|pro|preview))?{DATE}"
"""Pattern of the ids of models that reason whatever effort is asked for."""

_OPEN_WEIGHTS: Final = "gpt-oss"


def is_own_api(limits: ModelLimits) -> bool:
    """Whether OpenAI's own API answers, not a server that imitates it."""
    is_open = limits.id.startswith(_OPEN_WEIGHTS)
    return limits.provider == "openai" and limits.host in _OWN_HOSTS and not is_open


def is_own_id(asked: str, *, prefix: str = "") -> bool:
    """Whether the id, for payloads without a row of limits, is of a model of OpenAI's own.

    Args:
        prefix: Pattern of what may stand in front of it.
    """
    return re.fullmatch(prefix + OWN_ID, asked) is not None


def can_reason(limits: ModelLimits) -> bool:
    """Whether the model can reason, so that reasoning comes from it and may go back."""
    return bool(limits.thinking.kinds)


def reasons_at(limits: ModelLimits | None, effort: Json) -> bool:
    """Whether the model reasons at the effort that a payload asks for; without one at its own.

    Models that take every temperature are not held to the rules for reasoning.
    """
    if limits is None or not can_reason(limits):
        return False
    settled = effort or limits.thinking.default_level
    return limits.parameters.temperature != "always" and settled not in (None, "none")
