"""Replace the old part of a long session by a summary that a model writes.

Without ANTHROPIC_API_KEY a local provider writes it. The events that it covers stay in the store.
"""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import anthropic

from context_assembler import ContextAssembler, SessionEvent, compaction_event, read_transcript
from context_assembler.models import bundled_path
from context_assembler.testing import ScriptedReply, stand_in_for_providers

MODEL = os.environ.get("MODEL", "claude-opus-5-5")
SAMPLE = Path(bundled_path("samples/coding_agent.json"))
TASK = "Write a summary for whoever goes on: the goal, what was done, which files matter, what is open."
WRITTEN = (
    "## Goal\nInvoices that the accountant can import.\n## Done\nVAT per rate; the tests pass."
)


async def summarize(client: anthropic.AsyncAnthropic, events: Sequence[SessionEvent]) -> str:
    """Ask in a session of its own: that request is valid and fits, as any other."""
    scratch = ContextAssembler()
    await scratch.sessions.append("summary", events)
    await scratch.add_user("summary", TASK)
    context = await scratch.assemble("summary", model=MODEL, max_tokens=4000)
    reply = await client.messages.create(**context.to_anthropic())
    return (await scratch.record("summary", reply, context))[-1].text


async def main() -> None:
    events = read_transcript(SAMPLE).events
    async with ContextAssembler() as assembler, anthropic.AsyncAnthropic() as client:
        stored = await assembler.sessions.append("billing", events)
        check = await assembler.check_compaction("billing", model=MODEL, max_context_tokens=200_000)
        print(f"Needed: {check.needed}. {check.details['why']}")
        asked = max(event.seq for event in stored if event.type == "user")
        covered = [event for event in stored if event.seq < asked]
        summary = compaction_event(await summarize(client, covered), covered)
        await assembler.sessions.append("billing", [summary], expected_seq=stored[-1].seq)
        report = await assembler.explain("billing", model=MODEL)
    [entry] = [entry for entry in report.entries if entry.rule == "compaction.covers"]
    print(f"{entry.reason} The request has {report.ledger.used_tokens:,} now.")


if __name__ == "__main__":
    with stand_in_for_providers([ScriptedReply(text=WRITTEN)]):
        asyncio.run(main())
