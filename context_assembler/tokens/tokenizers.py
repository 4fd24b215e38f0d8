"""Which tokenizer stands behind an encoding, and how it is counted."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from context_assembler.errors import ConfigurationError
from context_assembler.values.given import check_known, check_type
from context_assembler.values.limits import ModelLimits

CountingMode: TypeAlias = Literal["auto", "exact", "estimate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokenizer:
    """How texts of one encoding are counted.

    Attributes:
        exact: The vocabulary in `ranks/` that counts exactly; `None` where there is none.
        family: The weights in weights.json that estimate.
        frame: The row of `FRAMES` for models whose own row names none.
    """

    exact: str | None = None
    family: str = "o200k"
    frame: str = "other"


TOKEN_COUNTERS: Final[Mapping[str, Tokenizer]] = {
    "o200k_base": Tokenizer(exact="o200k_base", frame="openai"),
    "o200k_harmony": Tokenizer(exact="o200k_base", frame="openai-5"),
    "cl100k_base": Tokenizer(exact="cl100k_base", family="cl100k", frame="openai"),
    "anthropic-new": Tokenizer(family="claude_v48", frame="claude"),
    "anthropic-legacy": Tokenizer(family="claude_v3", frame="claude-legacy"),
    "gemini": Tokenizer(family="gemma3", frame="gemini"),
    "gemma3": Tokenizer(family="gemma3", frame="gemini"),
    "gemma4": Tokenizer(family="gemma3", frame="gemini"),
}
# Any other encoding is estimated as o200k, the largest vocabulary there are weights for.
OTHER_TOKENIZER: Final = Tokenizer()


def chosen_vocabulary(limits: ModelLimits, *, mode: CountingMode) -> str | None:
    """Return the vocabulary to count with, `None` where texts are estimated.

    Raises:
        InvalidParameterError: The limits are none.
        ConfigurationError: `exact` is asked for and the model's vocabulary is not public.
        UnknownOptionError: There is no such mode.
    """
    check_type("limits", limits, ModelLimits, such_as="get_model_limits('…')")
    check_known(mode, get_args(CountingMode), kind="counting mode")
    vocabulary = TOKEN_COUNTERS.get(limits.encoding, OTHER_TOKENIZER).exact
    if mode == "exact" and vocabulary is None:
        raise ConfigurationError(
            f"The vocabulary {limits.encoding!r} of {limits.id} is not public.",
            remedy="Use mode='auto', which estimates for this model.",
        )
    return None if mode == "estimate" else vocabulary
