"""Which names, ids and roles are taken."""

import re
from typing import Final

from context_assembler.values.limits import ModelLimits
from context_assembler.values.names import NameRule

# https://github.com/openai/openai-openapi, FunctionTool.name (read 2026-11-27)
NAME_RULE: Final = NameRule(pattern=re.compile(r"[a-zA-Z0-9_-]{1,128}"), max_chars=128)

# Longer ids are refused: "string too long. Expected a string with maximum length 64".
ID_RULE: Final = NameRule(pattern=re.compile(r"[!-~]{1,64}"), max_chars=64)


def instruction_role(limits: ModelLimits) -> str:
    """Return the role that instructions have; other vendors know `system` alone.

    Source:
        https://developers.openai.com/api/docs/guides/text (read 2026-11-27)
    """
    return "developer" if limits.provider.startswith("openai") else "system"
