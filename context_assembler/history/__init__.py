"""From stored events to the turns of a valid history: active, paired, repaired, with notes and caps.

    MessageTransformer().transform(events).turns

`Timeline` is what the core grows: the history as columns, of which bodies are read only if needed.
Modules are loaded on first use; `__init__.pyi` lists the names that are importable from here.
"""

from importlib import import_module
from typing import Any, Final

_MODULES: Final = ("caps", "notes", "secrets", "transformer")


def __getattr__(name: str) -> Any:
    for module in _MODULES if name[0] != "_" else ():
        home = import_module(f"{__name__}.{module}")
        if hasattr(home, name):
            return getattr(home, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
