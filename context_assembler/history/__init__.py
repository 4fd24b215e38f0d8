"""From stored events to the turns of a valid history: active, paired, repaired, with notes and caps.

    MessageTransformer().transform(events).turns

`Timeline` is what the core grows: the history as columns, of which bodies are read only if needed.
Modules are loaded on first use; `__init__.pyi` lists the names that are importable from here.
"""

from context_assembler.lazy import lazy_names

__all__, __getattr__ = lazy_names(__name__, __file__)
