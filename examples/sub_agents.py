"""A planner whose tool is another agent: with files, settings and a session of its own.

Without ANTHROPIC_API_KEY a local provider stands in for the model of both.
"""

import asyncio
import tempfile
from pathlib import Path

import anthropic

from context_assembler import AssemblerConfig, ContextAssembler, ToolCall
from context_assembler.testing import ScriptedReply, stand_in_for_providers

FOLDER = Path(tempfile.mkdtemp(prefix="bootstrap-"))
FILES = {
    "AGENT.md": "You plan the work and hand it out.",
    "AGENT.researcher.md": "You look things up and name your sources.",
    "CONTEXT.md": "The shop sells mugs.",
}
CONFIG = AssemblerConfig(
    defaults={"model": "claude-opus-5-5", "max_tokens": 2000},
    agents={"researcher": {"model": "claude-haiku-5-5", "disabled_tools": ["research"]}},
)
CALL = ToolCall(call_id="c1", name="research", arguments={"question": "Who else sells mugs?"})
SCRIPT = [
    ScriptedReply(tool_calls=(CALL,)),
    ScriptedReply(text="The shop next door (its window)."),
    ScriptedReply(text="One rival: the shop next door."),
]


async def research(question: str) -> str:
    """Let the researcher look something up."""
    return await run("researcher", f"task: {question}", question)


assembler = ContextAssembler(bootstrap=FOLDER, tools=[research], config=CONFIG)


async def run(agent: str, session: str, question: str) -> str:
    await assembler.add_user(session, question, agent_id=agent)
    while True:
        context = await assembler.assemble(session)
        async with anthropic.AsyncAnthropic() as client:
            reply = await client.messages.create(**context.to_anthropic())
        answer = (await assembler.record(session, reply, context))[-1]
        if not answer.has_calls:
            print(f"{agent} ({context.metadata.model_id}): {answer.text}")
            return answer.text
        await assembler.run_tools(session, answer)


if __name__ == "__main__":
    for name, text in FILES.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    with stand_in_for_providers(SCRIPT):
        asyncio.run(run("planner", "plan", "Who are our rivals?"))
