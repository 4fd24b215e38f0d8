"""Tools that appear and disappear while a payload only grows: what is declared, what changed since.

What changed is a note behind the history, which `record` makes a permanent event. A provider that
has a form for it renders the note as such; every other one says its text.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from context_assembler.values.field_codecs import FieldError, decode_fields, encode_fields
from context_assembler.values.json_shapes import is_array
from context_assembler.values.messages import Message
from context_assembler.values.parts import Json, Opaque
from context_assembler.values.reading import as_array, as_text
from context_assembler.values.tools import ToolSpec

TOOLS_NOTE: Final = "tools"
"""The name of the notes that tell of tools that came or went."""

ASSEMBLER: Final = "context-assembler"
"""Whose block a change is until a provider spells it."""

_CHANGE: Final = "tool_change"

WithdrawForm: TypeAlias = Literal["note", "choice"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeForms:
    """What a provider's model can be told of tools without a change of what was sent before.

    Attributes:
        adds: Whether a tool can be added behind the history.
        redefines: Whether one that is known can be given another definition there.
        adds_strict: Whether an added tool may be strict.
        max_tools: How many tools there may be, declared and added together; `None`: not known.
        withdraws: How a tool is withdrawn: by the note itself, or by naming, beside the history,
            those that may be called. `None`: not at all.
    """

    adds: bool = False
    redefines: bool = False
    adds_strict: bool = False
    max_tools: int | None = None
    withdraws: WithdrawForm | None = None


NO_CHANGES: Final = ChangeForms()


@dataclass(frozen=True, kw_only=True)
class ToolPlan:
    """How one provider is told which tools there are.

    Attributes:
        provider: For whom it is made; every other one is told of `offered`.
        declared: In front of the history, as they were when the epoch began.
        offered: What the model may call in this request.
        added: Told in notes behind the history, in their order; a later one of a name replaces an
            earlier one.
        after_seq: Notes behind this event count; earlier ones are part of what was declared.
        forms: What the provider can be told.
    """

    provider: str
    declared: tuple[ToolSpec, ...]
    offered: tuple[ToolSpec, ...]
    added: tuple[ToolSpec, ...] = ()
    after_seq: int = 0
    forms: ChangeForms = field(default_factory=ChangeForms)

    @property
    def allowed(self) -> tuple[str, ...] | None:
        """The names that may be called, where others are known that are withdrawn by the choice."""
        if self.forms.withdraws != "choice":
            return None
        names = {tool.name for tool in self.offered}
        known = {tool.name for tool in (*self.declared, *self.added)}
        return tuple(sorted(names)) if known - names else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolChange:
    """What one note tells: tools that are there from now on, and names that are not any more."""

    added: tuple[ToolSpec, ...] = ()
    removed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed)


NOTHING: Final = ToolChange()


def is_told_alike(tool: ToolSpec, other: ToolSpec | None) -> bool:
    """Whether a model is told the same of both; where they come from it is not told."""
    return other is not None and _told(tool) == _told(other)


def _told(tool: ToolSpec) -> tuple[Json, ...]:
    return (tool.name, tool.description, tool.input_schema, tool.is_strict, tool.native_specs)


def find_change(before: Sequence[ToolSpec], after: Sequence[ToolSpec]) -> ToolChange:
    """Return what leads from one list of tools to another; a tool defined anew counts as added."""
    known = {tool.name: tool for tool in before}
    names = {tool.name for tool in after}
    return ToolChange(
        added=tuple(tool for tool in after if not is_told_alike(tool, known.get(tool.name))),
        removed=tuple(tool.name for tool in before if tool.name not in names),
    )


def apply_changes(tools: Iterable[ToolSpec], changes: Iterable[ToolChange]) -> list[ToolSpec]:
    """Return the tools that are there after the changes, sorted by name."""
    standing = {tool.name: tool for tool in tools}
    for change in changes:
        for name in change.removed:
            standing.pop(name, None)
        standing |= {tool.name: tool for tool in change.added}
    return [standing[name] for name in sorted(standing)]


def note_of_change(change: ToolChange) -> Message:
    """Return the note that tells of a change; names only, where an added tool was known before."""
    block = {
        "type": _CHANGE,
        "added": [encode_fields(tool) for tool in change.added],
        "removed": list(change.removed),
    }
    part = Opaque(provider=ASSEMBLER, block=block, text=_tell(change))
    return Message(role="system", kind="note", note=TOOLS_NOTE, origin="assembler", parts=(part,))


def _tell(change: ToolChange) -> str:
    told: list[str] = []
    if change.added:
        names = ", ".join(tool.name for tool in change.added)
        told.append(f"From here on these tools can be called: {names}.")
    if change.removed:
        told.append(f"From here on these tools cannot be called: {', '.join(change.removed)}.")
    return "\n".join(told)


def is_change(message: Message) -> bool:
    """Whether the message is a note of changed tools."""
    return message.kind == "note" and message.note == TOOLS_NOTE


def changes_in(message: Message) -> Iterator[ToolChange]:
    """Yield what a message tells of changed tools."""
    for part in message.parts:
        if isinstance(part, Opaque) and (change := read_change(part)) is not None:
            yield change


def read_change(part: Opaque) -> ToolChange | None:
    """Return the change that a part tells; `None` where it tells none that can be read."""
    block = part.block
    if part.provider != ASSEMBLER or block.get("type") != _CHANGE:
        return None
    added, removed = block.get("added"), block.get("removed")
    try:
        return ToolChange(
            added=tuple(map(_decode, added)) if is_array(added) else (),
            removed=tuple(name for name in map(as_text, as_array(removed)) if name),
        )
    except FieldError:  # written by a newer version
        return None


def _decode(encoded: Json) -> ToolSpec:
    return decode_fields(ToolSpec, encoded)
