"""An agent loop on the OpenAI SDK: ask, run the tools it calls, ask again.

Without a key a local provider stands in, which calls the tool once and then answers. The session
is kept in agent.db, so that a second run goes on with it.
"""

import asyncio
import os
import sys

import openai

from context_assembler import ContextAssembler, ToolCall
from context_assembler.testing import ScriptedReply, stand_in_for_providers

MODEL = os.environ.get("MODEL", "gpt-6.2-sol")
PRICES = {"green tea": "4.35", "mug": "12.90"}
CALL = ToolCall(call_id="call_1", name="look_up_price", arguments={"article": "mug"})
SCRIPT = [ScriptedReply(tool_calls=(CALL,)), ScriptedReply(text="Two mugs cost 25.80.")]


def look_up_price(article: str) -> str:
    """Return the price of an article.

    Args:
        article: Its name, in lower case.
    """
    return PRICES.get(article, f"We do not sell {article!r}.")


async def run(question: str) -> str:
    async with (
        ContextAssembler(sessions="sqlite:agent.db", tools=[look_up_price]) as assembler,
        openai.AsyncOpenAI() as client,
    ):
        await assembler.add_user("shop", question)
        while True:
            context = await assembler.assemble("shop", model=MODEL, max_tokens=4000)
            reply = await client.responses.create(**context.to_openai_responses())
            answer = (await assembler.record("shop", reply, context))[-1]
            if not answer.has_calls:
                return answer.text
            await assembler.run_tools("shop", answer)


if __name__ == "__main__":
    with stand_in_for_providers(SCRIPT):
        print(asyncio.run(run(" ".join(sys.argv[1:]) or "What do two mugs cost?")))
