"""Memory: records in stores, and recall of what fits a query under a budget of tokens.

memory = MemoryAssembler("sqlite:memory.db")
await memory.remember("Ana prefers tea.")
print((await memory.assemble_context("What does Ana drink?")).markdown)

`__init__.pyi` lists the public names and where each one lives; modules are loaded on first use.
"""

import re
from importlib import import_module
from typing import Any, Final

_IMPORT: Final = re.compile(r"^from (\S+) import (?:\(([^)]*)\)|(.+))$", re.MULTILINE)

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
