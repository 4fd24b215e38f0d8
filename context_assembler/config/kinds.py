"""What a setting holds, by its annotation: a table, a text, anything else."""

from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Annotated, Final, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel

from context_assembler.values.option_rules import TEXT_OPTIONS
from context_assembler.values.options import OPTION_NAMES, AssembleOptions

_UNIONS: Final = (Union, UnionType)


@dataclass(frozen=True, slots=True)
class Kind:
    """What one place of the settings holds.

    Attributes:
        annotation: As it is declared; `None` where nothing is.
        is_of_options: Whether it is an option of calls, or a part of one.
    """

    annotation: object
    is_of_options: bool = False

    @property
    def has_chosen_names(self) -> bool:
        """Whether it is a table by names that somebody chose, such as agents'."""
        origin = get_origin(_bare(self.annotation))
        return isinstance(origin, type) and issubclass(origin, Mapping)

    @property
    def is_text(self) -> bool:
        """Whether it holds a text as it stands: a name, a path, a pattern."""
        bare = _bare(self.annotation)
        choices = get_args(bare) if get_origin(bare) in _UNIONS else (bare,)
        return any(one in (str, Path) or get_origin(one) is Literal for one in choices)

    @property
    def is_table(self) -> bool:
        """Whether it holds settings, or what somebody chose the names of."""
        return self.has_chosen_names or bool(self.names)

    @property
    def names(self) -> list[str]:
        """The names that are declared; none for anything but a table of settings."""
        return list(_members(_bare(self.annotation)))

    def of(self, name: str) -> "Kind":
        """Return what the table holds by that name."""
        bare = _bare(self.annotation)
        if self.has_chosen_names:
            return Kind(get_args(bare)[1])
        is_of_options = self.is_of_options or bare is AssembleOptions
        return Kind(_members(bare).get(name), is_of_options=is_of_options)


def _bare(annotation: object) -> object:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _members(kind: object) -> Mapping[str, object]:
    """Return what a table of settings declares, by name."""
    if kind is AssembleOptions:
        return {name: str if name in TEXT_OPTIONS else None for name in OPTION_NAMES}
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return {name: field.annotation for name, field in kind.model_fields.items()}
    return get_type_hints(kind) if isinstance(kind, type) and is_dataclass(kind) else {}
