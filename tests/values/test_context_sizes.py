"""What a finished context counts for in memory."""

from dataclasses import replace

from context_assembler import ContextAssembler, assistant_event, user_event
from context_assembler.values.context_sizes import size_in_memory


async def test_a_history_that_was_cut_counts_as_what_it_keeps_in_memory() -> None:
    async with ContextAssembler() as assembler:
        talk = [user_event("What now? " * 40), assistant_event("Wait. " * 40)] * 60
        await assembler.sessions.append("s", [*talk, user_event("And now?")])
        whole = await assembler.assemble("s", model="claude-opus-5-5")
        cut = await assembler.assemble("s", model="claude-opus-5-5", max_context_tokens=5_000)

    assert len(cut.messages) < len(whole.messages) / 2
    assert 0.7 < size_in_memory(cut) / size_in_memory(whole) < 1.5


async def test_a_context_of_nothing_but_instructions_has_a_size() -> None:
    async with ContextAssembler() as assembler:
        await assembler.add_user("s", "Hello")
        context = await assembler.assemble("s", model="claude-opus-5-5")

    bare = replace(context, draft=replace(context.draft, messages=()))

    assert 0 < size_in_memory(bare) <= 2 * size_in_memory(context)
