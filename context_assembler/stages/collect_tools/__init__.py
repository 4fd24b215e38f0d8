"""`ToolCollector`: ask every source, filter, check each schema, merge by name, sort.

A source tells its kind, and with it its precedence, by an attribute `kind`, whatever it is called.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Final, cast

from context_assembler.errors import AssemblyError
from context_assembler.ports import ToolSource, is_offered
from context_assembler.stages.collect_tools.last_answers import LastAnswers
from context_assembler.stages.collect_tools.merging import (
    PRECEDENCE,
    CollectedTools,
    ConflictPolicy,
    OfferedTools,
    SourceAnswer,
)
from context_assembler.stages.collect_tools.tool_memo import ToolMemo, ToolOffer
from context_assembler.stages.collect_tools.tool_sieve import ToolSieve
from context_assembler.sync import is_being_cancelled
from context_assembler.values.foreign_errors import said_by
from context_assembler.values.given import check_method, check_type, listed
from context_assembler.values.options import AssembleOptions
from context_assembler.values.tools import ToolSpec

__all__ = ["PRECEDENCE", "CollectedTools", "ConflictPolicy", "OfferedTools", "ToolCollector"]


_OFFERS: Final[dict[str, ToolOffer]] = {}  # of this process, by all that a spec says


class ToolCollector:
    """Collects the tools of one request from all sources.

    Args:
        sources: Where tools come from.
        include: Globs over names; only matching tools are considered. Empty means all.
        exclude: Globs over names; matching tools are left out.
        on_conflict: `rename` gives the weaker of two different tools with one name its source's
            name in front; `error` refuses.
        timeout_seconds: How long one source may take.
        now: The clock that says of when the list of a source is that fails.
    """

    def __init__(
        self,
        sources: Iterable[ToolSource] = (),
        *,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        on_conflict: ConflictPolicy = "rename",
        timeout_seconds: float = 30.0,
        now: Callable[[], datetime] | None = None,
    ) -> None:
        self._sources = _listed("sources", sources)
        self._include = listed(
            "include", include, str, such_as="globs over names, such as ['fs_*']"
        )
        self._exclude = listed(
            "exclude", exclude, str, such_as="globs over names, such as ['fs_*']"
        )
        self._on_conflict: ConflictPolicy = on_conflict
        self._timeout_seconds = timeout_seconds
        self._memo = ToolMemo(by_text=_OFFERS)
        self._now = now or partial(datetime.now, UTC)
        self._last = LastAnswers()
        self._is_constant = all(map(_is_constant, self._sources))
        self._offered: OfferedTools | None = None  # the last time, where that holds for good

    @property
    def is_constant(self) -> bool:
        """Whether every source says of itself that it lists the same tools for good."""
        return self._is_constant

    async def collect(
        self,
        options: AssembleOptions | None = None,
        *,
        additional: Iterable[ToolSource] = (),
        skills: Iterable[ToolSource] = (),
        learnt: Iterable[ToolSpec] = (),
    ) -> CollectedTools:
        """Return the tools to offer, sorted by name, and what became of every tool.

        A source that fails is a warning, and what it listed last is offered; a tool whose schema is
        unusable is left out by name.

        Args:
            options: Of these `permissions`, `sandbox_mode` and `disabled_tools` count.
            additional: The request's own sources.
            skills: The sources of active skills.
            learnt: The tools that the model knows, which keep their names.

        Raises:
            ToolConflictError: Two tools differ under one name, and `on_conflict` is `error`.
        """
        offered = await self.ask(options, additional=additional, skills=skills)
        return offered.merge(learnt)

    async def ask(
        self,
        options: AssembleOptions | None = None,
        *,
        additional: Iterable[ToolSource] = (),
        skills: Iterable[ToolSource] = (),
    ) -> OfferedTools:
        """Return what all sources offer, before it is merged; the arguments are those of `collect`."""
        check_type("options", options, AssembleOptions, type(None), such_as="AssembleOptions(…)")
        asked = [(source, "additional") for source in _listed("additional", additional)]
        asked += [(source, "") for source in (*self._sources, *_listed("skills", skills))]
        sieve = ToolSieve(
            options=options or AssembleOptions(), include=self._include, exclude=self._exclude
        )
        is_constant = self._is_constant and len(asked) == len(self._sources)
        last = self._offered if is_constant else None
        if last is not None and last.sieve.is_like(sieve):
            return last
        asking = (self._ask(source, kind=kind) for source, kind in asked)
        answers = tuple(await asyncio.gather(*asking)) if last is None else last.answers
        offered = OfferedTools(answers=answers, sieve=sieve, on_conflict=self._on_conflict)
        if is_constant and not any(answer.has_failed for answer in answers):
            self._offered = offered
        return offered

    async def close(self) -> None:
        """Let the sources that hold connections go of them; they connect again when asked again."""
        closes = [getattr(source, "close", None) for source in self._sources]
        await asyncio.gather(*(close() for close in closes if close is not None))

    async def _ask(self, source: ToolSource, *, kind: str) -> SourceAnswer:
        own_kind, name = _kind_of(source), _name_of(source)
        kind = kind or own_kind
        limit = asyncio.timeout(self._timeout_seconds)
        try:
            async with limit:
                specs = await source.list_tools()
            answer = SourceAnswer(
                kind=kind,
                own_kind=own_kind,
                source=name,
                offers=tuple(map(self._memo.offer_of, specs)),
                problems=tuple(getattr(source, "problems", ())),
                warnings=tuple(getattr(source, "notes", ())),
            )
        except (Exception, asyncio.CancelledError) as error:  # foreign code: the rest goes on
            if is_being_cancelled():
                raise
            happened = (
                f"did not answer within {self._timeout_seconds:g} s"
                if limit.expired()
                else f"failed: {_said_by(error)}"
            )
        else:
            self._last.keep(source, answer, at=self._now())
            return answer
        lost = f"Tool source {name!r} {happened.removesuffix('.')}."
        failed = SourceAnswer(
            kind=kind, own_kind=own_kind, source=name, has_failed=True, warnings=(lost,)
        )
        return self._last.stand_in(source, failed)


def _listed(name: str, given: Iterable[ToolSource]) -> tuple[ToolSource, ...]:
    sources = listed(name, given, object, such_as="[FunctionTools(…), …]")
    for source in sources:
        check_method(f"each of {name}", source, "list_tools", such_as="sources of tools")
    return cast("tuple[ToolSource, ...]", sources)


def _is_constant(source: ToolSource) -> bool:
    is_told = is_offered(source, "is_constant", instead_of=("list_tools",))
    return is_told and getattr(source, "is_constant", False) is True


def _said_by(error: BaseException) -> str:
    if isinstance(error, AssemblyError):
        return str(error)  # which says by itself what it is
    said = said_by(error)
    return f"{type(error).__name__}{f': {said}' if said else ''}"


def _name_of(source: ToolSource) -> str:
    try:
        return str(source.name)
    except Exception:  # noqa: BLE001 - a foreign property: whatever it raises, there is no name
        return type(source).__name__


def _kind_of(source: ToolSource) -> str:
    kind: object = getattr(source, "kind", "")
    return kind if isinstance(kind, str) and kind in PRECEDENCE[1:] else ""
