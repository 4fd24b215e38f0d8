"""Units joined into the messages of a payload."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

from context_assembler.providers.openai_chat.units import Unit
from context_assembler.values.parts import Json

# More calls in one message are refused: https://github.com/openai/openai-openapi (read 2026-11-27)
MAX_CALLS: Final = 128


def join_units(units: Iterable[Unit], *, merges_users: bool) -> list[dict[str, Json]]:
    """Return the messages in the order that the API takes.

    Between two assistant messages the tool messages come first, then what the tools returned beside
    text, in one user message, then everything else in its order. Neighbouring assistant messages
    become one, since calls must be answered before any other message.

    Source:
        https://github.com/agno-agi/agno/issues/4345 (read 2026-11-27)
    """
    spoken = [unit for unit in units if unit.messages or unit.answers]
    messages: list[dict[str, Json]] = []
    for is_assistant, group in groupby(spoken, key=lambda unit: unit.role == "assistant"):
        run = list(group)
        said = [message for unit in run for message in unit.messages]
        if is_assistant and said:
            messages.append(_merge_assistants(said))
            said = []
        messages.extend(answer for unit in run for answer in unit.answers)
        attached = [part for unit in run for part in unit.attachments]
        rest = [{"role": "user", "content": attached}, *said] if attached else said
        messages.extend(_merge_neighbours(rest) if merges_users else rest)
    return [part for message in _with_answers(messages) for part in _split_calls(*message)]


def _with_answers(
    messages: Sequence[dict[str, Json]],
) -> Iterator[tuple[dict[str, Json], list[dict[str, Json]]]]:
    """Yield every message with the tool messages right behind it."""
    at = 0
    while at < len(messages):
        end = at + 1
        while end < len(messages) and messages[end]["role"] == "tool":
            end += 1
        yield messages[at], list(messages[at + 1 : end])
        at = end


def _split_calls(
    message: dict[str, Json], answers: Sequence[dict[str, Json]]
) -> Iterator[dict[str, Json]]:
    """Yield a message with its answers; one of too many calls as several, each answered."""
    calls: list[dict[str, Json]] = message.get("tool_calls", [])
    if len(calls) <= MAX_CALLS:
        yield message
        yield from answers
        return
    waiting = list(answers)
    for start in range(0, len(calls), MAX_CALLS):
        some = calls[start : start + MAX_CALLS]
        rest = {"role": message["role"]} if start else message
        yield {**rest, "tool_calls": some}
        asked = {call["id"] for call in some}
        yield from (answer for answer in waiting if answer["tool_call_id"] in asked)
        waiting = [answer for answer in waiting if answer["tool_call_id"] not in asked]
    yield from waiting


def _merge_assistants(said: Sequence[dict[str, Json]]) -> dict[str, Json]:
    if len(said) == 1:
        return said[0]
    contents = [message["content"] for message in said if "content" in message]
    calls = [call for message in said for call in message.get("tool_calls", [])]
    merged: dict[str, Json] = {"role": "assistant"}
    if contents:
        merged["content"] = _join_contents(contents)
    if calls:
        merged["tool_calls"] = calls
    return merged


def _merge_neighbours(messages: Sequence[dict[str, Json]]) -> list[dict[str, Json]]:
    merged: list[dict[str, Json]] = []
    for message in messages:
        if merged and message["role"] == "user" == merged[-1]["role"]:
            content = [*_as_parts(merged[-1]["content"]), *_as_parts(message["content"])]
            merged[-1] = {"role": "user", "content": content}
        else:
            merged.append(message)
    return merged


def _join_contents(contents: Sequence[Json]) -> Json:
    if all(isinstance(content, str) for content in contents):
        return "\n".join(contents)
    return [part for content in contents for part in _as_parts(content)]


def _as_parts(content: Json) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
