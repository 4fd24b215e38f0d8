"""Safe limits for a model that nobody knows."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from context_assembler.limits.ids import Spelling, plainest_spelling
from context_assembler.values.limits import CacheRule, ModelLimits, ParameterRules

CONSERVATIVE_WINDOW_TOKENS: Final = 32_000
CONSERVATIVE_OUTPUT_TOKENS: Final = 4_096

_FAMILY: Final = re.compile(r"[a-z]+")


def assume_limits(asked: str, known: Iterable[ModelLimits]) -> ModelLimits:
    """Return the smallest figures of the id's family, or of any model one would expect.

    The family is told by the id's first word (`claude`, `gpt`, `gemini` …); retired models do not
    count. Nothing is claimed about prices, caching or sampling parameters.
    """
    plainest = plainest_spelling(asked)
    family = _family(plainest.name)
    relatives = [row for row in known if _family(row.id) == family and row.status != "retired"]
    base = _smallest(relatives) if family and relatives else _plain(plainest)
    return replace(
        base,
        id=plainest.name,
        status="active",
        retires_on=None,
        aliases=(),
        parameters=ParameterRules(temperature="never", accepts_top_p_with_temperature=False),
        cache=CacheRule(),
        prices=(),
        checked=None,
        sources=(),
        weak=(),
        remarks="",
        asked_id=asked,
        api_id=plainest.host_id if plainest.host else plainest.name + plainest.snapshot,
        host=plainest.host,
        is_assumed=True,
    )


def may_be_related(asked: str, row_id: str) -> bool:
    """Whether a row's limits say anything about an unknown model: their first words are the same."""
    return _family(plainest_spelling(asked).name) == _family(row_id)


def _family(model_id: str) -> str:
    match = _FAMILY.match(model_id.lower())
    return match[0] if match else ""


def _plain(spelling: Spelling) -> ModelLimits:
    return ModelLimits(
        id=spelling.name,
        provider=spelling.vendor or "unknown",
        window_tokens=CONSERVATIVE_WINDOW_TOKENS,
        output_tokens=CONSERVATIVE_OUTPUT_TOKENS,
        features={"tools": True, "forced_tools": True, "chat_tools_with_reasoning": True},
    )


def _smallest(relatives: Sequence[ModelLimits]) -> ModelLimits:
    newest = relatives[0]
    inputs = [row.input_tokens for row in relatives if row.input_tokens is not None]
    outputs = [row.output_tokens for row in relatives if row.output_tokens is not None]
    window_tokens = min(row.window_tokens for row in relatives)
    names = sorted(set[str]().union(*(row.features for row in relatives)))
    thinking = replace(
        newest.thinking,
        is_prefix_bound=any(row.thinking.is_prefix_bound for row in relatives),
        is_account_bound=any(row.thinking.is_account_bound for row in relatives),
    )
    return replace(
        newest,
        window_tokens=window_tokens,
        input_tokens=min(window_tokens, *inputs) if inputs else None,
        output_tokens=min(outputs, default=CONSERVATIVE_OUTPUT_TOKENS),
        features={
            name: name != "prompt_cache" and all(row.supports(name) for row in relatives)
            for name in names
        },
        thinking=thinking,
    )
