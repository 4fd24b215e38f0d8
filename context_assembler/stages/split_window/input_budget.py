"""How much of a model's window the input may use."""

from context_assembler.errors import InvalidParameterError
from context_assembler.values.limits import ModelLimits


def input_budget(
    limits: ModelLimits,
    *,
    max_tokens: int,
    max_context_tokens: int | None = None,
    reserve_tokens: int | None = None,
) -> int:
    """Return the tokens that system prompt, tools, history and notes may use together.

    Where input and reply share the window, the reserve comes off it first; where the vendor names
    an input limit of its own, that holds as well. Negative when the reserve exceeds the window.

    Raises:
        InvalidParameterError: A negative number.

    Source:
        https://platform.claude.com/docs/en/build-with-claude/context-windows (read 2026-08-21)
    """
    _check_numbers(
        max_tokens=max_tokens, max_context_tokens=max_context_tokens, reserve_tokens=reserve_tokens
    )
    reserve = max_tokens if reserve_tokens is None else reserve_tokens
    if limits.window_kind == "shared":
        usable = limits.window_tokens - reserve
        usable = usable if limits.input_tokens is None else min(usable, limits.input_tokens)
    else:
        usable = limits.window_tokens if limits.input_tokens is None else limits.input_tokens
    if max_context_tokens is None:
        return usable
    return min(usable, max_context_tokens - (reserve_tokens or 0))


def _check_numbers(**numbers: int | None) -> None:
    for name, value in numbers.items():
        if value is not None and value < 0:
            raise InvalidParameterError(
                name, value, rule="must not be negative", remedy="Give a number of tokens, or none."
            )
