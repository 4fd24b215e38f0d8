"""What every error of this library is."""

from collections.abc import Collection
from typing import Final

_MOST_SHOWN_CHARS: Final = 200
_SPOKEN_AS_YOU: Final = ("us", "uni", "uu", "eu")


def nearest(word: str, known: Collection[str], *, count: int = 3) -> list[str]:
    """Return the known names most like `word`, best first."""
    from difflib import get_close_matches  # noqa: PLC0415 - most names are known

    lowered = {name.lower(): name for name in known}
    return [lowered[hit] for hit in get_close_matches(word.lower(), lowered, n=count, cutoff=0.55)]


def is_misspelt(word: str, known: Collection[str]) -> bool:
    """Whether the word is none of the known names, and nearly one of them but for capitals."""
    if word in known:
        return False
    from difflib import get_close_matches  # noqa: PLC0415 - see above

    lowered = [name.lower() for name in known]
    return bool(get_close_matches(word.lower(), lowered, n=1, cutoff=0.8))


def did_you_mean(word: str, known: Collection[str], *, otherwise: str) -> str:
    """Return a question that names the nearest known names, or the other sentence."""
    near = nearest(word, known)
    return f"Did you mean {' or '.join(repr(name) for name in near)}?" if near else otherwise


def with_article(noun: str, *, begins_sentence: bool = False) -> str:
    """Return the noun behind the article that it takes: an int, a str."""
    word = noun.lstrip("'").lower()
    is_open = word.startswith(tuple("aeiou")) and not word.startswith(_SPOKEN_AS_YOU)
    article = "an" if is_open else "a"
    return f"{article.capitalize() if begins_sentence else article} {noun}"


def brief(value: object) -> str:
    """Return what a value looks like, as far as anybody reads."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - what was given is shown, never asked to be sound
        return with_article(type(value).__name__)
    return text if len(text) <= _MOST_SHOWN_CHARS else f"{text[:_MOST_SHOWN_CHARS]}…"


class AssemblyError(Exception):
    """What went wrong (`problem`), and what to do about it (`remedy`)."""

    def __init__(self, problem: str, *, remedy: str) -> None:
        super().__init__(f"{problem} {remedy}")
        self.problem = problem
        self.remedy = remedy

    def __reduce__(self) -> tuple[object, ...]:
        # By itself an exception is made anew from its message alone, which no subclass here can be:
        # a pool of processes would break, or wait for ever, where one of its tasks fails.
        return _made_anew, (type(self), self.problem, self.remedy), self.__dict__


def _made_anew(kind: type[AssemblyError], problem: str, remedy: str) -> AssemblyError:
    """Return an error that was copied or pickled; its other attributes follow."""
    error = kind.__new__(kind)
    AssemblyError.__init__(error, problem, remedy=remedy)
    return error


class ConfigurationError(AssemblyError, ValueError):
    """A setting that cannot work."""
