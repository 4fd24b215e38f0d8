"""Text between tags, for what is sent without a role of its own."""

import re
from typing import Final

SUMMARY_TAG: Final = "summary"
REMINDER_TAG: Final = "system-reminder"


def fence(tag: str, text: str) -> str:
    """Return the text between tags that nothing inside it can close."""
    return f"<{tag}>\n{escape_tag(tag, text)}\n</{tag}>"


def escape_tag(tag: str, text: str) -> str:
    """Return the text, without anything in it that reads as the tag, opened or closed."""
    if "<" not in text:
        return text
    return re.sub(rf"<(?=\s*/?\s*{re.escape(tag)}\b)", "&lt;", text, flags=re.IGNORECASE)
