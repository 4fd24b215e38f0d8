"""An agent of Microsoft's framework whose requests stay within 8,000 tokens, and what was left out.

Without a key a local provider stands in, which asks for thirty pages and then answers.
Needs agent-framework-core and agent-framework-openai.
"""

import asyncio

from agent_framework import Agent
from agent_framework.openai import OpenAIChatClient

from context_assembler import FittedMessages, ToolCall
from context_assembler.integrations.agent_framework import FitMiddleware
from context_assembler.testing import ScriptedReply, stand_in_for_providers

CALLS = [ToolCall(call_id=f"c{n}", name="read_page", arguments={"page": n}) for n in range(30)]
SCRIPT = [*(ScriptedReply(tool_calls=(call,)) for call in CALLS), ScriptedReply("Page 7 is odd.")]


def read_page(page: int) -> str:
    """Return a page of the log."""
    return f"page {page}: GET /orders 200\n" * 60


def show(fitted: FittedMessages) -> None:
    dropped = sum(change.decision == "dropped" for change in fitted.changes)
    print(f"{fitted.tokens:,} of {fitted.max_tokens:,} tokens; {dropped} messages left out")


async def main() -> None:
    fit = FitMiddleware(max_tokens=8_000, on_fit=show)
    client = OpenAIChatClient("gpt-5.4")
    agent = Agent(client, tools=[read_page], middleware=[fit], default_options={"store": False})
    task = "One page of the log is odd. Read page after page, then say which it is."
    reply = await agent.run(task)
    print(reply.text)


if __name__ == "__main__":
    with stand_in_for_providers(SCRIPT):
        asyncio.run(main())
