"""Run by a Python that has the official SDK below 2: use every tool, and print what came as JSON."""

import asyncio
import json
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import McpError


async def main(program: str, episode: dict) -> None:
    told = []

    async def tell(done: float, most: float | None, message: str | None) -> None:
        told.append(done)

    async with (
        stdio_client(StdioServerParameters(command=program, args=["mcp"])) as streams,
        ClientSession(*streams) as session,
    ):
        version = (await session.initialize()).protocolVersion
        await session.send_ping()
        listed = (await session.list_tools()).tools
        results = {"log_episode": await session.call_tool("log_episode", episode)}
        task = {"task": episode["task"]}
        results["recall_similar"] = await session.call_tool("recall_similar", task, progress_callback=tell)
        results["search"] = await session.call_tool("search", {"query": episode["task"]})
        path = results["log_episode"].structuredContent["path"]
        results["read_memory"] = await session.call_tool("read_memory", {"path": path})
        results["doctor"] = await session.call_tool("doctor", {})
        refused = await session.call_tool("recall_similar", task | {"k": 0})
        unknown = ""
        try:
            await session.call_tool("nonsense", {})
        except McpError as error:
            unknown = str(error)
    print(json.dumps({
        "version": version, "told": told, "unknown": unknown, "refused": [refused.isError, refused.content[0].text],
        "tools": {tool.name: [tool.annotations.readOnlyHint, tool.outputSchema] for tool in listed},
        "results": {name: [each.isError, each.structuredContent] for name, each in results.items()},
    }))  # fmt: skip


asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
