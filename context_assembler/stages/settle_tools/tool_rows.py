"""What the report says of tools that were deferred, added, withdrawn or declared anew."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from context_assembler.ports import TokenCounter
from context_assembler.stages.settle_tools.settled import SettledTools
from context_assembler.values.report import ReportEntry
from context_assembler.values.tool_changes import find_change
from context_assembler.values.tools import ToolSpec

_WITHDRAWN = (
    "It cannot be called any more; its definition stays where it is until the next rewrite."
)


def tell_tools(
    settled: SettledTools, entries: Sequence[ReportEntry], *, counter: TokenCounter
) -> tuple[ReportEntry, ...]:
    """Return the rows of tools that are told otherwise than whole and in front of the history.

    Args:
        entries: What is known of the tools so far.
    """
    before = {entry.id: entry for entry in entries if entry.kind == "tool"}
    return (
        *_deferred_rows(settled, counter),
        *_undeferred_rows(settled),
        *_added_rows(settled, counter),
        *_withdrawn_rows(settled, before, counter),
    )


def _deferred_rows(settled: SettledTools, counter: TokenCounter) -> Iterator[ReportEntry]:
    loaded = {tool.name: tool for tool in settled.loaded}
    for tool in settled.plan.declared:
        if tool.is_deferred:
            shown = loaded.get(tool.name)
            is_cut = shown is not None and shown is not tool
            yield ReportEntry(
                kind="tool",
                id=tool.name,
                decision="shortened" if is_cut else "kept",
                tokens_before=counter.count_tool(tool),
                tokens_after=0 if shown is None else counter.count_tool(shown),
                reason="It is deferred: the model finds it by searching.",
                rule="tool.deferred",
            )


def _undeferred_rows(settled: SettledTools) -> Iterator[ReportEntry]:
    """Yield a row where tools should be deferred and the model cannot search for them."""
    offered, rule = settled.plan.offered, settled.deferral
    asking = sum(rule.asks_for(tool, among=offered) for tool in offered)
    if asking and rule.search is None:
        yield ReportEntry(
            kind="note",
            id="deferral",
            decision="kept",
            reason=f"All tools are sent whole, {asking} of them deferrable: the model has no search.",
            rule="tool.deferral",
        )


def _added_rows(settled: SettledTools, counter: TokenCounter) -> Iterator[ReportEntry]:
    added = {tool.name: tool for tool in settled.plan.added}
    for tool in settled.plan.offered:
        if tool.name in added:
            tokens = counter.count_tool(tool)
            yield ReportEntry(
                kind="tool",
                id=tool.name,
                decision="kept",
                tokens_before=tokens,
                tokens_after=tokens,
                reason="It is told behind the history, so that what was sent before stays.",
                rule="tool.added",
            )


def _withdrawn_rows(
    settled: SettledTools, before: Mapping[str, ReportEntry], counter: TokenCounter
) -> Iterator[ReportEntry]:
    offered = {tool.name for tool in settled.plan.offered}
    known = {tool.name: tool for tool in (*settled.plan.declared, *settled.plan.added)}
    for name in sorted(known.keys() - offered):
        tokens = counter.count_tool(known[name])
        row = before.get(name) or ReportEntry(kind="tool", id=name, decision="dropped")
        told = f"{row.reason}. {_WITHDRAWN}" if row.reason else _WITHDRAWN
        rule = row.rule or "tool.withdrawn"
        yield replace(row, tokens_before=tokens, tokens_after=tokens, reason=told, rule=rule)


def tell_rewrite(settled: SettledTools, *, tokens: int) -> tuple[ReportEntry, ...]:
    """Return the row that announces tools declared anew; none where they are as they were.

    Args:
        tokens: Size of the whole request.
    """
    if not settled.why:
        return ()
    changed = _tell_change(settled.before, settled.plan.offered)
    reason = (
        f"The tools are declared anew ({changed}), since {settled.why}: nothing of the request's "
        f"{tokens:,} tokens is read from the prompt cache, and reasoning made before may not count."
    )
    row = ReportEntry(kind="note", id="tools", decision="kept", reason=reason, rule="rewrite.tools")
    return (row,)


def _tell_change(before: Sequence[ToolSpec], after: Sequence[ToolSpec]) -> str:
    change = find_change(before, after)
    known = {tool.name for tool in before}
    told = {
        "added": [tool.name for tool in change.added if tool.name not in known],
        "changed": [tool.name for tool in change.added if tool.name in known],
        "removed": list(change.removed),
    }
    return "; ".join(f"{kind}: {', '.join(names)}" for kind, names in told.items() if names)
