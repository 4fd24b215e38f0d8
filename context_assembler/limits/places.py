"""Where the user's own registry files are looked for."""

import os
from pathlib import Path

from context_assembler.errors import ConfigurationError, RegistryError
from context_assembler.limits.yaml_text import WHOLE_FILE


def override_paths() -> list[Path]:
    """Return the user's own registry files that exist, the strongest first.

    Raises:
        ConfigurationError: `CONTEXT_ASSEMBLER_MODELS` names a file that is not there.
    """
    named = os.environ.get("CONTEXT_ASSEMBLER_MODELS")
    if named and not Path(named).is_file():
        raise ConfigurationError(
            f"CONTEXT_ASSEMBLER_MODELS names {named!r}, which is not a file.",
            remedy="Correct the path, or unset the variable.",
        )
    config_home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    candidates = [
        Path("model_limits.local.yaml"),
        Path(config_home) / "context_assembler" / "model_limits.yaml",
    ]
    found = [path for path in candidates if path.is_file()]
    return [Path(named), *found] if named else found


def read_registry_text(path: Path) -> str:
    """Return the text of a registry file.

    Raises:
        RegistryError: The file cannot be read, or is not UTF-8.
    """
    try:
        return path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = f"the file cannot be read ({error})"
        raise RegistryError(file=str(path), row=WHOLE_FILE, field="", reason=reason) from error
