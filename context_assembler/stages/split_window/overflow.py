"""What to say when the fixed part of a request leaves no room for its history."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from context_assembler.errors import ContextOverflowError
from context_assembler.values.ledger import Ledger, LedgerRow
from context_assembler.values.tools import ToolSpec


def overflow_error(ledger: Ledger, tools: Sequence[ToolSpec]) -> ContextOverflowError:
    """Say which section or group of tools leaves no room."""
    sources = {tool.name: tool.source for tool in tools}
    sizes: defaultdict[str, int] = defaultdict(int)
    for row in ledger.rows:
        sizes[_group_name(row, sources)] += row.tokens
    if ledger.budget_tokens <= 0 or not sizes:
        return ContextOverflowError(
            budget_tokens=ledger.budget_tokens,
            needed_tokens=ledger.fixed_tokens,
            culprit=f"the reserve of {ledger.reserve_tokens:,} tokens for the reply",
            sizes_tokens={**sizes, "reply reserve": ledger.reserve_tokens},
            remedy="Lower max_tokens or reserve_tokens, or raise max_context_tokens.",
        )
    culprit = max(sizes, key=lambda name: sizes[name])
    return ContextOverflowError(
        budget_tokens=ledger.budget_tokens,
        needed_tokens=ledger.fixed_tokens + 1,
        culprit=culprit,
        sizes_tokens=sizes,
        remedy=_remedy(culprit),
    )


def _group_name(row: LedgerRow, sources: Mapping[str, str]) -> str:
    if row.kind == "tools":
        return f"tools from {sources[row.name]}"
    return f"section {row.name!r}" if row.kind == "system" else f"{row.name} overhead"


def _remedy(culprit: str) -> str:
    otherwise = "raise max_context_tokens, lower max_tokens, or choose a model with a larger window"
    if culprit.startswith("tools"):
        return f"Offer fewer tools (permissions, disabled_tools), {otherwise}."
    if culprit.startswith("section"):
        return f"Shorten that section or make it optional, {otherwise}."
    return f"{otherwise[0].upper()}{otherwise[1:]}."
