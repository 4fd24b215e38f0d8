"""Texts of the prompt that the application's functions return for a session."""

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from context_assembler.events import Session
from context_assembler.ports import TextOf
from context_assembler.report import ReportEntry
from context_assembler.texts import clean_text


class AskedTexts(NamedTuple):
    """By name what functions returned, and what went wrong; a text that is missing is in neither."""

    texts: Mapping[str, str] = {}
    entries: tuple[ReportEntry, ...] = ()
    warnings: tuple[str, ...] = ()


class TextAsker:
    """Asks functions of one session for texts; of one that fails, the last text still holds."""

    def __init__(
        self, session: Session, *, timeout_seconds: float, now: Callable[[], datetime]
    ) -> None:
        from context_assembler.tools.sources import LastAnswers

        self._session = session
        self._answers = LastAnswers[str](timeout_seconds=timeout_seconds, now=now)

    def ask_now(self, functions: Mapping[str, TextOf]) -> AskedTexts:
        """Return what plain functions say, without an event loop."""
        asked = ((name, partial(call, self._session), _read) for name, call in functions.items())
        return _joined(dict(zip(functions, self._answers.ask_now(asked), strict=True)))

    async def ask(self, functions: Mapping[str, TextOf]) -> AskedTexts:
        """Return what functions say, asked all at once; plain ones are called in threads."""
        from context_assembler.tools.sources import call_away

        asked = (
            (name, partial(call_away, function, self._session), _read)
            for name, function in functions.items()
        )
        return _joined(dict(zip(functions, await self._answers.ask(asked), strict=True)))


def _read(said: Any) -> str:
    if said is None or isinstance(said, str):
        return clean_text(said or "").strip()
    raise TypeError(f"it must return text, not {type(said).__name__}")


def _joined(answers: Mapping[str, tuple[str | None, str]]) -> AskedTexts:
    entries, warnings = list[ReportEntry](), list[str]()
    for name, (text, happened) in answers.items():
        if happened:
            warnings.append(f"The text of {name!r} {happened}")
        if text is None:
            reason = f"the function that returns it {happened}"
            entries.append(ReportEntry("section", name, "dropped", reason=reason, rule="failed"))
    texts = {name: text for name, (text, _) in answers.items() if text is not None}
    return AskedTexts(texts, tuple(entries), tuple(warnings))
