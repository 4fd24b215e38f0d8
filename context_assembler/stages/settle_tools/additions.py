"""What speaks against telling changed tools as an addition to what was sent before."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from context_assembler.values.field_codecs import FieldError
from context_assembler.values.tool_changes import ChangeForms, ToolChange, note_of_change
from context_assembler.values.tools import ToolChoice, ToolSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Additions:
    """What a model would be told behind the tools that were declared.

    Attributes:
        declared: In front of the history.
        wanted: What is to be offered.
        earlier: What the notes of this epoch told.
        change: What a note of this call would tell.
    """

    declared: tuple[ToolSpec, ...]
    wanted: tuple[ToolSpec, ...]
    earlier: tuple[ToolChange, ...]
    change: ToolChange

    @property
    def added(self) -> tuple[ToolSpec, ...]:
        """Every tool defined behind the history, in order."""
        return tuple(tool for one in (*self.earlier, self.change) for tool in one.added)

    @property
    def known(self) -> Mapping[str, ToolSpec]:
        """Every tool that the model was ever told of in this epoch, by name."""
        return {tool.name: tool for tool in (*self.declared, *self.added)}

    @property
    def withdrawn(self) -> tuple[ToolSpec, ...]:
        """The known tools that are not to be offered, sorted by name."""
        known = self.known
        names = known.keys() - {tool.name for tool in self.wanted}
        return tuple(known[name] for name in sorted(names))


def object_to(
    additions: Additions, *, forms: ChangeForms, choice: ToolChoice | None = None
) -> str | None:
    """Return why the model cannot be told so, in half a sentence; `None` where it can."""
    return next(_objections(additions, forms, choice), None)


def _objections(
    additions: Additions, forms: ChangeForms, choice: ToolChoice | None
) -> Iterator[str]:
    added, withdrawn, known = additions.added, additions.withdrawn, additions.known
    if (added and not forms.adds) or (withdrawn and forms.withdraws is None):
        yield "the model is told of its tools in front of the history alone"
    if (added or withdrawn) and not (additions.declared and additions.wanted):
        yield "a conversation's first tools, and that none are left, are told in front of it"
    if own := [tool.name for tool in (*added, *withdrawn) if tool.native_specs]:
        yield f"{own[0]!r} is a tool of the provider's own"
    if not forms.redefines and len(known) < len(additions.declared) + len(added):
        yield "a tool has another definition"
    if not forms.adds_strict and any(tool.is_strict for tool in added):
        yield "an added tool is strict"
    if added and forms.max_tools is not None and len(known) > forms.max_tools:
        yield f"there would be more than {forms.max_tools} tools"
    forced = choice.name if choice is not None else None
    if forced is not None and all(tool.name != forced for tool in additions.declared):
        yield "a call of an added tool is forced"
    if not _can_be_kept(additions.change):
        yield "a schema holds what no store can keep"


def _can_be_kept(change: ToolChange) -> bool:
    try:
        note_of_change(change)
    except FieldError:
        return False
    return True
