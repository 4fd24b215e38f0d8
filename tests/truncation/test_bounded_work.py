"""What shortening costs where nothing more can be dropped: every part is cut a few times, not ever again."""

from contextlib import suppress
from dataclasses import replace
from typing import Final

import pytest

from context_assembler.errors import ContextOverflowError
from context_assembler.truncation import TRUNCATIONS, Truncator
from context_assembler.values.messages import Message
from context_assembler.values.options import TruncationSettings
from context_assembler.values.parts import ToolCall, ToolResult
from tests.truncation.conversations import WordCounter, calling, numbered, user, words

CALLS: Final = 40
FRAME_TOKENS: Final = 50
MOST_COUNTS_OF_A_PART: Final = 20


class Tally(WordCounter):
    """Counts how often it is asked; a call or a result takes more than the least it is cut to."""

    def __init__(self) -> None:
        self.counts = 0

    def count_message(self, message: Message) -> int:
        self.counts += 1
        frames = sum(isinstance(part, ToolCall | ToolResult) for part in message.parts)
        return super().count_message(message) + FRAME_TOKENS * frames


def calls_at_once(*, argument_words: int, result_words: int) -> list[Message]:
    reply, results = calling(*((f"c{at}", words(result_words)) for at in range(CALLS)))
    arguments = {f"a{at}": "x" for at in range(argument_words)}
    calls = tuple(
        replace(part, arguments=arguments) for part in reply.parts if isinstance(part, ToolCall)
    )
    return numbered([user("go"), replace(reply, parts=calls), results])


@pytest.mark.parametrize("strategy", TRUNCATIONS)
@pytest.mark.parametrize("room_tokens", [2_000, 4_000, 4_500, 8_000, 9_000, 9_900, 12_000])
@pytest.mark.parametrize(("arguments", "results"), [(2, 400), (200, 400), (200, 10)])
def test_many_calls_at_once_are_shortened_in_bounded_work(
    strategy: str, room_tokens: int, arguments: int, results: int
) -> None:
    counter = Tally()
    talk = calls_at_once(argument_words=arguments, result_words=results)
    truncator = Truncator(TruncationSettings(strategy=strategy))

    with suppress(ContextOverflowError):
        truncator.truncate(talk, room_tokens=room_tokens, counter=counter)

    assert counter.counts <= MOST_COUNTS_OF_A_PART * 2 * CALLS
