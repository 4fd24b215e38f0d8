"""Lines of an instruction file that look as if somebody else had put them there.

A hint for people who review files, not a defence: what is quoted as an example looks the same.
"""

import re
from dataclasses import dataclass
from typing import Final

_MAX_EXCERPT_CHARS: Final = 80

# Each pattern takes linear time. Spaces are written `\s`: the patterns are laid out over lines.
_PATTERNS: Final[tuple[tuple[str, str], ...]] = (
    (
        "overrides other instructions",
        r"""\b(?:ignore|disregard|forget|override)\b .{0,20}
        \b(?:all|any|every|the|your|previous|prior|above|earlier|other)\b .{0,30}
        \b(?:instructions?|rules?|prompts?|guidelines?)\b""",
    ),
    (
        "speaks as another role",
        r"""</?(?:system|system-reminder|developer|assistant)>
        | <\|(?:im_start|im_end|system)\|> | \[/?INST\]
        | ^\s{0,8}\#{2,6}\s{0,4}(?:system|assistant)\s{0,4}:""",
    ),
    (
        "wants something kept from the user",
        r"""\b(?:do\snot|don't|never)\s.{0,20}\b(?:mention|reveal|show|report)\b.{0,30}\bto\sthe\suser\b
        | \b(?:do\snot|don't|never)\s(?:tell|inform|alert)\sthe\suser\b
        | \bwithout\s(?:telling|informing|asking)\sthe\suser\b""",
    ),
    (
        "runs what it downloads",
        r"""\b(?:curl|wget|iwr|invoke-webrequest)\b .{0,200} \|\s{0,4}(?:sudo\s)?(?:ba|z|da)?sh\b
        | \bbase64\s(?:-d|--decode)\b .{0,80} \|\s{0,4}(?:ba|z|da)?sh\b""",
    ),
    (
        "sends data away",
        r"""\b(?:send|post|upload|exfiltrate|forward)\b .{0,60}
        (?:\b(?:credentials?|secrets?|tokens?|api\skeys?|environment\svariables?|ssh\skeys?
        |conversation)\b | \.env\b) .{0,60} \bhttps?://""",
    ),
)

# Characters that a reader does not see and a model does. A zero-width joiner belongs to emoji.
_HIDDEN: Final = re.compile(
    "[\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\U000e0000-\U000e007f]+"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspicion:
    """What a line (from 1) looks like, with the words that say so."""

    kind: str
    line: int
    excerpt: str


def find_suspicions(text: str) -> list[Suspicion]:
    """Return what looks injected, in order of appearance, once a line and kind."""
    found: list[Suspicion] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if hidden := _HIDDEN.search(line):
            points = " ".join(f"U+{ord(char):04X}" for char in hidden[0][:6])
            found.append(Suspicion(kind="hides characters", line=number, excerpt=points))
        for kind, pattern in _COMPILED:
            if match := pattern.search(line):
                excerpt = match[0].strip()[:_MAX_EXCERPT_CHARS]
                found.append(Suspicion(kind=kind, line=number, excerpt=excerpt))
    return found


_COMPILED: Final = tuple(
    (kind, re.compile(pattern, re.IGNORECASE | re.VERBOSE)) for kind, pattern in _PATTERNS
)
