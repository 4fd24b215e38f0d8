"""Whether a model of English can read a text."""

import re
from typing import Final

from context_assembler.values.memories.stop_words import is_of_other_language

_LATIN: Final = re.compile("[A-Za-z\u00c0-\u024f\u1e00-\u1eff]")
_LETTER: Final = re.compile(r"[^\W\d_]")
_WORD: Final = re.compile(r"[^\W\d_]+")
_READ_CHARS: Final = 2_000


def can_be_read(text: str) -> bool:
    """Whether the text may be English; of a long one the beginning tells.

    Vectors of texts of another language say that it is the same language, whatever is said in it.
    """
    if not is_mostly_latin(text):
        return False
    return not is_of_other_language(_WORD.findall(text[:_READ_CHARS].lower()))


def is_mostly_latin(text: str) -> bool:
    """Whether at least half of the letters are Latin; so it is where there are none.

    Vectors of other scripts would tell noise from noise: words alone find more there.
    """
    if text.isascii():
        return True
    return 2 * len(_LATIN.findall(text)) >= len(_LETTER.findall(text))
