"""What to do about an error, as somebody at a command line can do it."""

from typing import Final

from context_assembler.errors import (
    AssemblyError,
    MissingModelError,
    UnknownModelError,
    UnknownSessionError,
)

_NAME_A_MODEL: Final = "Pass --model ID, or set a model under [defaults] in context-assembler.toml."
_IMPORT_ONE: Final = (
    "'context-assembler sessions' lists what the store has; 'context-assembler import FILE' reads a "
    "transcript into it, or your program adds to the session first."
)
_ADD_A_MODEL: Final = (
    "'context-assembler models' lists those there are; to add one, put its true figures into "
    "model_limits.local.yaml"
)


def remedy_for(error: AssemblyError) -> str:
    """Return the error's remedy, in the command line's words where it speaks of Python's."""
    match error:
        case MissingModelError():
            return _NAME_A_MODEL
        case UnknownSessionError() if "add_user()" in error.remedy:
            return _IMPORT_ONE
        case UnknownModelError():
            return f"{error.hint} {_ADD_A_MODEL}: {error.row_text}".strip()
        case _:
            return error.remedy
