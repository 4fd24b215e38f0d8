"""`ContextPipeline`: what was gathered → shape → fit → one context; pure from end to end."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from context_assembler.errors import EmptySessionError
from context_assembler.gathering import Gathered
from context_assembler.ports import Truncation
from context_assembler.providers import PROVIDER_FUNCTIONS, PROVIDERS, provider_for
from context_assembler.stages.bind_reasoning import bind_reasoning
from context_assembler.stages.build_system_prompt import (
    SystemPromptBuilder,
    join_sections,
    summarize_tools,
)
from context_assembler.stages.detect_compaction import CompactionDetector, read_history
from context_assembler.stages.load_bootstrap import render_bootstrap
from context_assembler.stages.place_notes import append_notes, place_clock, tell_date
from context_assembler.stages.repair_history import repair_history
from context_assembler.stages.split_window import (
    add_messages,
    check_feasible,
    fit_system,
    measure_window,
)
from context_assembler.stages.tell_changes import count_rows, overlay_rows, warn_of_losses
from context_assembler.stages.transform_messages import MessageTransformer
from context_assembler.stages.write_report import write_report
from context_assembler.truncation import Truncator
from context_assembler.values.context import AssembledContext, ContextMetadata
from context_assembler.values.draft import Draft
from context_assembler.values.events import SessionEvent
from context_assembler.values.ledger import Ledger
from context_assembler.values.limits import ModelLimits
from context_assembler.values.messages import Message
from context_assembler.values.options import ClockSettings, Settled, TruncationSettings
from context_assembler.values.parts import Json
from context_assembler.values.prompt import PromptSection, SystemPrompt
from context_assembler.values.report import CompactionCheck, ReportEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shaped:
    """The request before anything is cut."""

    system: SystemPrompt
    messages: tuple[Message, ...]
    notes: tuple[PromptSection, ...]  # wanted behind the history
    ledger: Ledger  # of the fixed part
    entries: tuple[ReportEntry, ...]
    repairs: tuple[ReportEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextPipeline:
    """Turns what was gathered into a context; settings at construction, one obvious method.

    Attributes:
        resolve_model: Turns a recorded model id into the registry's; `LookupError`: unknown.
        account: The caller's tag for the account or route in use.
        summarizes_tools: Whether the system prompt lists the tools in words.
    """

    prompt_builder: SystemPromptBuilder
    detector: CompactionDetector
    clock: ClockSettings
    truncation: TruncationSettings
    resolve_model: Callable[[str], str]
    account: str | None = None
    summarizes_tools: bool = False

    def build(self, gathered: Gathered, events: Iterable[SessionEvent]) -> AssembledContext:
        """Return the context.

        Raises:
            EmptySessionError: The events hold nothing to send.
            ContextOverflowError: What may not be dropped does not fit.
            TemplateError: A bootstrap template does not render.
        """
        shaped = self._shape(gathered, events)
        if all(message.role == "system" or message.kind == "note" for message in shaped.messages):
            raise EmptySessionError(gathered.session_id)
        check_feasible(shaped.ledger, gathered.tools)
        shaped = _adapt_messages(gathered, shaped)
        shaped, cut = self._cut(gathered, shaped)
        draft, late_entries = self._draft(gathered, shaped, cut.messages)
        changed = [entry for entry in late_entries if entry.kind == "message"]
        others = [entry for entry in late_entries if entry.kind != "message"]
        ledger = add_messages(shaped.ledger, draft.messages, counter=gathered.counter)
        report = write_report(
            files=gathered.files,
            pieces=overlay_rows((*shaped.entries, *gathered.entries), others),
            repairs=(*shaped.repairs, *changed),
            history=[message for message in shaped.messages if not message.is_fresh_note],
            cuts=cut.entries,
            sent=draft.messages,
            ledger=ledger,
            settled=gathered.settled,
            warnings=(*gathered.warnings, *warn_of_losses((*shaped.repairs, *late_entries))),
            counter=gathered.counter,
        )
        return AssembledContext(
            draft=draft,
            metadata=_metadata(gathered, ledger, cut=cut, check=self._check(gathered, shaped)),
            report=report,
            provider=provider_for(gathered.limits),
            functions=PROVIDER_FUNCTIONS,
        )

    def check_compaction(
        self, gathered: Gathered, events: Iterable[SessionEvent], *, is_explicit: bool = False
    ) -> CompactionCheck:
        """Return whether the session should be compacted; nothing is cut for it."""
        return self._check(gathered, self._shape(gathered, events), is_explicit=is_explicit)

    def _shape(self, gathered: Gathered, events: Iterable[SessionEvent]) -> _Shaped:
        options, limits = gathered.settled.options, gathered.limits
        transformed = MessageTransformer().transform(events)
        repaired = repair_history(transformed.messages, accepts_prefill=limits.supports("prefill"))
        prompt = self.prompt_builder.build(
            render_bootstrap(gathered.files, _template_variables(gathered)),
            session_system=transformed.leading_system,
            skills_text=gathered.skills_text,
            tools_summary=summarize_tools(gathered.tools) if self.summarizes_tools else "",
            additional=options.additional_system_prompt,
            datetime_text=tell_date(repaired.messages, settings=self.clock),
        )
        # What no later call could send is gone before anything is counted or cut.
        sendable, unsendable_entries = self._bind(repaired.messages, limits, None)
        messages = place_clock(sendable, settings=self.clock)
        messages = append_notes(messages, prompt.notes)
        system, fit_entries = _fit_system(gathered, prompt.system)
        return _Shaped(
            system=system,
            messages=messages,
            notes=prompt.notes,
            ledger=_measure(gathered, system),
            entries=overlay_rows(prompt.entries, fit_entries),
            repairs=(*repaired.entries, *unsendable_entries),
        )

    def _draft(
        self, gathered: Gathered, shaped: _Shaped, kept: tuple[Message, ...]
    ) -> tuple[Draft, tuple[ReportEntry, ...]]:
        """Return the draft as the model's provider can take it, with a row for every change.

        Of signed reasoning it has what this very payload may carry.
        """
        draft = _draft_of(gathered, shaped, kept)
        provider = PROVIDERS[provider_for(gathered.limits)]
        entries: tuple[ReportEntry, ...] = ()
        if gathered.limits.thinking.is_prefix_bound and any(m.is_signed for m in kept):
            fingerprints = provider.fingerprints(draft)
            bound, entries = self._bind(kept, gathered.limits, fingerprints)
            draft = replace(draft, messages=bound)
        adapted, rows = provider.adapt(draft)
        counted = count_rows(rows, before=draft, after=adapted, counter=gathered.counter)
        return adapted, (*entries, *counted)

    def _cut(self, gathered: Gathered, shaped: _Shaped) -> tuple[_Shaped, Truncation]:
        """Make the history fit; a note that is wanted and was cut is given once more, at the end."""
        truncator = Truncator(self._truncation_of(gathered.settled))
        if self._fits_without_stale_reasoning(gathered, shaped):
            return shaped, Truncation(messages=shaped.messages)
        cut_to_fit = partial(
            truncator.truncate, room_tokens=shaped.ledger.room_tokens, counter=gathered.counter
        )
        cut = cut_to_fit(shaped.messages)
        renewed = append_notes(shaped.messages, shaped.notes, seen=cut.messages)
        if len(renewed) == len(shaped.messages):
            return shaped, cut
        return replace(shaped, messages=renewed), cut_to_fit(renewed)

    def _fits_without_stale_reasoning(self, gathered: Gathered, shaped: _Shaped) -> bool:
        """Whether it is only reasoning that may not be sent any more that is too much."""
        count, room_tokens = gathered.counter.count_message, shaped.ledger.room_tokens
        if sum(map(count, shaped.messages)) <= room_tokens:
            return False
        draft, stale = self._draft(gathered, shaped, shaped.messages)
        return bool(stale) and sum(map(count, draft.messages)) <= room_tokens

    def _truncation_of(self, settled: Settled) -> TruncationSettings:
        options, usual = settled.options, self.truncation
        return replace(
            usual,
            strategy=options.truncation_strategy or usual.strategy,
            window_turns=options.window_turns or usual.window_turns,
            cache_stable=(
                usual.cache_stable if options.cache_stable is None else options.cache_stable
            ),
            on_overflow=options.on_overflow or usual.on_overflow,
        )

    def _bind(
        self,
        messages: Sequence[Message],
        limits: ModelLimits,
        fingerprints: Sequence[str] | None,
    ) -> tuple[tuple[Message, ...], tuple[ReportEntry, ...]]:
        return bind_reasoning(
            messages,
            provider=provider_for(limits),
            limits=limits,
            account=self.account,
            fingerprints=fingerprints,
            resolve_model=self.resolve_model,
        )

    def _check(
        self, gathered: Gathered, shaped: _Shaped, *, is_explicit: bool = False
    ) -> CompactionCheck:
        return self.detector.check(
            add_messages(shaped.ledger, shaped.messages, counter=gathered.counter),
            history=read_history(shaped.messages, counter=gathered.counter),
            limits=gathered.limits,
            is_explicit=is_explicit,
        )


def _draft_of(gathered: Gathered, shaped: _Shaped, messages: tuple[Message, ...]) -> Draft:
    return Draft(
        limits=gathered.limits,
        parameters=gathered.parameters,
        system=shaped.system,
        messages=messages,
        tools=gathered.tools,
        session_id=gathered.session_id,
        cache=gathered.settled.options.cache or "auto",
    )


def _adapt_messages(gathered: Gathered, shaped: _Shaped) -> _Shaped:
    """Spell what the provider cannot take as text before anything is cut: that text counts."""
    draft = _draft_of(gathered, shaped, shaped.messages)
    adapted, rows = PROVIDERS[provider_for(gathered.limits)].adapt(draft)
    counted = count_rows(rows, before=draft, after=adapted, counter=gathered.counter)
    repairs = [row for row in counted if row.kind == "message"]
    return replace(shaped, messages=adapted.messages, repairs=(*shaped.repairs, *repairs))


def _metadata(
    gathered: Gathered, ledger: Ledger, *, cut: Truncation, check: CompactionCheck
) -> ContextMetadata:
    return ContextMetadata(
        session_id=gathered.session_id,
        model_id=gathered.limits.id,
        agent_id=gathered.agent_id,
        ledger=ledger,
        truncated=bool(cut.entries),
        truncated_by=gathered.settled.options.truncation_strategy if cut.entries else None,
        cut_level=cut.level,
        should_compact=check.needed,
        compaction_reason=check.reason,
        active_skills=gathered.active_skills,
        assembly_ms=0.0,
        cache_hit=False,
        last_seq=gathered.last_seq,
    )


def _template_variables(gathered: Gathered) -> Mapping[str, Json]:
    return {
        "agent": gathered.agent_id or "",
        "session": gathered.session_id,
        "model": gathered.limits.id,
        "date": gathered.today.isoformat(),
        "skills": [skill.name for skill in gathered.skills],
        "tools": [tool.name for tool in gathered.tools],
    }


def _measure(gathered: Gathered, system: SystemPrompt) -> Ledger:
    options = gathered.settled.options
    return measure_window(
        gathered.limits,
        system=system,
        tools=gathered.tools,
        counter=gathered.counter,
        max_tokens=gathered.parameters.max_tokens,
        max_context_tokens=options.max_context_tokens,
        reserve_tokens=options.reserve_tokens,
    )


def _fit_system(
    gathered: Gathered, system: SystemPrompt
) -> tuple[SystemPrompt, tuple[ReportEntry, ...]]:
    whole = _measure(gathered, system)
    fitted = fit_system(
        system.sections,
        counter=gathered.counter,
        budget_tokens=whole.budget_tokens,
        other_fixed_tokens=whole.tokens_of("tools", "overhead"),
    )
    if not fitted.entries:
        return system, ()
    return join_sections(fitted.sections), fitted.entries
