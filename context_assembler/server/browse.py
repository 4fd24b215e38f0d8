"""The inspector's routes: its pages for browsers, and the parts that they ask for."""

from asyncio import to_thread
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import FastAPI, HTTPException, Query, Response
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse

from context_assembler.errors import TranscriptError, UnknownMemoryError
from context_assembler.events import SessionEvent, SessionHead, to_json
from context_assembler.history.secrets import mask_kinds
from context_assembler.memory import MemoryFilters
from context_assembler.prompt import lint_files
from context_assembler.server import inspector
from context_assembler.server.gateway import SESSIONS, Passed
from context_assembler.server.steps import FALLBACK_MODEL, label_of, without_secrets
from context_assembler.tokens import TokenCounter
from context_assembler.transcripts import ReadTranscript, read_transcript

if TYPE_CHECKING:
    from context_assembler.server.app import Worker

_MOST_SESSIONS: Final = 500
_MOST_CANDIDATES: Final = 200
_LOOKED_AT: Final = 4  # events of a session, for the first message of its user
_Number = Annotated[int | None, Query(ge=1, le=2**53)]


def add_pages(app: FastAPI, worker: "Worker") -> None:
    """Add the pages to the application."""
    get = partial(app.get, include_in_schema=False)

    def shown(html: str) -> HTMLResponse:
        return HTMLResponse(html, headers=inspector.HEADERS)

    @get("/inspector.{kind}")
    async def asset(kind: str) -> Response:
        path = inspector.FOLDER / f"inspector.{'css' if kind == 'css' else 'js'}"
        return FileResponse(path, headers=inspector.HEADERS)

    @get("/")
    async def sessions(q: str = "") -> Response:
        heads = await worker.assembler.sessions.list_sessions()
        passed = [] if worker.gateway is None else [*worker.gateway.passed.items()]
        rows = await to_thread(_conversations, passed[-_MOST_SESSIONS:])
        return shown(await to_thread(_sessions, worker.assembler.store, heads, q, rows))

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
        return JSONResponse(made, headers=inspector.HEADERS)

    @get("/session/payload")
    def payload(id: str, provider: str, at: _Number = None) -> Response:
        steps = worker.steps(id)
        payload = inspector.payload_of(steps.make(steps.step(at)), provider)
        text = inspector.json_text(without_secrets(payload))
        return Response(text, media_type="application/json", headers=inspector.HEADERS)

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
        with suppress(TranscriptError):  # nothing of it can be read
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


async def _recalled(worker: "Worker", query: str, namespace: str) -> dict[str, Any]:
    """Return the candidates of a recall, each with its text, scores and outcome, best first."""
    filters = MemoryFilters(namespaces=(namespace,)) if namespace else None
    context = await worker.recaller.recall(query, filters=filters)
    texts = {one.record.id: one.record.text for one in context.items}
    rows: list[Any] = []
    for one in context.explanations[:_MOST_CANDIDATES]:
        if one.memory_id not in texts:
            with suppress(UnknownMemoryError):  # it is in another source, or was just forgotten
                texts[one.memory_id] = (await worker.memory.get(one.memory_id)).text
        text = texts.get(one.memory_id, "")
        rows.append({**one._asdict(), "text": text, "scores": dict(one.scores)})
    shown: dict[str, Any] = {"rows": rows, "notes": dict(context.source_notes)}
    return {**without_secrets(shown), "shown": len(context.items), "tokens": context.token_count}


def _instructions(worker: "Worker", agent: str) -> str:
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
