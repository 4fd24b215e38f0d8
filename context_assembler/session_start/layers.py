"""What a coding agent is told of its project when a session starts: layers under one budget."""

import asyncio
import os
import shlex
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeAlias

from context_assembler.memory.kinds import (
    ChangedFunctionMetadata,
    LearningMetadata,
    MemoryKind,
    ObservationMetadata,
    SessionMetadata,
)
from context_assembler.memory.records import MemoryFilters, MemoryOrder, MemoryRecord, masked
from context_assembler.memory.stores import MemoryStore
from context_assembler.options import SessionStartSettings
from context_assembler.session_start.inject import find_project
from context_assembler.texts import CountText, one_line
from context_assembler.tokens import TokenCounter

_LONGEST_ENTRY_CHARS: Final = 300
_SUMMARY_CHARS: Final = 120  # of what a session came to
_SIGNATURE_CHARS: Final = 80
_MOST_PATHS: Final = 2
_MOST_NAMES: Final = 4  # of functions in one file
_MOST_READ: Final = 200  # records of one kind that a layer looks at
_BREAKS_TOKENS: Final = 12  # of the empty lines between layers, at most
_NO_CONFIDENCE: Final = 0.5  # of a learning that nobody rated

_Read: TypeAlias = Callable[["_Ask"], Awaitable[list[str]]]


class StartContext(NamedTuple):
    """What a session starts with.

    Attributes:
        text: Markdown; empty if nothing is known of the project.
        tokens: Of the text, by the counter that it was made with.
        layers: The layers that say something, in order, each with its tokens.
        skipped: The layers that say nothing, each with the reason.
        left_out: By layer, how many entries had no room.
        build_ms: How long it took.
    """

    project: str
    text: str
    tokens: int
    budget_tokens: int
    layers: Mapping[str, int]
    skipped: Mapping[str, str] = {}
    left_out: Mapping[str, int] = {}
    build_ms: float = 0.0


class _Ask(NamedTuple):
    """What a layer is asked for."""

    store: MemoryStore
    settings: SessionStartSettings
    project: str
    session_id: str | None
    ended: Sequence[MemoryRecord] = ()  # the sessions that have ended, newest first

    async def newest(self, kind: MemoryKind, order: MemoryOrder = "newest") -> list[MemoryRecord]:
        """Return the first records of a kind, without those of the session that starts."""
        filters = self.filters(kind)
        return await self.store.list_records(order=order, limit=_MOST_READ, filters=filters)

    def filters(self, kind: MemoryKind) -> MemoryFilters:
        """Return what keeps other projects, and the session that starts, out."""
        others = (self.session_id,) if self.session_id else ()
        return MemoryFilters(kinds=(kind,), namespaces=(self.project,), excluded_session_ids=others)

    def paths(self, paths: Iterable[str]) -> str:
        """Return the first paths, relative to the project."""
        return _listed([f"`{self.relative(path)}`" for path in paths], _MOST_PATHS)

    def relative(self, path: str) -> str:
        """Return a path as it is seen from the project's root."""
        inside = path.startswith(self.project.rstrip(os.sep) + os.sep)
        return _line(os.path.relpath(path, self.project) if inside else path)


class _Layer(NamedTuple):
    """One layer: its heading, the setting that bounds it, and what reads its entries, best first.

    `is_by_day`: those that have room are listed newest first; each begins with its day.
    """

    heading: str
    most_tokens: str
    read: _Read
    is_by_day: bool = False


class SessionStart:
    """Builds what a coding agent's session starts with from what is remembered of its project.

        async with open_memory("sqlite:memory.db") as store:
            print((await SessionStart(store).build("/src/shop")).text)

    Layers are filled one after the other, each up to its own bound, until the budget less the
    reserve is used. The same records give the same text.

    Args:
        store: Where `memory observe`, `memory index-code` and `memory learn` keep records; each
            project is a namespace, named by the root of its repository.
        count_text: Counts tokens; by default as the model of the settings does.
    """

    def __init__(
        self,
        store: MemoryStore,
        *,
        settings: SessionStartSettings | None = None,
        count_text: CountText | None = None,
    ) -> None:
        self.store, self.settings = store, settings or SessionStartSettings()
        self._count = count_text or TokenCounter(self.settings.model).count_text

    async def build(self, project_path: str, *, session_id: str | None = None) -> StartContext:
        """Return what a session in a folder of the project starts with.

        A layer that fails, or takes too long, is skipped and named.

        Args:
            session_id: The session that starts; what it did before (`resume`, `clear`, `compact`) is
                in its own history and left out.
        """
        started, settings = time.perf_counter(), self.settings
        project = find_project(project_path)
        ask = _Ask(self.store, settings, project, session_id)
        skipped = dict[str, str]()
        with suppress(Exception):  # the layer of sessions says why
            ask = ask._replace(ended=await self._in_time(_ended_sessions(ask)))
        blocks, sizes, left_out = list[str](), dict[str, int](), dict[str, int]()
        frame = self._count("\n\n".join(_frame(project)))
        room = settings.budget_tokens - max(settings.reserve_tokens, frame + _BREAKS_TOKENS)
        for name, layer in LAYERS.items():
            try:
                entries = await self._in_time(layer.read(ask))
            except Exception as error:
                skipped[name] = _line(str(error) or type(error).__name__)
                continue
            most = min(room, getattr(settings, layer.most_tokens))
            block, shown = self._fill(layer, entries, most)
            if shown < len(entries):
                left_out[name] = len(entries) - shown
            if shown:
                sizes[name] = self._count(block)
                room -= sizes[name]
                blocks.append(block)
            elif entries:
                skipped[name] = "no room"
        text = self._joined(project, blocks, skipped, left_out)
        return StartContext(
            project=project,
            text=text,
            tokens=self._count(text) if text else 0,
            budget_tokens=settings.budget_tokens,
            layers=sizes,
            skipped=skipped,
            left_out=left_out,
            build_ms=(time.perf_counter() - started) * 1_000,
        )

    async def _in_time(self, reading: Awaitable[list[Any]]) -> list[Any]:
        return await asyncio.wait_for(reading, self.settings.seconds_per_layer)

    def _fill(self, layer: _Layer, entries: Sequence[str], most_tokens: int) -> tuple[str, int]:
        """Return a layer with as many of its first entries as have room, and how many those are."""
        shown, left = list[str](), most_tokens - self._count(f"## {layer.heading}\n")
        for entry in entries:
            tokens = self._count(f"{entry}\n")
            if tokens <= left:  # a smaller one may fit where this does not
                shown.append(entry)
                left -= tokens
        while True:
            listed = sorted(shown, key=_day_of, reverse=True) if layer.is_by_day else shown
            block = "\n".join((f"## {layer.heading}", *listed))
            if not shown or self._count(block) <= most_tokens:
                return block, len(shown)
            shown.pop()

    def _joined(
        self,
        project: str,
        blocks: Sequence[str],
        skipped: Mapping[str, str],
        left_out: Mapping[str, int],
    ) -> str:
        """Return the whole text: what is known, then what is not shown, and how to search for it."""
        if not blocks and not skipped:
            return ""
        (title, hint), about = _frame(project), list[str]()
        if skipped:
            failed = (f"{name} ({reason})" for name, reason in skipped.items())
            about.append(f"Skipped: {', '.join(failed)}.")
        if left_out:
            counted = ", ".join(f"{number} {name}" for name, number in left_out.items())
            counted = counted.replace("functions", "files with changed functions")
            about.append(f"No room for {counted}.")
        for ends in ([*about, hint], [hint]):
            text = "\n\n".join((title, *blocks, " ".join(ends)))
            if self._count(text) <= self.settings.budget_tokens:
                return text
        return ""


def _frame(project: str) -> tuple[str, str]:
    """Return what stands above and below all layers."""
    name = shlex.quote(_line(project))
    return (
        f"# What is remembered of {_line(os.path.basename(project) or project)}",
        f'Search for more: `context-assembler memory search "…" --namespace {name}`',
    )


# ---- the layers ----


def _line(text: str, most: int = _LONGEST_ENTRY_CHARS) -> str:
    """Return text on one line, without secrets or anything that could open another block."""
    flat = one_line(masked(text)).replace("`", "'").replace("<", "&lt;")
    return flat if len(flat) <= most else f"{flat[: most - 1]}…"


def _listed(names: Sequence[str], most: int) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def _day_of(entry: str) -> str:
    return entry[: len("- 2026-01-01")]


def _day(record: MemoryRecord) -> str:
    return f"{record.created_at:%Y-%m-%d}" if record.created_at else ""


async def _ended_sessions(ask: _Ask) -> list[MemoryRecord]:
    """Return the sessions that have ended; another one that still runs may yet undo what it did."""
    found = await ask.newest("sessions")
    return [one for one in found if getattr(one.metadata, "ended_at", None) is not None]


async def _read_sessions(ask: _Ask) -> list[str]:
    entries = list[str]()
    for record in (await _ended_sessions(ask))[: ask.settings.index_sessions]:
        about = record.metadata
        assert isinstance(about, SessionMetadata)
        title = _line(about.title or record.text).rstrip(".:")
        said = "" if record.text in ("", about.title) else f": {_line(record.text, _SUMMARY_CHARS)}"
        paths = ask.paths(about.paths)
        outcome = f" – {_line(about.outcome)}" if about.outcome else ""
        entries.append(f"- {_day(record)} {title}{said}{outcome}{f' ({paths})' if paths else ''}")
    return entries


async def _read_functions(ask: _Ask) -> list[str]:
    """Return one entry for each file, those with the newest changes first; each name once."""
    seen, by_path = set[tuple[str | None, str | None]](), dict[str, list[str]]()
    for record in await ask.newest("changed_functions"):
        about = record.metadata
        if not isinstance(about, ChangedFunctionMetadata) or not about.name:
            continue
        if (about.path, about.name) in seen or len(seen) == ask.settings.max_functions:
            continue
        seen.add((about.path, about.name))
        line = f":{about.start_line}" if about.start_line else ""
        said = _line(about.signature or about.name, _SIGNATURE_CHARS)
        named = f"`{said}`{line} {about.change or 'changed'}"
        by_path.setdefault(ask.relative(about.path or ""), []).append(named)
    return [f"- `{path}`: {_listed(names, _MOST_NAMES)}" for path, names in by_path.items()]


async def _read_learnings(ask: _Ask) -> list[str]:
    def sureness(record: MemoryRecord) -> float:
        about = record.metadata
        given = about.confidence if isinstance(about, LearningMetadata) else None
        return _NO_CONFIDENCE if given is None else given

    found = [
        one
        for one in await ask.newest("learnings", "most_important")
        if sureness(one) >= ask.settings.least_confidence
    ]
    found.sort(key=sureness, reverse=True)
    return [f"- {_line(one.text)} ({sureness(one):.0%} sure, {_day(one)})" for one in found]


async def _read_observations(ask: _Ask) -> list[str]:
    """Return observations: those like the last session, then the newest others, each day together."""
    most, alike = ask.settings.max_observations, list[MemoryRecord]()
    for last in ask.ended[:1]:
        about, filters = last.metadata, ask.filters("observations")
        paths = about.paths if isinstance(about, SessionMetadata) else ()
        query = " ".join((last.text, *map(os.path.basename, paths)))
        hits = await ask.store.search(query, limit=most, filters=filters)
        alike = [hit.record for hit in hits]
    newest = await ask.newest("observations")
    done = {None, *(one.session_id for one in ask.ended)}  # what runs may yet undo what it did
    found = {one.id: one for one in (*alike, *newest) if one.session_id in done}
    entries = list[str]()
    for record in list(found.values())[:most]:
        about = record.metadata
        where = ask.paths(about.paths) if isinstance(about, ObservationMetadata) else ""
        entries.append(f"- {_day(record)} {_line(record.text)}{f' ({where})' if where else ''}")
    return entries


LAYERS: Final[Mapping[str, _Layer]] = {
    "sessions": _Layer("Last sessions", "index_tokens", _read_sessions),
    "functions": _Layer("Changed functions", "functions_tokens", _read_functions),
    "learnings": _Layer("Learnings", "learnings_tokens", _read_learnings),
    "observations": _Layer("Observations", "observations_tokens", _read_observations, True),
}
