"""What a loader of instruction files is given, checked at the edge."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from context_assembler.errors import InvalidParameterError, UnsafePathError
from context_assembler.values.given import check_callable, check_type, listed

_MAX_AGENT_ID_CHARS: Final = 100


def checked_folder(folder: str | Path, *, name: str = "the bootstrap folder") -> Path:
    """Return a folder that can exist; a `~` in front of it is the user's home.

    Raises:
        InvalidParameterError: No folder can have that name.
    """
    try:
        is_possible = not isinstance(folder, bytes) and b"\0" not in os.fsencode(folder)
    except (TypeError, ValueError):  # no path, or half a character
        is_possible = False
    if is_possible:
        return Path(os.path.expanduser(folder))  # noqa: PTH111 - it leaves a name that has no home
    raise InvalidParameterError(
        name,
        folder,
        rule="must be a path",
        remedy="Name a folder that can exist.",
    )


def checked_names(given: Sequence[str]) -> tuple[str, ...]:
    """Return the names of files, of which there is one at least.

    Raises:
        InvalidParameterError: There is none, or something among them is none.
    """
    names = listed("agent_names", given, str, such_as="names of files, such as ('AGENT.md',)")
    if not all(names) or not names:
        raise InvalidParameterError(
            "agent_names",
            given,
            rule="must name a file",
            remedy="Pass names such as ('AGENT.md',).",
        )
    return names


def check_clocks(*, ttl_seconds: object, clock: object, now_ns: object) -> None:
    """Refuse what is no number of seconds, or tells no time.

    Raises:
        InvalidParameterError: It is none, or does not.
    """
    check_type("ttl_seconds", ttl_seconds, int, float, such_as="a number of seconds, such as 60")
    check_callable("clock", clock, such_as="a function such as time.monotonic")
    check_callable("now_ns", now_ns, such_as="a function such as time.time_ns")


def check_agent_id(agent_id: object, *, folder: Path) -> None:
    """Refuse an id that is no plain name.

    Raises:
        InvalidParameterError: It is no text.
        UnsafePathError: It could lead elsewhere.
    """
    if not isinstance(agent_id, str):
        raise InvalidParameterError(
            "agent_id", agent_id, rule="must be text", remedy="Pass the agent's name as a string."
        )
    is_plain = all(char.isalnum() or char in "._-" for char in agent_id)
    if is_plain and 0 < len(agent_id) <= _MAX_AGENT_ID_CHARS and not agent_id.startswith("."):
        return
    raise UnsafePathError(agent_id, root=str(folder), what="The agent id")
