"""Turn an agent's session into one valid model request that fits, keeps what matters and grows.

`__init__.pyi` lists the public names and where each one lives, for type checkers and for this file:
modules are loaded on first use, so that importing the package costs nothing.
"""

import re
from importlib import import_module
from typing import Any, Final

_IMPORT: Final = re.compile(r"^from (\S+) import (?:\(([^)]*)\)|(.+))$", re.MULTILINE)

__version__ = "0.2.0"

with open(f"{__file__}i", encoding="utf-8") as _stub:
    _HOMES: Final = {
        name: module
        for module, several, one in _IMPORT.findall(_stub.read())
        for name in re.findall(r"\w+", several or one)
    }
__all__ = sorted(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
