"""How a model learns of tools that come or go, without a change of what it was sent before.

Within an epoch the tools before the history stay what they were in its first call. What came or went
since is a note after the history, or a list next to it, if the model's provider has a form for that;
otherwise the tools are declared again, which is a rewrite point.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

from context_assembler import ports
from context_assembler.events import compact_json, to_json
from context_assembler.ports import ToolChange, ToolPlan, ToolSpec
from context_assembler.providers.wire import is_held_back
from context_assembler.report import ReportEntry, Rule
from context_assembler.tools.sources import what_is_read

_Names: TypeAlias = Callable[[], Collection[str]]


class SentTools(NamedTuple):
    """The tools of a recorded call: declared before the history, and changed by notes after it.

    `after_seq` is the last event before the epoch; notes of changes count from there.
    """

    declared: tuple[ToolSpec, ...] = ()
    changes: tuple[ToolChange, ...] = ()
    after_seq: int = 0

    @property
    def added(self) -> tuple[ToolSpec, ...]:
        """Every tool that a note defined, in order."""
        return tuple(tool for change in self.changes for tool in change.added)

    @property
    def known(self) -> dict[str, ToolSpec]:
        """Every tool that the model knows, as sent last; those that went keep their names."""
        return {tool.name: tool for tool in (*self.declared, *self.added)}

    @property
    def offered(self) -> list[ToolSpec]:
        """The tools that could be called, sorted by name."""
        offered = {tool.name: tool for tool in self.declared}
        for change in self.changes:
            for name in change.removed:
                offered.pop(name, None)
            offered |= {tool.name: tool for tool in change.added}
        return [offered[name] for name in sorted(offered)]

    def text(self) -> str:
        """Return the text that a store keeps by its hash."""
        # Schemas of collected tools are plain JSON: only a provider's own spec may be anything else.
        bare = [to_json(replace(tool, input_schema={})) for tool in self.declared]
        schemas = [{"input_schema": tool.input_schema} for tool in self.declared]
        declared = [one | schema for one, schema in zip(bare, schemas, strict=True)]
        changes = [ports.change_part(change) for change in self.changes]
        return compact_json([declared, changes, self.after_seq])

    @classmethod
    def read(cls, text: str) -> "SentTools | None":
        """Return what `text` wrote; `None` if it cannot be read."""
        try:
            declared, found, after_seq = json.loads(text)
            changes = [change for part in found if (change := ports.read_change(part)) is not None]
            sent = cls(tuple(ToolSpec(**tool) for tool in declared), tuple(changes), after_seq)
        except (ValueError, TypeError):  # written by a newer version
            return None
        return sent if len(changes) == len(found) else None


class SettledTools(NamedTuple):
    """How the tools of one call are sent.

    Attributes:
        change: What a note of this call reports.
        sent: What the row of the call keeps.
        before: What the model could call before, if changed tools are declared again.
        why: Why they are; empty if they are not.
        is_anew: Whether the list is declared before the history, as in a session's first call.
        loaded: The declared tools as the model reads them: deferred ones shortened, or left out.
    """

    plan: ToolPlan
    change: ToolChange
    sent: SentTools
    before: SentTools | None = None
    why: str = ""
    is_anew: bool = True
    loaded: tuple[ToolSpec, ...] = ()

    @property
    def withdrawn(self) -> list[ToolSpec]:
        """The tools that the model knows and may not call, sorted by name."""
        offered = {tool.name for tool in self.plan.offered}
        known = {tool.name: tool for tool in (*self.plan.declared, *self.plan.added)}
        return [known[name] for name in sorted(known.keys() - offered)]


def settle_tools(
    wanted: Sequence[ToolSpec],
    *,
    before: SentTools | None,
    provider: str,
    forms: ports.ChangeForms,
    search: ports.ToolSearch | None = None,
    defers_above: int | None = None,
    choice: ports.ToolChoice | None = None,
    last_seq: int = 0,
    called: _Names = frozenset[str],
    found: _Names = frozenset[str],
) -> tuple[SettledTools, ...]:
    """Return the ways to send the tools, the best one first; the last one always works.

    A way before it is good only if what was sent before is sent again: the same prefix, with every
    note of a change that was recorded in this epoch.

    Args:
        wanted: The tools to offer, sorted by name.
        before: Those of the session's last call, if it was one of the same provider and model.
        forms: How the model can learn of changes; `ChangeForms()` declares every change again.
        defers_above: How many tools are sent whole at most if the model can search for the others;
            `None`: only tools that ask for it are deferred.
        last_seq: The session's last event.
        called: Returns the names that the history calls; those tools stay loaded.
        found: Returns the names that a search has loaded.
    """
    wanted = tuple(wanted)
    plain = [tool for tool in wanted if not tool.native_specs]
    are_many = defers_above is not None and len(plain) > defers_above
    asking = {t.name for t in plain if (are_many if t.is_deferred is None else t.is_deferred)}
    forced = choice.name if choice is not None else None
    deferred = asking.difference(called(), [forced]) if search and asking else set[str]()
    declared = tuple(
        tool
        if bool(tool.is_deferred) is (tool.name in deferred)
        else replace(tool, is_deferred=tool.name in deferred)
        for tool in wanted
    )

    def loaded(tools: Sequence[ToolSpec]) -> Iterator[ToolSpec]:
        names = {*called(), *found()} if any(map(is_held_back, tools)) else ()
        for tool in tools:
            if not is_held_back(tool) or search is None or tool.name in names:
                yield tool
            elif search.shows_descriptions:
                yield replace(tool, input_schema={})

    plan = ToolPlan(provider, declared, wanted, after_seq=last_seq, forms=forms)
    sent = SentTools(declared, after_seq=last_seq)
    anew = SettledTools(plan, ToolChange(), sent, before, loaded=tuple(loaded(declared)))
    if before is None:
        return (anew,)
    change = find_change(before.offered, wanted)
    if forms.withdraws == "choice":
        change = change._replace(removed=())
    sent = before._replace(changes=(*before.changes, change) if change else before.changes)
    if (why := _objection(sent, wanted, forms, forced)) is not None:
        return (anew._replace(why=why),)
    plan = ToolPlan(provider, before.declared, wanted, sent.added, before.after_seq, forms)
    onward = SettledTools(plan, change, sent, before, "", False, tuple(loaded(before.declared)))
    if _as_read(before.declared) == _as_read(declared) and not sent.changes:
        return (onward,)
    return onward, anew._replace(why="what was sent before has changed anyway")


def _objection(
    sent: SentTools, wanted: Sequence[ToolSpec], forms: ports.ChangeForms, forced: str | None
) -> str | None:
    """Return why the model cannot learn of the changes after the history, in half a sentence."""
    known, added = sent.known, sent.added
    withdrawn = [known[name] for name in sorted(known.keys() - {tool.name for tool in wanted})]
    own = [tool.name for tool in (*added, *withdrawn) if tool.native_specs]
    most = forms.max_tools if forms.max_tools is not None and added else len(known)
    reasons = {
        "the model learns of its tools before the history only": (
            (added and not forms.adds) or (withdrawn and forms.withdraws is None)
        ),
        "there were none before": added and not sent.declared,
        "none are left": withdrawn and not wanted,
        f"{''.join(own[:1])!r} is a tool of the provider's own": own,
        "a tool has another definition": (
            not forms.redefines and len(known) < len(sent.declared) + len(added)
        ),
        "an added tool is strict": not forms.adds_strict and any(t.is_strict for t in added),
        f"there would be more than {most} tools": len(known) > most,
        "a call of an added tool is forced": forced not in (None, *(t.name for t in sent.declared)),
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def find_change(before: Iterable[ToolSpec], after: Sequence[ToolSpec]) -> ToolChange:
    """Return what leads from one list of tools to another; a tool defined anew counts as added."""
    known = {tool.name: what_is_read(tool) for tool in before}
    names = {tool.name for tool in after}
    added = tuple(tool for tool in after if known.get(tool.name) != what_is_read(tool))
    return ToolChange(added, tuple(name for name in known if name not in names))


def _as_read(tools: Iterable[ToolSpec]) -> list[tuple[Any, ...]]:
    return [(tool.name, is_held_back(tool), *what_is_read(tool)) for tool in tools]


# ---- the report ----


def tool_entries(
    settled: SettledTools, entries: Iterable[ReportEntry], *, count_tool: Callable[[ToolSpec], int]
) -> list[ReportEntry]:
    """Return the entries of tools that are sent otherwise than whole and before the history.

    `tokens_after` is what a definition takes before the history; one that is sent after it counts
    there, with its note.

    Args:
        entries: What is known of the tools so far.
    """
    loaded = {tool.name: tool for tool in settled.loaded}
    known = {entry.id: entry for entry in reversed(list(entries)) if entry.kind == "tool"}
    added = {tool.name for tool in settled.plan.added}
    made: list[ReportEntry] = []

    def add(tool: ToolSpec, decision: Any, reason: str, rule: Rule) -> None:
        sizes = count_tool(tool), count_tool(loaded[tool.name]) if tool.name in loaded else 0
        made.append(ReportEntry("tool", tool.name, decision, *sizes, reason, rule))

    for tool in settled.plan.declared:
        if tool.is_deferred:
            is_whole = loaded.get(tool.name, tool) is tool
            reason = "It is deferred: the model finds it by searching."
            add(tool, "kept" if is_whole else "shortened", reason, "tool.deferred")
    for tool in settled.plan.offered:
        if tool.name in added:
            reason = "It is sent after the history, so that what was sent before stays."
            add(tool, "kept", reason, "tool.added")
    for tool in settled.withdrawn:
        row = known.get(tool.name, ReportEntry("tool", tool.name, "dropped"))
        gone = "It cannot be called any more; its definition stays until the next rewrite."
        reason = f"{row.reason}. {gone}" if row.reason else gone
        add(tool, row.decision, reason, row.rule or "tool.withdrawn")
    return made


def tools_rewrite_entry(settled: SettledTools, *, tokens: int) -> ReportEntry | None:
    """Return the entry that announces tools declared again; `None` if they are as they were.

    Args:
        tokens: Size of the whole request.
    """
    before, now = settled.before, settled.plan.declared
    if not settled.why or before is None:
        return None
    change = find_change(before.offered, now)
    names = {"new or changed": [tool.name for tool in change.added], "removed": change.removed}
    changed = "; ".join(f"{kind}: {', '.join(of)}" for kind, of in names.items() if of)
    reason = (
        f"The tools are declared again ({changed or 'the same ones'}), because {settled.why}: nothing "
        f"of the request's {tokens:,} tokens is read from the prompt cache, and reasoning made before "
        "may not count."
    )
    return ReportEntry("note", "tools", "kept", reason=reason, rule="rewrite.tools")
