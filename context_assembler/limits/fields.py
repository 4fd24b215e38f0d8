"""Fields of a mapping that a person wrote, read with their types checked."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from math import isfinite
from typing import TypeVar

from context_assembler.errors import RegistryError, is_misspelt, nearest
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import Json

_T = TypeVar("_T", bound=str)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """One mapping of a row; whoever reads a field gets its value checked, or an error naming it.

    `file_of` says which file a field was read from.
    """

    row: str
    path: str
    content: Mapping[str, Json]
    file_of: Callable[[str], str]

    def error(self, name: str, reason: str) -> RegistryError:
        """Return the error for one field."""
        path = f"{self.path}{name}"
        return RegistryError(file=self.file_of(path), row=self.row, field=path, reason=reason)

    def allow(self, names: Iterable[str]) -> None:
        """Refuse every field that is not among `names`."""
        known = tuple(names)
        for name in self.content:
            if name not in known:
                raise self.error(str(name), f"there is no such field{_hint(str(name), known)}")

    def refuse_misspelt(self, names: Iterable[str]) -> None:
        """Refuse a field that is nearly one of `names`; any other name is the author's own."""
        known = tuple(names)
        for name in self.content:
            if is_misspelt(str(name), known):
                raise self.error(str(name), f"there is no such field{_hint(str(name), known)}")

    def section(self, name: str, *, known: Iterable[str] | None = None) -> "Fields":
        """Return the mapping under `name`, an empty one when there is none."""
        value: object = self.content.get(name)
        if value is None:
            value = {}
        if not is_object(value):
            raise self.error(name, f"a mapping is needed, not {value!r}")
        inner = Fields(
            row=self.row, path=f"{self.path}{name}.", content=value, file_of=self.file_of
        )
        if known is not None:
            inner.allow(known)
        return inner

    def text(self, name: str, default: str = "") -> str:
        """Return a string."""
        value = self.content.get(name)
        if value is None:
            return default
        if not isinstance(value, str):
            raise self.error(name, f"text is needed, not {value!r} (quote it)")
        return value

    def choice(self, name: str, allowed: tuple[_T, ...], default: _T) -> _T:
        """Return one of a closed set of strings."""
        value = self.content.get(name)
        if value is None:
            return default
        for word in allowed:
            if word == value:
                return word
        listed = ", ".join(map(str, allowed))
        quoted = " (quote it: YAML reads it as true or false)" if isinstance(value, bool) else ""
        raise self.error(name, f"{value!r} is not one of {listed}{quoted}")

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of strings."""
        value = self.content.get(name)
        if value is None:
            return ()
        if not is_array(value):
            raise self.error(name, f"a list of texts is needed, not {value!r}")
        for entry in value:
            if not isinstance(entry, str):
                raise self.error(name, f"{entry!r} is not text (quote it)")
        return tuple(value)

    def count(self, name: str, *, least: int = 0) -> int | None:
        """Return a whole number, or `None` where none is given."""
        value = self.content.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self.error(name, f"a whole number of at least {least} is needed, not {value!r}")
        return value

    def amount(self, name: str) -> float | None:
        """Return a finite number that is not negative, or `None` where none is given."""
        value = self.content.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(name, f"a number is needed, not {value!r}")
        if value < 0 or not isfinite(value):
            raise self.error(name, f"{value!r} is not a finite number of at least 0")
        return float(value)

    def flag(self, name: str, *, default: bool) -> bool:
        """Return true or false."""
        value = self.content.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.error(name, f"true or false is needed, not {value!r}")
        return value

    def day(self, name: str) -> date | None:
        """Return a date; text of the form YYYY-MM-DD is one."""
        value = self.content.get(name)
        if value is None or type(value) is date:
            return value
        try:
            return date.fromisoformat(value)
        except (TypeError, ValueError):
            raise self.error(name, f"a date such as 2026-11-30 is needed, not {value!r}") from None


def _hint(name: str, known: tuple[str, ...]) -> str:
    near = nearest(name, known, count=1)
    return f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(known)}"
