"""What each source of tools answered last, for the calls in which it fails.

A list that goes when its source fails once, and comes back, would be sent anew both times.
"""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple
from weakref import ref

from context_assembler.ports import ToolSource
from context_assembler.stages.collect_tools.merging import SourceAnswer


class LastAnswers:
    """Keeps the last answer of every source for as long as the source is there.

    A source may say what it `stands_for`: whatever stands for the same object lists the same, so that
    an executor which every call brings along anew is known again.
    """

    def __init__(self) -> None:
        self._kept: dict[int, _Kept] = {}

    def keep(self, source: ToolSource, answer: SourceAnswer, *, at: datetime) -> None:
        """Keep what a source answered."""
        asked, kept = _asked(source), self._kept
        if asked is not None:
            key = id(asked)
            kept[key] = _Kept(ref(asked, lambda _: kept.pop(key, None)), answer, at)

    def stand_in(self, source: ToolSource, failed: SourceAnswer) -> SourceAnswer:
        """Return what a source answered last, with a warning that says of when that is.

        Where it never answered, what failed is all there is.
        """
        asked = _asked(source)
        kept = self._kept.get(id(asked))
        if kept is None or kept.asked() is not asked:
            return failed
        moment = f"{kept.at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
        # A moment, and no age: a warning that read otherwise each time would make every call another.
        of_when = f"What it listed last, at {moment}, is still offered."
        warnings = (*(f"{text} {of_when}" for text in failed.warnings), *kept.answer.warnings)
        return replace(
            failed, offers=kept.answer.offers, problems=kept.answer.problems, warnings=warnings
        )


class _Kept(NamedTuple):
    """An answer, whose it is, and when it was given."""

    asked: "ref[object]"
    answer: SourceAnswer
    at: datetime


def _asked(source: Any) -> object | None:
    """Return what tells a source from others; `None`: it cannot be known without keeping it alive."""
    either = (getattr(source, "stands_for", source), source)
    return next((one for one in either if type(one).__weakrefoffset__), None)
