"""A run of the OpenAI Agents SDK whose requests stay within 8,000 tokens; its session is in agent.db.

Without a key a local provider stands in, which asks for thirty pages and then answers.
Needs openai-agents.
"""

import asyncio

from agents import Agent, RunConfig, Runner, function_tool

from context_assembler import FittedMessages, ToolCall
from context_assembler.integrations.openai_agents import FitInput, StoredSession
from context_assembler.testing import ScriptedReply, stand_in_for_providers

CALLS = [ToolCall(call_id=f"c{n}", name="read_page", arguments={"page": n}) for n in range(30)]
SCRIPT = [*(ScriptedReply(tool_calls=(call,)) for call in CALLS), ScriptedReply("Page 7 is odd.")]


@function_tool
def read_page(page: int) -> str:
    """Return a page of the log."""
    return f"page {page}: GET /orders 200\n" * 60


def show(fitted: FittedMessages) -> None:
    dropped = sum(change.decision == "dropped" for change in fitted.changes)
    print(f"{fitted.tokens:,} of {fitted.max_tokens:,} tokens; {dropped} items left out")


async def main() -> None:
    agent = Agent(name="reader", model="gpt-5.4", tools=[read_page])
    fit = FitInput(max_tokens=8_000, on_fit=show)
    config = RunConfig(call_model_input_filter=fit, tracing_disabled=True)
    session = StoredSession("log", "sqlite:agent.db")
    task = "One page of the log is odd. Read page after page, then say which it is."
    result = await Runner.run(agent, task, session=session, run_config=config, max_turns=40)
    print(result.final_output)
    print(f"{len(await session.get_items())} items are kept")


if __name__ == "__main__":
    with stand_in_for_providers(SCRIPT):
        asyncio.run(main())
