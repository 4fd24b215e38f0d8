"""What a provider's refusal says about the size of a model."""

import re
from typing import Final

# The figure of each is the limit, not what was sent.
_REFUSALS: Final = (
    re.compile(r"maximum context length (?:is|of) ([\d,]+) tokens", re.IGNORECASE),
    re.compile(r"prompt is too long: [\d,]+ tokens > ([\d,]+) maximum", re.IGNORECASE),
    re.compile(
        r"input token count (?:\([\d,]+\) )?exceeds the maximum number of tokens allowed "
        r"\(?([\d,]+)\)?",
        re.IGNORECASE,
    ),
)
_MOST_CHARS: Final = 100_000


def learn_from_error(text: str) -> int | None:
    """Return the largest prompt, in tokens, that a provider's error names; `None` if it names none.

    For a model that is not in the registry: pass the figure on to `register_model`.

    Source:
        https://github.com/vllm-project/vllm/issues/20409 (servers of OpenAI's shape),
        litellm 1.110.2, exception_mapping_utils.py (Anthropic, Gemini; read 2026-11-27)
    """
    for refusal in _REFUSALS:
        if match := refusal.search(text[:_MOST_CHARS]):
            return int(match[1].replace(",", "")) or None
    return None
