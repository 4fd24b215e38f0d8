"""What the report says of tools that were deferred, added, withdrawn or declared anew."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from context_assembler.ports import TokenCounter
from context_assembler.stages.settle_tools.settled import SettledTools
from context_assembler.values.deferral import is_held_back
from context_assembler.values.report import ReportEntry
from context_assembler.values.tool_changes import find_change

_WITHDRAWN: Final = (
    "It cannot be called any more; its definition stays where it is until the next rewrite."
)
_ADDED: Final = (
    "It is told behind the history, so that what was sent before stays; it counts with that note."
)


def tell_tools(
    settled: SettledTools, entries: Sequence[ReportEntry], *, counter: TokenCounter
) -> tuple[ReportEntry, ...]:
    """Return the rows of tools that are told otherwise than whole and in front of the history.

    `tokens_after` is what a definition takes in front of the history; one that is told behind it
    counts there, with the note that tells it.

    Args:
        entries: What is known of the tools so far.
    """
    tools = [entry for entry in entries if entry.kind == "tool"]
    before = {entry.id: entry for entry in reversed(tools)}
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
    rule = settled.deferral
    asking = len(rule.asking(settled.plan.offered)) if rule.search is None else 0
    if asking:
        yield ReportEntry(
            kind="note",
            id="deferral",
            decision="kept",
            reason=f"All tools are sent whole, {asking} of them deferrable: the model has no search.",
            rule="tool.deferral",
        )


def _added_rows(settled: SettledTools, counter: TokenCounter) -> Iterator[ReportEntry]:
    added = {tool.name for tool in settled.plan.added}
    in_front = _tokens_in_front(settled, counter) if added else {}
    for tool in settled.plan.offered:
        if tool.name in added:
            yield ReportEntry(
                kind="tool",
                id=tool.name,
                decision="kept",
                tokens_before=counter.count_tool(tool),
                tokens_after=in_front.get(tool.name, 0),
                reason=_ADDED,
                rule="tool.added",
            )


def _withdrawn_rows(
    settled: SettledTools, before: Mapping[str, ReportEntry], counter: TokenCounter
) -> Iterator[ReportEntry]:
    withdrawn = settled.withdrawn
    in_front = _tokens_in_front(settled, counter) if withdrawn else {}
    for tool in withdrawn:
        row = before.get(tool.name) or ReportEntry(kind="tool", id=tool.name, decision="dropped")
        yield replace(
            row,
            tokens_before=counter.count_tool(tool),
            tokens_after=in_front.get(tool.name, 0),
            reason=f"{row.reason}. {_WITHDRAWN}" if row.reason else _WITHDRAWN,
            rule=row.rule or "tool.withdrawn",
        )


def _tokens_in_front(settled: SettledTools, counter: TokenCounter) -> dict[str, int]:
    return {tool.name: counter.count_tool(tool) for tool in settled.loaded}


def tell_rewrite(settled: SettledTools, *, tokens: int) -> tuple[ReportEntry, ...]:
    """Return the row that announces tools declared anew; none where they are as they were.

    Args:
        tokens: Size of the whole request.
    """
    if not settled.why:
        return ()
    changed = "; ".join(_tell_change(settled)) or "the same ones"
    reason = (
        f"The tools are declared anew ({changed}), since {settled.why}: nothing of the request's "
        f"{tokens:,} tokens is read from the prompt cache, and reasoning made before may not count."
    )
    row = ReportEntry(kind="note", id="tools", decision="kept", reason=reason, rule="rewrite.tools")
    return (row,)


def _tell_change(settled: SettledTools) -> Iterator[str]:
    """Yield what changed since the last call, then what stands otherwise in front than it did."""
    declared = settled.sent.epoch.tools if settled.sent is not None else ()
    known, now = {tool.name for tool in settled.before}, settled.plan.declared
    change, front = find_change(settled.before, now), find_change(declared, now)
    told = {*(tool.name for tool in change.added), *change.removed}
    held, holds = ({t.name for t in tools if is_held_back(t)} for tools in (declared, now))
    stayed = {tool.name for tool in declared} & {tool.name for tool in now}
    names_by_kind = {
        "added": [tool.name for tool in change.added if tool.name not in known],
        "changed": [tool.name for tool in change.added if tool.name in known],
        "removed": list(change.removed),
        "told in front": [tool.name for tool in front.added if tool.name not in told],
        "no longer told": [name for name in front.removed if name not in told],
        "deferred": sorted(stayed & (holds - held)),
        "loaded": sorted(stayed & (held - holds)),
    }
    return (f"{kind}: {', '.join(names)}" for kind, names in names_by_kind.items() if names)
