"""`ContextAssembler`: the facade. Assembles, records, watches, closes."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

from context_assembler import opened_parts
from context_assembler.appending import Appending
from context_assembler.assembling import Assembling
from context_assembler.cache import CacheStats
from context_assembler.gathering import Gathering
from context_assembler.limits import ModelRegistry
from context_assembler.pipeline import ContextPipeline
from context_assembler.ports import SessionStore
from context_assembler.recollection import MemoryArgument
from context_assembler.sessions import calibrations_of, open_store
from context_assembler.sync import close_all, run_sync
from context_assembler.values.context import AssembledContext
from context_assembler.values.events import Content, ResultContent, SessionEvent
from context_assembler.values.prompt import PromptSection
from context_assembler.values.report import CompactionCheck, Report

if TYPE_CHECKING:
    from context_assembler.config import AssemblerConfig
    from context_assembler.memory_assembler import MemoryAssembler, calls
    from context_assembler.memory_assembler.writing import Memorable
    from context_assembler.recall.premortem import PremortemContext
    from context_assembler.stages.load_bootstrap import BootstrapLoader
    from context_assembler.values.given_options import GivenOptions
    from context_assembler.values.memories.records import MemoryRecord, Remembered
    from context_assembler.values.recall import FormattedContext
    from context_assembler.values.simulations import CutPolicy, Simulation
    from context_assembler.values.task_stack import TaskStack


class ContextAssembler:
    """Builds the request of a session's next model call.

    Assembling calls no model, and writes nothing but token counts. One assembler
    serves many sessions at once, and many processes may share one store.

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
        sessions: str | Path | SessionStore = "memory:",
        *,
        bootstrap: "str | Path | BootstrapLoader | None" = None,
        tools: Any = (),
        skills: Any = None,
        memory: MemoryArgument = None,
        config: "AssemblerConfig | None" = None,
        prompt_sections: Iterable[PromptSection] = (),
        registry: ModelRegistry | None = None,
        clients: Mapping[str, Any] | Iterable[Any] | None = None,
        now: Callable[[], datetime] | None = None,
    ) -> None:
        config = opened_parts.read_settings(config)
        registry = opened_parts.open_registry(registry)
        self.sessions = open_store(sessions)
        self._owns_store = isinstance(sessions, str | Path)
        self._account = config.account
        self._now = opened_parts.open_clock(now)
        sections = opened_parts.listed_sections(prompt_sections)
        pipeline = ContextPipeline.from_config(config, registry=registry, prompt_sections=sections)
        self._gathering = Gathering(
            bootstrap=bootstrap,
            tools=tools,
            skills=skills,
            memory=memory,
            config=config,
            registry=registry,
            now=self._now,
            calibrations=calibrations_of(self.sessions),
            section_names=[section.name for section in sections],
        )
        self._cache = opened_parts.open_cache(config.cache)
        self._assembling = Assembling(
            sessions=self.sessions,
            gathering=self._gathering,
            pipeline=pipeline,
            cache=self._cache,
            max_kept_bytes=config.cache.events_bytes,
            remote=opened_parts.open_remote(clients),
            now=self._now,
        )
        self._append = Appending(self.sessions, now=self._now)
        self._open = AsyncExitStack()

    async def assemble(
        self, session_id: str, agent_id: str | None = None, **options: "Unpack[GivenOptions]"
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
        return await self._assembling.assemble(session_id, agent_id, options)

    def assemble_sync(
        self, session_id: str, agent_id: str | None = None, **options: "Unpack[GivenOptions]"
    ) -> AssembledContext:
        """Return what `assemble` returns, without a loop; beside a running one, in a thread."""
        return run_sync(self.assemble(session_id, agent_id, **options))

    async def record(
        self, session_id: str, reply: Any, context: AssembledContext, summary: str | None = None
    ) -> list[SessionEvent]:
        """Store what a call added to the session: the notes it was sent, then the model's reply.

        A compaction that the provider wrote into the reply becomes an event that covers what was
        sent; what the model said behind it is the reply. To try again with the same context stores
        nothing twice where the reply holds its provider's id; one without is stored every time.

        Args:
            reply: The final reply object of the provider's SDK, its dict, or the list of what its
                stream yielded, to the end or until it broke off.
            context: What the reply answers; the fingerprint of its payload is stored with it.
            summary: The plain text of such a compaction, for other models, accounts and providers;
                by default what can be read of it.

        Returns:
            Its events; the last one is the reply, or a compaction that nothing followed.

        Raises:
            InvalidParameterError: The context belongs to another session.
            ReplyError: No bundled provider answers in that shape.
            UnknownSessionError: There is no such session.
        """
        from context_assembler.recording import read_answer, store_answer  # noqa: PLC0415 - no first call needs it

        answered = read_answer(
            session_id, reply, context, account=self._account, now=self._now(), summary=summary
        )
        load, learn = self._assembling.load_log, self._gathering.learn
        return await store_answer(self.sessions, session_id, answered, load=load, learn=learn)

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
            agent_id: Whose session begins with it; one that exists stays whose it is.
            is_pinned: Whether no cut may drop the message, and no cap shorten it.
        """
        return await self._append.say(session_id, content, agent_id=agent_id, is_pinned=is_pinned)

    async def add_tool_result(
        self,
        session_id: str,
        call_id: str,
        content: ResultContent,
        *,
        is_error: bool = False,
        tool_name: str | None = None,
    ) -> SessionEvent:
        """Store what a tool returned; a value that is neither text nor parts is stored as JSON.

        A result may come before its call; until the call is there it is kept and not sent, with a row.

        Raises:
            ContentError: The value cannot be said in JSON.
            UnknownSessionError: There is no such session.
        """
        return await self._append.answer(
            session_id, call_id, content, is_error=is_error, tool_name=tool_name
        )

    async def check_compaction(
        self,
        session_id: str,
        agent_id: str | None = None,
        *,
        is_explicit: bool = False,
        **options: "Unpack[GivenOptions]",
    ) -> CompactionCheck:
        """Return whether the session should be compacted before its next call."""
        return await self._assembling.check(session_id, agent_id, options, is_explicit=is_explicit)

    async def explain(
        self, session_id: str, agent_id: str | None = None, **options: "Unpack[GivenOptions]"
    ) -> Report:
        """Return the report of the session's next request, as `assemble` would make it."""
        context = await self._assembling.assemble(session_id, agent_id, options, uses_cache=False)
        return context.report

    async def simulate(
        self,
        session_id: str,
        agent_id: str | None = None,
        *,
        policies: "Iterable[CutPolicy] | None" = None,
        **options: "Unpack[GivenOptions]",
    ) -> "Simulation":
        """Replay the whole session: what every call of it would have sent and cost, under each policy.

        Args:
            policies: How the history is cut, by default as settled for the session; beside them
                stands what sending everything costs.
        """
        return await self._assembling.simulate(session_id, agent_id, options, policies=policies)

    @property
    def memory(self) -> "MemoryAssembler":
        """What recalls; the settings do not bound it. A `ConfigurationError` where there is none."""
        return self._gathering.recollection.assembler

    async def recall(
        self, query: str = "", **options: "Unpack[calls.Recall]"
    ) -> "FormattedContext":
        """Return what fits a query, as `MemoryAssembler.assemble_context`, within the settings."""
        return await self._gathering.recollection.recall(query, **options)

    async def get_premortem_context(
        self, domain: str, strategy: str | None = None, **options: "Unpack[calls.Premortem]"
    ) -> "PremortemContext":
        """Return what earlier attempts teach, as `MemoryAssembler.get_premortem_context` does."""
        return await self._gathering.recollection.get_premortem_context(domain, strategy, **options)

    async def assemble_stack(
        self, stack: "TaskStack", **options: "Unpack[calls.Stack]"
    ) -> "FormattedContext":
        """Return where the agent stands, as `MemoryAssembler.assemble_stack` does."""
        return await self._gathering.recollection.assemble_stack(stack, **options)

    def update_context(
        self,
        context: "FormattedContext",
        event: "MemoryRecord | str",
        **options: "Unpack[calls.Update]",
    ) -> "FormattedContext":
        """Return a recalled context with what just happened, as `MemoryAssembler.update_context`."""
        return self._gathering.recollection.update_context(context, event, **options)

    async def compress(
        self, context: "FormattedContext", **options: "Unpack[calls.Compress]"
    ) -> "FormattedContext":
        """Return a recalled context made smaller, as `MemoryAssembler.compress` does."""
        return await self.memory.compress(context, **options)

    async def remember(self, records: "Memorable") -> "list[Remembered]":
        """Keep records, or texts, in memory, as `MemoryAssembler.remember` does."""
        return await self._gathering.recollection.remember(records)

    async def forget(self, memory_ids: str | Iterable[str]) -> list[str]:
        """Remove records from memory, as `MemoryAssembler.forget` does."""
        return await self.memory.forget(memory_ids)

    def invalidate_cache(self, session_id: str | None = None) -> int:
        """Forget the session's assembled contexts, or all; return how many there were.

        What was kept of events goes as well, and with all of them what was read of instruction files.
        """
        return self._assembling.forget(session_id)

    def cache_stats(self) -> CacheStats:
        """Return how often the assembly cache answered."""
        return self._cache.stats()

    async def __aenter__(self) -> Self:
        """Watch the bootstrap folder while entered."""
        await self._open.enter_async_context(self._gathering.watched())
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop watching; close the stores that were opened here, and connections to MCP servers."""
        own_store = (self.sessions.close,) if self._owns_store else ()
        await close_all(self._open.aclose, self._gathering.close, *own_store)
