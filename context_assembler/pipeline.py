"""`ContextPipeline`: what was gathered → shape → fit → one context; pure from end to end."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Self

from context_assembler.errors import ContextOverflowError, TemplateError
from context_assembler.gathered import Gathered
from context_assembler.history import HistoryWay, shape_history
from context_assembler.limits import ModelRegistry
from context_assembler.ports import Truncation
from context_assembler.providers import PROVIDER_FUNCTIONS, PROVIDERS, other_protocols, provider_for
from context_assembler.shaped import Made, Shaped, tell_facts
from context_assembler.stages.bind_reasoning import bind_reasoning
from context_assembler.stages.build_system_prompt import (
    BuiltPrompt,
    SystemPromptBuilder,
    summarize_tools,
)
from context_assembler.stages.detect_compaction import CompactionDetector, read_history
from context_assembler.stages.load_bootstrap import render_bootstrap, tell_faults
from context_assembler.stages.mask_secrets import SecretMasker
from context_assembler.stages.place_notes import append_notes, place_clock, tell_date
from context_assembler.stages.settle_tools import ToolSettler, note_of_withdrawn
from context_assembler.stages.split_window import add_messages, check_feasible
from context_assembler.stages.tell_changes import overlay_rows, part_messages, warn_of_losses
from context_assembler.stages.warn_of_cuts import warn_of_cuts
from context_assembler.stages.write_report import write_report
from context_assembler.values.context import AssembledContext
from context_assembler.values.events import SessionEvent
from context_assembler.values.growing import Growing
from context_assembler.values.limits import ModelLimits
from context_assembler.values.messages import Message
from context_assembler.values.options import ClockSettings, TruncationSettings
from context_assembler.values.prompt import BootstrapFile, PromptSection
from context_assembler.values.readers import Reader, route_of
from context_assembler.values.report import CompactionCheck

if TYPE_CHECKING:
    from context_assembler.config import AssemblerConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextPipeline:
    """Turns what was gathered into a context; settings at construction, one obvious method.

    Attributes:
        resolve_model: Turns a recorded model id into the registry's; `LookupError`: unknown.
        account: The caller's tag for the account or route in use.
        summarizes_tools: Whether the system prompt lists the tools in words.
        masker: Masks secrets in what tools returned and users wrote.
        checks_payloads: Whether a payload is held against its provider's rules.
        tool_settler: Settles how the model is told which tools there are.
        lets_edits_wait: Whether a changed system prompt waits until the payload is rewritten anyway.
    """

    prompt_builder: SystemPromptBuilder
    detector: CompactionDetector
    clock: ClockSettings
    truncation: TruncationSettings
    resolve_model: Callable[[str], str]
    account: str | None = None
    summarizes_tools: bool = False
    masker: SecretMasker = field(default_factory=SecretMasker)
    checks_payloads: bool = True
    tool_settler: ToolSettler = field(default_factory=ToolSettler)
    lets_edits_wait: bool = False
    _reader: Reader | None = field(default=None, init=False, repr=False, compare=False)

    @classmethod
    def from_config(
        cls,
        config: "AssemblerConfig",
        *,
        registry: ModelRegistry,
        prompt_sections: Iterable[PromptSection] = (),
    ) -> Self:
        """Return the pipeline that the settings ask for."""
        return cls(
            prompt_builder=SystemPromptBuilder(
                priorities=config.prompt.priorities,
                required=config.bootstrap.required,
                sections=prompt_sections,
                inherits=config.prompt.inherits,
                max_tokens=config.prompt.max_tokens,
            ),
            detector=CompactionDetector(config.compaction),
            clock=config.clock,
            truncation=config.truncation,
            resolve_model=lambda model: registry.get(model).id,
            account=config.account,
            summarizes_tools=config.prompt.summarizes_tools,
            masker=SecretMasker(config.safety.masks_secrets_in),
            checks_payloads=config.checks_payloads,
            tool_settler=ToolSettler(
                policy=config.tools.changes, defers_above=config.tools.defers_above
            ),
            lets_edits_wait=config.bootstrap.policy == "freeze",
        )

    def make(self, gathered: Gathered, events: Iterable[SessionEvent]) -> Made:
        """Return the context, and how it was made.

        Raises:
            EmptySessionError: The events hold nothing to send.
            ContextOverflowError: What may not be dropped does not fit.
            TemplateError: A bootstrap template does not render, and no prompt can be sent again.
        """
        *onward, anew = self._ways(gathered, events := list(events))
        for way in onward:
            with suppress(ContextOverflowError, TemplateError):
                made = self._build(way, self._shape(way, events))
                if way.goes_on(made.context.draft, made.context.report):
                    return made
        return self._build(*self._shape_or_hold(anew, events))

    def _ways(self, gathered: Gathered, events: Sequence[SessionEvent]) -> list[Gathered]:
        """Return the ways to go on from the last call, the best one first; the last always works."""
        gathered = gathered.following(events)
        settled = self.tool_settler.settle(
            gathered.tools,
            events,
            provider=PROVIDERS[provider_for(gathered.limits)],
            limits=gathered.limits,
            choice=gathered.parameters.tool_choice,
        )
        ways = [gathered.telling(one) for one in settled]
        if not self.lets_edits_wait:
            return ways
        held = [way.holding(events, finds_secret=self.masker.finds_secret) for way in ways]
        onward = [way for way in held[:-1] or held if way.last_call.holds]
        return [*onward, replace(held[-1], last_call=held[-1].last_call.let_go())]

    def _build(self, gathered: Gathered, shaped: Shaped) -> Made:
        gathered = gathered.told(shaped.prompt)
        shaped.refuse_nothing(gathered.session_id)
        check_feasible(shaped.ledger, gathered.tools)
        shaped = shaped.adapted(gathered)
        shaped, cut = self.cut(gathered, shaped)
        draft, late_entries = shaped.draft(gathered, cut.messages, self.reader_of(gathered.limits))
        changed, others = part_messages(late_entries)
        ledger = add_messages(shaped.ledger, draft.messages, counter=gathered.counter)
        ledger = gathered.anchored(ledger, shaped.system, draft.messages)
        pieces = overlay_rows((*shaped.prompt.rows, *gathered.entries), others)
        files = gathered.last_call.shown_files(shaped.files, now=shaped.prompt.pieces)
        missed = self.prompt_builder.find_missed(files, shaped.system, agent_id=gathered.agent_id)
        losses = warn_of_losses((*shaped.repairs, *late_entries))
        sent = shaped.prompt.epoch
        announced = gathered.announce(draft, sent, kept=cut.messages, ledger=ledger)
        report = write_report(
            files=files,
            pieces=(*pieces, *announced),
            repairs=(*shaped.repairs, *changed),
            history=[message for message in shaped.messages if not message.is_fresh_note],
            cuts=cut.entries,
            sent=draft.messages,
            ledger=ledger,
            settled=gathered.settled,
            warnings=(*gathered.warnings, *missed, *losses),
            counter=gathered.counter,
            untold_files=gathered.last_call.untold(files),
        )
        context = AssembledContext(
            draft=replace(draft, messages=Growing(draft.messages)),
            metadata=tell_facts(gathered, ledger, cut=cut, check=self._check(gathered, shaped)),
            report=warn_of_cuts(report),
            provider=provider_for(gathered.limits),
            functions=PROVIDER_FUNCTIONS,
            checks_payloads=self.checks_payloads,
            epoch=gathered.epoch(sent, files=files),
            epoch_before=gathered.last_call.sent,
        )
        return Made.by(cut, context=context, way=gathered, shaped=shaped)

    def prepare(
        self, gathered: Gathered, events: Sequence[SessionEvent]
    ) -> tuple[Gathered, Shaped]:
        """Return the request before anything is cut, told as in a session's first call."""
        gathered, shaped = self._shape_or_hold(self._ways(gathered, events)[-1], events)
        return gathered.told(shaped.prompt), shaped

    def check_compaction(
        self, gathered: Gathered, events: Iterable[SessionEvent], *, is_explicit: bool = False
    ) -> CompactionCheck:
        """Return whether the session should be compacted; nothing is cut for it."""
        way = self._ways(gathered, events := list(events))[0]
        return self._check(*self._shape_or_hold(way, events), is_explicit=is_explicit)

    def _shape_or_hold(
        self, way: Gathered, events: Sequence[SessionEvent]
    ) -> tuple[Gathered, Shaped]:
        """Return the way with its request; a prompt that cannot be made anew stays what it was."""
        try:
            return way, self._shape(way, events)
        except TemplateError:
            # Even behind a compaction: what came in since the last call does not count here.
            held = way.holding((), finds_secret=self.masker.finds_secret)
            if not (self.lets_edits_wait and held.last_call.holds):
                raise
            return held, self._shape(held, events)

    def _shape(self, gathered: Gathered, events: Sequence[SessionEvent]) -> Shaped:
        reader = self.reader_of(gathered.limits)
        way = HistoryWay(
            reader=reader, masker=self.masker, tools=gathered.told_tools, caps=self.truncation
        )
        history = shape_history(events, way, derived=gathered.derived)
        holds = gathered.last_call.holds
        files = self._render(gathered, lets_faults_wait=holds)
        prompt = self._prompt(gathered, files, history.leading_system, messages=history.messages)
        told = replace(gathered, files=tell_faults(gathered.files, files))
        # What no later call could send is gone before anything is counted or cut.
        sendable, unsendable_entries = bind_reasoning(history.messages, reader=reader)
        fitted = told.fit(prompt)
        if holds and fitted.epoch is not gathered.last_call.held:
            self._render(gathered)  # another prompt is sent: its faults cannot wait
        told_tools, text = gathered.told_tools, fitted.system.text
        withdrawn = note_of_withdrawn(told_tools, system_text=text, messages=sendable)
        notes = (*gathered.recalled, *prompt.notes, *withdrawn)
        messages = append_notes(place_clock(sendable, settings=self.clock), notes)
        return Shaped(
            history=history,
            prompt=fitted,
            messages=told_tools.place(messages),
            notes=notes,
            ledger=gathered.measure(fitted.system),
            repairs=(*history.entries, *unsendable_entries),
            files=told.files,
        )

    def _render(self, gathered: Gathered, *, lets_faults_wait: bool = False) -> list[BootstrapFile]:
        return render_bootstrap(
            gathered.files,
            gathered.template_variables,
            sections=self.prompt_builder.sections_of(gathered.agent_id),
            lets_faults_wait=lets_faults_wait,
        )

    def _prompt(
        self,
        gathered: Gathered,
        files: Iterable[BootstrapFile],
        session_system: Iterable[str],
        *,
        messages: Sequence[Message],
    ) -> BuiltPrompt:
        return self.prompt_builder.build(
            files,
            session_system=session_system,
            skills_text=gathered.skills_text,
            tools_summary=summarize_tools(gathered.tools) if self.summarizes_tools else "",
            additional=gathered.settled.options.additional_system_prompt,
            datetime_text=tell_date(messages, settings=self.clock),
            agent_id=gathered.agent_id,
            count_text=gathered.counter.count_text,
        )

    def cut(self, gathered: Gathered, shaped: Shaped) -> tuple[Shaped, Truncation]:
        """Make the history fit; a note that is wanted and was cut is given once more, at the end."""
        if shaped.fits(gathered):
            return shaped, Truncation(messages=tuple(shaped.messages))
        from context_assembler.truncation import Truncator  # noqa: PLC0415 - most histories fit

        truncator = Truncator(self.truncation.asked(gathered.settled.options))
        room_tokens, counter = shaped.ledger.room_tokens, gathered.counter
        cut_to_fit = partial(truncator.truncate, room_tokens=room_tokens, counter=counter)
        if shaped.is_left_whole(gathered, self.reader_of(gathered.limits), cut_to_fit=cut_to_fit):
            return shaped, Truncation(messages=tuple(shaped.messages))
        cut = cut_to_fit(shaped.messages)
        renewed = append_notes(shaped.messages, shaped.notes, seen=cut.messages)
        if len(renewed) == len(shaped.messages):
            return shaped, cut
        return replace(shaped, messages=renewed), cut_to_fit(renewed)

    def reader_of(self, limits: ModelLimits) -> Reader:
        """Return who a request for the model goes to: the same object for as long as it is asked for."""
        reader = self._reader
        if reader is None or reader.limits is not limits:
            reader = Reader(
                provider=provider_for(limits),
                limits=limits,
                account=route_of(limits, account=self.account),
                resolve_model=self.resolve_model,
                other_protocols=other_protocols(limits),
            )
            object.__setattr__(self, "_reader", reader)
        return reader

    def _check(
        self, gathered: Gathered, shaped: Shaped, *, is_explicit: bool = False
    ) -> CompactionCheck:
        return self.detector.check(
            shaped.uncut(gathered),
            history=read_history(shaped.messages, counter=gathered.counter),
            limits=gathered.limits,
            is_explicit=is_explicit,
        )
