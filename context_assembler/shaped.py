"""The request before anything is cut."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

from context_assembler.errors import ContextOverflowError, EmptySessionError
from context_assembler.gathered import Gathered
from context_assembler.history import History
from context_assembler.ports import Truncation
from context_assembler.providers import PROVIDERS, provider_for
from context_assembler.stages.bind_reasoning import bind_reasoning
from context_assembler.stages.forecast_cache import CacheOutlook, LastSent
from context_assembler.stages.hold_system import FittedPrompt
from context_assembler.stages.split_window import add_messages
from context_assembler.stages.tell_changes import count_rows
from context_assembler.values.answered_calls import AnsweredCall
from context_assembler.values.context import AssembledContext, ContextMetadata
from context_assembler.values.draft import Draft
from context_assembler.values.ledger import Ledger
from context_assembler.values.message_counts import count_each
from context_assembler.values.messages import Message
from context_assembler.values.prompt import BootstrapFile, PromptSection, SystemPrompt
from context_assembler.values.readers import Reader, route_of
from context_assembler.values.report import CompactionCheck, ReportEntry


@dataclass(frozen=True, kw_only=True)
class Shaped:
    """The request before anything is cut; `history` is what its messages were made from."""

    history: History
    prompt: FittedPrompt
    messages: Sequence[Message]
    notes: tuple[PromptSection, ...]  # wanted behind the history
    ledger: Ledger  # of the fixed part
    repairs: tuple[ReportEntry, ...]
    files: Sequence[BootstrapFile]  # those that cannot be rendered as such

    @property
    def system(self) -> SystemPrompt:
        """The system prompt that is sent."""
        return self.prompt.system

    def refuse_nothing(self, session_id: str) -> None:
        """Refuse a request in which nobody says anything.

        Raises:
            EmptySessionError: It has instructions and notes alone.
        """
        if all(message.role == "system" or message.kind == "note" for message in self.messages):
            raise EmptySessionError(session_id)

    def adapted(self, gathered: Gathered) -> "Shaped":
        """Spell what the provider cannot take as text before anything is cut: that text counts."""
        draft = gathered.draft(self.system, self.messages)
        adapted, rows = PROVIDERS[provider_for(gathered.limits)].adapt(draft)
        counted = count_rows(rows, before=draft, after=adapted, counter=gathered.counter)
        repairs = [row for row in counted if row.kind == "message"]
        return replace(self, messages=adapted.messages, repairs=(*self.repairs, *repairs))

    def draft(
        self, gathered: Gathered, kept: Sequence[Message], reader: Reader
    ) -> tuple[Draft, tuple[ReportEntry, ...]]:
        """Return the draft as the model's provider can take it, with a row for every change.

        Of signed reasoning it has what this very payload may carry.
        """
        draft = gathered.draft(self.system, kept)
        provider = PROVIDERS[provider_for(gathered.limits)]
        entries: tuple[ReportEntry, ...] = ()
        if gathered.limits.thinking.is_prefix_bound and any(m.is_signed for m in kept):
            fingerprints = provider.fingerprints(draft)
            bound, entries = bind_reasoning(kept, reader=reader, fingerprints=fingerprints)
            draft = replace(draft, messages=bound)
        adapted, rows = provider.adapt(draft)
        counted = count_rows(rows, before=draft, after=adapted, counter=gathered.counter)
        return adapted, (*entries, *counted)

    def uncut(self, gathered: Gathered) -> Ledger:
        """Return the ledger with the whole history, anchored in the last call."""
        ledger = add_messages(self.ledger, self.messages, counter=gathered.counter)
        return gathered.anchored(ledger, self.system, self.messages)

    def fits(self, gathered: Gathered) -> bool:
        """Whether the whole history has room."""
        return sum(count_each(self.messages, gathered.counter)) <= self.ledger.room_tokens

    def is_left_whole(
        self,
        gathered: Gathered,
        reader: Reader,
        *,
        cut_to_fit: Callable[[Sequence[Message]], Truncation],
    ) -> bool:
        """Whether only reasoning that may not be sent any more is too much.

        Where the newest was made behind a cut it may be sent behind that alone: the cut stays, or it
        would be taken back one call after it was made.
        """
        signed = [at for at, message in enumerate(self.messages) if message.is_signed]
        if not (signed and gathered.limits.thinking.is_prefix_bound):
            return False  # what is adapted already is not changed once more
        draft, stale = self.draft(gathered, self.messages, reader)
        if not stale or sum(count_each(draft.messages, gathered.counter)) > self.ledger.room_tokens:
            return False
        newest = self.messages[signed[-1]]
        if _is_signed_in(draft, newest):
            return True
        try:
            cut = cut_to_fit(self.messages[: signed[-1]])
        except ContextOverflowError:
            return True
        behind_cut, _ = self.draft(gathered, (*cut.messages, newest), reader)
        return not _is_signed_in(behind_cut, newest)


def _is_signed_in(draft: Draft, reply: Message) -> bool:
    return any(message.is_signed and message.seq == reply.seq for message in draft.messages)


def tell_facts(
    way: Gathered, ledger: Ledger, *, cut: Truncation, check: CompactionCheck
) -> ContextMetadata:
    """Return the facts about a context that was made."""
    active = (skill for skill in way.skills if skill.name in way.active_skills)
    return ContextMetadata(
        session_id=way.session_id,
        incarnation=way.incarnation,
        last_mark=way.last_mark,
        model_id=way.limits.id,
        agent_id=way.agent_id,
        ledger=ledger,
        truncated=bool(cut.entries),
        truncated_by=way.settled.options.truncation_strategy if cut.entries else None,
        cut_level=cut.level,
        should_compact=check.needed,
        compaction_reason=check.reason,
        active_skills=way.active_skills,
        assembly_ms=0.0,
        cache_hit=False,
        last_seq=way.last_seq,
        skill_allowed_tools={one.name: one.allowed_tools for one in active if one.allowed_tools},
    )


@dataclass(frozen=True, kw_only=True)
class Made:
    """A context, and the way that led to it: what a later step of the session can go on from.

    Attributes:
        way: What the context was made from, as it was told in the end.
        shaped: The request before it was cut.
        cut_tokens: What was left of its messages by the cut.
        holds: Whether the cut is one for the calls behind it as well.
    """

    context: AssembledContext
    way: Gathered
    shaped: Shaped
    cut_tokens: int
    holds: bool

    @classmethod
    def by(
        cls, cut: Truncation, *, context: AssembledContext, way: Gathered, shaped: Shaped
    ) -> Self:
        """Return a context with what the cut tells of the steps behind it."""
        return cls(
            context=context,
            way=way,
            shaped=shaped,
            cut_tokens=sum(count_each(cut.messages, way.counter)) + cut.spare_tokens,
            holds=cut.holds,
        )

    def outlook(
        self,
        message_tokens: Sequence[int],
        calls: Sequence[AnsweredCall],
        *,
        account: str | None,
        last_sent: LastSent,
    ) -> CacheOutlook:
        """Return what the forecast of the call depends on.

        Args:
            message_tokens: Of each message that is sent.
            calls: The session's answered calls, the last one last.
            account: The caller's tag for the account or route in use.
            last_sent: Makes once more what the last call sent.
        """
        context = self.context
        return CacheOutlook(
            draft=context.draft,
            protocol=context.provider,
            message_tokens=message_tokens,
            total_tokens=context.report.ledger.used_tokens,
            fingerprints=PROVIDERS[context.provider].fingerprints,
            calls=calls,
            last_sent=last_sent,
            held_messages=len(self.shaped.messages),
            account=route_of(self.way.limits, account=account),
            epoch=context.epoch,
            epoch_before=context.epoch_before,
            entries=context.report.entries,
            today=self.way.today,
        )
