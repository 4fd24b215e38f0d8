"""`ContextAssembler`: the facade. Assembles, records, watches, closes."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from context_assembler.assembling import Assembling
from context_assembler.cache import AssemblyCache, CacheStats
from context_assembler.errors import UnknownSessionError
from context_assembler.gathering import Gathering
from context_assembler.limits import ModelRegistry, default_registry
from context_assembler.pipeline import ContextPipeline
from context_assembler.ports import SessionStore
from context_assembler.recording import read_answer, store_answer
from context_assembler.sessions import calibrations_of, open_store
from context_assembler.stages.load_bootstrap import BootstrapLoader
from context_assembler.sync import run_sync
from context_assembler.tokens import RemoteCounter
from context_assembler.values.context import AssembledContext
from context_assembler.values.events import (
    Content,
    ResultContent,
    Session,
    SessionEvent,
    tool_result_event,
    user_event,
)
from context_assembler.values.prompt import PromptSection
from context_assembler.values.report import CompactionCheck, Report
from context_assembler.values.simulations import CutPolicy, Simulation
from context_assembler.watch import FolderWatch

if TYPE_CHECKING:
    from context_assembler.config import AssemblerConfig


class ContextAssembler:
    """Builds the request of a session's next model call.

    Assembling calls no model and writes nothing. One assembler serves many sessions at once, and
    many processes may share one store.

    Args:
        sessions: Where sessions are kept: a store, or a URL (`sqlite:agent.db`, `memory:`).
        bootstrap: The folder of AGENT.md, SOUL.md and CONTEXT.md, or a loader.
        tools: Functions, literal specs of any provider, objects with `list_tools()`, lists of them.
        skills: Folders of skills, or providers of them.
        config: Settings; by default those of the environment and the configuration files.
        prompt_sections: The application's own sections of the system prompt.
        registry: What is known about models.
        clients: SDK clients that `exact=True` asks for the true count of a payload; nothing else is
            ever asked of them.
        now: The clock behind the time stamps of recorded events.
    """

    def __init__(
        self,
        sessions: str | Path | SessionStore = "memory:",
        *,
        bootstrap: str | Path | BootstrapLoader | None = None,
        tools: Any = (),
        skills: Any = None,
        config: "AssemblerConfig | None" = None,
        prompt_sections: Iterable[PromptSection] = (),
        registry: ModelRegistry | None = None,
        clients: Mapping[str, Any] | Iterable[Any] | None = None,
        now: Callable[[], datetime] | None = None,
    ) -> None:
        if config is None:
            from context_assembler.config import AssemblerConfig  # noqa: PLC0415 - slow to import

            config = AssemblerConfig()
        registry = registry or default_registry()
        self.sessions = open_store(sessions)
        self._owns_store = isinstance(sessions, str | Path)
        self._account = config.account
        self._now = now or partial(datetime.now, UTC)
        self._gathering = Gathering(
            bootstrap=bootstrap,
            tools=tools,
            skills=skills,
            config=config,
            registry=registry,
            now=self._now,
            calibrations=calibrations_of(self.sessions),
        )
        self._cache = AssemblyCache[AssembledContext](
            max_entries=config.cache.max_entries, ttl_seconds=config.cache.ttl_seconds
        )
        self._assembling = Assembling(
            sessions=self.sessions,
            gathering=self._gathering,
            pipeline=ContextPipeline.from_config(
                config, registry=registry, prompt_sections=prompt_sections
            ),
            cache=self._cache,
            remote=None if clients is None else RemoteCounter(clients),
            now=self._now,
        )
        self._open = AsyncExitStack()

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
        return await self._assembling.assemble(session_id, agent_id, options)

    def assemble_sync(
        self, session_id: str, agent_id: str | None = None, **options: Any
    ) -> AssembledContext:
        """Return what `assemble` returns, for callers without an event loop.

        Where a loop is running in this thread already, another thread does the work.
        """
        return run_sync(self.assemble(session_id, agent_id, **options))

    async def record(
        self,
        session_id: str,
        reply: Any,
        context: AssembledContext,
        summary: str | None = None,
    ) -> list[SessionEvent]:
        """Store what a call added to the session: the notes it was sent, then the model's reply.

        A compaction that the provider wrote into the reply becomes an event that covers what was
        sent; what the model said behind it is the reply.

        Args:
            reply: The final reply object of the anthropic or openai SDK, or its dict.
            context: What the reply answers; the fingerprint of its payload is stored with it.
            summary: The plain text of such a compaction, for other models, accounts and providers;
                by default what can be read of it.

        Returns:
            The new events; the last one is the reply, or a compaction that nothing followed.

        Raises:
            InvalidParameterError: The context belongs to another session.
            ReplyError: No bundled provider answers in that shape.
            UnknownSessionError: There is no such session.
        """
        answered = read_answer(
            session_id, reply, context, account=self._account, now=self._now(), summary=summary
        )
        events = await store_answer(self.sessions, session_id, answered)
        await self._gathering.learn(answered.observation)
        return events

    async def add_user(
        self,
        session_id: str,
        content: Content,
        *,
        agent_id: str | None = None,
    ) -> SessionEvent:
        """Store what the user said; a session that does not exist begins with it."""
        if agent_id is not None:
            await self._begin(session_id, agent_id)
        [event] = await self.sessions.append(
            session_id, [user_event(content, created_at=self._now())]
        )
        return event

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

        Raises:
            ContentError: The value cannot be said in JSON.
            UnknownSessionError: There is no such session.
        """
        await self.sessions.head(session_id)
        result = tool_result_event(
            call_id, content, is_error=is_error, tool_name=tool_name, created_at=self._now()
        )
        [event] = await self.sessions.append(session_id, [result])
        return event

    async def check_compaction(
        self,
        session_id: str,
        agent_id: str | None = None,
        *,
        is_explicit: bool = False,
        **options: Any,
    ) -> CompactionCheck:
        """Return whether the session should be compacted before its next call."""
        return await self._assembling.check_compaction(
            session_id, agent_id, options, is_explicit=is_explicit
        )

    async def explain(self, session_id: str, agent_id: str | None = None, **options: Any) -> Report:
        """Return the report of the session's next request, as `assemble` would make it."""
        context = await self._assembling.assemble(session_id, agent_id, options, uses_cache=False)
        return context.report

    async def simulate(
        self,
        session_id: str,
        agent_id: str | None = None,
        *,
        policies: Iterable[CutPolicy] = (CutPolicy(),),
        **options: Any,
    ) -> Simulation:
        """Replay the whole session: what every call of it would have sent and cost, under each policy.

        Args:
            policies: How the history is cut; beside them stands what sending everything costs.
            options: Those of `assemble`.
        """
        return await self._assembling.simulate(
            session_id, agent_id, options, policies=tuple(policies)
        )

    def invalidate_cache(self, session_id: str | None = None) -> int:
        """Forget the session's assembled contexts, or all; return how many there were.

        What was kept of the sessions' events is forgotten as well, and when all are, what was read of
        instruction files.
        """
        self._assembling.forget(session_id)
        if session_id is None and self._gathering.loader is not None:
            self._gathering.loader.invalidate()
        return self._cache.invalidate(session_id)

    def cache_stats(self) -> CacheStats:
        """Return how often the assembly cache answered."""
        return self._cache.stats()

    async def __aenter__(self) -> Self:
        """Watch the bootstrap folder while entered."""
        if (loader := self._gathering.loader) is not None:
            watch = FolderWatch(loader.watched_folders, loader.invalidate)
            await self._open.enter_async_context(watch)
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._open.aclose()
        await self.close()

    async def close(self) -> None:
        """Close the session store, if it was opened here, and the connections to MCP servers."""
        await self._gathering.close()
        if self._owns_store:
            await self.sessions.close()

    async def _begin(self, session_id: str, agent_id: str) -> None:
        """Create the session, unless it is there."""
        try:
            await self.sessions.head(session_id)
        except UnknownSessionError:
            session = Session(id=session_id, agent_id=agent_id, created_at=self._now())
            await self.sessions.create(session)


def create_context_assembler(**dependencies: Any) -> ContextAssembler:
    """Return a `ContextAssembler`; the arguments are the same."""
    return ContextAssembler(**dependencies)
