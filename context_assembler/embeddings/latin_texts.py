"""Whether a model of English can read a text."""

import re
from typing import Final

_LATIN: Final = re.compile("[A-Za-z\u00c0-\u024f\u1e00-\u1eff]")
_LETTER: Final = re.compile(r"[^\W\d_]")


def is_mostly_latin(text: str) -> bool:
    """Whether at least half of the letters are Latin; so it is where there are none.

    Vectors of other scripts would tell noise from noise: words alone find more there.
    """
    if text.isascii():
        return True
    return 2 * len(_LATIN.findall(text)) >= len(_LETTER.findall(text))
