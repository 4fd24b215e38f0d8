"""Which sources could not answer, in one short sentence."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from context_assembler.values.recall import (
    NOTHING_ANSWERED,
    NOTHING_IN_PART,
    NOTHING_RELEVANT,
    RECALL_TAG,
    SourceState,
)
from context_assembler.values.texts.cleaning import clean_text
from context_assembler.values.texts.fences import escape_tag

_ANSWERED: Final = frozenset[SourceState](("ok", "empty", "below_floor"))
_MOST_NAMES: Final = 3
_NAME_CHARS: Final = 40
_ONLY_SOURCE: Final = "memory"


def tell_missing(states: Mapping[str, SourceState], *, fits: Callable[[str], bool]) -> str:
    """Return a sentence that names each source that could not answer; empty where there is none.

    A source is named once, whatever it was asked for. Where the names would be too long there is only
    their number, and where that is as well, nothing.

    Args:
        states: By kind, with the source's name before it where there are several.
        fits: Whether a sentence is short enough.
    """
    names = list(_names(states))
    if not names:
        return ""
    listed = ", ".join(names[:_MOST_NAMES])
    more = len(names) - _MOST_NAMES
    number = f"{len(names)} source{'s' * (len(names) != 1)}"
    told = (f"{listed} and {more} more" if more > 0 else listed, number)
    sentences = (f"Not available: {one}." for one in told)
    return next((sentence for sentence in sentences if fits(sentence)), "")


def have_all_answered(states: Mapping[str, SourceState]) -> bool:
    """Whether each of the sources could answer."""
    return all(state in _ANSWERED for state in states.values())


def tell_nothing(states: Mapping[str, SourceState]) -> str:
    """Return a sentence for where nothing was found: that nothing fits is known where all answered.

    Args:
        states: By kind, with the source's name before it where there are several.
    """
    if have_all_answered(states):
        return NOTHING_RELEVANT
    has_any = any(state in _ANSWERED for state in states.values())
    return NOTHING_IN_PART if has_any else NOTHING_ANSWERED


def _names(states: Mapping[str, SourceState]) -> Iterator[str]:
    """Yield each source with what came of it; of one that answered in part, the part."""
    by_source: dict[str, dict[str, SourceState]] = {}
    for name, state in states.items():
        by_source.setdefault(name.rpartition("/")[0], {})[name] = state
    for source, asked in by_source.items():
        missing: dict[str, SourceState] = {
            name: state for name, state in asked.items() if state not in _ANSWERED
        }
        if 1 < len(asked) == len(missing):
            yield f"{_shown(source or _ONLY_SOURCE)} ({_told(missing)})"
        elif source and len(missing) > 1:
            yield f"{_shown(source)} ({_told(missing)} for {len(missing)} of {len(asked)} kinds)"
        else:
            yield from (f"{_shown(name)} ({_told({name: missing[name]})})" for name in missing)


def _told(missing: Mapping[str, SourceState]) -> str:
    states = dict.fromkeys(missing.values())
    return " or ".join(state.replace("_", " ") for state in states)


def _shown(name: str) -> str:
    flat = escape_tag(RECALL_TAG, " ".join(clean_text(name).split()))
    return flat if len(flat) <= _NAME_CHARS else f"{flat[: _NAME_CHARS - 1]}…"
