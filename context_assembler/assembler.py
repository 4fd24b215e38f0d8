"""`ContextAssembler`: the facade. Gathers what a call is made from, assembles, records."""

import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, Unpack

from context_assembler import errors, models
from context_assembler import options as declared
from context_assembler.cache import AssemblyCache, CacheKey, CacheStats
from context_assembler.context import AssembledContext, input_budget, learned_key
from context_assembler.core import Core, Inputs, Opening
from context_assembler.events import (
    COMPACTION,
    KIND_MASK,
    CallRow,
    Content,
    Json,
    Session,
    SessionEvent,
    SessionHead,
    compact_json,
    tool_result_event,
    user_event,
    utc_now,
)
from context_assembler.options import AssemblerConfig, GivenOptions
from context_assembler.ports import ChangeForms, EventSource, PromptSection, RecalledNote, ToolSpec
from context_assembler.providers import PROVIDERS
from context_assembler.report import ReportEntry, file_entries, overlay
from context_assembler.sessions import open_store

if TYPE_CHECKING:
    from context_assembler import prompt
    from context_assembler.compaction import CompactionCheck
    from context_assembler.forecast import CutPolicy, Simulation
    from context_assembler.memory import FormattedContext, MemoryAssembler
    from context_assembler.report import Report
    from context_assembler.tools.changes import SentTools, SettledTools
    from context_assembler.tools.collect import CollectedTools, OfferedTools, ToolCollector

_T = TypeVar("_T")
_LONG_HISTORY: Final = 200  # new events that take longer than other tasks of the loop should wait
_MOST_KEPT: Final = 512
_NOTHING: Final = RecalledNote(text="")
_NO_MEMORY: Final = "query was given, but no memory is configured to recall from."
_CUT_OPTIONS: Final = ("window_turns", "cache_stable", "on_overflow")


class _Question:
    """What a call asks for, and what was gathered for it, as long as nothing of it changes."""

    def __init__(
        self, parts: "ContextAssembler", session: Session, agent_id: str | None, given: Any
    ) -> None:
        self.parts, self.session, self.agent_id = parts, session, agent_id or session.agent_id
        defaults = {**session.metadata.get("defaults", {}), **session.defaults}
        agent = parts.config.agents.get(self.agent_id or "")
        settled = parts.resolver.resolve(given, session=defaults, agent=agent)
        model, policy = settled.options.model, settled.options.unknown_model
        self.limits = parts.registry.get(model, unknown=policy)
        self.parameters, self.settled = declared.validate_for_model(settled, self.limits)
        self.options = options = self.settled.options
        cut = {name: getattr(options, name) for name in _CUT_OPTIONS}
        cut |= {"strategy": options.truncation_strategy}
        self.truncation = declared.TruncationSettings(**{**vars(parts.config.truncation), **cut})
        self.provider = models.protocol_for(self.limits)
        self.family = parts.core.family(self.limits)
        self.budget = input_budget(
            self.limits,
            max_tokens=self.parameters.max_tokens,
            max_context_tokens=options.max_context_tokens,
            reserve_tokens=options.reserve_tokens,
        )
        # What the caller chose for the system prompt: another choice is another prompt.
        chosen = (options.skip_skills, options.skill_filter, options.active_skills)
        self.choice = repr((self.agent_id, *chosen))
        self.head, self.key = SessionHead(session=session, last_seq=-1), CacheKey("")
        self.today: date | None = None
        self.listed: Any = None
        self.shown: Any = None
        self.ground: tuple[Any, ...] = ()
        self.ways: list[Inputs] = []

    def gather(
        self, head: SessionHead, offered: "OfferedTools | None", note: RecalledNote
    ) -> tuple[list[Inputs], CacheKey]:
        """Return the ways to make the call, the best one first, and its key in the cache."""
        parts, store = self.parts, self.parts.store
        self.head, self.today = head, parts.now().date()
        self.files: list[prompt.BootstrapFile] = []
        if parts.loader is not None:
            self.files = parts.loader.load(self.agent_id, count_text=self.family.count_text)
        self.opening = self._opening()
        last: CallRow | None = store.last_call(head.session.id)
        self.last = last if last is not None and last.model == self.limits.id else None
        holds = self.last is not None and self._may_hold(self.last)
        sent = self.last and (self.last.system_hash, self.last.tools_hash, self.last.provider)
        key = None if offered is None else offered.key
        known = (sent, holds, self.files, key, self.shown, self.opening.system, self.today)
        if not self.ground or self.ground[0] != known:
            ways, self.ways = self._settle_tools(offered), []
            if holds:  # tools that are declared anew are a rewrite point: edits can go with them
                first = ways[:-1] or ways
                self.ways = [self._way(True, *way) for way in first if _adds_to_tools(way[0])]
                ways = ways[-1:]
            try:
                self.ways += [self._way(False, *way) for way in ways]
            except errors.TemplateError:  # what was sent before can still be sent
                if not self.ways:
                    raise
        factor = self._factor() if parts.config.calibrates_tokens else 1.0
        if self.ground != (known, factor, note):
            self.ground = (known, factor, note)
            parts.fingerprints += 1
            self.key = CacheKey(head.session.id, "", self.agent_id, str(parts.fingerprints))
        self.key = self.key._replace(version=head.version)
        recalled = (_memory_section(note.text),) if note.text else ()
        made = [
            way._replace(
                head=head,
                factor=factor,
                notes=(*recalled, *way.notes),
                entries=(*way.entries, *note.entries),
                warnings=(*way.warnings, *note.warnings),
            )
            for way in self.ways
        ]
        return made, self.key

    def _factor(self) -> float:
        """Return what reported usage corrects counts by: as the session's last call left it."""
        shape = "tools" if self.ways[0].tools else "text"
        counter = f"{self.family.name} {self.family.key}"
        key = learned_key(self.provider, self.limits.id, shape, counter)
        learned: Json = self.last.details.get("learned", {}) if self.last is not None else {}
        if learned.get("key") != key:
            learned = self.parts.store.learned(key) or {"factor": 1.0}
        factor: float = learned["factor"]
        return factor

    def _opening(self) -> Opening:
        """Return the session's own system prompt; it is settled once the session has a time."""
        openings, head = self.parts.openings, self.head
        incarnation, opening = openings.get(head.session.id, ("", None))
        if opening is None or incarnation != head.incarnation:
            opening = self.parts.core.opening(head, self.limits)
            if opening.began_at is not None:
                _keep(openings, head.session.id, (head.incarnation, opening))
        return opening

    def _may_hold(self, last: CallRow) -> bool:
        """Whether the system prompt of the last call may be sent again, whatever the files say.

        A caller who asks for another agent or other skills gets them.
        """
        freezes = self.parts.config.bootstrap.policy == "freeze" and not self.options.refresh
        if not freezes or last.options != self.choice:
            return False
        mask = self.parts.mask  # what is a secret by now is not sent again
        return mask is None or not mask(self.parts.store.text(last.system_hash) or "")[1]

    def _settle_tools(self, offered: "OfferedTools | None") -> list[tuple[Any, Any]]:
        """Return the ways to send the tools, the best one first, with what was collected."""
        store, rule, before = self.parts.store, self.parts.config.tools, None
        text = ""
        if self.last is not None and self.last.provider == self.provider:
            text = store.text(self.last.tools_hash) or ""
        if offered is None and text in ("", "[]"):
            return [(None, None)]
        from context_assembler.tools.changes import SentTools, settle_tools

        before = self.parts.sent_tools.get(text) or SentTools.read(text)
        offered = offered or self.parts.tools.ask_now(self.options)
        provider, appends = PROVIDERS[self.provider], rule.changes == "append"

        def settle(tools: Sequence[ToolSpec]) -> "tuple[SettledTools, ...]":
            return settle_tools(
                tools,
                before=before,
                provider=self.provider,
                forms=provider.change_forms(self.limits) if appends else ChangeForms(),
                search=provider.tool_search(self.limits),
                defers_above=rule.defers_above,
                choice=self.options.tool_choice,
                last_seq=self.head.last_seq,
                called=lambda: self._tool_names(r'"type":"tool_call".*?"name":"(.*?)"'),
                found=lambda: self._tool_names(r'"tool_name":"(.*?)"'),
            )

        learnt = before.known.values() if before is not None else ()
        collected = offered.merge(learnt, begins_anew=lambda tools: settle(tools)[0].is_anew)
        return [(one, collected) for one in settle(collected.tools)]

    def _tool_names(self, pattern: str) -> set[str]:
        """Return the names of tools that the history calls, or that a search has shown."""
        import re

        bodies = self.parts.store.bodies(self.session.id, [(1, self.head.last_seq)])
        return {name for body in bodies for name in re.findall(pattern, compact_json(body))}

    def _way(
        self, holds: bool, tools: "SettledTools | None", collected: "CollectedTools | None"
    ) -> Inputs:
        """Return what the call is made from, with its system prompt and tools settled."""
        parts, config = self.parts, self.parts.config
        names = collected.tools if collected is not None else ()
        settled = declared.validate_tool_choice(self.settled, names, provider=self.provider)
        way = Inputs(
            head=self.head,
            settled=settled,
            parameters=self.parameters._replace(tool_choice=settled.options.tool_choice),
            limits=self.limits,
            clock=config.clock,
            truncation=self.truncation,
            masks=config.safety.masks_secrets_in,
            on_refusal=config.safety.on_refusal,
            warnings=tuple(models.lifecycle_warnings(self.limits, parts.now().date())),
            account=config.account,
            checks_payloads=config.checks_payloads,
            compaction=config.compaction,
            today=self.today,
            digest=self.choice,
        )
        asked = parts.has_prompt or self.opening.system or self.options.additional_system_prompt
        was_sent = self.last is not None and "prompt" in self.last.details
        if asked or was_sent or self.shown is not None:
            way = self._with_prompt(way, tools, names, holds=holds)
        if tools is not None and collected is not None:
            way = self._with_tools(way, tools, collected)
        return way

    def _with_tools(
        self, way: Inputs, tools: "SettledTools", collected: "CollectedTools"
    ) -> Inputs:
        from context_assembler.tools import changes

        last, text, tokens, was_reported = self.last, tools.sent.text(), 0, False
        if last is not None:
            tokens, was_reported = last.estimated_tokens, bool(last.details.get("withdrawn"))
        note = changes.withdrawn_note(tools, system_text=way.system, was_reported=was_reported)
        rewrite = changes.tools_rewrite_entry(tools, tokens=tokens)
        count_tool = self.family.count_tool
        entries = changes.tool_entries(tools, collected.entries, count_tool=count_tool)
        _keep(self.parts.sent_tools, text, tools.sent)
        is_withdrawn = note is not None and ":" in note.content
        return way._replace(
            tools=tools.plan.declared,
            tool_plan=tools.plan,
            tools_text=text,
            change=tools.change or None,
            notes=(*way.notes, *([note] if note else [])),
            entries=(
                *way.entries,
                *overlay(collected.entries, entries),
                *([rewrite] if rewrite else []),
            ),
            warnings=(*way.warnings, *collected.warnings),
            details={**way.details, "withdrawn": is_withdrawn},
        )

    def _with_prompt(
        self, way: Inputs, tools: "SettledTools | None", names: Sequence[ToolSpec], *, holds: bool
    ) -> Inputs:
        from context_assembler import prompt

        parts, family, last, shown = self.parts, self.family, self.last, self.shown
        built, files = self._build(names, holds=holds)
        loaded = tools.loaded if tools is not None else ()
        choice = way.parameters.tool_choice
        other = family.count_tools_overhead(loaded, has_system=True, choice=choice)
        fixed = other + sum(map(family.count_tool, loaded))

        def fit(asked: "prompt.BuiltPrompt") -> "prompt.BuiltPrompt":
            return prompt.fit_prompt(
                asked,
                count_system=family.count_system,
                count_text=family.count_text,
                budget_tokens=self.budget,
                other_fixed_tokens=fixed,
            )

        sent = fit(built)
        record = prompt.prompt_record(built, sent, files, budget_tokens=self.budget)
        unreported, rewrite, is_held = files, list[ReportEntry](), False
        held, held_files = sent, files
        if last is not None and (text := parts.store.text(last.system_hash)) is not None:
            before = prompt.SentPrompt(text, last.details.get("prompt", {}))
            if holds and not before.has_outgrown(built, sent, self.budget):
                held, held_files = before.hold(built, files, sent)
                is_held = fit(held).sections == held.sections or len(held.text) <= len(sent.text)
            if is_held:
                record, sent, files = last.details["prompt"], held, held_files
            elif differing := before.differences(sent):
                reason = (
                    f"The system prompt is another one than in the last call ({differing}): a new "
                    "epoch begins, and what was sent before is written to the prompt cache again."
                )
                entry = ReportEntry("note", "system", "kept", 0, 0, reason, "rewrite.system")
                rewrite.append(entry)
            unreported = before.unreported(files)
        if shown is not None:
            said = "".join(one.content for one in sent.sections if one.name == "skills")
            shown = prompt.follow_section(
                shown, said, count_text=family.count_text, is_frozen=is_held
            )
        active = [one for one in shown.skills if one.name in shown.active] if shown else []
        missed = parts.builder.find_missed(files, sent.sections, agent_id=self.agent_id)
        return way._replace(
            sections=sent.sections,
            system=sent.text,
            notes=built.notes,
            entries=(
                *file_entries(files, count_text=family.count_text),
                *sent.entries,
                *(shown.entries if shown else ()),
                *rewrite,
            ),
            warnings=(
                *(f"{file.path}: {text}" for file in unreported for text in file.warnings),
                *way.warnings,
                *missed,
                *(shown.warnings if shown else ()),
            ),
            details={"prompt": record},
            active_skills=tuple(one.name for one in active),
            skill_allowed_tools={one.name: one.allowed_tools for one in active},
        )

    def _build(
        self, tools: Sequence[ToolSpec], *, holds: bool
    ) -> tuple["prompt.BuiltPrompt", list["prompt.BootstrapFile"]]:
        """Return the system prompt that files and settings ask for, and the files as rendered."""
        from context_assembler import prompt

        parts, shown, files, day = self.parts, self.shown, self.files, ""
        clock, began = parts.config.clock, self.opening.began_at
        if any(file.is_template for file in files):
            variables = {
                "agent": self.agent_id or "",
                "session": self.session.id,
                "model": self.limits.id,
                "date": str(self.today),
                "skills": [skill.name for skill in shown.skills] if shown else [],
                "tools": [tool.name for tool in tools],
            }
            allowed = parts.builder.sections_of(self.agent_id)
            files = prompt.render_files(files, variables, sections=allowed, lets_faults_wait=holds)
        if began is not None and clock.date_in_system:
            from zoneinfo import ZoneInfo

            began = began.astimezone(ZoneInfo(clock.time_zone))
            day = f"The conversation begins on {began.date()}."
        summarizes = parts.config.prompt.summarizes_tools
        built = parts.builder.build(
            files=files,
            session_system=self.opening.system,
            skills_text=shown.text if shown else "",
            tools_summary=prompt.summarize_tools(tools) if summarizes else "",
            additional=self.options.additional_system_prompt,
            datetime_text=day,
            agent_id=self.agent_id,
            count_text=self.family.count_text,
        )
        return built, files


class ContextAssembler:
    """Builds the request of a session's next model call.

    Assembling calls no model, and writes nothing but columns and derived forms. One assembler serves
    many sessions at once, and many processes may share one store.

    Args:
        sessions: Where sessions are kept: a store, or a URL (`sqlite:agent.db`, `memory:`).
        bootstrap: The folder of AGENT.md, SOUL.md and CONTEXT.md, or a loader.
        tools: Functions, literal specs of any provider, objects with `list_tools()`, lists of them.
        skills: Folders of skills, or providers of them.
        memory: What `assemble(query=…)` recalls from: a store, its URL (`sqlite:memory.db`), several
            of them, a mapping that names each, or a `MemoryAssembler`.
        config: Settings; by default those of the environment and the configuration files.
        prompt_sections: The application's own sections of the system prompt.
        registry: What is known about models.
        clients: SDK clients that `exact=True` asks for the count of a payload, and nothing more.
        now: The clock behind the time stamps of recorded events.
    """

    def __init__(
        self,
        sessions: str | Path | EventSource = "memory:",
        *,
        bootstrap: "str | Path | prompt.BootstrapLoader | None" = None,
        tools: Any = (),
        skills: Any = None,
        memory: Any = None,
        config: AssemblerConfig | None = None,
        prompt_sections: Iterable[PromptSection] = (),
        registry: models.ModelRegistry = models.DEFAULT_REGISTRY,
        clients: Mapping[str, Any] | Iterable[Any] | None = None,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self.config = config = config or AssemblerConfig()
        self.registry, self.now, self._clients = registry, now, clients
        self._remote: Any = None
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
        settings, self._sections = config.prompt, tuple(prompt_sections)
        self.loader = self._open_loader(bootstrap)
        self.has_prompt = bool(
            self.loader
            or self._sections
            or settings.summarizes_tools
            or config.clock.date_in_system
        )
        self._given_tools, self._has_tools, self._skills = tools, False, None
        if tools:
            self._has_tools = bool(self.tools)  # what cannot be a tool is refused at once
        if self.has_prompt:
            assert self.builder
        if skills := config.skill_folders if skills is None else skills:
            from context_assembler import prompt

            limit = config.tools.timeout_seconds
            self._skills = prompt.SkillLister(skills, timeout_seconds=limit, now=now)
        self._given_memory = config.memory.store if memory is None else memory
        self._memory: Any = None
        cut = vars(config.truncation)
        defaults = {"truncation_strategy": cut["strategy"], "unknown_model": config.unknown_model}
        defaults |= {"cache": "auto", **{name: cut[name] for name in _CUT_OPTIONS}}
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
        self._questions: dict[str, _Question] = {}
        self.openings: dict[str, tuple[str, Opening | None]] = {}
        self.sent_tools: dict[str, SentTools] = {}
        self._seen: dict[str, int] = {}
        self.fingerprints = 0
        self._watch: Any = None

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
            max_tokens=settings.max_tokens,
            separator=settings.separator,
        )

    @cached_property
    def tools(self) -> "ToolCollector":
        """What collects tools; it is loaded if there are any."""
        from context_assembler.tools.collect import ToolCollector

        settings = self.config.tools
        self._has_tools = True
        return ToolCollector(
            self._given_tools,
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

    async def assemble(
        self, session_id: str, agent_id: str | None = None, **options: Unpack[GivenOptions]
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
        started = time.perf_counter()
        if self._mirror is not None:
            await self._mirror.refresh(session_id)
        head, asked = self._ask(session_id, agent_id, options)
        if known := self._unchanged(head, asked):
            return known.timed(assembly_ms=_ms_since(started), cache_hit=True)
        ways, key = await self._gather(head, asked)
        if asked.options.exact:
            return await self._assemble_exactly(ways, started)
        if head.last_seq - self._seen.get(session_id, 0) < _LONG_HISTORY:
            return self._assemble(ways, key, started)
        from asyncio import to_thread

        return await to_thread(self._assemble, ways, key, started)

    async def _gather(self, head: SessionHead, asked: _Question) -> tuple[list[Inputs], CacheKey]:
        listed = self._list_now(asked) if self._is_sync(asked) else await self._list(asked)
        with self._lock:
            return asked.gather(head, *listed)

    def assemble_sync(
        self, session_id: str, agent_id: str | None = None, **options: Unpack[GivenOptions]
    ) -> AssembledContext:
        """Return what `assemble` returns; a loop starts only if something has to be awaited."""
        started = time.perf_counter()
        if self._mirror is None:
            head, asked = self._ask(session_id, agent_id, options)
            if known := self._unchanged(head, asked):
                return known.timed(assembly_ms=_ms_since(started), cache_hit=True)
            if self._is_sync(asked) and not asked.options.exact:
                listed = self._list_now(asked)
                with self._lock:
                    ways, key = asked.gather(head, *listed)
                return self._assemble(ways, key, started)
        return _run(self.assemble(session_id, agent_id, **options))

    def _ask(
        self, session_id: str, agent_id: str | None, options: Mapping[str, Any]
    ) -> tuple[SessionHead, _Question]:
        """Return how far the session is, and what the options mean."""
        head = self.store.look(session_id)
        if head is None:
            self.store.calls(session_id)
            raise AssertionError("asking has raised, with the nearest names")
        is_plain = all(map(_is_plain, options.values()))
        key = repr((session_id, agent_id, options)) if is_plain else ""
        known = self._questions.get(key)
        if known is not None and known.session == head.session:
            given = known.options
            if self.registry.get(given.model, unknown=given.unknown_model) is known.limits:
                return head, known
        asked = _Question(self, head.session, agent_id, options)
        if is_plain:
            _keep(self._questions, key, asked)
        return head, asked

    def _unchanged(self, head: SessionHead, asked: _Question) -> AssembledContext | None:
        """Return the context that was made before, if nothing that it depends on can have changed."""
        options, is_same = asked.options, (head, self.now().date()) == (asked.head, asked.today)
        has_constant_tools = not self._has_tools or self.tools.is_constant
        is_constant = self.loader is None and self._skills is None and has_constant_tools
        if is_same and is_constant and not (options.query or options.additional_tools):
            return None if options.use_cache is False else self.cache.get(asked.key)
        return None

    def _assemble(self, ways: Sequence[Inputs], key: CacheKey, started: float) -> AssembledContext:
        context = None if ways[0].settled.options.use_cache is False else self.cache.get(key)
        is_hit = context is not None
        if context is None:
            context = self._first_that_goes_on(ways)
            self.cache.set(key, context)
            _keep(self._seen, key.session_id, context.metadata.last_seq)
        return context.timed(assembly_ms=_ms_since(started), cache_hit=is_hit)

    def _first_that_goes_on(self, ways: Sequence[Inputs]) -> AssembledContext:
        """Return the context of the first way that adds to what the last call sent, or of the last."""
        first, store = ways[0], self.store
        last = store.last_call(first.head.session.id) if len(ways) > 1 else None
        if last is not None:
            family, after_seq = self.core.family(first.limits), last.answers_seq
            columns = store.columns(first.head.session.id, family, after_seq=after_seq)
            is_compacted = any(kind & KIND_MASK == COMPACTION for kind in columns.kinds)
            system = store.text(last.system_hash)
            for way in () if is_compacted else ways[:-1]:
                if way.system == system:
                    with suppress(errors.ContextOverflowError):
                        context = self.core.assemble(way)
                        if context.metadata.cut_id == last.cut:
                            return context
        return self.core.assemble(ways[-1])

    async def _assemble_exactly(self, ways: list[Inputs], started: float) -> AssembledContext:
        """Return a context that fits by the provider's own count of its payload."""
        from context_assembler.tokens.remote import MAX_ROUNDS, RemoteCounter, correction

        if self._clients is None:
            raise errors.ConfigurationError(
                "Counting exactly needs a client of the provider's SDK.",
                remedy="Pass clients=[anthropic.Anthropic()] or the like, or leave out exact=True.",
            )
        remote = self._remote = self._remote or RemoteCounter(self._clients)
        context, counted, warning = self._first_that_goes_on(ways), None, ""
        for number in range(MAX_ROUNDS):
            if number:
                context, counted = self._first_that_goes_on(ways), None
            ledger = context.metadata.ledger
            budget, used = ledger.budget_tokens, ledger.used_tokens
            try:
                payload = context.to_request(remote.protocol_for(context.provider))
                counted = await remote.count(payload, provider=context.provider)
            except errors.RemoteCountError as error:
                warning = str(error)
                break
            share, warning = correction(counted, used_tokens=used, budget_tokens=budget), ""
            if share is None:
                break
            warning = (
                f"By the provider's own count the payload has {counted:,} tokens, more than its "
                f"budget of {budget:,}: lower max_context_tokens, or reserve more for the reply."
            )
            ways = [_with_budget(way, int(budget / share)) for way in ways]
        context = context.timed(assembly_ms=_ms_since(started), cache_hit=False)
        return context.counted(counted, warning=warning)

    # ---- what is listed ----

    def _is_sync(self, asked: _Question) -> bool:
        is_listed = self._skills is None or self._skills.is_sync
        is_listed = is_listed and (not self._has_tools or self.tools.is_sync)
        return is_listed and not (asked.options.additional_tools or asked.options.query)

    def _list_now(self, asked: _Question) -> tuple["OfferedTools | None", RecalledNote]:
        listed = self._skills.list_now() if self._skills is not None else None
        skills = self._show(asked, listed)
        if not self._has_tools and not skills and not asked.options.disabled_tools:
            return None, _NOTHING
        return self.tools.ask_now(asked.options, skills=skills), _NOTHING

    async def _list(self, asked: _Question) -> tuple["OfferedTools | None", RecalledNote]:
        from asyncio import gather

        async def offer() -> "OfferedTools | None":
            listed = await self._skills.list() if self._skills is not None else None
            skills, extra = self._show(asked, listed), asked.options.additional_tools or ()
            if not self._has_tools and not (skills or extra or asked.options.disabled_tools):
                return None
            return await self.tools.ask(asked.options, additional=extra, skills=skills)

        offered, note = await gather(offer(), self._recall_note(asked))
        return offered, note

    def _show(self, asked: _Question, listed: Any) -> Sequence[Any]:
        """Keep what the prompt has of skills; return the sources of the active ones' tools."""
        if listed is None:
            return ()
        from context_assembler import prompt
        from context_assembler.tools.sources import open_skill_tools

        options, settings = asked.options, self.config.prompt
        if asked.listed != listed:
            reason = "skip_skills is set" if options.skip_skills else None
            if not settings.has_section("skills", agent_id=asked.agent_id):
                reason = f"the agent {asked.agent_id!r} does not inherit them"
            shown = prompt.show_skills(
                listed,
                count_text=asked.family.count_text,
                max_tokens=settings.skills_tokens,
                skip_reason=reason,
                patterns=options.skill_filter,
                active=options.active_skills or (),
                activates_named=asked.settled.layers.get("skill_filter") == "request",
                mask=self.mask,
            )
            asked.listed, asked.shown = listed, shown
        return open_skill_tools(asked.shown.with_tools)

    async def _recall_note(self, asked: _Question) -> RecalledNote:
        options, settings = asked.options, self.config.memory
        if not options.query or not options.query.strip():
            return _NOTHING
        if self._given_memory is None:
            return RecalledNote(text="", warnings=(_NO_MEMORY,))
        given = options.recall_namespaces
        return await self.memory.recall_note(
            options.query,
            session_id=asked.session.id,
            max_tokens=min(options.recall_tokens or 0, asked.budget // 4),
            namespaces=(settings.namespaces or None) if given is None else given,
            count_text=asked.family.count_text,
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
            InvalidParameterError: The context belongs to another session.
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
        content: Content,
        *,
        agent_id: str | None = None,
        is_pinned: bool = False,
    ) -> SessionEvent:
        """Store what the user said; a session that does not exist begins with it.

        Args:
            agent_id: Whose session begins with it; one that exists keeps its agent.
            is_pinned: Whether no cut may drop the message, and no cap shorten it.
        """
        event = user_event(content, created_at=self.now(), is_pinned=is_pinned)
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

        A result may come before its call; until then it is kept and not sent, with a report entry.

        Raises:
            ContentError: JSON cannot express the value.
            UnknownSessionError: There is no such session.
        """
        event = tool_result_event(
            call_id, content, is_error=is_error, tool_name=tool_name, created_at=self.now()
        )
        await self._head(session_id)
        [stored] = await self._append(session_id, [event])
        return stored

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
        return stored

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
        context = await self.assemble(session_id, agent_id, **options)
        check: CompactionCheck = context.check_compaction(is_explicit=is_explicit)
        return check

    async def explain(
        self, session_id: str, agent_id: str | None = None, **options: Unpack[GivenOptions]
    ) -> "Report":
        """Return the report of the session's next request, as `assemble` would make it."""
        return (await self.assemble(session_id, agent_id, **options)).report

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

        head = await self._head(session_id)
        ways, _ = await self._gather(*self._ask(session_id, agent_id, options))
        replay = await to_thread(self.core.replay, ways[0]._replace(head=head))
        return await to_thread(simulate, replay, policies or [CutPolicy()])

    def invalidate_cache(self, session_id: str | None = None) -> int:
        """Forget the session's assembled contexts, or all; return how many there were.

        What was kept of events goes as well, and with all of them what was read of files.
        """
        self.core.forget(session_id)
        if session_id is None and self.loader is not None:
            self.loader.invalidate()
        return self.cache.invalidate(session_id)

    def cache_stats(self) -> CacheStats:
        """Return how often the assembly cache answered."""
        return self.cache.stats()

    # ---- memory ----

    @property
    def memory(self) -> "MemoryAssembler":
        """What recalls; a `ConfigurationError` if there is none."""
        if self._memory is None:
            if self._given_memory is None:
                raise errors.ConfigurationError(
                    "No memory is configured.",
                    remedy="Pass ContextAssembler(memory='sqlite:memory.db'), or set [memory] store.",
                )
            from context_assembler.memory import RECALL_PRESETS, MemoryAssembler, open_embedder

            self._memory, settings = self._given_memory, self.config.memory
            if not isinstance(self._memory, MemoryAssembler):
                names = ("strategy", "near_duplicate", "seconds_per_source", "seconds_in_all")
                own = {name: held for name in names if (held := getattr(settings, name))}
                if settings.preset not in RECALL_PRESETS:
                    raise errors.UnknownOptionError(
                        settings.preset, kind="preset", known=RECALL_PRESETS
                    )
                self._memory = MemoryAssembler(
                    self._given_memory,
                    settings=replace(RECALL_PRESETS[settings.preset], **own),
                    embed=open_embedder(settings.embedder) if settings.embedder else None,
                    merges_alike=settings.merges_alike,
                    clock=lambda: self.now().timestamp(),
                )
        return self._memory

    async def recall(self, query: str = "", **options: Any) -> "FormattedContext":
        """Return what fits a query, as `MemoryAssembler.assemble_context`, within the settings."""
        return await self.memory.assemble_context(query, **self._bounded(options))

    async def get_premortem_context(
        self, domain: str, strategy: str | None = None, **options: Any
    ) -> Any:
        """Return what earlier attempts teach, as `MemoryAssembler.get_premortem_context` does."""
        given = self._bounded(options, "max_tokens", "filters")
        return await self.memory.get_premortem_context(domain, strategy, **given)

    async def assemble_stack(self, stack: Any, **options: Any) -> "FormattedContext":
        """Return where the agent stands, as `MemoryAssembler.assemble_stack` does."""
        return await self.memory.assemble_stack(stack, **self._bounded(options))

    def update_context(self, context: Any, event: Any, **options: Any) -> "FormattedContext":
        """Return a recalled context with what just happened, as `MemoryAssembler.update_context`."""
        given = self._bounded(options, "limit", "max_tokens")
        return self.memory.update_context(context, event, **given)

    async def compress(self, context: Any, **options: Any) -> "FormattedContext":
        """Return a recalled context made smaller, as `MemoryAssembler.compress` does."""
        return await self.memory.compress(context, **options)

    async def remember(self, records: Any) -> list[Any]:
        """Keep records, or texts, in memory, as `MemoryAssembler.remember` does."""
        return await self.memory.remember(records)

    async def forget(self, memory_ids: str | Iterable[str]) -> list[str]:
        """Remove records from memory, as `MemoryAssembler.forget` does."""
        return await self.memory.forget(memory_ids)

    def _bounded(self, options: Mapping[str, Any], *names: str) -> dict[str, Any]:
        """Return options with those of the settings that the call leaves open."""
        from context_assembler.memory import MemoryFilters

        settings = self.config.memory
        bounds = {
            "max_tokens": settings.max_tokens,
            "limit": settings.limit,
            "context_types": settings.context_types or None,
            "filters": MemoryFilters(namespaces=settings.namespaces),
        }
        return {name: bounds[name] for name in names or bounds} | dict(options)

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

        async with AsyncExitStack() as closing:  # each is closed, whatever becomes of the others
            if self._owns_store:
                closing.push_async_callback(self.sessions.close)
            if self._memory is not None and self._memory is not self._given_memory:
                closing.push_async_callback(self._memory.close)
            if self._has_tools:
                closing.push_async_callback(self.tools.close)
            if self._watch is not None:
                closing.callback(self._watch.close)


def create_context_assembler(**dependencies: Any) -> ContextAssembler:
    """Return a `ContextAssembler`; the arguments are the same."""
    return ContextAssembler(**dependencies)


def _keep(kept: dict[str, _T], key: str, value: _T) -> None:
    if len(kept) > _MOST_KEPT:
        kept.clear()
    kept[key] = value


def _adds_to_tools(tools: "SettledTools | None") -> bool:
    """Whether the tools that stand before the history are those of the last call."""
    if tools is None or not tools.is_anew:
        return True
    return tools.before is not None and tools.before.declared == tools.plan.declared


def _memory_section(text: str) -> PromptSection:
    return PromptSection(name="memory", content=text, placement="note", origin="memory")


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


def _ms_since(started: float) -> float:
    return (time.perf_counter() - started) * 1e3


def _with_budget(way: Inputs, budget: int) -> Inputs:
    """Return the same call with less room."""
    options = way.settled.options
    most = budget + (options.reserve_tokens or 0)
    options = options.without("max_context_tokens", max_context_tokens=most)
    return way._replace(settled=way.settled._replace(options=options))


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
