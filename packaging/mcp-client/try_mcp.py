"""Tries `quotient mcp` with the official Python SDK of the Model Context Protocol.

    python3 -m venv .venv && .venv/bin/pip install -r packaging/mcp-client/requirements.txt
    .venv/bin/python packaging/mcp-client/try_mcp.py target/debug/quotient

Every tool is called as a client would, and what comes back is checked against the tool's own answer.
"""

import asyncio
import json
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

CLUSTER = """
{apiVersion: v1, kind: Node, metadata: {name: n}, status: {allocatable: {cpu: '4', pods: '10'}}}
---
{apiVersion: scheduling.x-k8s.io/v1alpha1, kind: ElasticQuota, metadata: {name: q, namespace: a},
 spec: {min: {cpu: '4'}, max: {cpu: '8'}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: big, namespace: a},
 spec: {containers: [{name: c, image: i, resources: {requests: {cpu: '5'}}}]}}
"""
NODE = "{apiVersion: v1, kind: Node, metadata: {name: m}, status: {allocatable: {cpu: '8', pods: '10'}}}"

CALLS = {
    "explain": ({"manifests": CLUSTER, "pod": "a/big"}, lambda said: said["phase"] == "Pending"),
    "tree": ({"manifests": CLUSTER}, lambda said: "groups" in said),
    "top": ({"manifests": CLUSTER}, lambda said: said["nodes"][0]["name"] == "n"),
    "plan": ({"manifests": CLUSTER, "change": NODE}, lambda said: "verdict" in said),
    "simulate": ({"manifests": CLUSTER}, lambda said: len(said["pods"]) == 1),
    "lint": ({"manifests": CLUSTER}, lambda said: "findings" in said),
}


async def main(program: str) -> None:
    server = StdioServerParameters(command=program, args=["mcp"])
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        hello = await session.initialize()
        info = getattr(hello, "serverInfo", None) or hello.server_info
        version = getattr(hello, "protocolVersion", None) or hello.protocol_version
        assert info.name == "quotient", hello
        await session.send_ping()
        listed = {tool.name: tool for tool in (await session.list_tools()).tools}
        assert set(listed) == set(CALLS), sorted(listed)
        for name, (arguments, is_right) in CALLS.items():
            answer = await session.call_tool(name, arguments)
            data = answer.model_dump(by_alias=True)
            assert not data["isError"], answer
            said = data["structuredContent"]
            assert json.loads(data["content"][0]["text"]) == said, name
            assert is_right(said), (name, said)
        wrong = (await session.call_tool("explain", {"manifests": CLUSTER, "pod": "a/none"})).model_dump(by_alias=True)
        assert wrong["isError"] and "a/none" in wrong["content"][0]["text"], wrong
        print(f"{len(CALLS)} tools answered the client over protocol {version}")


asyncio.run(main(sys.argv[1]))
