"""The step that tells a model which tools there are, without touching what it was sent before.

Within an epoch the tools in front of the history stay what they were in its first call. What came or
went since is told behind the history, or beside it, where the model's provider has a form for that;
anywhere else the tools are declared anew, which is a rewrite point.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from context_assembler.ports import Provider
from context_assembler.stages.settle_tools.additions import Additions, object_to
from context_assembler.stages.settle_tools.earlier_calls import changes_behind, learnt_tools
from context_assembler.stages.settle_tools.named_tools import note_of_withdrawn
from context_assembler.stages.settle_tools.settled import UNSETTLED, SettledTools, goes_on
from context_assembler.stages.settle_tools.tool_rows import tell_rewrite, tell_tools
from context_assembler.values.deferral import DeferralRule, defer_tools, is_held_back
from context_assembler.values.draft import Draft, Parameters
from context_assembler.values.epochs import SentEpoch, last_epoch
from context_assembler.values.events import SessionEvent
from context_assembler.values.limits import ModelLimits
from context_assembler.values.parts import Opaque, Part, ToolCall
from context_assembler.values.reading import as_text, walk_objects
from context_assembler.values.tool_changes import (
    NO_CHANGES,
    ChangeForms,
    ToolChange,
    ToolPlan,
    apply_changes,
    find_change,
    is_told_alike,
)
from context_assembler.values.tools import ToolChoice, ToolSpec

__all__ = [
    "UNSETTLED",
    "SettledTools",
    "ToolChangePolicy",
    "ToolSettler",
    "goes_on",
    "learnt_tools",
    "note_of_withdrawn",
    "tell_rewrite",
    "tell_tools",
]

ToolChangePolicy: TypeAlias = Literal["append", "rewrite"]


class ToolSettler:
    """Settles how the tools of a call are told.

    Args:
        policy: `append` tells changes behind the history where it can; `rewrite` declares them anew.
        defers_above: How many tools are sent whole at most, where the model can search for the
            others; `None`: only tools that ask for it are left to the search.
    """

    def __init__(
        self, *, policy: ToolChangePolicy = "append", defers_above: int | None = None
    ) -> None:
        self._appends = policy == "append"
        self._defers_above = defers_above

    def settle(
        self,
        wanted: Sequence[ToolSpec],
        events: Sequence[SessionEvent],
        *,
        provider: Provider,
        limits: ModelLimits,
        choice: ToolChoice | None = None,
    ) -> tuple[SettledTools, ...]:
        """Return the ways to tell the tools, the best one first; the last one always works.

        One before it is good only where `goes_on` says so of the draft that comes of it.

        Args:
            wanted: The tools to offer, sorted by name.
            events: The session's, in the order of the store.
        """
        call = _Call(
            wanted=tuple(wanted),
            events=events,
            provider=provider.name,
            forms=provider.change_forms(limits) if self._appends else NO_CHANGES,
            deferral=DeferralRule(above=self._defers_above, search=provider.tool_search(limits)),
            choice=choice,
        )
        ways: tuple[SettledTools, ...] = (call.declare(),)
        sent = last_epoch(events)
        if sent is not None:
            made_by = sent.made_by.provider, sent.made_by.model
            ways = call.go_on(sent) if made_by == (provider.name, limits.id) else ways
        return tuple(
            replace(way, unsent=_find_unsent(way, provider=provider, limits=limits, choice=choice))
            for way in ways
        )

    def begins_anew(
        self,
        wanted: Sequence[ToolSpec],
        events: Sequence[SessionEvent],
        *,
        provider: Provider,
        limits: ModelLimits,
        choice: ToolChoice | None = None,
    ) -> bool:
        """Whether these tools can only be declared anew, whatever else the call sends.

        The arguments are those of `settle`.
        """
        best, *_ = self.settle(wanted, events, provider=provider, limits=limits, choice=choice)
        return best.is_anew


def _find_unsent(
    settled: SettledTools, *, provider: Provider, limits: ModelLimits, choice: ToolChoice | None
) -> frozenset[str]:
    """Return the names of the declared tools that the provider does not take."""
    draft = Draft(
        limits=limits,
        parameters=Parameters(max_tokens=1, tool_choice=choice),
        tools=settled.plan.declared,
        tool_plan=settled.plan,
    )
    taken = {tool.name for tool in provider.adapt(draft)[0].tools}
    return frozenset(tool.name for tool in settled.plan.declared if tool.name not in taken)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """What the tools of one call are settled from."""

    wanted: tuple[ToolSpec, ...]
    events: Sequence[SessionEvent]
    provider: str
    forms: ChangeForms
    deferral: DeferralRule
    choice: ToolChoice | None

    def declare(
        self, *, sent: SentEpoch | None = None, before: Sequence[ToolSpec] = (), why: str = ""
    ) -> SettledTools:
        """Return the tools declared anew, as in a session's first call.

        Args:
            sent: The last call, where it was one of the same model.
            before: What the model was told of until then.
            why: Why this call does not add to it.
        """
        parts = [part for event in self.events for part in event.parts]
        called = frozenset(part.name for part in parts if isinstance(part, ToolCall))
        chosen = [] if self.choice is None or self.choice.name is None else [self.choice.name]
        return SettledTools(
            plan=ToolPlan(
                provider=self.provider,
                declared=defer_tools(self.wanted, rule=self.deferral, called=called.union(chosen)),
                offered=self.wanted,
                after_seq=max((event.seq for event in self.events), default=0),
                forms=self.forms,
            ),
            deferral=self.deferral,
            found=called.union(_shown_by_searches(parts)),
            sent=sent,
            before=tuple(before),
            why=why,
            is_anew=True,
        )

    def go_on(self, sent: SentEpoch) -> tuple[SettledTools, ...]:
        """Return the tools told as an addition to the last call, and declared anew behind it."""
        earlier = list(changes_behind(self.events, sent.epoch.tools_after_seq))
        if None in earlier:
            unread = "a note of a change cannot be read"
            return (self.declare(sent=sent, before=sent.epoch.tools, why=unread),)
        changes = tuple(change for change in earlier if change is not None)
        before = apply_changes(sent.epoch.tools, changes)
        additions = Additions(
            declared=sent.epoch.tools,
            wanted=self.wanted,
            earlier=changes,
            change=self._change(before),
        )
        why = object_to(additions, forms=self.forms, choice=self.choice)
        if why is not None:
            return (self.declare(sent=sent, before=before, why=why),)
        anew = self.declare(sent=sent, before=before)
        onward = replace(
            anew,
            plan=replace(
                anew.plan,
                declared=additions.declared,
                added=additions.added,
                after_seq=sent.epoch.tools_after_seq,
            ),
            change=additions.change,
            notes=len(changes),
            is_anew=False,
        )
        if not (changes or additions.change) and _are_declared_alike(onward, anew):
            return (onward,)
        why = "what was sent before has changed anyway"
        return replace(onward, needs_check=True), replace(anew, why=why)

    def _change(self, before: Sequence[ToolSpec]) -> ToolChange:
        """Return what a note has to tell; where the choice withdraws tools, new ones alone."""
        change = find_change(before, self.wanted)
        return replace(change, removed=()) if self.forms.withdraws == "choice" else change


def _shown_by_searches(parts: Iterable[Part]) -> Iterator[str]:
    """Yield the names of the tools that a search has shown to the model."""
    for part in parts:
        if isinstance(part, Opaque) and as_text(part.block.get("type")).startswith("tool_search"):
            yield from _references(part)


def _references(part: Opaque) -> Iterator[str]:
    for found in walk_objects(part.block):
        if found.get("type") == "tool_reference":
            yield as_text(found.get("tool_name"))


def _are_declared_alike(one: SettledTools, other: SettledTools) -> bool:
    pairs = zip(one.plan.declared, other.plan.declared, strict=False)
    return len(one.plan.declared) == len(other.plan.declared) and all(
        is_told_alike(tool, twin) and is_held_back(tool) == is_held_back(twin)
        for tool, twin in pairs
    )
