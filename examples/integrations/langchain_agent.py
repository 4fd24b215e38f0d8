"""A LangChain agent whose requests stay within 8,000 tokens, and what was left out of them.

Without a key a local provider stands in, which asks for thirty pages and then answers.
Needs langchain and langchain-openai.
"""

from langchain.agents import create_agent
from langchain_openai import ChatOpenAI

from context_assembler import FittedMessages, ToolCall
from context_assembler.integrations.langchain import FitMiddleware
from context_assembler.testing import ScriptedReply, stand_in_for_providers

CALLS = [ToolCall(call_id=f"c{n}", name="read_page", arguments={"page": n}) for n in range(30)]
SCRIPT = [*(ScriptedReply(tool_calls=(call,)) for call in CALLS), ScriptedReply("Page 7 is odd.")]


def read_page(page: int) -> str:
    """Return a page of the log."""
    return f"page {page}: GET /orders 200\n" * 60


def show(fitted: FittedMessages) -> None:
    dropped = sum(change.decision == "dropped" for change in fitted.changes)
    print(f"{fitted.tokens:,} of {fitted.max_tokens:,} tokens; {dropped} messages left out")


def main() -> None:
    fit = FitMiddleware(max_tokens=8_000, on_fit=show)
    agent = create_agent(ChatOpenAI(model="gpt-5.2"), [read_page], middleware=[fit])
    task = "One page of the log is odd. Read page after page, then say which it is."
    told = agent.invoke({"messages": [("user", task)]}, {"recursion_limit": 200})
    print(told["messages"][-1].text)


if __name__ == "__main__":
    with stand_in_for_providers(SCRIPT):
        main()
