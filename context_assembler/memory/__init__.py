"""Memory: records in stores, and recall of what fits a query under a budget of tokens.

memory = MemoryAssembler("sqlite:memory.db")
await memory.remember("Ana prefers tea.")
print((await memory.assemble_context("What does Ana drink?")).markdown)

`__init__.pyi` lists the public names and where each one lives; modules are loaded on first use.
"""

from context_assembler.lazy import lazy_names

__all__, __getattr__ = lazy_names(__name__, __file__)
