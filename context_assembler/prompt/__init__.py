"""What goes in front of the conversation: instruction files, sections, skills, templates, lint."""

from context_assembler.lazy import lazy_names

__all__, __getattr__ = lazy_names(__name__, __file__)
