"""Public names of a package, loaded on first use; its `__init__.pyi` lists them for type checkers too."""

import re
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

_IMPORT: Final = re.compile(r"^from (\S+) import (?:\(([^)]*)\)|(.+))$", re.MULTILINE)


def lazy_names(package: str, file: str) -> tuple[list[str], Callable[[str], Any]]:
    """Return the public names of a package, sorted, and its `__getattr__`.

    Args:
        file: The package's `__file__`; the stub next to it imports each name from its home.
    """
    with open(f"{file}i", encoding="utf-8") as stub:
        homes = {
            name: module
            for module, several, one in _IMPORT.findall(stub.read())
            for name in re.findall(r"\w+", several or one)
        }

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return sorted(homes), load
