"""The tools that a model may call: where they come from, which are offered, how changes are sent."""

from context_assembler.lazy import lazy_names

__all__, __getattr__ = lazy_names(__name__, __file__)
