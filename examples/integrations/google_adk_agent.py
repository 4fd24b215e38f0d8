"""An agent of Google's ADK whose requests stay within 8,000 tokens, and what was left out of them.

Without a key a local provider stands in, which asks for thirty pages and then answers.
Needs google-adk.
"""

import asyncio

from google.adk.agents import LlmAgent
from google.adk.runners import InMemoryRunner

from context_assembler import FittedMessages, ToolCall
from context_assembler.integrations.google_adk import FitContents
from context_assembler.testing import ScriptedReply, stand_in_for_providers

CALLS = [ToolCall(call_id=f"c{n}", name="read_page", arguments={"page": n}) for n in range(30)]
SCRIPT = [*(ScriptedReply(tool_calls=(call,)) for call in CALLS), ScriptedReply("Page 7 is odd.")]


def read_page(page: int) -> str:
    """Return a page of the log."""
    return f"page {page}: GET /orders 200\n" * 60


def show(fitted: FittedMessages) -> None:
    dropped = sum(change.decision == "dropped" for change in fitted.changes)
    print(f"{fitted.tokens:,} of {fitted.max_tokens:,} tokens; {dropped} contents left out")


async def main() -> None:
    fit = FitContents(max_tokens=8_000, on_fit=show)
    agent = LlmAgent(
        name="reader", model="gemini-3.5-flash", tools=[read_page], before_model_callback=fit
    )
    task = "One page of the log is odd. Read page after page, then say which it is."
    async with InMemoryRunner(agent) as runner:
        for event in await runner.run_debug(task, quiet=True):
            for part in (event.content and event.content.parts) or ():
                if part.text:
                    print(part.text)


if __name__ == "__main__":
    with stand_in_for_providers(SCRIPT):
        asyncio.run(main())
