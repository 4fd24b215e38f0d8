"""What a `ContextAssembler` recalls from; without memory nothing of it is imported."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, Union

from context_assembler.errors import AssemblyError, ConfigurationError
from context_assembler.ports import TokenCounter
from context_assembler.stages.split_window import input_budget
from context_assembler.sync import close_all
from context_assembler.values.draft import Parameters
from context_assembler.values.given import check_known
from context_assembler.values.limits import ModelLimits
from context_assembler.values.options import AssembleOptions
from context_assembler.values.recalled_notes import (
    MEMORY_NOTE,
    NOBODYS,
    NOTHING_RECALLED,
    RecalledNote,
)

if TYPE_CHECKING:
    from context_assembler.config import AssemblerConfig
    from context_assembler.memory_assembler import MemoryAssembler
    from context_assembler.memory_assembler.writing import Memorable
    from context_assembler.ports import MemorySource
    from context_assembler.recall.premortem import PremortemContext
    from context_assembler.values.memories.records import MemoryRecord, Remembered
    from context_assembler.values.recall import FormattedContext
    from context_assembler.values.task_stack import TaskStack

_Source: TypeAlias = Union[str, Path, "MemorySource"]
GivenMemory: TypeAlias = Union[_Source, Iterable[_Source], Mapping[str, _Source], "MemoryAssembler"]
MemoryArgument: TypeAlias = GivenMemory | None

_UNUSED: Final = "query was given, but no memory is configured to recall from."


class Recollection:
    """Memory as one assembler of requests uses it.

    Args:
        memory: A `MemoryAssembler`, or what one is made from; by default the settings' store.
        now: The clock behind what is recent.
        section_names: Of the application's own sections of the prompt.

    Raises:
        ConfigurationError: Nothing can be recalled from what is given, or a section has the name of
            the note.
    """

    def __init__(
        self,
        memory: MemoryArgument,
        *,
        config: "AssemblerConfig",
        now: Callable[[], datetime],
        section_names: Iterable[str] = (),
    ) -> None:
        self._settings = config.memory
        # Of what was opened here, the last first.
        self._closes: list[Callable[[], Awaitable[None]]] = []
        self._assembler: MemoryAssembler | None = None
        given = config.memory.store if memory is None else memory
        if given is None:
            return
        if MEMORY_NOTE in section_names:
            raise ConfigurationError(
                f"The name {MEMORY_NOTE!r} belongs to the note of what is recalled.",
                remedy="Give the section of the prompt another name.",
            )
        self._assembler = self._open(given, now=now)

    @property
    def is_there(self) -> bool:
        """Whether there is any memory."""
        return self._assembler is not None

    @property
    def assembler(self) -> "MemoryAssembler":
        """What recalls.

        Raises:
            ConfigurationError: No memory is configured.
        """
        if self._assembler is None:
            raise ConfigurationError(
                "No memory is configured.",
                remedy="Pass ContextAssembler(memory='sqlite:memory.db'), or set [memory] store.",
            )
        return self._assembler

    async def recall(self, query: str, **options: Any) -> "FormattedContext":
        """Return what fits a query, within what the settings hold where the call says nothing."""
        _check_known(options, self.assembler.assemble_context)
        return await self.assembler.assemble_context(query, **self._settings.filled(options))

    async def get_premortem_context(
        self, domain: str, strategy: str | None, **options: Any
    ) -> "PremortemContext":
        """Return what earlier attempts teach; which kinds teach it, no setting says."""
        _check_known(options, self.assembler.get_premortem_context)
        filled = self._settings.filled(options)
        options |= {name: filled[name] for name in ("max_tokens", "filters")}
        return await self.assembler.get_premortem_context(domain, strategy, **options)

    async def assemble_stack(self, stack: "TaskStack", **options: Any) -> "FormattedContext":
        """Return where the agent stands, within what the settings hold."""
        _check_known(options, self.assembler.assemble_stack)
        return await self.assembler.assemble_stack(stack, **self._settings.filled(options))

    def update_context(
        self, context: "FormattedContext", event: "MemoryRecord | str", **options: Any
    ) -> "FormattedContext":
        """Return a recalled context with what just happened, within what the settings hold."""
        _check_known(options, self.assembler.update_context)
        bounds = {"limit": self._settings.limit, "max_tokens": self._settings.max_tokens}
        return self.assembler.update_context(context, event, **bounds | options)

    async def remember(self, records: "Memorable") -> "list[Remembered]":
        """Keep records, or texts; those of no project where those of the settings are looked for."""
        from context_assembler.memory_assembler.projects import remember_within  # noqa: PLC0415

        return await remember_within(self.assembler, records, self._settings.namespaces)

    async def note_for(
        self,
        options: AssembleOptions,
        limits: ModelLimits,
        parameters: Parameters,
        *,
        counter: TokenCounter,
    ) -> RecalledNote:
        """Recall for the call's query; a note of a quarter of what may be sent is long enough."""
        budget_tokens = input_budget(
            limits,
            max_tokens=parameters.max_tokens,
            max_context_tokens=options.max_context_tokens,
            reserve_tokens=options.reserve_tokens,
        )
        most_tokens = min(options.recall_tokens or 0, budget_tokens // 4)
        query, namespaces = options.query, options.recall_namespaces
        if not query or not query.strip():
            return NOTHING_RECALLED
        if self._assembler is None:
            return RecalledNote(warnings=(_UNUSED,))
        if namespaces == ():
            return RecalledNote(entries=(NOBODYS,))
        return await self._note(
            query, namespaces=namespaces or (), max_tokens=most_tokens, counter=counter
        )

    async def _note(
        self, query: str, *, namespaces: tuple[str, ...], max_tokens: int, counter: TokenCounter
    ) -> RecalledNote:
        """Return what is recalled for a query as a note; no trouble with it is an error.

        Args:
            namespaces: The only ones to look in; none are all.
            max_tokens: The most that the note takes, with its label and fence.
            counter: Counts it.
        """
        # With what searches, so that a call without a query loads none of it.
        from context_assembler.recall.tell_note import room_in_note, tell_note  # noqa: PLC0415
        from context_assembler.values.memories.records import MemoryFilters  # noqa: PLC0415

        count_text = counter.count_text
        try:
            context = await self.recall(
                query,
                filters=MemoryFilters(namespaces=namespaces),
                max_tokens=max(room_in_note(max_tokens, count_text=count_text), 1),
                settings=replace(self.assembler.settings, times="dates"),
                counter=counter,
            )
            return tell_note(context, count_text=count_text)
        except Exception as error:  # noqa: BLE001 - a call is worth more than what it would recall
            problem = str(error) if isinstance(error, AssemblyError) else repr(error)
            return RecalledNote(warnings=(f"Nothing could be recalled: {problem}",))

    async def close(self) -> None:
        """Close what was opened here; the next call opens it again."""
        await close_all(*self._closes)

    def _open(self, given: "GivenMemory", *, now: Callable[[], datetime]) -> "MemoryAssembler":
        from context_assembler.memory_assembler import MemoryAssembler  # noqa: PLC0415

        if isinstance(given, MemoryAssembler):
            return given
        embed = None
        if self._settings.embedder is not None:
            from context_assembler.embeddings import open_embedder  # noqa: PLC0415

            embed = open_embedder(self._settings.embedder)
            self._closes.insert(0, embed.close)
        assembler = MemoryAssembler(
            given,
            settings=self._settings.recall,
            embed=embed,
            merges_alike=self._settings.merges_alike,
            clock=lambda: now().timestamp(),
        )
        self._closes.insert(0, assembler.close)
        return assembler


def _check_known(options: Mapping[str, Any], method: Callable[..., object]) -> None:
    """Refuse what is no option of the method.

    Raises:
        UnknownOptionError: It has none of that name.
    """
    parameters = signature(method).parameters.values()
    known = [one.name for one in parameters if one.kind is Parameter.KEYWORD_ONLY]
    for name in options:
        check_known(name, known, kind=f"option of {method.__name__}")
