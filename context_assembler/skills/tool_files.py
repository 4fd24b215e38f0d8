"""Reads the files beside a SKILL.md that hold specs of tools."""

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from context_assembler.skills.file_identity import Identity, identity_of
from context_assembler.values.json_bounds import broken_bound, load_bounded_json
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import Json, JsonObject
from context_assembler.values.texts.instruction_text import decode_text, plain_yaml

_MAX_FILE_BYTES: Final = 1_000_000
_MAX_VALUES: Final = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFile:
    """The specs in one file, or why there are none; `identity` is `None` where there is no file."""

    path: Path
    specs: tuple[JsonObject, ...] = ()
    problem: str = ""
    identity: Identity | None = None


def read_tool_file(name: str, *, folder: Path) -> ToolFile:
    """Return the specs in a file of a skill's folder; whatever lies there, nothing is raised.

    JSON and YAML hold one spec, a list of specs, or a list under `tools`.
    """
    path = folder / name
    try:
        real = Path(os.path.realpath(path))
        if not real.is_relative_to(os.path.realpath(folder)):
            return ToolFile(path=path, problem="lies outside the skill's folder and was not read")
        found = real.stat()
        if not stat.S_ISREG(found.st_mode):
            return ToolFile(path=path, problem="is no regular file")
        with real.open("rb") as file:
            raw_bytes = file.read(_MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return ToolFile(path=path, problem=f"cannot be read: {reason}")
    identity = identity_of(found)
    if len(raw_bytes) > _MAX_FILE_BYTES:
        problem = f"is longer than {_MAX_FILE_BYTES:,} bytes"
        return ToolFile(path=path, problem=problem, identity=identity)
    try:
        specs = _specs_in(decode_text(raw_bytes).text, is_json=name.lower().endswith(".json"))
    except ValueError as error:
        problem = f"holds no specs: {str(error).rstrip('.')}"
        return ToolFile(path=path, problem=problem, identity=identity)
    return ToolFile(path=path, specs=specs, identity=identity)


def _specs_in(text: str, *, is_json: bool) -> tuple[JsonObject, ...]:
    loaded = load_bounded_json(text) if is_json else _load_yaml(text)
    if is_object(loaded) and is_array(loaded.get("tools")):
        loaded = loaded["tools"]
    entries: list[Json] = list(loaded) if is_array(loaded) else [loaded]
    for number, entry in enumerate(entries, 1):
        if not is_object(entry):
            raise ValueError(f"entry {number} is no object")
    return tuple(entries)


def _load_yaml(text: str) -> Json:
    import yaml  # noqa: PLC0415 - loaded when first needed

    try:
        loaded = plain_yaml(yaml.safe_load(text), max_values=_MAX_VALUES)
    except (yaml.YAMLError, RecursionError) as error:
        reason = str(getattr(error, "problem", None) or error).splitlines()[0]
        raise ValueError(f"it is not YAML ({reason})") from error
    if (broken := broken_bound(loaded)) is not None:
        raise ValueError(broken)
    return loaded
