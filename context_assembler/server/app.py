"""The worker's application: what it answers to programs, and the inspector's pages for browsers."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Annotated, Any, Final

from fastapi import FastAPI, HTTPException, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, PlainTextResponse
from pydantic import BaseModel, Field
from starlette.routing import Route

from context_assembler import __version__, errors
from context_assembler.assembler import ContextAssembler
from context_assembler.context import AssembledContext
from context_assembler.events import Json, SessionEvent, SessionHead, to_json
from context_assembler.history.secrets import mask_kinds
from context_assembler.memory import MemoryFilters, MemoryStore, open_memory
from context_assembler.memory.records import encode_memory
from context_assembler.options import AssemblerConfig
from context_assembler.prompt import lint_files
from context_assembler.providers import PROVIDERS
from context_assembler.server import inspector
from context_assembler.server.gateway import SESSIONS, Gateway, Passed
from context_assembler.server.guard import Guard
from context_assembler.server.inspector import HEADERS
from context_assembler.server.steps import (
    FALLBACK_MODEL,
    SessionSteps,
    label_of,
    without_secrets,
)
from context_assembler.session_start import SessionStart, StartContext, keep_rendered
from context_assembler.session_start.inject import log_injection
from context_assembler.tokens import TokenCounter
from context_assembler.transcripts import ReadTranscript, read_transcript

MOST_ROWS: Final = 1_000
_Rows = Annotated[int, Query(ge=1, le=MOST_ROWS)]
_Several = Annotated[Sequence[str], Query()]
_Name = Annotated[str, Query(min_length=1, max_length=1_000)]
_MOST_SESSIONS: Final = 500
_MOST_CANDIDATES: Final = 200
_LOOKED_AT: Final = 4  # events of a session, for the first message of its user
_Number = Annotated[int | None, Query(ge=1, le=2**53)]
# What an error means to who asked; every other one of ours is a request that cannot be met.
_STATUS: Final[Mapping[type[Exception], int]] = {
    errors.UnknownSessionError: 404,
    errors.ConcurrentAppendError: 409,
    errors.StoreError: 503,
}


class AssembleBody(BaseModel):
    """What `/api/assemble` and `/api/explain` are asked: a session, and options of `assemble`."""

    session_id: str = Field(min_length=1, max_length=1_000)
    agent_id: str | None = None
    provider: str | None = None
    options: dict[str, Any] = Field(default_factory=dict)


class Worker:
    """What the worker answers from: stores that stay open as long as it runs.

    Args:
        sessions: URL of the session store; `None`: requests for sessions are refused.
        memory: URL of the memory store; by default that of the settings.
        state: The folder where the hook finds snapshots; `None`: none are written.
        gateway: Serve a `Gateway` with these addresses; an empty mapping: the providers' own.
    """

    def __init__(
        self,
        *,
        sessions: str | None = None,
        memory: str | None = None,
        bootstrap: str | Path | None = None,
        config: AssemblerConfig | None = None,
        state: str | None = None,
        gateway: Mapping[str, str] | None = None,
    ) -> None:
        self.config, self.state = config or AssemblerConfig(), state
        self.gateway = None if gateway is None else Gateway(gateway, config=self.config)
        self._memory_url = memory or self.config.memory.store
        self._memory = open_memory(self._memory_url) if self._memory_url else None
        self._assembler = None
        if sessions is None and gateway is not None:
            sessions = "memory:"  # the pages show conversations without one
        if sessions is not None:
            self._assembler = ContextAssembler(
                sessions, bootstrap=bootstrap, memory=self._memory, config=self.config
            )
        self._steps = lru_cache(8)(self._open)
        self._keeping = set[asyncio.Future[None]]()
        self._building: dict[tuple[str, str | None], asyncio.Future[StartContext]] = {}

    @property
    def memory(self) -> MemoryStore:
        """The memory store."""
        if self._memory is None:
            raise HTTPException(409, "The worker has no memory store: start it with --memory.")
        return self._memory

    @property
    def assembler(self) -> ContextAssembler:
        """The assembler of the sessions."""
        if self._assembler is None:
            raise HTTPException(409, "The worker has no session store: start it with --sessions.")
        return self._assembler

    @cached_property
    def recaller(self) -> ContextAssembler:
        """What recalls from the memory store as the settings say."""
        made = ContextAssembler("memory:", memory=self.memory, config=self.config)
        return self._assembler or made

    def _open(self, session_id: str, version: str | int | None) -> SessionSteps:
        if self.gateway is not None and isinstance(version, int):
            return SessionSteps(self.gateway.watched(session_id), session_id)
        return SessionSteps(self.assembler, session_id)

    def steps(self, session_id: str) -> SessionSteps:
        """Return the steps of a session; those that were asked for last are kept."""
        passed = self.gateway.passed if self.gateway is not None else dict[str, Passed]()
        if one := passed.get(session_id.removeprefix(SESSIONS)):
            return self._steps(session_id, one.number)
        head = self.assembler.store.look(session_id)
        return self._steps(session_id, head.version if head is not None else None)

    async def close(self) -> None:
        """Close the stores."""
        await asyncio.gather(*self._keeping, return_exceptions=True)
        if self.gateway is not None:
            await self.gateway.close()
        if self._assembler is not None:
            await self._assembler.close()
        if self._memory is not None:
            await self._memory.close()

    async def context(self, project_path: str, session_id: str | None) -> StartContext:
        """Return what a session of a project starts with; the hook finds it from now on."""
        if "\0" in project_path:
            raise HTTPException(422, "project_path: a path cannot hold NUL.")
        key = project_path, session_id
        if key not in self._building:  # many sessions that start at once share one build
            self._building[key] = task = asyncio.ensure_future(self._build(*key))
            task.add_done_callback(lambda _: self._building.pop(key))
        return await asyncio.shield(self._building[key])

    async def _build(self, project_path: str, session_id: str | None) -> StartContext:
        start = SessionStart(self.memory, settings=self.config.session_start)
        made = await start.build(project_path, session_id=session_id)
        if self.state is not None:
            row = "http", "", session_id or "", made.project, "worker", ",".join(made.layers)
            figures = made.tokens, len(made.text), f"{made.build_ms:.1f}"
            keeping = asyncio.ensure_future(self._keep(self.state, start, made, (*row, *figures)))
            self._keeping.add(keeping)
            keeping.add_done_callback(self._keeping.discard)
            if not session_id:
                await keeping
        return made

    async def _keep(
        self, state: str, start: SessionStart, made: StartContext, row: tuple[object, ...]
    ) -> None:
        """Keep what every session may be told, and log what this one was."""
        rendered = await start.build(made.project) if row[2] else made

        def write() -> None:
            with suppress(OSError):  # a full disk costs the snapshot, not the answer
                keep_rendered(rendered, state, store=self._memory_url or "")
                log_injection(state, row)

        await asyncio.to_thread(write)

    async def assembled(self, asked: AssembleBody) -> AssembledContext:
        """Return the context of a session's next call."""
        refused = {"additional_tools", "exact", "session_id", "agent_id"} & asked.options.keys()
        if refused:
            raise HTTPException(422, f"{min(refused)} cannot be among the options here.")
        return await self.assembler.assemble(asked.session_id, asked.agent_id, **asked.options)


def create_app(worker: Worker, *, token: str | None = None) -> Any:
    """Return the application that answers for a worker, behind its guard.

    Args:
        token: What requests must carry; `None` is for the loopback and Unix sockets alone.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        yield
        await worker.close()

    app = FastAPI(title="context-assembler", version=__version__, lifespan=lifespan)
    _add_errors(app)
    _add_memory(app, worker)
    _add_sessions(app, worker)
    _add_pages(app, worker)
    if worker.gateway is not None:
        for place in ("/v1/{rest:path}", "/v1beta/{rest:path}"):
            app.router.routes.append(Route(place, endpoint=worker.gateway))
    app.add_middleware(Guard, token=token)
    return app


def _add_errors(app: FastAPI) -> None:
    def told(request: Request, reason: str, status: int) -> Response:
        if "text/html" in request.headers.get("accept", ""):
            return HTMLResponse(inspector.page("problem", reason=reason), status, HEADERS)
        return JSONResponse({"error": reason}, status)

    @app.exception_handler(errors.AssemblyError)
    async def refuse(request: Request, error: errors.AssemblyError) -> Response:
        status = next((code for kind, code in _STATUS.items() if isinstance(error, kind)), 422)
        return told(request, str(error), status)

    @app.exception_handler(HTTPException)
    async def answer(request: Request, error: HTTPException) -> Response:
        return told(request, error.detail, error.status_code)

    @app.exception_handler(RequestValidationError)
    async def explain(request: Request, error: RequestValidationError) -> Response:
        broken = (f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        return told(request, "; ".join(broken), 422)


def _add_memory(app: FastAPI, worker: Worker) -> None:
    @app.get("/health")
    async def health() -> dict[str, str]:
        """Say that the worker runs."""
        return {"status": "ok", "version": __version__}

    @app.get("/api/context", response_model=None)
    async def context(
        request: Request, project_path: _Name, session_id: str | None = None
    ) -> Response | dict[str, Json]:
        """Return what a coding agent's session starts with; as text if `Accept` asks for that."""
        made = await worker.context(project_path, session_id)
        if "text/plain" in request.headers.get("accept", ""):
            told = {"x-tokens": str(made.tokens), "x-layers": ",".join(made.layers)}
            return PlainTextResponse(made.text, headers=told)
        return dict(to_json(made))

    @app.get("/api/search")
    async def search(
        query: _Name,
        *,
        kind: _Several = (),
        namespace: str | None = None,
        event_type: _Several = (),
        entity_type: _Several = (),
        limit: _Rows = 20,
    ) -> list[dict[str, Json]]:
        """Return the memories that fit a query, best first."""
        namespaces = None if namespace is None else (namespace,)
        types: Any = {"kinds": kind, "event_types": event_type, "entity_types": entity_type}
        filters = MemoryFilters(namespaces=namespaces, **types)
        hits = await worker.memory.search(query, limit=limit, filters=filters)
        records = (encode_memory(hit.record) for hit in hits)
        return [without_secrets({**record, "vector": None}) for record in records]


def _add_sessions(app: FastAPI, worker: Worker) -> None:
    @app.post("/api/assemble")
    async def assemble(asked: AssembleBody) -> dict[str, Json]:
        """Return the payload of a session's next call, with its ledger."""
        context = await worker.assembled(asked)
        provider = asked.provider or context.provider
        if provider not in PROVIDERS:
            raise errors.UnknownOptionError(provider, kind="provider", known=PROVIDERS)
        payload, ledger = context.to_request(provider), to_json(context.metadata.ledger)
        return {"provider": provider, "payload": payload, "ledger": ledger}

    @app.post("/api/explain")
    async def explain(asked: AssembleBody) -> dict[str, Json]:
        """Return what became of every piece of a session's next call."""
        context = await worker.assembled(asked)
        return dict(await asyncio.to_thread(context.report.to_json))

    @app.get("/api/sessions")
    async def sessions(limit: _Rows = 100) -> list[dict[str, Json]]:
        """Return the sessions, the last ones first."""
        heads = await worker.assembler.sessions.list_sessions()
        rows = [to_json(head.session) | {"events": head.last_seq} for head in heads]
        return rows[: -limit - 1 : -1]

    @app.get("/api/sessions/{session_id}")
    async def session(session_id: str) -> dict[str, Json]:
        """Return one session's record and how many events it has."""
        head = await worker.assembler.sessions.head(session_id)
        return {**to_json(head.session), "events": head.last_seq}

    @app.get("/api/sessions/{session_id}/events")
    async def events(
        session_id: str, after_seq: Annotated[int, Query(ge=0, le=2**53)] = 0, limit: _Rows = 100
    ) -> list[Json]:
        """Return a session's events, oldest first, without secrets."""
        found: list[Json] = []
        async for event in worker.assembler.sessions.load(session_id, after_seq=after_seq):
            found.append(without_secrets(to_json(event)))
            if len(found) == limit:
                break
        return found


# ---- the pages of the inspector ----


def _add_pages(app: FastAPI, worker: Worker) -> None:
    """Add the pages to the application."""
    get = partial(app.get, include_in_schema=False)

    def shown(html: str) -> HTMLResponse:
        return HTMLResponse(html, headers=HEADERS)

    @get("/inspector.{kind}")
    async def asset(kind: str) -> Response:
        path = inspector.FOLDER / f"inspector.{'css' if kind == 'css' else 'js'}"
        return FileResponse(path, headers=HEADERS)

    @get("/")
    async def sessions(q: str = "") -> Response:
        heads = await worker.assembler.sessions.list_sessions()
        passed = [] if worker.gateway is None else [*worker.gateway.passed.items()]
        rows = await asyncio.to_thread(_conversations, passed[-_MOST_SESSIONS:])
        return shown(await asyncio.to_thread(_sessions, worker.assembler.store, heads, q, rows))

    @get("/session")
    def session(id: str, at: _Number = None) -> Response:
        steps = worker.steps(id)
        step = steps.step(at)
        made = inspector.step_page(steps, step, steps.make(step))
        return shown(inspector.session_page(worker.assembler, steps, made))

    @get("/session/step")
    def step(
        id: str,
        at: _Number = None,
        model: str | None = None,
        max_context_tokens: _Number = None,
        truncation_strategy: str | None = None,
    ) -> Response:
        options: dict[str, Any] = {"model": model, "max_context_tokens": max_context_tokens}
        options["truncation_strategy"] = truncation_strategy
        steps = worker.steps(id)
        step = steps.step(at)
        made = inspector.step_page(steps, step, steps.make(step, **options))
        return JSONResponse(made, headers=HEADERS)

    @get("/session/payload")
    def payload(id: str, provider: str, at: _Number = None) -> Response:
        steps = worker.steps(id)
        payload = inspector.payload_of(steps.make(steps.step(at)), provider)
        text = inspector.json_text(without_secrets(payload))
        return Response(text, media_type="application/json", headers=HEADERS)

    @get("/session/costs")
    async def costs(id: str, max_context_tokens: _Number = None) -> Response:
        replayed = await worker.steps(id).costs(max_context_tokens=max_context_tokens)
        return shown(inspector.costs_part(replayed))

    @get("/memory")
    async def memory(q: str = "", namespace: str = "") -> Response:
        found = await _recalled(worker, q, namespace) if q else None
        return shown(inspector.page("memory", query=q, namespace=namespace, found=found))

    @get("/instructions")
    def instructions(agent: str = "") -> Response:
        return shown(_instructions(worker, agent))


def _row(name: str, agent: str | None, begun: Iterable[SessionEvent], count: int) -> dict[str, Any]:
    """Return what the list says of a session, by the events that it begins with."""
    said = (label_of(to_json(event)) for event in begun if event.type == "user")
    return {"id": name, "agent": agent or "", "label": next(said, ""), "events": count}


def _conversations(found: Sequence[tuple[str, Passed]]) -> list[dict[str, Any]]:
    """Return a row for each conversation that passes through the gateway, the newest first."""
    rows: list[dict[str, Any]] = []
    for name, one in reversed(found):
        said, begun = one.said(), ReadTranscript(())
        with suppress(errors.TranscriptError):  # nothing of it can be read
            begun = read_transcript(said[:_LOOKED_AT], format=one.provider, partial=True)
        row = _row(f"{SESSIONS}{name}", one.model, begun.events, len(said))
        rows.append({**row, "created": ""})
    return rows


def _sessions(
    store: Any, heads: Sequence[SessionHead], query: str, passed: Sequence[dict[str, Any]]
) -> str:
    rows = [row for row in passed if query.lower() in str(row).lower()]
    for head in reversed(heads):
        session = head.session
        begun = store.events(session.id, limit=_LOOKED_AT)
        row = _row(session.id, session.agent_id, begun, head.last_seq)
        created = session.created_at or next((e.created_at for e in begun if e.created_at), None)
        row["created"] = f"{created:%Y-%m-%d %H:%M}" if created else ""
        if query.lower() in f"{row} {session.metadata}".lower():
            rows.append(row)
        if len(rows) == _MOST_SESSIONS:
            break
    return inspector.page("sessions", rows=rows, total=len(heads) + len(passed), query=query)


async def _recalled(worker: Worker, query: str, namespace: str) -> dict[str, Any]:
    """Return the candidates of a recall, each with its text, scores and outcome, best first."""
    filters = MemoryFilters(namespaces=(namespace,)) if namespace else None
    context = await worker.recaller.recall(query, filters=filters)
    texts = {one.record.id: one.record.text for one in context.items}
    rows: list[Any] = []
    for one in context.explanations[:_MOST_CANDIDATES]:
        if one.memory_id not in texts:
            with suppress(
                errors.UnknownMemoryError
            ):  # it is in another source, or was just forgotten
                texts[one.memory_id] = (await worker.memory.get(one.memory_id)).text
        text = texts.get(one.memory_id, "")
        rows.append({**one._asdict(), "text": text, "scores": dict(one.scores)})
    shown: dict[str, Any] = {"rows": rows, "notes": dict(context.source_notes)}
    return {**without_secrets(shown), "shown": len(context.items), "tokens": context.token_count}


def _instructions(worker: Worker, agent: str) -> str:
    model = worker.config.defaults.model or FALLBACK_MODEL
    loader = worker.assembler.loader
    if loader is None:
        raise HTTPException(409, "The worker reads no instruction files: pass --bootstrap.")
    date = f"{datetime.now(UTC):%Y-%m-%d}"
    variables = {"agent": agent, "session": "lint", "model": model, "date": date}
    found = lint_files(
        loader,
        agent or None,
        count_text=TokenCounter(model).count_text,
        variables={**variables, "skills": [], "tools": []},
        required=worker.config.bootstrap.required,
        mask=mask_kinds,
    )
    lint = without_secrets(found.to_json())
    return inspector.page("instructions", lint=lint, agent=agent, model=model)
