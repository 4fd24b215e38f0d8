"""Units joined into the contents of a payload."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final

from context_assembler.providers.gemini.units import PLACEHOLDER, Unit
from context_assembler.values.fenced_messages import OPENING
from context_assembler.values.parts import Json

CLOSING: Final = "Continue."


def join_units(units: Iterable[Unit], *, signs_calls: bool) -> list[dict[str, Json]]:
    """Return contents of user and model, as they stand behind others.

    All responses of one set of calls stand in one content, directly behind the calls and alone; what
    the functions returned beside text and everything else that the user said follows in the next.
    Neighbours of one role become one content; their parts stay apart.

    Source:
        https://github.com/google-gemini/gemini-cli/issues/5443
        https://github.com/google-gemini/gemini-cli/issues/11814
        https://github.com/crewAIInc/crewAI/pull/6973 (read 2026-11-27)
    """
    contents: list[dict[str, Json]] = []
    for is_model, group in groupby(filter(_says_something, units), key=_is_model):
        run = list(group)
        responses = [part for unit in run for part in unit.responses]
        attached = [part for unit in run for part in unit.attachments]
        said = [part for unit in run for part in unit.parts]
        if is_model:
            _add(contents, "model", _signed(said) if signs_calls else said)
            said = []
        _add(contents, "user", responses)
        _add(contents, "user", [*attached, *said])
    return contents


def opening_for(contents: Sequence[dict[str, Json]]) -> list[dict[str, Json]]:
    """Return what has to stand in front of contents: the user speaks first."""
    return [said_by_user(OPENING)] if contents and contents[0]["role"] == "model" else []


def closing_for(contents: Sequence[dict[str, Json]]) -> list[dict[str, Json]]:
    """Return what has to stand behind contents: the user speaks last."""
    return [said_by_user(CLOSING)] if contents and contents[-1]["role"] == "model" else []


def said_by_user(text: str) -> dict[str, Json]:
    """Return the text as a content."""
    return {"role": "user", "parts": [{"text": text}]}


def _says_something(unit: Unit) -> bool:
    return bool(unit.parts or unit.responses)


def _is_model(unit: Unit) -> bool:
    return unit.role == "model"


def _add(contents: list[dict[str, Json]], role: str, parts: list[dict[str, Json]]) -> None:
    if parts:
        contents.append({"role": role, "parts": parts})


def _signed(parts: list[dict[str, Json]]) -> list[dict[str, Json]]:
    """Return the parts with a signature on the first call: its own, or the documented placeholder.

    Calls in parallel are signed on the first alone. Only the turn in progress is checked, but every
    turn gets its placeholder, so that what was sent once never changes.

    Source:
        https://ai.google.dev/gemini-api/docs/thought-signatures (read 2026-11-27)
    """
    first = next((at for at, part in enumerate(parts) if "function_call" in part), None)
    if first is None or "thought_signature" in parts[first]:
        return parts
    signed = {**parts[first], "thought_signature": PLACEHOLDER}
    return [*parts[:first], signed, *parts[first + 1 :]]
