"""Play a rollout of verifiers without a language model: a script says which tools are called, all else is real.

Needs: pip install 'aiocg[verifiers]' uv
Run it: python examples/verifiers_scripted.py programs-v0/crc32
"""

import argparse
import asyncio
import json
import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import verifiers.v1 as vf

Turn = tuple[str, dict[str, Any]] | str  # a tool and its arguments, or what the model says

SCRIPT: list[Turn] = [
    ("list_actions", {"contains": "aggressive"}),
    ("expand", {"candidates": [["mark<minsize>", "clang<Oz>"], ["default<O3>"]]}),
    ("step", {"actions": ["internalize", "globaldce"]}),
    ("step", {"actions": ["mark<minsize>", "clang<Oz>"]}),
    ("step", {"actions": ["codegen<size>"]}),
    "It is as small as I can make it.",
]


@contextmanager
def scripted_model(script: Sequence[Turn]) -> Iterator[str]:
    """Serve a model that takes one turn of a script after the other, and give its address."""

    class Model(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            number = sum(message["role"] == "assistant" for message in asked["messages"])
            turn = script[number] if number < len(script) else "I have nothing more to say."
            said: dict[str, Any] = {"role": "assistant"}
            if isinstance(turn, str):
                said["content"] = turn
            else:
                function = {"name": turn[0], "arguments": json.dumps(turn[1])}
                said["tool_calls"] = [{"index": 0, "id": f"call{number}", "type": "function", "function": function}]
            chunk = {"id": f"turn{number}", "object": "chat.completion.chunk", "created": 0, "model": "scripted"}
            done = {"index": 0, "delta": said, "finish_reason": "stop" if isinstance(turn, str) else "tool_calls"}
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            for event in (json.dumps(chunk | {"choices": [done], "usage": usage}), "[DONE]"):
                self.wfile.write(f"data: {event}\n\n".encode())

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Model) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


async def play(script: Sequence[Turn], agent: dict[str, Any] | None = None, **taskset: Any) -> vf.Trace:
    """Play one rollout of the first task, as `vf-eval` does, and return its trace."""
    chosen = {"runtime": {"type": "subprocess"}} | (agent or {})
    config = vf.SingleAgentEnvConfig(taskset={"id": "aiocg-codesize", **taskset}, agent=chosen)
    env = vf.load_environment(config)
    (slot,) = env.slots(next(iter(env.taskset)))
    with scripted_model(script) as address:
        async with env.serving():
            context = vf.ModelContext(model="scripted", client=vf.EvalClientConfig(base_url=address))
            (trace,) = (await env.run_slot(slot, context)).traces
    return trace


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", nargs="?", default="programs-v0/crc32")
    logging.disable(logging.INFO)
    trace = asyncio.run(play(SCRIPT, programs=[parser.parse_args().program]))
    for error in trace.errors:
        print(error.message)
    for node in trace.nodes:
        message = node.message
        for call in getattr(message, "tool_calls", None) or []:
            print(f"\n> {call.name}({call.arguments})")
        if message.role != "user" and message.content:
            print(str(message.content)[:300])
    print(f"\nreward {trace.reward:.3f}: {trace.info.get('verdict')}")
