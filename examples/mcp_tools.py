"""Tools of an MCP server: start it, offer what it lists, run a call on it.

Needs the extra `mcp` and no key: the call is one that a model could have made.
"""

import asyncio
import sys

from context_assembler import ContextAssembler, McpTools

PRICES = {"green tea": "4.35", "mug": "12.90"}


def serve() -> None:
    """Be the server, which is any program that speaks MCP."""
    from mcp.server import MCPServer  # only the server needs it

    server = MCPServer("shop", log_level="ERROR")

    @server.tool()
    def look_up_price(article: str) -> str:
        """Return the price of an article."""
        return PRICES.get(article, f"We do not sell {article!r}.")

    server.run()


async def run() -> None:
    shop = McpTools("shop", command=sys.executable, args=[__file__, "serve"])
    async with ContextAssembler(tools=[shop]) as assembler:
        await assembler.add_user("desk", "What does a mug cost?")
        context = await assembler.assemble("desk", model="claude-opus-5-5", max_tokens=500)
        for tool in context.tools:
            print(f"{tool.source} offers {tool.name}: {tool.description}")

        result = await shop.call_tool(context.tools[0], {"article": "mug"}, call_id="call_1")
        print(result.text)


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        serve()
    else:
        asyncio.run(run())
