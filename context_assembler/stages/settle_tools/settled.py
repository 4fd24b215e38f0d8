"""How the tools of one call are told, and whether that holds."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from context_assembler.ports import Provider
from context_assembler.values.deferral import DeferralRule, loaded_forms
from context_assembler.values.draft import Draft
from context_assembler.values.epochs import SentEpoch
from context_assembler.values.messages import Message
from context_assembler.values.report import ReportEntry
from context_assembler.values.tool_changes import (
    NOTHING,
    ToolChange,
    ToolPlan,
    is_change,
    note_of_change,
)
from context_assembler.values.tools import ToolSpec


@dataclass(frozen=True, kw_only=True)
class SettledTools:
    """How the tools are told in one call.

    Attributes:
        plan: What is declared, and what stands behind the history.
        deferral: Which tools are left to a search.
        found: Names of the tools that a search has loaded, or a call.
        change: What this call tells, in a note of its own.
        sent: The session's last call, where this one may go on from it.
        notes: How many recorded notes of changes have to be sent again.
        needs_check: Whether this holds only where what was sent before is sent again.
        unsent: Names of declared tools that the provider does not take.
        before: What the model was told of before, where tools that have changed are declared anew.
        why: Why they are; empty where they are not.
        is_anew: Whether this call's list is declared in front, as in a session's first call.
    """

    plan: ToolPlan
    deferral: DeferralRule
    found: frozenset[str] = frozenset()
    change: ToolChange = NOTHING
    sent: SentEpoch | None = None
    notes: int = 0
    needs_check: bool = False
    unsent: frozenset[str] = frozenset()
    before: tuple[ToolSpec, ...] = ()
    why: str = ""
    is_anew: bool = False

    @property
    def loaded(self) -> tuple[ToolSpec, ...]:
        """The declared tools as the model reads them, those that it may search for shortened."""
        sent = (tool for tool in self.plan.declared if tool.name not in self.unsent)
        return tuple(loaded_forms(sent, self.deferral.search, found=self.found))

    @property
    def withdrawn(self) -> tuple[ToolSpec, ...]:
        """The tools that the model knows and may not call, sorted by name."""
        offered = {tool.name for tool in self.plan.offered}
        known = {tool.name: tool for tool in (*self.plan.declared, *self.plan.added)}
        return tuple(known[name] for name in sorted(known.keys() - offered))

    def place(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """Return the messages with the note of this call's change, if there is one, at the end."""
        return (*messages, note_of_change(self.change)) if self.change else tuple(messages)

    def leave_out_old(
        self, messages: Sequence[Message]
    ) -> tuple[tuple[Message, ...], tuple[ReportEntry, ...]]:
        """Return the messages without the notes of changes that are declared by now, a row for each."""
        kept = tuple(message for message in messages if not self._is_old(message))
        rows = (_row_of_old(message) for message in messages if self._is_old(message))
        return kept, tuple(rows)

    def _is_old(self, message: Message) -> bool:
        return is_change(message) and 0 < message.seq <= self.plan.after_seq


UNSETTLED: Final = SettledTools(
    plan=ToolPlan(provider="", declared=(), offered=()), deferral=DeferralRule()
)
"""No tools, before it is settled how any are told."""


def goes_on(settled: SettledTools, draft: Draft, *, provider: Provider) -> bool:
    """Whether what was sent before is sent again, and all notes of changes where they are heard."""
    if settled.sent is None:
        return False
    bound = settled.sent.made_by.prefix_fingerprint
    replies = [at for at, message in enumerate(draft.messages) if _bound_to(message) == bound]
    notes = [at for at, message in enumerate(draft.messages) if is_change(message)]
    is_whole = len(notes) == settled.notes + bool(settled.change)
    if bound is None or not replies or not is_whole:
        return False
    if not all(_is_heard(draft.messages, at) for at in notes):
        return False
    return provider.fingerprints(draft)[replies[-1]] == bound


def _bound_to(message: Message) -> str | None:
    return message.made_by.prefix_fingerprint if message.made_by is not None else None


def _is_heard(messages: Sequence[Message], at: int) -> bool:
    """Whether a note closes a turn of the user or of tools: the model answers it, or is about to."""
    before = next(_spoken(messages[at::-1]), None)
    behind = next(_spoken(messages[at:]), None)
    follows_turn = before is not None and before.role != "assistant"
    return follows_turn and (behind is None or behind.role == "assistant")


def _spoken(messages: Sequence[Message]) -> Iterator[Message]:
    return (message for message in messages if message.role != "system")


def _row_of_old(message: Message) -> ReportEntry:
    return ReportEntry(
        kind="message",
        id=message.id,
        decision="dropped",
        reason="The tools that it tells of are declared in front of the history.",
        rule="tool.change",
    )
