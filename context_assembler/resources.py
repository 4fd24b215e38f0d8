"""Files that travel with the package: at the repository's root, or inside the wheel."""

from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(__file__).parent
_IN_REPOSITORY: Final = {
    "model_limits.yaml": _PACKAGE.parent / "model_limits.yaml",
    "bootstrap": _PACKAGE.parent / "bootstrap",
    "samples": _PACKAGE.parent / "tests" / "samples",
}


def bundled_path(name: str) -> Path:
    """Return where a bundled file or folder lies: `model_limits.yaml`, `bootstrap` or `samples`."""
    in_wheel = _PACKAGE / "bundled" / name
    return in_wheel if in_wheel.exists() else _IN_REPOSITORY[name]
