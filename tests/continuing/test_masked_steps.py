"""A step that goes on masks what a step that is made anew masks."""

from context_assembler import ContextAssembler
from context_assembler.config import AssemblerConfig, SafetySettings
from context_assembler.sessions import InMemoryStore
from context_assembler.values.events import SessionEvent, assistant_event, user_event
from context_assembler.values.parts import Text
from tests.continuing.test_going_on import check_every_step, exchange
from tests.values.test_secrets_across import BEGIN, END, LINE, TOKEN

CONFIG = AssemblerConfig(safety=SafetySettings(masks_secrets_in=("tool_results", "user")))


def masking(store: InMemoryStore) -> ContextAssembler:
    return ContextAssembler(store, config=CONFIG)


def told(*texts: str) -> list[SessionEvent]:
    return [user_event([Text(text) for text in texts])]


async def test_secrets_are_masked_alike_at_every_step(steps: list[bool]) -> None:
    batches = [
        told("Look."),
        exchange(1),
        exchange(2),
        told(f"It is {TOKEN}."),
        exchange(3),
        told(f"It is {TOKEN[:9]}\0{TOKEN[9:]}."),
        told(TOKEN[:9], TOKEN[9:]),
        [assistant_event("Yes.")],
        told(BEGIN),
        told(LINE),
        told(LINE, END),
        told("And?"),
        exchange(4),
        exchange(5),
    ]

    await check_every_step(batches, masking, model="claude-opus-5-5")

    assert steps[:2] == [True, True]
    assert steps[-1]
