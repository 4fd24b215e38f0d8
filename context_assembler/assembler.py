"""`ContextAssembler`: the facade. Gathers what a call is made from, assembles, records."""

import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, Unpack

from context_assembler import prompt
from context_assembler import tools as tooling
from context_assembler.cache import AssemblyCache, CacheKey, CacheStats
from context_assembler.context import AssembledContext, input_budget
from context_assembler.core import Core, Inputs, Opening
from context_assembler.errors import (
    ConfigurationError,
    ContextOverflowError,
    MissingModelError,
    UnknownModelError,
    UnknownSessionError,
    is_misspelt,
    nearest,
)
from context_assembler.events import (
    COMPACTION,
    KIND_MASK,
    CallRow,
    Content,
    Json,
    Session,
    SessionEvent,
    SessionHead,
    tool_result_event,
    user_event,
    utc_now,
)
from context_assembler.models import (
    DEFAULT_REGISTRY,
    ModelRegistry,
    lifecycle_warnings,
    protocol_for,
)
from context_assembler.options import (
    LAYERS,
    AssemblerConfig,
    BootstrapSettings,
    DefaultsResolver,
    GivenOptions,
    TruncationSettings,
    validate_for_model,
    validate_tool_choice,
)
from context_assembler.ports import ChangeForms, EventSource, PromptSection, RecalledNote, ToolSpec
from context_assembler.prompt.sections import REWRITTEN
from context_assembler.providers import PROVIDERS
from context_assembler.record import factor_for, learned_key, read_answer, store_answer
from context_assembler.report import ReportEntry, file_entries, overlay
from context_assembler.sessions import open_store
from context_assembler.tools import changes

if TYPE_CHECKING:
    from context_assembler.compaction import CompactionCheck
    from context_assembler.memory import FormattedContext, MemoryAssembler
    from context_assembler.report import Report

_T = TypeVar("_T")
_LONG_HISTORY: Final = 200  # new events that take longer than other tasks of the loop should wait
_MOST_QUESTIONS: Final = 512
_NOTHING: Final = RecalledNote(text="")
_CUT_OPTIONS: Final = ("window_turns", "cache_stable", "on_overflow")
_NO_MEMORY: Final = "query was given, but no memory is configured to recall from."


class _Question:
    """What a call asks for, and what was gathered for it, as long as nothing of it changes.

    `choice` is what the caller chose for the system prompt, `extra` the call's own tools.
    """

    def __init__(
        self,
        session: Session,
        agent_id: str | None,
        options: Mapping[str, Any],
        *,
        config: AssemblerConfig,
        resolver: DefaultsResolver,
        registry: ModelRegistry,
    ) -> None:
        self.session, self.agent_id = session, agent_id or session.agent_id
        defaults = {**session.metadata.get("defaults", {}), **session.defaults}
        agent = config.agents.get(self.agent_id or "")
        try:
            settled = resolver.resolve(options, session=defaults, agent=agent)
        except MissingModelError:
            with suppress(UnknownModelError):  # a model that was given as the agent
                registry.get(self.agent_id or "")
                raise MissingModelError(layers=LAYERS, agent_id=self.agent_id) from None
            raise
        given = settled.options
        self.limits = registry.get(given.model, unknown=given.unknown_model)
        self.parameters, self.settled = validate_for_model(settled, self.limits)
        self.options = given = self.settled.options
        cut = {"strategy": given.truncation_strategy}
        cut |= {name: getattr(given, name) for name in _CUT_OPTIONS}
        self.truncation = TruncationSettings(**{**vars(config.truncation), **cut})
        self.provider = protocol_for(self.limits)
        chosen = (self.agent_id, given.skip_skills, given.skill_filter, given.active_skills)
        self.choice, self.extra = repr(chosen), given.additional_tools or ()
        self.listed: Any = None
        self.shown: Any = None
        self.ground: tuple[Any, ...] = ()
        self.ways: list[Inputs] = []
        self.made_from: tuple[Any, ...] = ()
        self.fingerprint = 0


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
        registry: ModelRegistry = DEFAULT_REGISTRY,
        clients: Mapping[str, Any] | Iterable[Any] | None = None,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self.config = config = config or AssemblerConfig()
        self.sessions = open_store(sessions)
        self._owns_store = isinstance(sessions, str | Path)
        self._mirror: Any = None
        if not hasattr(self.sessions, "append_now"):
            from context_assembler.sessions.mirror import Mirror

            self._mirror = Mirror(self.sessions)
        self._store = self._mirror.memory if self._mirror else self.sessions
        self._registry, self._now, self._clients = registry, now, clients
        self._mask: Any = None
        if "files" in config.safety.masks_secrets_in:
            from context_assembler.history.secrets import mask

            self._mask = mask
        self._loader = self._open_loader(bootstrap)
        sections = tuple(prompt_sections)
        self._builder = prompt.SystemPromptBuilder(
            priorities=config.prompt.priorities,
            required=config.bootstrap.required,
            sections=sections,
            inherits=config.prompt.inherits,
            max_tokens=config.prompt.max_tokens,
            separator=config.prompt.separator,
        )
        self._tools = tooling.ToolCollector(
            tools,
            include=config.tools.include,
            exclude=config.tools.exclude,
            on_conflict=config.on_tool_conflict,
            timeout_seconds=config.tools.timeout_seconds,
            now=now,
        )
        self._skills: Any = None
        if skills := config.skill_folders if skills is None else skills:
            limit = config.tools.timeout_seconds
            self._skills = prompt.SkillLister(skills, timeout_seconds=limit, now=now)
        self._given_memory = config.memory.store if memory is None else memory
        self._memory: Any = None
        if self._given_memory is not None and any(one.name == "memory" for one in sections):
            raise ConfigurationError(
                "The name 'memory' belongs to the note of what is recalled.",
                remedy="Give the section of the prompt another name.",
            )
        cut = vars(config.truncation)
        defaults = {"truncation_strategy": cut["strategy"], "cache": "auto"}
        defaults |= {name: cut[name] for name in _CUT_OPTIONS}
        defaults |= {"unknown_model": config.unknown_model}
        if self._given_memory is not None:
            defaults["recall_tokens"] = config.memory.max_tokens
        self._resolver = DefaultsResolver({**defaults, **config.defaults.given})
        self._core = Core(
            self._store,
            resolve_model=lambda model: registry.get(model).id,
            counter=config.token_counter,
            max_sessions=config.cache.max_sessions,
        )
        self._cache: AssemblyCache[AssembledContext] = AssemblyCache(
            max_entries=config.cache.max_entries, ttl_seconds=config.cache.ttl_seconds
        )
        self._questions: dict[str, _Question] = {}
        self._openings: dict[str, tuple[str, Opening]] = {}
        self._seen: dict[str, int] = {}
        self._fingerprints = 0
        self._watch: Any = None

    def _open_loader(self, given: Any) -> "prompt.BootstrapLoader | None":
        settings = self.config.bootstrap
        is_unset = settings.folder is BootstrapSettings.folder  # any other is a path of its own
        if (given is None and is_unset) or isinstance(given, prompt.BootstrapLoader):
            return given
        return prompt.BootstrapLoader(
            self.config.bootstrap_folder if given is None else given,
            agent_names=settings.agent_names,
            searches_upward=settings.searches_upward,
            max_file_tokens=settings.max_file_tokens,
            max_total_tokens=settings.max_total_tokens,
            ttl_seconds=settings.ttl_seconds,
            mask=self._mask,
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
        gathered = self._list_now(asked) if self._is_sync(asked) else await self._list(asked)
        ways, key = self._gather(head, asked, *gathered)
        if asked.options.exact:
            return await self._assemble_exactly(ways, started)
        if head.last_seq - self._seen.get(session_id, 0) < _LONG_HISTORY:
            return self._assemble(ways, key, started)
        from asyncio import to_thread

        return await to_thread(self._assemble, ways, key, started)

    def assemble_sync(
        self, session_id: str, agent_id: str | None = None, **options: Unpack[GivenOptions]
    ) -> AssembledContext:
        """Return what `assemble` returns; a loop starts only if something has to be awaited."""
        started = time.perf_counter()
        if self._mirror is None:
            head, asked = self._ask(session_id, agent_id, options)
            if self._is_sync(asked) and not asked.options.exact:
                ways, key = self._gather(head, asked, *self._list_now(asked))
                return self._assemble(ways, key, started)
        return _run(self.assemble(session_id, agent_id, **options))

    def _ask(
        self, session_id: str, agent_id: str | None, options: Mapping[str, Any]
    ) -> tuple[SessionHead, _Question]:
        """Return how far the session is, and what the options mean."""
        head = self._store.look(session_id)
        if head is None:
            self._store.calls(session_id)  # raises, with the nearest names
            raise AssertionError
        is_plain = all(isinstance(one, bool | int | float | str | None) for one in options.values())
        key = repr((session_id, agent_id, options)) if is_plain else ""
        known = self._questions.get(key)
        if known is not None and known.session == head.session:
            given = known.options
            if self._registry.get(given.model, unknown=given.unknown_model) is known.limits:
                return head, known
        asked = _Question(
            head.session,
            agent_id,
            options,
            config=self.config,
            resolver=self._resolver,
            registry=self._registry,
        )
        if is_plain:
            if len(self._questions) > _MOST_QUESTIONS:
                self._questions.clear()
            self._questions[key] = asked
        return head, asked

    def _assemble(self, ways: Sequence[Inputs], key: CacheKey, started: float) -> AssembledContext:
        """Return the context of the best way that goes on from the last call, or of the last way."""
        context = self._cache.get(key) if ways[0].settled.options.use_cache is not False else None
        is_hit = context is not None
        if context is None:
            context = self._first_that_goes_on(ways)
            self._cache.set(key, context)
            if len(self._seen) > _MOST_QUESTIONS:
                self._seen.clear()
            self._seen[key.session_id] = context.metadata.last_seq
        elapsed_ms = (time.perf_counter() - started) * 1e3
        return context.timed(assembly_ms=elapsed_ms, cache_hit=is_hit)

    def _first_that_goes_on(self, ways: Sequence[Inputs]) -> AssembledContext:
        for way in ways[:-1]:
            last = self._store.last_call(way.head.session.id)
            with suppress(ContextOverflowError):
                context = self._core.assemble(way)
                if last is not None and context.metadata.cut_id == last.cut:
                    return context
        return self._core.assemble(ways[-1])

    async def _assemble_exactly(self, ways: list[Inputs], started: float) -> AssembledContext:
        """Return a context that fits by the provider's own count of its payload."""
        from context_assembler.errors import RemoteCountError
        from context_assembler.tokens.remote import MAX_ROUNDS, RemoteCounter, correction

        if self._clients is None:
            raise ConfigurationError(
                "Counting exactly needs a client of the provider's SDK.",
                remedy="Pass clients=[anthropic.Anthropic()] or the like, or leave out exact=True.",
            )
        if not isinstance(self._clients, RemoteCounter):
            self._clients = RemoteCounter(self._clients)
        factor, counted, warning = 1.0, None, ""
        for rounds in range(1, MAX_ROUNDS + 1):
            context = self._first_that_goes_on(ways)
            ledger = context.metadata.ledger
            try:
                payload = context.to_request(self._clients.protocol_for(context.provider))
                counted = await self._clients.count(payload, provider=context.provider)
            except RemoteCountError as error:
                warning = str(error)
                break
            budget = ledger.budget_tokens
            wanted = correction(counted, used_tokens=ledger.used_tokens, budget_tokens=budget)
            if wanted is None:
                break
            warning = (
                f"By the provider's own count the payload has {counted:,} tokens, more than its "
                f"budget of {budget:,}: lower max_context_tokens, or reserve more for the reply."
            )
            factor *= wanted
            ways = [_with_budget(way, budget / wanted) for way in ways]
        return context.counted(counted, warning).timed(
            assembly_ms=(time.perf_counter() - started) * 1e3, cache_hit=False
        )

    # ---- gathering ----

    def _is_sync(self, asked: _Question) -> bool:
        skills_are = self._skills is None or self._skills.is_sync
        return self._tools.is_sync and skills_are and not (asked.extra or asked.options.query)

    def _list_now(self, asked: _Question) -> tuple["tooling.OfferedTools", RecalledNote]:
        listed = self._skills.list_now() if self._skills is not None else None
        return self._tools.ask_now(asked.options, skills=self._show(asked, listed)), _NOTHING

    async def _list(self, asked: _Question) -> tuple["tooling.OfferedTools", RecalledNote]:
        from asyncio import gather

        async def offer() -> "tooling.OfferedTools":
            listed = await self._skills.list() if self._skills is not None else None
            skills = self._show(asked, listed)
            return await self._tools.ask(asked.options, additional=asked.extra, skills=skills)

        offered, note = await gather(offer(), self._recall_note(asked))
        return offered, note

    def _show(self, asked: _Question, listed: Any) -> Sequence[Any]:
        """Keep what the prompt has of skills; return the sources of the active ones' tools."""
        if listed is None:
            return ()
        options, agent_id = asked.options, asked.agent_id
        if asked.listed != listed:
            reason = "skip_skills is set" if options.skip_skills else None
            if not self.config.prompt.has_section("skills", agent_id=agent_id):
                reason = f"the agent {agent_id!r} does not inherit them"
            asked.listed = listed
            asked.shown = prompt.show_skills(
                listed,
                count_text=self._core.family(asked.limits).count_text,
                max_tokens=self.config.prompt.skills_tokens,
                skip_reason=reason,
                patterns=options.skill_filter,
                active=options.active_skills or (),
                activates_named=asked.settled.layers.get("skill_filter") == "request",
                mask=self._mask,
            )
        return tooling.open_skill_tools(asked.shown.with_tools)

    async def _recall_note(self, asked: _Question) -> RecalledNote:
        options, settings = asked.options, self.config.memory
        if not options.query or not options.query.strip():
            return _NOTHING
        if self._given_memory is None:
            return RecalledNote(text="", warnings=(_NO_MEMORY,))
        given = options.recall_namespaces
        note: RecalledNote = await self.memory.recall_note(
            options.query,
            session_id=asked.session.id,
            max_tokens=min(options.recall_tokens or 0, self._budget(asked) // 4),
            namespaces=(settings.namespaces or None) if given is None else given,
            count_text=self._core.family(asked.limits).count_text,
            limit=settings.limit,
            context_types=settings.context_types or None,
        )
        return note

    def _budget(self, asked: _Question) -> int:
        return input_budget(
            asked.limits,
            max_tokens=asked.parameters.max_tokens,
            max_context_tokens=asked.options.max_context_tokens,
            reserve_tokens=asked.options.reserve_tokens,
        )

    def _gather(
        self,
        head: SessionHead,
        asked: _Question,
        offered: "tooling.OfferedTools",
        note: RecalledNote,
    ) -> tuple[list[Inputs], CacheKey]:
        """Return what the call is made from, the best way first, and its key in the cache."""
        session_id, family = head.session.id, self._core.family(asked.limits)
        files: list[prompt.BootstrapFile] = []
        if self._loader is not None:
            files = self._loader.load(asked.agent_id, count_text=family.count_text)
        last = self._store.last_call(session_id)
        if last is not None and last.model != asked.limits.id:
            last = None
        opening, today = self._opening(head, asked), self._now().date()
        holds = last is not None and self._may_hold(head, asked, last)
        sent = last and (last.system_hash, last.tools_hash, last.provider)
        ground = (sent, holds, files, offered.key, asked.shown, opening.system, today)
        if asked.ground != ground:
            before = None
            if last is not None and last.provider == asked.provider:
                before = changes.SentTools.read(self._store.text(last.tools_hash) or "")
            ways = self._settle(head, asked, offered, before)
            asked.ways = [
                self._way(head, asked, files, opening, last, tools, collected, holds=hold)
                for hold in ((True, False) if holds else (False,))
                for tools, collected in ways
            ]
            asked.ground = ground
        factor, shape = 1.0, "tools" if asked.ways[0].tools else "text"
        if self.config.calibrates_tokens:
            counter = f"{family.name} {family.key}"
            learned = learned_key(asked.provider, asked.limits.id, shape, counter)
            factor = factor_for(self._store, learned)
        if asked.made_from != (ground, factor, note):
            asked.made_from = (ground, factor, note)
            self._fingerprints = asked.fingerprint = self._fingerprints + 1
        recalled = [_memory_section(note.text)] if note.text else []
        ways = [
            way._replace(
                head=head,
                factor=factor,
                notes=(*recalled, *way.notes),
                entries=(*way.entries, *note.entries),
                warnings=(*way.warnings, *note.warnings),
            )
            for way in asked.ways
        ]
        return ways, CacheKey(session_id, head.version, asked.agent_id, str(asked.fingerprint))

    def _opening(self, head: SessionHead, asked: _Question) -> Opening:
        """Return the session's own system prompt; it is settled once the session has a time."""
        known = self._openings.get(head.session.id)
        if known is not None and known[0] == head.incarnation:
            return known[1]
        opening = self._core.opening(head, asked.limits)
        if opening.began_at is not None:
            if len(self._openings) > _MOST_QUESTIONS:
                self._openings.clear()
            self._openings[head.session.id] = head.incarnation, opening
        return opening

    def _may_hold(self, head: SessionHead, asked: _Question, last: CallRow) -> bool:
        """Whether the system prompt of the last call may be sent again, whatever the files say.

        A compaction since is a rewrite point. A caller who asks for another agent or other skills
        gets them.
        """
        if self.config.bootstrap.policy != "freeze" or asked.options.refresh:
            return False
        if last.options != asked.choice:
            return False
        family = self._core.family(asked.limits)
        columns = self._store.columns(head.session.id, family, after_seq=last.answers_seq)
        return all(kind & KIND_MASK != COMPACTION for kind in columns.kinds)

    def _settle(
        self,
        head: SessionHead,
        asked: _Question,
        offered: "tooling.OfferedTools",
        before: "changes.SentTools | None",
    ) -> list[tuple["changes.SettledTools", "tooling.CollectedTools"]]:
        """Return the ways to send the tools, the best one first."""
        provider, settings = PROVIDERS[asked.provider], self.config.tools
        forms = ChangeForms()
        if settings.changes == "append":
            forms = provider.change_forms(asked.limits)

        def settle(tools: Sequence[ToolSpec]) -> "tuple[changes.SettledTools, ...]":
            return changes.settle_tools(
                tools,
                before=before,
                provider=asked.provider,
                forms=forms,
                search=provider.tool_search(asked.limits),
                defers_above=settings.defers_above,
                choice=asked.options.tool_choice,
                last_seq=head.last_seq,
                called=lambda: _names_in(self._store, head, "name"),
                found=lambda: _names_in(self._store, head, "tool_name"),
            )

        learnt = before.known.values() if before is not None else ()
        collected = offered.merge(learnt, begins_anew=lambda tools: settle(tools)[0].is_anew)
        return [(one, collected) for one in settle(collected.tools)]

    def _way(
        self,
        head: SessionHead,
        asked: _Question,
        files: Sequence["prompt.BootstrapFile"],
        opening: Opening,
        last: CallRow | None,
        tools: "changes.SettledTools",
        collected: "tooling.CollectedTools",
        *,
        holds: bool,
    ) -> Inputs:
        """Return what the call is made from, with its system prompt and tools settled."""
        family, limits, shown = self._core.family(asked.limits), asked.limits, asked.shown
        settled = validate_tool_choice(asked.settled, collected.tools, provider=asked.provider)
        built, files = self._build(head, asked, files, opening, collected.tools, holds=holds)
        budget = self._budget(asked)
        other = family.count_tools_overhead(
            tools.loaded, has_system=True, choice=settled.options.tool_choice
        )
        sent = prompt.fit_prompt(
            built,
            count_system=family.count_system,
            count_text=family.count_text,
            budget_tokens=budget,
            other_fixed_tokens=other + sum(map(family.count_tool, tools.loaded)),
        )
        record = prompt.prompt_record(built, sent, files, budget_tokens=budget)
        before, entries, warnings = None, list[ReportEntry](), list[str]()
        if last is not None and (text := self._store.text(last.system_hash)) is not None:
            before = prompt.SentPrompt(text, last.details.get("prompt", {}))
            if holds and not before.has_outgrown(built, sent, budget):
                record = last.details.get("prompt", {})
                sent, files = before.hold(built, files, sent)
            elif differing := before.differences(sent, files):
                reason = (
                    f"The system prompt is another one than in the last call ({differing}): a new "
                    "epoch begins, and what was sent before is written to the prompt cache again."
                )
                entries.append(ReportEntry("note", "system", "kept", 0, 0, reason, REWRITTEN))
        if shown is not None:
            said = "".join(one.content for one in sent.sections if one.name == "skills")
            shown = prompt.follow_section(shown, said, count_text=family.count_text)
        was_reported = last is not None and bool(last.details.get("withdrawn"))
        note = changes.withdrawn_note(tools, system_text=sent.text, was_reported=was_reported)
        used = last.estimated_tokens if last is not None else 0
        rewrite = changes.tools_rewrite_entry(tools, tokens=used)
        changed = changes.tool_entries(tools, collected.entries, count_tool=family.count_tool)
        told = files if before is None else before.unreported(files)
        warnings += [f"{file.path}: {text}" for file in told for text in file.warnings]
        warnings += self._agent_warnings(asked.agent_id)
        warnings += lifecycle_warnings(limits, self._now().date())
        warnings += self._builder.find_missed(files, sent.sections, agent_id=asked.agent_id)
        active = [one for one in shown.skills if one.name in shown.active] if shown else []
        return Inputs(
            head=head,
            settled=settled,
            parameters=asked.parameters._replace(tool_choice=settled.options.tool_choice),
            limits=limits,
            clock=self.config.clock,
            truncation=asked.truncation,
            masks=self.config.safety.masks_secrets_in,
            sections=sent.sections,
            system=sent.text,
            tools=tools.plan.declared,
            tool_plan=tools.plan,
            tools_text=tools.sent.text(),
            change=tools.change or None,
            notes=(*built.notes, *([note] if note else [])),
            entries=(
                *file_entries(files, count_text=family.count_text),
                *sent.entries,
                *(shown.entries if shown else ()),
                *overlay(collected.entries, changed),
                *entries,
                *([rewrite] if rewrite else []),
            ),
            warnings=(*warnings, *(shown.warnings if shown else ()), *collected.warnings),
            account=self.config.account,
            checks_payloads=self.config.checks_payloads,
            today=self._now().date(),
            digest=asked.choice,
            details={"prompt": record, "withdrawn": note is not None and ":" in note.content},
            check=None,
            active_skills=tuple(one.name for one in active),
            skill_allowed_tools={one.name: one.allowed_tools for one in active},
        )

    def _build(
        self,
        head: SessionHead,
        asked: _Question,
        files: Sequence["prompt.BootstrapFile"],
        opening: Opening,
        tools: Sequence[ToolSpec],
        *,
        holds: bool,
    ) -> tuple["prompt.BuiltPrompt", list["prompt.BootstrapFile"]]:
        """Return the system prompt that files and settings ask for, and the files as rendered."""
        shown, clock, day = asked.shown, self.config.clock, ""
        rendered = list(files)
        if any(file.is_template for file in files):
            variables = {
                "agent": asked.agent_id or "",
                "session": head.session.id,
                "model": asked.limits.id,
                "date": self._now().date().isoformat(),
                "skills": [skill.name for skill in shown.skills] if shown else [],
                "tools": [tool.name for tool in tools],
            }
            allowed = self._builder.sections_of(asked.agent_id)
            rendered = prompt.render_files(
                files, variables, sections=allowed, lets_faults_wait=holds
            )
        if opening.began_at is not None and clock.date_in_system:
            from zoneinfo import ZoneInfo

            began = opening.began_at.astimezone(ZoneInfo(clock.time_zone)).date()
            day = f"The conversation begins on {began.isoformat()}."
        summarizes = self.config.prompt.summarizes_tools
        built = self._builder.build(
            files=rendered,
            session_system=opening.system,
            skills_text=shown.text if shown else "",
            tools_summary=prompt.summarize_tools(tools) if summarizes else "",
            additional=asked.options.additional_system_prompt,
            datetime_text=day,
            agent_id=asked.agent_id,
            count_text=self._core.family(asked.limits).count_text,
        )
        return built, rendered

    def _agent_warnings(self, agent_id: str | None) -> list[str]:
        known = self.config.agents.keys() | self.config.prompt.inherits.keys()
        if not agent_id or not is_misspelt(agent_id, known):
            return []
        return [
            f"Nothing is set for the agent {agent_id!r}, so it is as free as one without settings. "
            f"Did you mean {nearest(agent_id, known, count=1)[0]!r}?"
        ]

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
        answer = read_answer(session_id, reply, context, now=self._now(), summary=summary)
        return await store_answer(
            self._store, answer, context, append=self._append, refresh=self._head
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
        event = user_event(content, created_at=self._now(), is_pinned=is_pinned)
        if agent_id is not None:
            session = Session(id=session_id, agent_id=agent_id, created_at=event.created_at)
            try:
                await self.sessions.head(session_id)
            except UnknownSessionError:
                await self.sessions.create(session)
        return (await self._append(session_id, [event]))[0]

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
            call_id, content, is_error=is_error, tool_name=tool_name, created_at=self._now()
        )
        await self._head(session_id)
        return (await self._append(session_id, [event]))[0]

    async def _head(self, session_id: str) -> SessionHead:
        if self._mirror is not None:
            await self._mirror.refresh(session_id)
        head: SessionHead = await self._store.head(session_id)
        return head

    async def _append(self, session_id: str, events: list[SessionEvent], **row: Any) -> Any:
        if self._mirror is not None:
            return await self._mirror.append(session_id, events, **row)
        return await self._store.away(self._store.append_now, session_id, events, **row)

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
        return context.compaction(is_explicit=is_explicit)

    async def explain(
        self, session_id: str, agent_id: str | None = None, **options: Unpack[GivenOptions]
    ) -> "Report":
        """Return the report of the session's next request, as `assemble` would make it."""
        return (await self.assemble(session_id, agent_id, **options)).report

    def invalidate_cache(self, session_id: str | None = None) -> int:
        """Forget the session's assembled contexts, or all; return how many there were.

        What was kept of events goes as well, and with all of them what was read of files.
        """
        self._core.forget(session_id)
        if session_id is None and self._loader is not None:
            self._loader.invalidate()
        return self._cache.invalidate(session_id)

    def cache_stats(self) -> CacheStats:
        """Return how often the assembly cache answered."""
        return self._cache.stats()

    # ---- memory ----

    @property
    def memory(self) -> "MemoryAssembler":
        """What recalls; a `ConfigurationError` if there is none."""
        if self._memory is None:
            if self._given_memory is None:
                raise ConfigurationError(
                    "No memory is configured.",
                    remedy="Pass ContextAssembler(memory='sqlite:memory.db'), or set [memory] store.",
                )
            from context_assembler.memory import MemoryAssembler

            self._memory = self._given_memory
            if not isinstance(self._memory, MemoryAssembler):
                self._memory = MemoryAssembler.from_settings(
                    self._given_memory, self.config.memory, clock=lambda: self._now().timestamp()
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
        if self._loader is not None:
            from context_assembler.watch import FolderWatch

            self._watch = FolderWatch(self._loader.watched_folders, self._loader.invalidate)
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
            closing.push_async_callback(self._tools.close)
            if self._watch is not None:
                closing.callback(self._watch.close)
                self._watch = None


def create_context_assembler(**dependencies: Any) -> ContextAssembler:
    """Return a `ContextAssembler`; the arguments are the same."""
    return ContextAssembler(**dependencies)


def _memory_section(text: str) -> PromptSection:
    return PromptSection(name="memory", content=text, placement="note", origin="memory")


def _with_budget(way: Inputs, budget: float) -> Inputs:
    """Return the same call with less room."""
    options = way.settled.options
    most = int(budget) + (options.reserve_tokens or 0)
    options = options.without("max_context_tokens", max_context_tokens=most)
    return way._replace(settled=way.settled._replace(options=options))


def _names_in(store: Any, head: SessionHead, key: str) -> set[str]:
    """Return the names of tools that a session's history calls, or that a search has shown."""
    names: set[str] = set()

    def walk(value: Json) -> None:
        if isinstance(value, Mapping):
            if isinstance(name := value.get(key), str) and key == "tool_name":
                names.add(name)
            for held in value.values():
                walk(held)
        elif isinstance(value, list):
            for held in value:
                walk(held)

    for body in store.bodies(head.session.id, [(1, head.last_seq)]):
        for part in body["parts"]:
            if part["type"] == "tool_call" and key == "name":
                names.add(part["name"])
            elif part["type"] == "opaque":
                walk(part["block"])
    return names


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
