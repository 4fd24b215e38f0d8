"""One session on three providers: begun on Claude, carried on by GPT, then by Gemini.

Without API keys in the environment a local provider stands in for all three.
"""

import asyncio
from typing import Any

import anthropic
import openai
from google import genai

from context_assembler import ContextAssembler, ToolCall
from context_assembler.testing import ScriptedReply, stand_in_for_providers

CALL = ToolCall(call_id="t1", name="look_up_ferry", arguments={"island": "Hiddensee"})
SCRIPT = [
    ScriptedReply(thinking="An island without cars.", tool_calls=(CALL,)),
    ScriptedReply(thinking="There is one.", text="Hiddensee, from Stralsund."),
    ScriptedReply(thinking="May is cool.", text="A raincoat."),
    ScriptedReply(text="Hiddensee with a raincoat."),
]


def look_up_ferry(island: str) -> str:
    """Return from where a ferry goes to an island, and how long."""
    return {"Hiddensee": "from Stralsund, two and a half hours"}.get(island, "no ferry is known")


async def ask(assembler: ContextAssembler, question: str, *, model: str, send: Any) -> None:
    await assembler.add_user("trip", question)
    while True:
        context = await assembler.assemble("trip", model=model, max_tokens=4000)
        reply = await asyncio.to_thread(send, **context.to_request())
        answer = (await assembler.record("trip", reply, context))[-1]
        if not answer.has_calls:
            break
        await assembler.run_tools("trip", answer)
    print(f"{model}: {answer.text}")
    for entry in context.report.of("cleared", "dropped", "shortened", "repaired"):
        print(f"  {entry.decision}: {entry.reason}")  # such as the thinking of another model


async def main() -> None:
    with anthropic.Anthropic() as claude, openai.OpenAI() as gpt, genai.Client() as gemini:
        assembler = ContextAssembler(tools=[look_up_ferry])
        steps = [
            ("claude-opus-5-5", claude.messages.create, "Name a quiet island, with a way there."),
            ("gpt-6.2-sol", gpt.responses.create, "What do I pack for three days in May?"),
            ("gemini-4-argon", gemini.models.generate_content, "Say all of it in one line."),
        ]
        for model, send, question in steps:
            await ask(assembler, question, model=model, send=send)


if __name__ == "__main__":
    with stand_in_for_providers(SCRIPT):
        asyncio.run(main())
