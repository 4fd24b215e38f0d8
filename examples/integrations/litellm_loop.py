"""An agent loop over LiteLLM: the session makes the payload, LiteLLM finds the provider.

Without a key a local provider stands in, which calls the tool once and then answers.
Needs litellm. MODEL is a name of LiteLLM's, such as anthropic/claude-sonnet-4-6.
"""

import asyncio
import os
import sys

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else LiteLLM fetches its prices

import litellm

from context_assembler import ContextAssembler, ToolCall
from context_assembler.integrations.litellm import to_litellm
from context_assembler.testing import ScriptedReply, stand_in_for_providers

MODEL = os.environ.get("MODEL", "openai/gpt-5.2")
PRICES = {"green tea": "4.35", "mug": "12.90"}
CALL = ToolCall(call_id="call_1", name="look_up_price", arguments={"article": "mug"})
SCRIPT = [ScriptedReply(tool_calls=(CALL,)), ScriptedReply(text="Two mugs cost 25.80.")]


def look_up_price(article: str) -> str:
    """Return the price of an article."""
    return PRICES.get(article, f"We do not sell {article!r}.")


async def run(question: str) -> str:
    async with ContextAssembler(sessions="memory:", tools=[look_up_price]) as assembler:
        await assembler.add_user("shop", question)
        while True:
            context = await assembler.assemble("shop", model=MODEL, max_tokens=4000)
            reply = await litellm.acompletion(**to_litellm(context))
            answer = (await assembler.record("shop", reply, context))[-1]
            if not answer.has_calls:
                return answer.text
            await assembler.run_tools("shop", answer)


if __name__ == "__main__":
    with stand_in_for_providers(SCRIPT):
        print(asyncio.run(run(" ".join(sys.argv[1:]) or "What do two mugs cost?")))
