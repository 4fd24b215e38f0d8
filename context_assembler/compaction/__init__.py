"""Compaction: when a session needs it, and the summary that takes the place of what it covers.

check = CompactionDetector().check(context.metadata.ledger, history=HistoryFacts(messages=250))
if check.needed:
    done = await assembler.compact("trip-42", summarize_with("claude-haiku-4-5"))

Modules are loaded on first use; `__init__.pyi` lists the names that are importable from here.
"""

from context_assembler.lazy import lazy_names

__all__, __getattr__ = lazy_names(__name__, __file__)
