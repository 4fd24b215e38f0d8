"""Begin a session on Claude and go on with it on GPT.

Needs ANTHROPIC_API_KEY and OPENAI_API_KEY.
"""

import asyncio
import os

import anthropic
import openai

from context_assembler import ContextAssembler

CLAUDE = os.environ.get("CLAUDE", "claude-opus-5-5")
GPT = os.environ.get("GPT", "gpt-4.1")


async def main() -> None:
    async with ContextAssembler(sessions="memory:") as assembler:
        await assembler.add_user("trip", "Name a quiet island for three days in May.")
        context = await assembler.assemble("trip", model=CLAUDE, max_tokens=4000)
        async with anthropic.AsyncAnthropic() as claude:
            reply = await claude.messages.create(**context.to_anthropic())
        print("Claude:", (await assembler.record("trip", reply, context))[-1].text)

        await assembler.add_user("trip", "And how do I get there by train and ferry?")
        context = await assembler.assemble("trip", model=GPT, max_tokens=4000)
        async with openai.AsyncOpenAI() as gpt:
            answer = await gpt.chat.completions.create(**context.to_openai_chat())
        print("GPT:", (await assembler.record("trip", answer, context))[-1].text)

        # What could not travel, such as Claude's signed thinking, is named here.
        for entry in context.report.of("cleared", "dropped", "repaired"):
            print(f"{entry.decision}: {entry.reason}")


if __name__ == "__main__":
    asyncio.run(main())
