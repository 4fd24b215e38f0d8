"""A model that searches a folder of Markdown, and finds an edit in its next call.

Without a key a local provider stands in, which calls the tool `memory` twice and then answers.
"""

import asyncio
import sys
import tempfile
from pathlib import Path

import anthropic

from context_assembler import ContextAssembler, ToolCall
from context_assembler.testing import ScriptedReply, stand_in_for_providers

QUESTION = "When do we deploy?"
NOTES = Path(tempfile.mkdtemp(prefix="notes-"))
ASKED = {"command": "search", "query": "deployment day"}
SCRIPT = [
    ScriptedReply(tool_calls=(ToolCall(call_id="call_1", name="memory", arguments=ASKED),)),
    ScriptedReply(tool_calls=(ToolCall(call_id="call_2", name="memory", arguments=ASKED),)),
    ScriptedReply(text="On Monday: see `guide.md:1-2`."),
]


def write(day: str) -> None:
    (NOTES / "guide.md").write_text(f"# Deployment\nThe deployment is on {day}.\n", "utf-8")


async def run(question: str) -> str:
    write("Friday")
    async with ContextAssembler(memory=NOTES) as assembler, anthropic.AsyncAnthropic() as client:
        await assembler.add_user("shop", question)
        while True:
            context = await assembler.assemble(
                "shop", model="claude-opus-5-5", max_tokens=4000, memory_tool="search"
            )
            reply = await client.messages.create(**context.to_anthropic())
            answer = (await assembler.record("shop", reply, context))[-1]
            if not answer.has_calls:
                return answer.text
            await assembler.run_tools("shop", answer)
            async for event in assembler.sessions.load("shop", after_seq=answer.seq):
                print(event.text)
            write("Monday")  # somebody edits the note meanwhile


if __name__ == "__main__":
    with stand_in_for_providers(SCRIPT):
        print(asyncio.run(run(" ".join(sys.argv[1:]) or QUESTION)))
