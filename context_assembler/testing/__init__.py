"""Doubles for tests of agents: a clock set by hand, exact counts, builders, a local provider."""

from context_assembler.lazy import lazy_names

__all__, __getattr__ = lazy_names(__name__, __file__)
