"""What a coding agent's session starts with: project memory, its hook, and what fills it.

text = (await SessionStart(store).build("/src/shop")).text
"""

from context_assembler.lazy import lazy_names

__all__, __getattr__ = lazy_names(__name__, __file__)
