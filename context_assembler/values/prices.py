"""What a call's input costs, by how much of it the prompt cache has."""

from dataclasses import dataclass
from typing import Final

from context_assembler.values.limits import Price
from context_assembler.values.prompt_caches import CacheSplit

_TOKENS_PER_PRICE: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class InputPrice:
    """US dollars for the input of calls; `None` with the reason where a price is not known.

    `uncached_usd` is what the same input costs where nothing is read from a cache or written to it.
    """

    usd: float | None
    uncached_usd: float | None
    why_unknown: str = ""


def price_input(split: CacheSplit, price: Price | None, *, model: str) -> InputPrice:
    """Return what the input costs at one row of prices.

    Tokens that are written to a cache whose writes have no price of their own cost what input does,
    where the provider caches by itself.
    """
    if price is None or price.input is None:
        why = f"model_limits.yaml has no price for the input of {model}"
        return InputPrice(usd=None, uncached_usd=None, why_unknown=f"{why}.")
    uncached_usd = split.total_tokens * price.input / _TOKENS_PER_PRICE
    charged = {
        "cache reads": (split.read_tokens, price.cache_read),
        "cache writes": (split.written_tokens - split.long_written_tokens, price.cache_write),
        "cache writes for the long lifetime": (split.long_written_tokens, price.cache_write_1h),
    }
    missing = [name for name, (tokens, each) in charged.items() if tokens and each is None]
    if missing:
        why = f"model_limits.yaml has no price for the {' and '.join(missing)} of {model}."
        return InputPrice(usd=None, uncached_usd=uncached_usd, why_unknown=why)
    usd = split.uncached_tokens * price.input
    usd += sum(tokens * (each or 0.0) for tokens, each in charged.values())
    return InputPrice(usd=usd / _TOKENS_PER_PRICE, uncached_usd=uncached_usd)
