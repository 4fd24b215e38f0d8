"""Reads one entry of a list of tools, whatever it is."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from context_assembler.errors import InvalidToolError
from context_assembler.errors.base import with_article
from context_assembler.tools.shapes import ReadShape, read_shape
from context_assembler.tools.signatures import spec_from_function
from context_assembler.values.foreign_errors import tell_problem
from context_assembler.values.json_shapes import is_object
from context_assembler.values.parts import Json
from context_assembler.values.tools import ToolSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadEntries:
    """The tools that could be read, those that could not, and what is missing of the former."""

    specs: tuple[ToolSpec, ...] = ()
    problems: tuple[InvalidToolError, ...] = ()
    notes: tuple[str, ...] = ()


def read_entries(entries: Iterable[Json]) -> ReadEntries:
    """Read every entry on its own: one that cannot be read does not harm the rest."""
    specs: list[ToolSpec] = []
    problems: dict[str, InvalidToolError] = {}  # one for all of which the same is to be said
    notes: list[str] = []
    for entry in entries:
        try:
            read = read_entry(entry)
        except InvalidToolError as error:
            problems.setdefault(str(error), error)
            continue
        except Exception as error:  # noqa: BLE001 - what an entry does when it is looked at is its own
            problem = InvalidToolError(
                _name_of(entry), reason=f"it cannot be read: {tell_problem(error)}"
            )
            problems.setdefault(str(problem), problem)
            continue
        specs += read.specs
        notes += read.notes
    told = tuple(dict.fromkeys(notes))
    return ReadEntries(specs=tuple(specs), problems=tuple(problems.values()), notes=told)


def read_entry(entry: Json) -> ReadShape:
    """Read a `ToolSpec`, a literal spec, a function, or an SDK's tool object.

    Raises:
        InvalidToolError: It is none of these, or cannot be offered.
    """
    if isinstance(entry, ToolSpec):
        return ReadShape(specs=(entry,))
    if is_object(entry):
        return read_shape(entry)
    dump: Callable[..., Json] | None = getattr(entry, "model_dump", None)
    if dump is not None and not isinstance(entry, type):
        return read_shape(dump(mode="json", by_alias=True, exclude_none=True))
    if callable(entry):
        spec = spec_from_function(entry)
        return ReadShape(specs=(spec,), notes=() if spec.description else (_unsaid(spec.name),))
    raise InvalidToolError(
        _name_of(entry),
        reason=f"{with_article(type(entry).__name__)} is neither a spec nor a function",
    )


def _unsaid(name: str) -> str:
    return f"{name} has no docstring: a model is told its name and arguments, and not what it does."


def _name_of(entry: Json) -> str:
    names = (_attribute(entry, attribute) for attribute in ("__name__", "name"))
    return next((name for name in names if isinstance(name, str)), "(unnamed)")


def _attribute(entry: Json, attribute: str) -> object:
    try:
        return getattr(entry, attribute, None)
    except Exception:  # noqa: BLE001 - a foreign property: whatever it raises, there is none
        return None
