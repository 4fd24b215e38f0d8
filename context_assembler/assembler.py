"""`ContextAssembler`: the facade. Gathers what a call is made from, assembles, records."""

import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import cached_property, partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeVar, Unpack, overload
from weakref import WeakValueDictionary

from context_assembler import errors, events, models
from context_assembler import options as declared
from context_assembler.cache import AssemblyCache, CacheKey, CacheStats
from context_assembler.context import AssembledContext, input_budget, learned_key
from context_assembler.core import Core, Inputs, Opening
from context_assembler.events import Json, Opaque, Session, SessionEvent, SessionHead, ToolCall
from context_assembler.options import AssemblerConfig, GivenOptions
from context_assembler.ports import (
    ChangeForms,
    EventSource,
    PromptSection,
    RecalledNote,
    TextOf,
    ToolSpec,
)
from context_assembler.providers import PROVIDERS
from context_assembler.report import ReportEntry, file_entries, overlay
from context_assembler.sessions import open_store, taken

if TYPE_CHECKING:
    from context_assembler import memory as memories
    from context_assembler import prompt
    from context_assembler.compaction import Compaction, CompactionCheck, Compactor, Host
    from context_assembler.compaction.summarizers import Summarizer
    from context_assembler.forecast import CutPolicy, Simulation
    from context_assembler.report import Report
    from context_assembler.texts import CountText
    from context_assembler.tools.changes import SettledTools
    from context_assembler.tools.collect import CollectedTools, OfferedTools, ToolCollector

_T = TypeVar("_T")
_LONG_HISTORY: Final = 200  # new events that take longer than other tasks of the loop should wait
_MOST_DRAFTS: Final = 16  # of one session: agents and options in turn
_NOTHING: Final = RecalledNote(text="")
_NO_MEMORY: Final = "query was given, but no memory is configured to recall from."
_NEAR_SHARE: Final = 2 / 3  # of a step: a cut is near if less than this is free
_APPROVAL: Final = "mcp_approval_request"
_told: set[str] = set()  # models whose retirement this process was told of
_CUT_OPTIONS: Final = (
    "window_turns",
    "keep_last_messages",
    "keep_last_turns",
    "cache_stable",
    "on_overflow",
)
# What the row of a call keeps of the options that it was given, so that it can be made again.
_ASKED: Final = (
    *_CUT_OPTIONS,
    *("max_tokens", "max_context_tokens", "reserve_tokens", "truncation_strategy", "cache"),
    *("temperature", "top_p", "top_k", "thinking_level", "thinking_budget"),
)


class _Known:
    """What this process knows of a session, until its record changes or it is begun again."""

    def __init__(self, head: SessionHead) -> None:
        self.session, self.incarnation = head.session, head.incarnation
        self.opening: Opening | None = None  # once no further instruction can join it
        self.assembled_seq = 0
        self.last_call: events.CallRow | None = None
        self.call_seq = -1  # the session's last event when `last_call` was its newest call
        self.sent_tools: tuple[str, Any] = ("", None)
        self.drafts: dict[str, _Draft] = {}
        self.asker: prompt.TextAsker | None = None
        self.lister: prompt.SkillLister | None = None

    def is_of(self, head: SessionHead) -> bool:
        """Whether all of it still holds."""
        return self.incarnation == head.incarnation and self.session == head.session

    def follow(self, stored: Sequence[SessionEvent], call: events.CallRow | None) -> None:
        """Take in what was appended here, if nobody else has appended anything before it."""
        if stored and stored[0].seq == self.call_seq + 1:
            self.call_seq = stored[-1].seq
            if call is not None:
                self.last_call = replace(call, reply_seq=self.call_seq)


class _Gathered(NamedTuple):
    """What a call can be made from.

    `candidates` are the best inputs first; all but the last one are good only if they add to what
    the last call sent.
    """

    candidates: Sequence[Inputs]
    key: CacheKey
    last_call: events.CallRow | None


class _Draft:
    """One session, agent and set of options, with what was gathered as long as it stays the same."""

    def __init__(
        self, facade: "ContextAssembler", known: _Known, agent_id: str | None, given: Any
    ) -> None:
        self.facade, self.known, session = facade, known, known.session
        self.agent_id = agent_id or session.agent_id
        self.session = replace(session, agent_id=self.agent_id)
        config = facade.config
        agent = config.agents.get(self.agent_id or "")
        settled = facade.resolver.resolve(given, session=session.defaults, agent=agent)
        model, policy = settled.options.model, settled.options.unknown_model
        self.limits = facade.registry.get(model, unknown=policy)
        self.parameters, self.settled = declared.validate_for_model(settled, self.limits)
        self.options = options = self.settled.options
        cut = {name: getattr(options, name) for name in _CUT_OPTIONS}
        cut |= {"strategy": options.truncation_strategy}
        self.truncation = declared.TruncationSettings(**{**vars(config.truncation), **cut})
        self.provider = models.protocol_for(self.limits)
        self.family = facade.core.family(self.limits)
        self.budget = input_budget(
            self.limits,
            max_tokens=self.parameters.max_tokens,
            max_context_tokens=options.max_context_tokens,
            reserve_tokens=options.reserve_tokens,
        )
        # What the caller chose for the system prompt: another choice is another prompt.
        chosen = (options.skip_skills, options.skill_filter, options.active_skills)
        self.choice = repr((self.agent_id, *chosen))
        asked = {name: given[name] for name in _ASKED if given.get(name) is not None}
        asked = {name: one for name, one in asked.items() if not callable(one)}
        self.asked = {"asked": asked} if asked else {}
        self.functions = facade.functions_of(options)
        self.texts: prompt.AskedTexts | None = None
        self.waits = bool(options.exact or options.additional_tools or options.query)
        if self.functions:
            from context_assembler.tools.sources import is_async

            self.waits = self.waits or any(map(is_async, self.functions.values()))
        self.listed: Any = None
        self.shown: prompt.ShownSkills | None = None
        self.offered: OfferedTools | None = None
        self.ground: tuple[Any, ...] = ()
        self.candidates: list[Inputs] = []
        self.key = CacheKey("")

    def gather(
        self,
        head: SessionHead,
        offered: "OfferedTools | None",
        note: RecalledNote,
        texts: "prompt.AskedTexts | None",
    ) -> _Gathered:
        """Take in what was listed, asked and recalled for one call, and read files."""
        facade, known = self.facade, self.known
        self.texts = texts
        self.head, self.today = head, facade.now().date()
        self.files: list[prompt.BootstrapFile] = []
        if facade.loader is not None:
            self.files = facade.loader.load(self.agent_id, count_text=self.family.count_text)
        self.opening = known.opening or facade.core.opening(head, self.limits)
        known.opening = self.opening if self.opening.began_at is not None else None
        if known.call_seq != head.last_seq:
            known.last_call = self._last_call()
            known.call_seq = head.last_seq
        last = known.last_call
        self.last = last if last is not None and last.model == self.limits.id else None
        holds = self.last is not None and self._may_hold(self.last)
        sent = self.last and (self.last.system_hash, self.last.tools_hash, self.last.provider)
        if offered is None or self.offered is None or offered.key != self.offered.key:
            self.offered = offered
        listed: tuple[Any, ...] = (sent, holds, self.files, self.shown, self.opening, self.today)
        listed += (self.offered, texts)
        if self.ground[:-2] != listed:
            self.candidates = self._draft(holds=holds)
        factor = self._factor() if facade.config.calibrates_tokens else 1.0
        if self.ground != (*listed, factor, note):
            self.ground = (*listed, factor, note)
            facade.fingerprints += 1
            self.key = CacheKey(head.session.id, "", self.agent_id, str(facade.fingerprints))
        recalled = (_memory_section(note.text),) if note.text else ()
        names = self.options.recall_namespaces
        # The tool of memory obeys them as well, also when another process answers its calls.
        whose = {} if names is None else {"recall_namespaces": [*names]}
        said = models.lifecycle_warnings(self.limits, self.today)
        if said and not self.limits.is_assumed:
            said = [] if self.limits.id in _told else said
            _told.add(self.limits.id)
        candidates = [
            inputs._replace(
                head=head,
                factor=factor,
                details={**inputs.details, **whose, **self.asked},
                notes=(*recalled, *inputs.notes),
                entries=(*inputs.entries, *note.entries),
                warnings=(*said, *inputs.warnings, *note.warnings),
            )
            for inputs in self.candidates
        ]
        key = self.key._replace(version=head.version)
        return _Gathered(candidates, key, self.last)

    def _last_call(self) -> events.CallRow | None:
        """Return the newest call whose reply no rewind left behind."""
        last_call, name = self.facade.store.last_call, self.known.session.id
        calls = ((last_call(name, until_seq=one[-1]), one) for one in self._active())
        return next(
            (call for call, one in calls if call is not None and call.reply_seq in one), None
        )

    def _active(self) -> list[range]:
        """Return the ranges of events that no rewind left behind, newest first."""
        stop = self.head.last_seq + 1
        held = (range(one.start, min(one.stop, stop)) for one in self.opening.active)
        return [one for one in held if one][::-1]

    def _factor(self) -> float:
        """Return what reported usage corrects counts by: as the session's last call left it."""
        shape = "tools" if self.candidates[0].tools else "text"
        counter = f"{self.family.name} {self.family.key}"
        key = learned_key(self.provider, self.limits.id, shape, counter)
        learned: Json = self.last.details.get("learned", {}) if self.last is not None else {}
        if learned.get("key") != key:
            learned = self.facade.store.learned(key) or {"factor": 1.0}
        factor: float = learned["factor"]
        return factor

    def _may_hold(self, last: events.CallRow) -> bool:
        """Whether the system prompt of the last call may be sent again, whatever the files say.

        A caller who asks for another agent or other skills gets them.
        """
        freezes = self.facade.config.bootstrap.policy == "freeze" and not self.options.refresh
        if not freezes or last.options != self.choice:
            return False
        mask = self.facade.mask  # what is a secret by now is not sent again
        return mask is None or not mask(self.facade.store.text(last.system_hash) or "")[1]

    def _draft(self, *, holds: bool) -> list[Inputs]:
        """Return inputs that add to what the last call sent, and then those that begin anew."""
        ways, collected = self._settle_tools()
        first, made = ways[0], list[Inputs]()
        # Tools that are declared again are a rewrite point: edits of files can go with them.
        adds = (
            first is None
            or not first.is_anew
            or (first.before is not None and first.before.declared == first.plan.declared)
        )
        keeps = self.texts is not None and self.last is not None
        if ((holds or keeps) and adds) or len(ways) > 1:
            made.append(self._inputs(first, collected, holds=holds, keeps=keeps))
        try:
            anew = self._inputs(ways[-1], collected, holds=False)
        except errors.TemplateError:
            if made:  # what was sent before can still be sent
                return made
            raise
        is_same = len(ways) == 1 and bool(made) and made[0].system == anew.system
        return [anew] if is_same else [*made, anew]

    def _settle_tools(self) -> "tuple[Sequence[SettledTools | None], CollectedTools | None]":
        """Return the ways to send the tools, the best one first, with what was collected."""
        facade, rule, text = self.facade, self.facade.config.tools, ""
        if self.last is not None and self.last.provider == self.provider:
            text = facade.store.text(self.last.tools_hash) or ""
        if self.offered is None and text in ("", "[]"):
            return (None,), None
        from context_assembler.tools.changes import SentTools, settle_tools

        known, before = self.known.sent_tools
        if known != text:
            before = SentTools.read(text)
        offered = self.offered or facade.tools.ask_now(self.options)
        provider = PROVIDERS[self.provider]
        forms = provider.change_forms(self.limits) if rule.changes == "append" else ChangeForms()

        collected = offered.merge(before.known.values() if before is not None else ())
        settled = settle_tools(
            collected.tools,
            before=before,
            provider=self.provider,
            forms=forms,
            search=provider.tool_search(self.limits),
            defers_above=rule.defers_above,
            choice=self.options.tool_choice,
            last_seq=self.head.last_seq,
            called=lambda: self._tool_names(r'"type":"tool_call".*?"name":"(.*?)"'),
            found=lambda: self._tool_names(r'"tool_name":"(.*?)"'),
        )
        return settled, collected

    def _tool_names(self, pattern: str) -> set[str]:
        """Return the names of tools that the history calls, or that a search has shown."""
        import re

        spans = [(one[0], one[-1]) for one in self._active()[::-1]]
        bodies = self.facade.store.bodies(self.known.session.id, spans)
        return {name for body in bodies for name in re.findall(pattern, events.compact_json(body))}

    def _inputs(
        self,
        tools: "SettledTools | None",
        collected: "CollectedTools | None",
        *,
        holds: bool,
        keeps: bool = False,
    ) -> Inputs:
        """Return what the call is made from, with its system prompt and tools settled.

        Args:
            holds: Whether an edit of a file waits.
            keeps: Whether another text of a function is a note.
        """
        facade, config = self.facade, self.facade.config
        specs = collected.tools if collected is not None else ()
        settled = declared.validate_tool_choice(self.settled, specs, provider=self.provider)
        inputs = Inputs(
            head=self.head,
            settled=settled,
            parameters=self.parameters._replace(tool_choice=settled.options.tool_choice),
            limits=self.limits,
            budget_tokens=self.budget,
            clock=config.clock,
            truncation=self.truncation,
            masks=config.safety.masks_secrets_in,
            on_refusal=config.safety.on_refusal,
            account=config.account,
            checks_payloads=config.checks_payloads,
            compaction=config.compaction,
            today=self.today,
            digest=self.choice,
        )
        own = self.options
        has_text = facade.has_prompt or own.system or own.notes or own.additional_system_prompt
        has_text = has_text or self.opening.system
        was_sent = self.last is not None and "prompt" in self.last.details
        if has_text or was_sent or self.shown is not None:
            inputs = self._with_prompt(inputs, tools, specs, holds=holds, keeps=keeps)
        if tools is not None and collected is not None:
            inputs = self._with_tools(inputs, tools, collected)
        return inputs

    def _with_tools(
        self, inputs: Inputs, tools: "SettledTools", collected: "CollectedTools"
    ) -> Inputs:
        from context_assembler.tools import changes

        last, text = self.last, tools.sent.text()
        rewrite = changes.tools_rewrite_entry(tools, tokens=last.estimated_tokens if last else 0)
        count_tool = self.family.count_tool
        changed = changes.tool_entries(tools, collected.entries, count_tool=count_tool)
        entries = [*inputs.entries, *overlay(collected.entries, changed)]
        self.known.sent_tools = text, tools.sent
        return inputs._replace(
            tools=tools.plan.declared,
            tool_plan=tools.plan,
            tools_text=text,
            change=tools.change or None,
            entries=(*entries, *([rewrite] if rewrite else [])),
            warnings=(*inputs.warnings, *collected.warnings),
        )

    def _with_prompt(
        self,
        inputs: Inputs,
        tools: "SettledTools | None",
        specs: Sequence[ToolSpec],
        *,
        holds: bool,
        keeps: bool,
    ) -> Inputs:
        from context_assembler import prompt

        family, last, shown = self.family, self.last, self.shown or prompt.ShownSkills()
        built, files = self._build(specs, shown, holds=holds)
        loaded = tools.loaded if tools is not None else ()
        choice, count = inputs.parameters.tool_choice, family.count_text
        overhead = family.count_tools_overhead(loaded, has_system=True, choice=choice)
        fit = partial(
            prompt.fit_prompt,
            count_system=family.count_system,
            count_text=count,
            budget_tokens=self.budget,
            other_fixed_tokens=overhead + sum(map(family.count_tool, loaded)),
        )
        before, asked = self._sent_prompt(), self.texts or prompt.AskedTexts()
        own = [one for one in built.sections if one.name in asked.texts]
        if keeps and before is not None:
            built = before.keep(built, asked.texts)
        said = {one.name: one.content for one in built.sections}
        sent, unreported, rewrite, is_held = fit(built), files, list[ReportEntry](), False
        record = prompt.prompt_record(built, sent, files)
        if last is not None and before is not None:
            if holds:
                held, held_files = before.hold(built, files, sent)
                is_held = fit(held).sections == held.sections or len(held.text) <= len(sent.text)
                if is_held:
                    record, sent, files = last.details["prompt"], held, held_files
            if not is_held and (differing := before.differences(sent)):
                reason = (
                    f"The system prompt is another one than in the last call ({differing}): a new "
                    "epoch begins, and what was sent before is written to the prompt cache again."
                )
                entry = ReportEntry("note", "system", "kept", reason=reason, rule="rewrite.system")
                rewrite = [entry]
            unreported = before.unreported(files)
        listed = "".join(one.content for one in sent.sections if one.name == "skills")
        if self.shown is not None:
            shown = prompt.follow_section(shown, listed, count_text=count, is_frozen=is_held)
        active = [one for one in shown.skills if one.name in shown.active]
        odd = [f"{file.path}: {warning}" for file in unreported for warning in file.warnings]
        missed = self.facade.builder.find_missed(files, sent.sections, agent_id=self.agent_id)
        entries = [*file_entries(files, count_text=count), *sent.entries, *shown.entries]
        entries += [one for one in asked.entries if one.id not in said]
        return inputs._replace(
            sections=sent.sections,
            system=sent.text,
            notes=(*built.notes, *(replace(one, placement="note") for one in own)),
            said=tuple((one.name, said[one.name]) for one in own),
            entries=(*entries, *rewrite),
            warnings=(*odd, *inputs.warnings, *missed, *shown.warnings, *asked.warnings),
            details={"prompt": record},
            active_skills=tuple(one.name for one in active),
            skill_allowed_tools={one.name: one.allowed_tools for one in active},
        )

    def _sent_prompt(self) -> "prompt.SentPrompt | None":
        """Return the system prompt of the last call."""
        from context_assembler.prompt import SentPrompt

        text = self.facade.store.text(self.last.system_hash) if self.last is not None else None
        if self.last is None or text is None:
            return None
        return SentPrompt(text, self.last.details.get("prompt", {}))

    def _build(
        self, specs: Sequence[ToolSpec], shown: "prompt.ShownSkills", *, holds: bool
    ) -> tuple["prompt.BuiltPrompt", list["prompt.BootstrapFile"]]:
        """Return the system prompt that files and settings ask for, and the files as rendered."""
        from context_assembler import prompt

        facade, files, day = self.facade, self.files, ""
        clock, began = facade.config.clock, self.opening.began_at
        if any(file.is_template for file in files):
            variables = {
                "agent": self.agent_id or "",
                "session": self.known.session.id,
                "model": self.limits.id,
                "date": str(self.today),
                "skills": [skill.name for skill in shown.skills],
                "tools": [tool.name for tool in specs],
            }
            allowed = facade.builder.sections_of(self.agent_id)
            files = prompt.render_files(files, variables, sections=allowed, lets_faults_wait=holds)
        if began is not None and clock.date_in_system:
            from zoneinfo import ZoneInfo

            local = began.astimezone(ZoneInfo(clock.time_zone))
            day = f"The conversation begins on {local.date()}."
        summarizes, options = facade.config.prompt.summarizes_tools, self.options
        texts = dict(self.texts.texts) if self.texts is not None else {}
        lost = {one.id for one in self.texts.entries} if self.texts is not None else ()
        if lost and (before := self._sent_prompt()) is not None:  # what was sent still holds
            texts |= {one.name: one.content for one in before.sections if one.name in lost}
        given: Mapping[str, str | TextOf] = options.notes or {}
        notes = {name: texts.get(name, "") if callable(t) else t for name, t in given.items()}
        built = facade.builder.build(
            [PromptSection(name=n, content=t, placement="note") for n, t in notes.items()],
            files=files,
            system=texts.get("agent", "") if callable(options.system) else options.system or "",
            texts=texts,
            session_system=self.opening.system,
            skills_text=shown.text,
            tools_summary=prompt.summarize_tools(specs) if summarizes else "",
            additional=options.additional_system_prompt,
            datetime_text=day,
            agent_id=self.agent_id,
        )
        return built, files


class ContextAssembler:
    """Builds the request of a session's next model call.

    Assembling calls no model, and writes nothing but columns and derived forms. One assembler serves
    many sessions at once, and many processes may share one store.

    Args:
        sessions: Where sessions are kept: a store, or a URL (`sqlite:agent.db`, `memory:`).
        system: The system prompt: text, or a function of the session, plain or async, that returns
            it. A session's own and a call's come first, and AGENT.md before all of them.
        bootstrap: The folder of AGENT.md, SOUL.md and CONTEXT.md, or a loader.
        tools: Functions, literal specs of any provider, objects with `list_tools()`, lists of them.
        skills: Folders of skills, or providers of them.
        memory: What `assemble(query=…)` recalls from: a store, its URL (`sqlite:memory.db`), a
            folder of Markdown (`notes/`), several of them, a mapping that names each, or a
            `MemoryAssembler`.
        config: Settings; by default those of the environment and the configuration files.
        prompt_sections: The application's own sections of the system prompt.
        registry: What is known about models.
        clients: SDK clients that `exact=True` asks for the count of a payload, and nothing more.
        now: The clock behind the time stamps of recorded events.
        auto_compact: Has sessions compacted when that is advised, before the call that would overflow:
            a summarizer (`summarize_with("claude-haiku-4-5")`, `extract_summary`, a function), or a
            `Compactor` with it. If it fails, the request is cut as it would be without, with a warning.

    Raises:
        TypeError: `memory`, or `auto_compact`, is none of these.
    """

    def __init__(
        self,
        sessions: str | Path | EventSource = "memory:",
        *,
        system: str | TextOf | None = None,
        bootstrap: "str | Path | prompt.BootstrapLoader | None" = None,
        tools: Any = (),
        skills: Any = None,
        memory: Any = None,
        config: AssemblerConfig | None = None,
        prompt_sections: Iterable[PromptSection] = (),
        registry: models.ModelRegistry = models.DEFAULT_REGISTRY,
        clients: Mapping[str, Any] | Iterable[Any] | None = None,
        now: Callable[[], datetime] = events.utc_now,
        auto_compact: "Compactor | Summarizer | None" = None,
    ) -> None:
        self.config = config = config or AssemblerConfig()
        self.registry, self.now, self._clients = registry, now, clients
        self.sessions = self.store = open_store(sessions)
        self._owns_store = isinstance(sessions, str | Path)
        self._mirror: Any = None
        if not hasattr(self.sessions, "append_now"):
            from context_assembler.sessions.mirror import Mirror

            self._mirror = Mirror(self.sessions)
            self.store = self._mirror.memory
        self.mask: Any = None
        if "files" in config.safety.masks_secrets_in:
            from context_assembler.history.secrets import mask_kinds

            self.mask = mask_kinds
        self._sections, self.loader = tuple(prompt_sections), self._open_loader(bootstrap)
        self.has_prompt = bool(
            self.loader
            or self._sections
            or config.prompt.summarizes_tools
            or config.clock.date_in_system
        )
        if self.has_prompt:
            assert self.builder  # what cannot be a section, or a tool, is refused at once
        self.given_tools, self._has_tools = tools, False
        if tools:
            self._has_tools = bool(self.tools)
        self._skills: Any = None
        if skills := config.skill_folders if skills is None else skills:
            from context_assembler import prompt

            limit = config.tools.timeout_seconds
            self._skills = prompt.SkillLister(skills, timeout_seconds=limit, now=now)
        self._given_memory = config.memory.store if memory is None else memory
        _check_memory(self._given_memory)
        cut = vars(config.truncation)
        defaults = {"truncation_strategy": cut["strategy"], "unknown_model": config.unknown_model}
        defaults |= {"cache": "auto", **{name: cut[name] for name in _CUT_OPTIONS}}
        if system is not None:
            defaults["system"] = system
        if self._given_memory is not None:
            defaults["recall_tokens"] = config.memory.max_tokens
        self.resolver = declared.DefaultsResolver({**defaults, **config.defaults.given})
        self.core = Core(
            self.store,
            resolve_model=lambda model: registry.get(model).id,
            counter=config.token_counter,
            max_sessions=config.cache.max_sessions,
        )
        self.cache: AssemblyCache[AssembledContext] = AssemblyCache(
            max_entries=config.cache.max_entries, ttl_seconds=config.cache.ttl_seconds
        )
        self._lock = Lock()
        self._known: dict[str, _Known] = {}
        self._running: WeakValueDictionary[str, Any] = WeakValueDictionary()
        self.fingerprints = 0
        self._watch: Any = None
        self._auto: Compactor | None = None
        if auto_compact is not None:
            from context_assembler.compaction import compactor_of

            self._auto = compactor_of(auto_compact)

    def functions_of(self, options: Any) -> dict[str, Any]:
        """Return by name what has to be asked for the texts of a call."""
        given: dict[str, Any] = {one.name: one.text_of for one in self._sections}
        given |= options.notes or {}
        if options.system is not None:
            given["agent"] = options.system
        return {name: one for name, one in given.items() if callable(one)}

    @cached_property
    def builder(self) -> "prompt.SystemPromptBuilder":
        """What builds system prompts; it is loaded if there is anything to build from."""
        from context_assembler import prompt

        settings = self.config.prompt
        return prompt.SystemPromptBuilder(
            priorities=settings.priorities,
            required=self.config.bootstrap.required,
            sections=self._sections,
            inherits=settings.inherits,
            separator=settings.separator,
        )

    @cached_property
    def tools(self) -> "ToolCollector":
        """What collects tools; it is loaded if there are any."""
        from context_assembler.tools.collect import ToolCollector

        settings = self.config.tools
        return ToolCollector(
            self.given_tools,
            include=settings.include,
            exclude=settings.exclude,
            on_conflict=self.config.on_tool_conflict,
            timeout_seconds=settings.timeout_seconds,
            now=self.now,
        )

    def _open_loader(self, given: Any) -> "prompt.BootstrapLoader | None":
        settings = self.config.bootstrap
        if given is None and settings.folder is declared.BootstrapSettings.folder:
            return None  # the default itself: an equal path that somebody set is another object
        from context_assembler import prompt

        if isinstance(given, prompt.BootstrapLoader):
            return given
        return prompt.BootstrapLoader(
            self.config.bootstrap_folder if given is None else given,
            agent_names=settings.agent_names,
            searches_upward=settings.searches_upward,
            max_file_tokens=settings.max_file_tokens,
            max_total_tokens=settings.max_total_tokens,
            ttl_seconds=settings.ttl_seconds,
            mask=self.mask,
        )

    # ---- assembling ----

    # The second form takes a plain dict, `**{"model": …}`, whose values have one type.
    @overload
    async def assemble(
        self, session_id: str, agent_id: str | None = None, **options: Unpack[GivenOptions]
    ) -> AssembledContext: ...
    @overload
    async def assemble(
        self, session_id: str, agent_id: Any = None, *, __of_a_dict: Any, **options: Any
    ) -> AssembledContext: ...
    async def assemble(
        self, session_id: str, agent_id: str | None = None, **options: Any
    ) -> AssembledContext:
        """Return the next request of the session; store and send nothing.

        Args:
            agent_id: Whose instruction files and defaults hold; the session's own by default.
            options: Those of `AssembleOptions`. `None` means "not given".

        Raises:
            UnknownSessionError: There is no such session.
            EmptySessionError: It holds nothing to send.
            UnknownOptionError: An option does not exist.
            InvalidParameterError: The model rejects a value given here.
            UnknownModelError: Nothing is known about the model.
            ContextOverflowError: What may not be dropped does not fit.
        """
        context = await self._assemble_once(session_id, agent_id, options)
        if self._auto is None or not context.metadata.should_compact:
            return context
        from context_assembler.compaction import compact_if_due

        is_stale, problem = await compact_if_due(self._auto, context, self._host(context))
        if is_stale:
            context = await self._assemble_once(session_id, agent_id, options)
        counted = context.metadata.ledger.counted_tokens
        return context.counted(counted, warning=problem) if problem else context

    async def _assemble_once(
        self, session_id: str, agent_id: str | None, options: Mapping[str, Any]
    ) -> AssembledContext:
        """Return the next request of the session as it is."""
        started = time.perf_counter()
        if self._mirror is not None:
            await self._mirror.refresh(session_id)
        head, draft = self._look(session_id, agent_id, options)
        if draft.options.exact:
            return await self._assemble_exactly(session_id, draft, options, started)
        gathered = await self._gather(head, draft)
        if head.last_seq - draft.known.assembled_seq < _LONG_HISTORY:
            return self._assemble(draft, gathered, started)
        from asyncio import to_thread

        return await to_thread(self._assemble, draft, gathered, started)

    @overload
    def assemble_sync(
        self, session_id: str, agent_id: str | None = None, **options: Unpack[GivenOptions]
    ) -> AssembledContext: ...
    @overload
    def assemble_sync(
        self, session_id: str, agent_id: Any = None, *, __of_a_dict: Any, **options: Any
    ) -> AssembledContext: ...
    def assemble_sync(
        self, session_id: str, agent_id: str | None = None, **options: Any
    ) -> AssembledContext:
        """Return what `assemble` returns; a loop starts only if something has to be awaited."""
        started = time.perf_counter()
        if self._mirror is None:
            head, draft = self._look(session_id, agent_id, options)
            if not self._waits(draft):
                context = self._assemble(draft, self._gather_now(head, draft), started)
                if self._auto is None or not context.metadata.should_compact:
                    return context
        return _run(self.assemble(session_id, agent_id, **options))

    def _look(
        self, session_id: str, agent_id: str | None, options: Mapping[str, Any]
    ) -> tuple[SessionHead, _Draft]:
        """Return how far the session is, and the draft of these options."""
        head = self.store.look(session_id)
        if head is None:
            self.store.calls(session_id)  # raises, with the nearest names
            return self._look(session_id, agent_id, options)  # unless somebody has just begun it
        known = self._known.get(session_id)
        if known is None or not known.is_of(head):
            known = _Known(head)
            _keep(self._known, session_id, known, most=self.config.cache.max_sessions)
        key = "" if "additional_tools" in options else repr((agent_id, options))
        draft = known.drafts.get(key)
        if draft is None or draft.limits is not self.registry.get(
            draft.options.model, unknown=draft.options.unknown_model
        ):
            draft = _Draft(self, known, agent_id, options)
            if key:
                _keep(known.drafts, key, draft, most=_MOST_DRAFTS)
        return head, draft

    def _assemble(self, draft: _Draft, gathered: _Gathered, started: float) -> AssembledContext:
        """Return the context that was made before if nothing changed, or make it."""
        key, uses_cache = gathered.key, draft.options.use_cache is not False
        if uses_cache and (found := self.cache.get(key)) is not None:
            return found.timed(assembly_ms=_ms_since(started), cache_hit=True)
        context = self._first_that_adds(gathered)
        context.metadata.assembly_ms = _ms_since(started)
        self.cache.set(key, context)
        draft.known.assembled_seq = context.metadata.last_seq
        return context

    def _first_that_adds(self, gathered: _Gathered) -> AssembledContext:
        """Return the first context that adds to what the last call sent, or the last one."""
        *adding, anew = gathered.candidates
        last, most_tokens = gathered.last_call, None
        if last is not None:
            if (most_tokens := last.details.get("room")) is not None:
                same = (inputs for inputs in gathered.candidates if not _rewrites(inputs))
                adding = [inputs._replace(most_tokens=most_tokens) for inputs in same]
            for inputs in adding:
                if inputs.system == self.store.text(last.system_hash):
                    with suppress(errors.ContextOverflowError):
                        context = self.core.assemble(inputs)
                        if context.goes_on(last):
                            return context
        context = self.core.assemble(anew)
        if most_tokens is None and not _rewrites(anew):
            return context
        # One rewrite, not two: if a cut is near, it is made in the same call.
        rule, ledger = anew.truncation, context.metadata.ledger
        history = ledger.tokens_of("history", "notes")
        room = ledger.budget_tokens - ledger.fixed_tokens
        if rule.cache_stable and history > room * (1 - _NEAR_SHARE * rule.step_share):
            with suppress(errors.ContextOverflowError):
                return self.core.assemble(anew._replace(most_tokens=most_tokens or history - 1))
        return context

    async def _assemble_exactly(
        self, session_id: str, draft: _Draft, given: Mapping[str, Any], started: float
    ) -> AssembledContext:
        """Return a context that fits by the provider's own count of its payload."""
        from context_assembler.tokens.remote import MAX_ROUNDS, correction

        remote, counted, warning = self._remote, None, ""
        options: dict[str, Any] = {**given, "exact": False}
        context = await self._assemble_once(session_id, draft.agent_id, options)
        for rounds_left in reversed(range(MAX_ROUNDS)):
            ledger = context.metadata.ledger
            budget, used = ledger.budget_tokens, ledger.used_tokens
            try:
                payload = context.to_request(remote.protocol_for(context.provider))
                counted = await remote.count(payload, provider=context.provider)
            except errors.RemoteCountError as error:
                counted, warning = None, str(error)
                break
            share, warning = correction(counted, used_tokens=used, budget_tokens=budget), ""
            if share is None:
                break
            warning = (
                f"By the provider's own count the payload has {counted:,} tokens, more than its "
                f"budget of {budget:,}: lower max_context_tokens, or reserve more for the reply."
            )
            if rounds_left:
                most = int(budget / share) + (draft.options.reserve_tokens or 0)
                options["max_context_tokens"] = most
                context = await self._assemble_once(session_id, draft.agent_id, options)
        return context.timed(assembly_ms=_ms_since(started), cache_hit=False).counted(
            counted, warning=warning
        )

    @cached_property
    def _remote(self) -> Any:
        from context_assembler.tokens.remote import RemoteCounter

        if self._clients is None:
            raise errors.ConfigurationError(
                "Counting exactly needs a client of the provider's SDK.",
                remedy="Pass clients=[anthropic.Anthropic()] or the like, or leave out exact=True.",
            )
        return RemoteCounter(self._clients)

    # ---- what is listed ----

    def _waits(self, draft: _Draft) -> bool:
        """Whether something has to be awaited for the call."""
        are_sync = self._skills is None or self._skills.is_sync
        are_sync = are_sync and (not self._has_tools or self.tools.is_sync)
        return draft.waits or not are_sync

    def _gather_now(self, head: SessionHead, draft: _Draft) -> _Gathered:
        lister = self._lister(draft)
        skills = self._show(draft, lister and lister.list_now(draft.session))
        offered: OfferedTools | None = None
        if skills or self._has_tools:
            is_constant = self._skills is None and self.tools.is_constant
            offered = draft.offered if is_constant else None
            offered = offered or self.tools.ask_now(draft.options, skills=skills)
        texts = self._asker(draft).ask_now(draft.functions) if draft.functions else None
        with self._lock:
            return draft.gather(head, offered, _NOTHING, texts)

    async def _gather(self, head: SessionHead, draft: _Draft) -> _Gathered:
        if not (self._waits(draft) or draft.functions):  # a plain function may block: not the loop
            return self._gather_now(head, draft)
        from asyncio import gather

        async def offer() -> "OfferedTools | None":
            lister = self._lister(draft)
            listed = await lister.list(draft.session) if lister else None
            skills, extra = self._show(draft, listed), draft.options.additional_tools or ()
            if not (self._has_tools or skills or extra):
                return None
            return await self.tools.ask(draft.options, additional=extra, skills=skills)

        async def ask() -> "prompt.AskedTexts | None":
            return await self._asker(draft).ask(draft.functions) if draft.functions else None

        offered, note, texts = await gather(offer(), self._recall_note(draft), ask())
        with self._lock:
            return draft.gather(head, offered, note, texts)

    def _asker(self, draft: _Draft) -> "prompt.TextAsker":
        from context_assembler.prompt import TextAsker

        known, seconds = draft.known, self.config.prompt.timeout_seconds
        if known.asker is None:
            known.asker = TextAsker(known.session, timeout_seconds=seconds, now=self.now)
        return known.asker

    def _lister(self, draft: _Draft) -> "prompt.SkillLister | None":
        """Return what asks for the session's skills, and knows what it was answered last."""
        known = draft.known
        if known.lister is None and self._skills is not None:
            known.lister = self._skills.for_session()
        return known.lister

    def _show(self, draft: _Draft, listed: Any) -> Sequence[Any]:
        """Keep what the prompt has of skills; return the sources of the active ones' tools."""
        options, own = draft.options, list[Any]()
        if options.memory_tool:
            given = {"form": options.memory_tool, "provider": draft.provider}
            own = [self._memory_tool(options.recall_namespaces, **given)]
        if options.history_tool:
            own.append(self._history_tool(draft.known.session.id))
        if listed is None:
            return own
        from context_assembler import prompt
        from context_assembler.tools.sources import open_skill_tools

        settings = self.config.prompt
        if draft.listed != listed:
            reason = "skip_skills is set" if options.skip_skills else None
            if not settings.has_section("skills", agent_id=draft.agent_id):
                reason = f"the agent {draft.agent_id!r} does not inherit them"
            shown = prompt.show_skills(
                listed,
                count_text=draft.family.count_text,
                max_tokens=settings.skills_tokens,
                skip_reason=reason,
                patterns=options.skill_filter,
                active=options.active_skills or (),
                activates_named=draft.settled.layers.get("skill_filter") == "request",
                shows_examples=self.config.skills.shows_examples,
                mask=self.mask,
            )
            draft.listed, draft.shown = listed, shown
        return [*own, *open_skill_tools(draft.shown.with_tools if draft.shown else [])]

    def _memory_tool(self, namespaces: Sequence[str] | None, **given: Any) -> Any:
        """Return the tool `memory`, for a call that may recall of these namespaces alone."""
        from context_assembler.memory.tool import MemoryTool

        settings = self.config.memory
        return MemoryTool(
            self.memory,
            namespaces=settings.namespaces if namespaces is None else namespaces,
            max_tokens=settings.max_tokens,
            limit=settings.limit,
            context_types=settings.context_types or None,
            **given,
        )

    def _history_tool(self, session_id: str) -> Any:
        """Return the tool `history` of a session."""
        from context_assembler.tools.history import HistoryTool

        masks = self.config.safety.masks_secrets_in
        truncation = self.config.truncation
        return HistoryTool(self.store, session_id, truncation=truncation, masks=masks)

    async def _recall_note(self, draft: _Draft) -> RecalledNote:
        options, settings = draft.options, self.config.memory
        if not options.query or not options.query.strip():
            return _NOTHING
        if self._given_memory is None:
            return RecalledNote(text="", warnings=(_NO_MEMORY,))
        given = options.recall_namespaces
        return await self.memory.recall_note(
            options.query,
            session_id=draft.known.session.id,
            max_tokens=min(options.recall_tokens or 0, draft.budget // 4),
            namespaces=settings.namespaces if given is None else given,
            count_text=draft.family.count_text,
            limit=settings.limit,
            context_types=settings.context_types or None,
        )

    # ---- recording ----

    async def record(
        self, session_id: str, reply: Any, context: AssembledContext, summary: str | None = None
    ) -> list[SessionEvent]:
        """Store what a call added to the session: the notes it was sent, then the model's reply.

        A compaction that the provider wrote into the reply becomes an event that covers what was
        sent; what the model said after it is the reply. Recording again with the same context
        stores nothing twice if the reply has its provider's id; one without is stored every time.

        Args:
            reply: The final reply object of the provider's SDK, its dict, or the list of what its
                stream yielded, to the end or until it broke off.
            context: What the reply answers; the hash of its payload is stored with it.
            summary: The plain text of such a compaction, for other models, accounts and providers;
                by default what can be read of it.

        Returns:
            Its events; the last one is the reply, or a compaction that nothing followed.

        Raises:
            InvalidParameterError: The context belongs to another session, or that was rewound since.
            ReplyError: No bundled provider answers in that shape.
            UnknownSessionError: There is no such session.
        """
        from context_assembler.record import read_answer, store_answer

        answer = read_answer(session_id, reply, context, now=self.now(), summary=summary)
        return await store_answer(
            self.store, answer, context, append=self._append, refresh=self._head
        )

    async def add_user(
        self,
        session_id: str,
        content: Any,
        *,
        agent_id: str | None = None,
        is_pinned: bool = False,
    ) -> SessionEvent:
        """Store what the user said; a session that does not exist begins with it.

        Args:
            content: Text, parts, or a message, content blocks or parts as a provider or its SDK has
                them. Fields of a message that have no place are in the event's metadata.
            agent_id: Whose session begins with it; one that exists keeps its agent.
            is_pinned: Whether no cut may drop the message, and no cap shorten it.

        Raises:
            ContentError: The content is none of these.
        """
        from context_assembler.record import read_given

        given = read_given(content)
        event = events.user_event(given.content, created_at=self.now(), is_pinned=is_pinned)
        event = replace(event, metadata=given.metadata)
        if agent_id is not None:
            session = Session(id=session_id, agent_id=agent_id, created_at=event.created_at)
            await self._begin(session)
        [stored] = await self._append(session_id, [event])
        return stored

    async def add_tool_result(
        self,
        session_id: str,
        call_id: str,
        content: Json,
        *,
        is_error: bool = False,
        tool_name: str | None = None,
    ) -> SessionEvent:
        """Store what a tool returned; a value that is neither text nor parts is stored as JSON.

        Content blocks of any provider, of its SDK or of MCP are parts. A picture within any other
        value is sent as text, with a warning.

        A result may come before its call; until then it is kept and not sent, with a report entry
        and a warning.

        Raises:
            ContentError: JSON cannot express the value.
            UnknownSessionError: There is no such session.
        """
        event = self._result(call_id, content, is_error=is_error, tool_name=tool_name)
        await self._head(session_id)
        [stored] = await self._append(session_id, [event])
        return stored

    def _result(
        self, call_id: str, content: Json, *, is_error: bool, tool_name: str | None = None
    ) -> SessionEvent:
        from context_assembler.record import read_given, with_warning

        given = read_given(content, is_error=is_error, by_tool=True)
        made = partial(events.tool_result_event, call_id, given.content, is_error=given.is_error)
        event = made(tool_name=tool_name, created_at=self.now())
        return with_warning(replace(event, metadata=given.metadata))

    async def run_tools(
        self,
        session_id: str,
        answer: SessionEvent | Iterable[SessionEvent],
        *,
        tools: Any = (),
        approved: Collection[str] = (),
        timeout_seconds: float = 300.0,
    ) -> list[ToolCall | Opaque]:
        """Run the functions, and the MCP servers' tools, that a reply calls; store what they return.

        All run at once, plain functions in threads. An error, a time-out and arguments that cannot
        be read or do not fit become results that the model reads. A call that has a result is not run
        again; one that was cancelled has.

        Args:
            answer: What `record` returned, or its last event.
            tools: The functions among the call's `additional_tools`.
            approved: Ids of calls that may run although their tool says `needs_approval`.
            timeout_seconds: How long each may take; a function in a thread goes on, unheard.

        Returns:
            What remains for the caller, in order: calls that wait for approval or that somebody else
            runs, then requests of MCP approvals.

        Raises:
            UnknownSessionError: There is no such session.
            InvalidParameterError: The reply is not one of the session, or was left behind by a rewind.
        """
        replies = [answer] if isinstance(answer, SessionEvent) else list(answer)
        head, parts = await self._head(session_id), [p for event in replies for p in event.parts]
        asked = [p for p in parts if isinstance(p, Opaque) and p.block.get("type") == _APPROVAL]
        if not any(event.has_calls for event in replies):
            return [*asked]
        from asyncio import Lock

        from context_assembler.tools.run import plan_calls, run_planned
        from context_assembler.tools.sources import open_tool_sources

        first, keeping = min(replies, key=lambda event: event.seq), Lock()
        rule = f"must be a reply that session {session_id!r} holds, and that no rewind left behind"
        remedy = "Record it there first, and pass what record returned."
        gone = errors.InvalidParameterError("answer", first.id, rule=rule, remedy=remedy)

        async def keep(call: ToolCall, outcome: tuple[Any, bool]) -> None:
            content, is_error = outcome
            try:
                event = self._result(call.call_id, content, is_error=is_error)
            except errors.ContentError as error:
                event = self._result(call.call_id, str(error), is_error=True)
            async with keeping:
                while (now := await self._head(session_id)).incarnation == head.incarnation:
                    with suppress(errors.ConcurrentAppendError):  # somebody came first
                        await self._append(session_id, [event], expected_seq=now.last_seq)
                        return
            raise gone

        if not timeout_seconds >= 0:
            about: Any = {"rule": "must be 0 or more", "remedy": "Pass seconds, such as 300."}
            raise errors.InvalidParameterError("timeout_seconds", timeout_seconds, **about)
        stored = events.active_events(self.store.events(session_id, after_seq=first.seq - 1))
        if [(one.id, one.created_at, one.parts) for one in stored[:1]] != [
            (first.id, first.created_at, first.parts)
        ]:
            raise gone
        sources = [*open_tool_sources(tools), *(self.tools.sources if self._has_tools else ())]
        async with self._running.setdefault(session_id, Lock()):  # what runs has no result yet
            offered, namespaces = await self._offered_to(head, first.seq, tools)
            if self._given_memory is not None:
                own = self._memory_tool(namespaces)
                offered = [replace(t, source=own.name) if own.answers(t) else t for t in offered]
                sources.append(own)
            sources.append(self._history_tool(session_id))
            planned, left = plan_calls(
                replies,
                later=events.active_events(self.store.events(session_id, after_seq=first.seq)),
                offered=offered,
                sources=sources,
                approved=approved,
            )
            await run_planned(planned, seconds=timeout_seconds, keep=keep)
        return [*left, *asked]

    async def _offered_to(
        self, head: SessionHead, seq: int, additional: Any
    ) -> tuple[Sequence[ToolSpec], Sequence[str] | None]:
        """Return tools and namespaces of the call that a reply answers; of no recorded one, of now."""
        from context_assembler.tools.changes import SentTools

        rows = self.store.calls(head.session.id, after_seq=seq - 1)
        if rows and (sent := SentTools.read(self.store.text(rows[0].tools_hash) or "")) is not None:
            return sent.offered, rows[0].details.get("recall_namespaces")
        own, agent = head.session, self.config.agents.get(head.session.agent_id or "")
        settled = self.resolver.resolve({"model": "any"}, session=own.defaults, agent=agent)
        found = await self.tools.collect(settled.options, additional=additional)
        return found.tools, settled.options.recall_namespaces

    async def _begin(self, session: Session) -> None:
        """Create the session, unless it is there."""
        with suppress(errors.UnknownSessionError):
            await self.sessions.head(session.id)
            return
        if self._mirror is None:
            await self.store.away(self.store.create_now, session, replaces=False)
        else:
            await self.sessions.create(session)

    async def _head(self, session_id: str) -> SessionHead:
        if self._mirror is not None:
            await self._mirror.refresh(session_id)
        head: SessionHead = await self.store.head(session_id)
        return head

    async def _append(
        self, session_id: str, events: list[SessionEvent], **row: Any
    ) -> list[SessionEvent]:
        into = self.store if self._mirror is None else self._mirror
        stored: list[SessionEvent] = await into.append(session_id, events, **row)
        if (known := self._known.get(session_id)) is not None:
            with self._lock:
                known.follow(stored, row.get("call"))
        return stored

    # ---- other ways to go on ----

    async def rewind(self, session_id: str, to: int | str | SessionEvent) -> SessionEvent:
        """Take a session back to what it was when an event was its newest; return the event of that.

        What was stored since stays in the store, and is not sent. To go forward again, rewind to an
        event that was left behind. Replies to requests of before, and results of tools that still
        run, are refused. Behind a call the session waits for its result: `run_tools` runs it again.

        Args:
            to: The event that the session goes on from, its id or its number; 0: it begins again.

        Raises:
            UnknownSessionError: There is no such session.
            InvalidParameterError: The session has no such event.
        """
        seq = self._seq_of(await self._head(session_id), "to", to)
        event = SessionEvent(
            type="rewind", answers_seq=seq, created_at=self.now(), origin="developer"
        )
        [stored] = await self._append(session_id, [event])
        return stored

    async def fork(
        self, session_id: str, new_id: str = "", *, at: int | str | SessionEvent | None = None
    ) -> Session:
        """Begin a session with what another one holds; return its record.

        Both have the same events, columns and calls up to there, so that the request of the new one
        is what the first one's was, and is read from the prompt cache. Neither depends on the other.

        Args:
            new_id: Of the new session; by default made up.
            at: The last event that both have, its id or its number; by default the newest.

        Raises:
            UnknownSessionError: There is no such session.
            InvalidParameterError: It has no such event, or the new id is taken.
        """
        from uuid import uuid4

        head = await self._head(session_id)
        seq = head.last_seq if at is None else self._seq_of(head, "at", at)
        about = {"session": session_id, "seq": seq, "root": events.root_of(head.session)}
        session = replace(
            head.session,
            id=new_id or f"{session_id[:480]}-{uuid4().hex[:8]}",
            metadata={**head.session.metadata, "forked_from": about},
            created_at=self.now(),
        )
        if self._mirror is None:
            await self.store.away(self.store.fork_now, session_id, session, at=seq)
            return session
        with suppress(errors.UnknownSessionError):
            await self.sessions.head(session.id)
            raise taken(session.id)
        await self.sessions.create(session)
        await self._append(session.id, self.store.events(session_id, limit=seq), expected_seq=0)
        return session

    def _seq_of(self, head: SessionHead, name: str, point: int | str | SessionEvent) -> int:
        """Return the number of an event of the session."""
        given, session_id = point.id if isinstance(point, SessionEvent) else point, head.session.id
        if isinstance(given, int):
            found = [given] if 0 <= given <= head.last_seq else []
        else:
            rows = self.store.rows(session_id, [(1, head.last_seq)])
            found = [seq for seq, event_id, _ in rows if event_id == given]
        if not found:
            rule = f"must be an event of session {session_id!r}, its id, or 0 to {head.last_seq:,}"
            remedy = "Load its events: each has a seq and an id."
            raise errors.InvalidParameterError(name, given, rule=rule, remedy=remedy)
        return found[0]

    # ---- questions about a session ----

    async def check_compaction(
        self,
        session_id: str,
        agent_id: str | None = None,
        *,
        is_explicit: bool = False,
        **options: Unpack[GivenOptions],
    ) -> "CompactionCheck":
        """Return whether the session should be compacted before its next call."""
        context = await self._assemble_once(session_id, agent_id, options)
        return context.check_compaction(is_explicit=is_explicit)

    async def compact(
        self,
        session_id: str,
        summarizer: "Compactor | Summarizer | None" = None,
        agent_id: str | None = None,
        *,
        keep: int | None = None,
        **options: Unpack[GivenOptions],
    ) -> "Compaction":
        """Have the older part of a session summarised, and put the summary in its place.

        Never covered are instructions, pinned messages, calls without a result, approvals that nobody
        has given, and the last turn. What is covered stays in the store. The summary is checked, and
        asked for again with what it lacks; then one event is appended. If anything fails, the session
        is as it was. Of several compactions at once one is made.

        Args:
            summarizer: As `auto_compact=`, which is the default; without it no model is asked.
            keep: How many of the newest messages stay as they are; by default as many as fit
                `[compaction] target_share`.

        Raises:
            CompactionError: There is nothing to summarise, or it failed.
        """
        from context_assembler.compaction import compact_now, compactor_of

        compactor = compactor_of(summarizer or self._auto, keep=keep)
        context = await self._assemble_once(session_id, agent_id, options)
        return await compact_now(compactor, context, self._host(context))

    def _host(self, context: AssembledContext) -> "Host":
        from asyncio import Lock, get_running_loop

        from context_assembler.compaction import Host

        name = f"compact {id(get_running_loop())} {context.metadata.session_id}"
        return Host(
            session_id=context.metadata.session_id,
            store=self.store,
            append=self._append,
            refresh=self._head,
            lock=self._running.setdefault(name, Lock()),
            settings=self.config.compaction,
            family=self.core.family(
                self.registry.get(context.metadata.asked_model, unknown="conservative")
            ),
            masks=bool({*self.config.safety.masks_secrets_in} - {"files"}),
            now=self.now(),
        )

    async def explain(
        self, session_id: str, agent_id: str | None = None, **options: Unpack[GivenOptions]
    ) -> "Report":
        """Return the report of the session's next request, as `assemble` would make it."""
        return (await self._assemble_once(session_id, agent_id, options)).report

    async def simulate(
        self,
        session_id: str,
        agent_id: str | None = None,
        *,
        policies: "Iterable[CutPolicy] | None" = None,
        **options: Unpack[GivenOptions],
    ) -> "Simulation":
        """Replay the session: what every call would have sent and cost, under each policy."""
        from asyncio import to_thread

        from context_assembler.forecast import CutPolicy, simulate

        await self._head(session_id)
        gathered = await self._gather(*self._look(session_id, agent_id, options))
        replay = await to_thread(self.core.replay, gathered.candidates[0])
        return await to_thread(simulate, replay, policies or [CutPolicy()])

    def invalidate_cache(self, session_id: str | None = None) -> int:
        """Forget the session's assembled contexts, or all; return how many there were.

        What was kept of events goes as well, and with all of them what was read of files.
        """
        self.core.forget(session_id)
        if session_id is not None:
            self._known.pop(session_id, None)
        else:
            self._known.clear()
            if self.loader is not None:
                self.loader.invalidate()
        return self.cache.invalidate(session_id)

    def cache_stats(self) -> CacheStats:
        """Return how often the assembly cache answered."""
        return self.cache.stats()

    # ---- memory ----

    @cached_property
    def memory(self) -> "memories.MemoryAssembler":
        """What recalls, and keeps records; a `ConfigurationError` if there is none."""
        given, settings = self._given_memory, self.config.memory
        if given is None:
            raise errors.ConfigurationError(
                "No memory is configured.",
                remedy="Pass ContextAssembler(memory='sqlite:memory.db'), or set [memory] store.",
            )
        from context_assembler.memory import RECALL_PRESETS, MemoryAssembler, open_embedder

        if isinstance(given, MemoryAssembler):
            return given
        names = ("strategy", "seconds_per_source", "seconds_in_all", "cache_seconds")
        own = {name: held for name in names if (held := getattr(settings, name)) is not None}
        preset = RECALL_PRESETS.get(settings.preset)
        return MemoryAssembler(
            given,
            preset=settings.preset,
            settings=preset and replace(preset, **own),
            embed=open_embedder(settings.embedder) if settings.embedder else None,
            clock=lambda: self.now().timestamp(),
        )

    async def remember(self, records: Any, *, facts_of: Any = None) -> list[Any]:
        """Keep records, or texts, in memory, as `MemoryAssembler.remember` does."""
        return await self.memory.remember(records, facts_of=facts_of)

    async def recall(
        self,
        query: str = "",
        *,
        context_types: Sequence[str] | str | None = None,
        max_tokens: int | None = None,
        limit: int | None = None,
        filters: "memories.MemoryFilters | None" = None,
        settings: "memories.RecallSettings | None" = None,
        count_text: "CountText | None" = None,
        additional_context: str = "",
        session_id: str | None = None,
        unasked: int = 0,
    ) -> "memories.FormattedContext":
        """Return what fits a query, as `MemoryAssembler.assemble_context`.

        What is not given is as the settings say. What else memory can do is done by `memory` itself,
        which takes no bounds from settings.
        """
        from context_assembler.memory import MemoryFilters

        bounds = self.config.memory
        return await self.memory.assemble_context(
            query,
            max_tokens=bounds.max_tokens if max_tokens is None else max_tokens,
            limit=bounds.limit if limit is None else limit,
            context_types=context_types or bounds.context_types or None,
            filters=filters or MemoryFilters(namespaces=bounds.namespaces),
            settings=settings,
            count_text=count_text,
            additional_context=additional_context,
            session_id=session_id,
            unasked=unasked,
        )

    # ---- the end ----

    async def __aenter__(self) -> Self:
        """Watch the instruction files while entered."""
        if self.loader is not None:
            from context_assembler.watch import FolderWatch

            self._watch = FolderWatch(self.loader.watched_folders, self.loader.invalidate)
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop watching; close the stores that were opened here, and connections to MCP servers."""
        from contextlib import AsyncExitStack

        memory = vars(self).get("memory")
        async with AsyncExitStack() as closing:  # each is closed, whatever becomes of the others
            if self._owns_store:
                closing.push_async_callback(self.sessions.close)
            if memory is not None and memory is not self._given_memory:
                closing.push_async_callback(memory.close)
            if "tools" in vars(self):
                closing.push_async_callback(self.tools.close)
            if self._watch is not None:
                closing.callback(self._watch.close)


def create_context_assembler(**dependencies: Any) -> ContextAssembler:
    """Return a `ContextAssembler`; the arguments are the same."""
    return ContextAssembler(**dependencies)


def _keep(kept: dict[str, _T], key: str, value: _T, *, most: int) -> None:
    """Keep a value; the one that was kept first makes room."""
    if len(kept) >= most:
        kept.pop(next(iter(kept)), None)
    kept[key] = value


def _check_memory(given: object) -> None:
    marks = ("search", "recall_note", "__iter__", "__fspath__")
    if given is not None and not any(hasattr(given, name) for name in marks):
        raise TypeError(
            "memory= takes a store, its URL or path, several of these, or a MemoryAssembler, "
            f"not {type(given).__name__}."
        )


def _rewrites(inputs: Inputs) -> bool:
    """Whether the call begins otherwise than the one before, by its prompt or tools."""
    return any(entry.rule.startswith("rewrite.") for entry in inputs.entries)


def _memory_section(text: str) -> PromptSection:
    return PromptSection(name="memory", content=text, placement="note", origin="memory")


def _ms_since(started: float) -> float:
    return (time.perf_counter() - started) * 1e3


def _run(work: Coroutine[Any, Any, _T]) -> _T:
    """Run to the end, in a thread of its own if this one has a running loop."""
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()
