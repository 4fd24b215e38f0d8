"""What a premortem and a task stack tell."""

from context_assembler.memory import (
    ExperienceMetadata,
    MemoryAssembler,
    MemoryRecord,
    TaskStack,
    ValueMetadata,
    open_memory,
)


def failed(at: int) -> MemoryRecord:
    known = ExperienceMetadata(domain="migrations", succeeded=False, strategy=f"way {at}")
    return MemoryRecord(text=f"Attempt {at} failed.", kind="experiences", metadata=known)


def principle(text: str, domain: str | None = None) -> MemoryRecord:
    return MemoryRecord(text=text, kind="values", metadata=ValueMetadata(domain=domain))


async def test_a_premortem_has_bounds_general_principles_and_says_what_it_is_based_on() -> None:
    general = [principle("Migrations need a way back."), principle("Tea is warm.")]
    async with open_memory("memory:") as store:
        await store.remember([*map(failed, range(12)), *general, principle("Soup.", "kitchen")])
        recall = MemoryAssembler(store)

        found = await recall.get_premortem_context("migrations")
        short = await recall.get_premortem_context("migrations", limit=2)

    for limit, context in ((10, found), (2, short)):
        headings = [line.heading for line in context.lines]
        assert headings.count("Past failures") == headings.count("How strategies did") == limit
        assert context.markdown.endswith("Based on 12 experiences.")
        assert "## General principles\n\n- Migrations need a way back.\n" in context.markdown
        assert "Tea" not in context.markdown
        assert "Soup" not in context.markdown


def test_a_blocked_goal_stays_current_until_it_is_open_or_popped() -> None:
    stack = TaskStack().push("Release").push("Deploy").block("the certificate is missing")

    below = TaskStack.load(stack.push("Get a certificate").pop("it came").dump())

    assert [frame.state for frame in stack.path] == ["open", "blocked"]
    assert below.current == stack.current
    assert [frame.goal for frame in below.finished_siblings] == ["Get a certificate"]
    assert [frame.state for frame in below.unblock().path] == ["open", "open"]
    assert below.unblock().pop("done").current == stack.frames[0]
