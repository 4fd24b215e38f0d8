"""A number of tokens, and how far it can be trusted."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

CountMethod: TypeAlias = Literal["exact", "fitted", "sampled", "reported"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCount:
    """How many tokens something has; the truth is expected between `low` and `high`.

    Attributes:
        method: `exact`: by the vocabulary; `fitted`: estimated; `sampled`: estimated from slices of
            a long text; `reported`: by the provider's own endpoint.
    """

    tokens: int
    low: int
    high: int
    method: CountMethod

    @classmethod
    def certain(cls, tokens: int, *, method: CountMethod = "exact") -> "TokenCount":
        """Return a count without doubt."""
        return cls(tokens=tokens, low=tokens, high=tokens, method=method)
