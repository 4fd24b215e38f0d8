"""What is loaded on first use: the names of a package, the rows of a table."""

import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, TypeVar

T = TypeVar("T")


def names_on_demand(package: str, names_by_home: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package that offers names of its modules, and loads none.

    The package imports them for type checkers alone, beneath `if TYPE_CHECKING`.

    Args:
        names_by_home: By module of the package, the names it is home to, with blanks between.
    """
    home_by_name = {name: home for home, names in names_by_home.items() for name in names.split()}

    def load(name: str) -> Any:
        if name not in home_by_name:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(f"{package}.{home_by_name[name]}"), name)
        setattr(sys.modules[package], name, found)
        return found

    return load


class RowsOnDemand(Mapping[str, T]):
    """A table of which a row is loaded when it is asked for; to list their names loads none."""

    def __init__(self, loaders: Mapping[str, Callable[[], T]]) -> None:
        self._loaders = loaders
        self._loaded: dict[str, T] = {}

    def __getitem__(self, name: str) -> T:
        if name not in self._loaded:
            self._loaded[name] = self._loaders[name]()
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._loaders

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaders)

    def __len__(self) -> int:
        return len(self._loaders)
