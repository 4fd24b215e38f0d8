"""Keeping what URLs hold secret out of errors."""

import re
from typing import Final

_HIDDEN: Final = "***"
_USER: Final = re.compile(r"(?<=//)(?:[^\s/@:]*:\S*|[^\s/@]+)@|(?<=:)[^\s/@]+@")
_PARAMETER: Final = re.compile(
    r"(?i)([?&;][\w.-]*(?:key|token|secret|passw|pwd|signature|credential)[\w.-]*=)[^&#;\s'\"]+"
)


def without_credentials(text: str) -> str:
    """Return the text with no user, password, key or token in the URLs that stand in it."""
    return _PARAMETER.sub(rf"\1{_HIDDEN}", _USER.sub(f"{_HIDDEN}@", text))
