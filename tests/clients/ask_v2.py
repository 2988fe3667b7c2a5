"""Run by a Python that has the official SDK from 2 on: use every tool, and print what came as JSON."""

import asyncio
import json
import sys

from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters, stdio_client


async def main(program: str, episode: dict, mode: str) -> None:
    told = []

    async def tell(done: float, most: float | None, message: str | None) -> None:
        told.append(done)

    async with Client(stdio_client(StdioServerParameters(command=program, args=["mcp"])), mode=mode) as client:
        version = client.protocol_version
        listed = (await client.list_tools()).tools
        results = {"log_episode": await client.call_tool("log_episode", episode)}
        task = {"task": episode["task"]}
        results["recall_similar"] = await client.call_tool("recall_similar", task, progress_callback=tell)
        results["search"] = await client.call_tool("search", {"query": episode["task"]})
        path = results["log_episode"].structured_content["path"]
        results["read_memory"] = await client.call_tool("read_memory", {"path": path})
        results["doctor"] = await client.call_tool("doctor", {})
        refused = await client.call_tool("recall_similar", task | {"k": 0})
        unknown = ""
        try:
            await client.call_tool("nonsense", {})
        except MCPError as error:
            unknown = str(error)
    print(json.dumps({
        "version": version, "told": told, "unknown": unknown, "refused": [refused.is_error, refused.content[0].text],
        "tools": {tool.name: [tool.annotations.read_only_hint, tool.output_schema] for tool in listed},
        "results": {name: [each.is_error, each.structured_content] for name, each in results.items()},
    }))  # fmt: skip


asyncio.run(main(sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]))
