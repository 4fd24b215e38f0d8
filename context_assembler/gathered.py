"""What one call is made from besides the session's events."""

from collections.abc import Callable, Hashable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any, TypeVar

from context_assembler.cache import CacheKey, digest_of
from context_assembler.errors import ContextOverflowError
from context_assembler.fitting import fit_prompt
from context_assembler.ports import TokenCounter
from context_assembler.providers import PROVIDERS, provider_for
from context_assembler.stages.build_system_prompt import BuiltPrompt
from context_assembler.stages.collect_tools import OfferedTools
from context_assembler.stages.hold_system import (
    NO_CALL,
    WAITING,
    FindSecret,
    FittedPrompt,
    LastCall,
    file_states,
    fingerprint_choice,
)
from context_assembler.stages.settle_tools import (
    UNSETTLED,
    SettledTools,
    goes_on,
    tell_rewrite,
    tell_tools,
)
from context_assembler.stages.split_window import anchor, measure_window
from context_assembler.stages.tell_changes import overlay_rows
from context_assembler.tokens import CountOnce, calibrate
from context_assembler.values.changing import changed
from context_assembler.values.draft import Draft, Parameters
from context_assembler.values.epochs import Epoch, last_epoch
from context_assembler.values.events import SessionEvent, SessionHead
from context_assembler.values.factors import TokenFactors, read_factors
from context_assembler.values.ledger import Ledger
from context_assembler.values.limits import ModelLimits
from context_assembler.values.messages import Message
from context_assembler.values.options import Settled
from context_assembler.values.parts import Json
from context_assembler.values.prompt import BootstrapFile, PromptSection, Skill, SystemPrompt
from context_assembler.values.recalled_notes import NO_ROOM
from context_assembler.values.report import Report, ReportEntry
from context_assembler.values.spelled import spelled_of
from context_assembler.values.tools import ToolSpec

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Gathered:
    """Everything a context is made from, besides the session's events.

    `token_factor` is what reported usage corrects the counts of new messages by; `tools` are those
    `offered`, by the names that the model knows them by, once the events are read; `told_tools` says
    how the model is told of its tools, once that is settled: then `tools` are those declared;
    `last_call` is the one that this call follows in its session; `recalled` is to be placed as a note;
    `derived` is what was kept of earlier steps; it changes only how long this one takes.
    """

    session_id: str
    agent_id: str | None
    last_seq: int
    incarnation: str = ""
    last_mark: str = ""
    settled: Settled
    parameters: Parameters
    limits: ModelLimits
    counter: TokenCounter
    token_factor: float = 1.0
    files: Sequence[BootstrapFile] = ()
    offered: OfferedTools = field(default_factory=OfferedTools)
    tools: tuple[ToolSpec, ...] = ()
    told_tools: SettledTools = UNSETTLED
    last_call: LastCall = NO_CALL
    skills: tuple[Skill, ...] = ()
    skills_text: str = ""
    active_skills: tuple[str, ...] = ()
    entries: tuple[ReportEntry, ...] = ()
    warnings: tuple[str, ...] = ()
    recalled: tuple[PromptSection, ...] = ()
    derived: MutableMapping[Hashable, Any] | None = None
    today: date
    _ground: str = field(default="", init=False, repr=False, compare=False)

    @property
    def key(self) -> CacheKey:
        """The key of all that the context depends on; a session grows: its last event says it all."""
        return CacheKey(
            session_id=self.session_id,
            last_seq=self.last_seq,
            agent_id=self.agent_id,
            fingerprint=" ".join(
                (self.ground, self.incarnation, self.last_mark, repr(self.token_factor))
            ),
        )

    @property
    def ground(self) -> str:
        """A digest of all that the context depends on besides how far its session has come."""
        if not self._ground:
            made_from = (
                self.settled,
                self.limits,
                [
                    (one.path, one.state, one.fingerprint, one.warnings, one.absence)
                    for one in self.files
                ],
                self.offered.key,
                self.skills_text,
                self.entries,
                self.warnings,
                self.recalled,
                self.today,
            )
            object.__setattr__(self, "_ground", digest_of(made_from))
        return self._ground

    def further(self, head: SessionHead, *, token_factor: float) -> "Gathered":
        """Return the same for its session as it has grown meanwhile."""
        return changed(
            self,
            incarnation=head.incarnation,
            last_mark=head.last_mark,
            last_seq=head.last_seq,
            token_factor=token_factor,
        )

    @property
    def template_variables(self) -> Mapping[str, Json]:
        """What the templates of instruction files may name."""
        return {
            "agent": self.agent_id or "",
            "session": self.session_id,
            "model": self.limits.id,
            "date": self.today.isoformat(),
            "skills": [skill.name for skill in self.skills],
            "tools": [tool.name for tool in self.tools],
        }

    def told(self, prompt: FittedPrompt) -> "Gathered":
        """Return the same with what the finished system prompt still says of skills."""
        text = "".join(one.content for one in prompt.system.sections if one.name == "skills")
        if text == self.skills_text.strip():
            return self
        from context_assembler.skills import follow_section  # noqa: PLC0415 - only with skills

        left = follow_section(
            self.entries,
            self.skills,
            active=self.active_skills,
            text=text,
            section=next((row for row in prompt.rows if row.id == "skills"), None),
            count_text=self.counter.count_text,
        )
        return replace(self, entries=left.entries, active_skills=left.active)

    def following(self, events: Sequence[SessionEvent]) -> "Gathered":
        """Return the same as the call behind these events.

        Its counter corrects each message by the factor that it was sent with.
        """
        factors = self.factors(events)
        asked = fingerprint_choice(self.settled.options, agent_id=self.agent_id)
        return replace(
            self,
            counter=CountOnce(calibrate(self.counter, factors)),
            last_call=LastCall(sent=last_epoch(events), asked=asked),
        )

    def factors(self, events: Iterable[SessionEvent]) -> TokenFactors:
        """Return what corrects the count of each message of the session."""
        return read_factors(events, model=self.limits.id, current=self.token_factor)

    def scaled(self, factor: float) -> "Gathered":
        """Return the same with a counter whose counts are all corrected by one factor."""
        factors = TokenFactors(current=factor)
        return replace(self, counter=CountOnce(calibrate(self.counter, factors)))

    def telling(self, settled: SettledTools) -> "Gathered":
        """Return the same with its tools told in one way, and the rows that say so."""
        rows = tell_tools(settled, self.entries, counter=self.counter)
        entries = overlay_rows(self.entries, rows)
        return replace(self, tools=settled.plan.declared, told_tools=settled, entries=entries)

    def goes_on(self, draft: Draft, report: Report) -> bool:
        """Whether the request adds to what was sent before, as far as that was the plan."""
        if not self.last_call.has_kept(draft):
            return False
        edits_wait = any(row.rule in WAITING for row in report.entries)
        if not (edits_wait or self.told_tools.needs_check):
            return True
        return goes_on(self.told_tools, draft, provider=PROVIDERS[provider_for(self.limits)])

    def announce(
        self, draft: Draft, epoch: Epoch, *, kept: Sequence[Message], ledger: Ledger
    ) -> tuple[ReportEntry, ...]:
        """Return the rows that announce what was sent before and is not sent again, and what it costs.

        Args:
            kept: The history after the cut, with all signed reasoning that it has.
        """
        told = tell_rewrite(self.told_tools, tokens=ledger.used_tokens)
        call, counter = self.last_call, self.counter
        return (*told, *call.announce(draft, epoch, kept=kept, ledger=ledger, counter=counter))

    def make_room(self, make: Callable[["Gathered"], T]) -> T:
        """Return what is made of this; without what was recalled where there is no room for that."""
        try:
            return make(self)
        except ContextOverflowError:
            if not self.recalled:
                raise
            others = (row for row in self.entries if row.kind != "memory")
            return make(replace(self, recalled=(), entries=(*others, NO_ROOM)))

    def measure(self, system: SystemPrompt) -> Ledger:
        """Return the ledger of the fixed part."""
        options = self.settled.options
        ledger = measure_window(
            self.limits,
            system=system,
            tools=self.told_tools.loaded,
            counter=self.counter,
            max_tokens=self.parameters.max_tokens,
            max_context_tokens=options.max_context_tokens,
            reserve_tokens=options.reserve_tokens,
            parameters=self.parameters,
        )
        return replace(ledger, factor=self.token_factor)

    def fit(self, built: BuiltPrompt) -> FittedPrompt:
        """Return the prompt with room for a history beside it, or the one that is sent again."""
        return fit_prompt(
            built,
            measure=self.measure,
            counter=self.counter,
            files=self.files,
            last_call=self.last_call,
        )

    def holding(self, events: Iterable[SessionEvent], *, finds_secret: FindSecret) -> "Gathered":
        """Return the same with the last call's system prompt, where that may be sent again."""
        if self.settled.options.refresh:
            return self
        held = self.last_call.hold(events, model=self.limits.id, finds_secret=finds_secret)
        return replace(self, last_call=held)

    def epoch(self, epoch: Epoch, *, files: Iterable[BootstrapFile]) -> Epoch:
        """Return what `record` keeps of what stands in front of the conversation."""
        return replace(
            epoch,
            tools=self.tools,
            tools_after_seq=self.told_tools.plan.after_seq,
            asked=self.last_call.asked,
            told=file_states(files),
        )

    def anchored(self, ledger: Ledger, system: SystemPrompt, messages: Sequence[Message]) -> Ledger:
        """Return the ledger with what the last call was charged, where this one goes on from it.

        While the window is not half full nothing depends on it, and nothing is rendered for it.
        """
        has_usage = any(message.made_by and message.made_by.usage for message in messages)
        if not has_usage or 2 * ledger.used_tokens < ledger.budget_tokens:
            return ledger
        provider = PROVIDERS[provider_for(self.limits)]
        return anchor(
            ledger,
            messages,
            fingerprints=provider.fingerprints(self.draft(system, tuple(messages))),
            limits=self.limits,
            counter=self.counter,
        )

    def draft(self, system: SystemPrompt, messages: Sequence[Message]) -> Draft:
        """Return the request with this system prompt and these messages."""
        return Draft(
            limits=self.limits,
            parameters=self.parameters,
            system=system,
            messages=messages,
            tools=self.tools,
            session_id=self.session_id,
            tool_plan=self.told_tools.plan,
            cache=self.settled.options.cache or "auto",
            spelled=spelled_of(self.derived),
        )
