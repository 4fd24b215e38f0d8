"""Why an instruction file is not where it is looked for, and what lies there in its place."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

from context_assembler.errors import is_misspelt, nearest
from context_assembler.values.texts.section_text import one_line

KNOWN_NAMES: Final = frozenset(
    {"agent.md", "agents.md", "claude.md", "claude.local.md", "gemini.md", "soul.md", "context.md"}
    | {"copilot-instructions.md", ".cursorrules", ".windsurfrules"}
)
"""What clients call their instruction files, in lower case; who has one expects that it is read."""

_OTHER_SECTIONS: Final = frozenset({"soul.md", "context.md"})
_MAX_ENTRIES: Final = 1_000
_NAME_FOLDER: Final = "Correct what bootstrap= or the setting [bootstrap] folder names."
_WRITE_FILE: Final = "Write it, or set [bootstrap] required to the sections that you have."


def is_variant(name: str) -> bool:
    """Whether the name is that of an agent's own file (`AGENT.<agent_id>.md`)."""
    stem, *rest = name.split(".")
    return stem in {"AGENT", "SOUL", "CONTEXT"} and len(rest) == 2 and rest[1] == "md"


def tell_absence(folder: Path, names: Sequence[str], look_in: Callable[[Path], object]) -> str:
    """Return in one or two sentences why none of the names is in the folder, and what to do.

    Args:
        look_in: Is told of every folder before what lies in it is looked at.
    """
    if not os.path.lexists(folder):
        look_in(folder.parent)
        near = nearest(folder.name, _names_in(folder.parent, wants_folders=True), count=1)
        is_meant = bool(near) and is_misspelt(folder.name, near)
        beside = f", but {one_line(near[0])!r} beside it" if is_meant else ""
        return f"there is no folder {_shown(folder)}{beside}. {_NAME_FOLDER}"
    if not os.path.isdir(folder):  # noqa: PTH112 - `Path.is_dir` raises for some
        return f"{_shown(folder)} is no folder. {_NAME_FOLDER}"
    look_in(folder)
    near = [name for name in _names_in(folder, wants_folders=False) if _is_near(name, names)]
    missing = f"there is no {' or '.join(names)} in {_shown(folder)}"
    if not near:
        return f"{missing}. {_WRITE_FILE}"
    known = "list its name in the setting [bootstrap] agent_names"
    return f"{missing}, but {one_line(near[0])}: rename that, or {known}."


def _names_in(folder: Path, *, wants_folders: bool) -> list[str]:
    """Return the folders or the others that lie there, sorted; of thousands not all."""
    with suppress(OSError), os.scandir(folder) as entries:
        looked_at = islice(entries, _MAX_ENTRIES)
        return sorted(entry.name for entry in looked_at if entry.is_dir() == wants_folders)
    return []


def _is_near(name: str, names: Sequence[str]) -> bool:
    lowered, wanted = name.lower(), [one.lower() for one in names]
    if lowered in wanted:
        return True
    if lowered in KNOWN_NAMES:
        return lowered not in _OTHER_SECTIONS and _OTHER_SECTIONS.isdisjoint(wanted)
    return not is_variant(name) and is_misspelt(lowered, wanted)


def _shown(path: Path) -> str:
    return one_line(str(path))
