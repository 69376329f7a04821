"""Play a rollout of verifiers without a language model: a script says which tools are called, all else is real.

Needs: pip install 'aiocg[verifiers]' uv
Run it: python examples/verifiers_scripted.py programs-v0/crc32
"""

import asyncio
import json
import logging
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import verifiers.v1 as vf

Turn = tuple[str, dict[str, Any]] | str  # a tool and its arguments, or what the model says

SCRIPT: list[Turn] = [
    ("list_actions", {"contains": "aggressive"}),
    ("expand", {"candidates": [["mem2reg"], ["default<O3>"], ["no-such-pass"]]}),
    ("expand", {"candidates": [["mem2reg"], ["default<O3>"]]}),
    ("step", {"actions": ["internalize", "globaldce"]}),
    ("step", {"actions": ["mark<minsize>", "clang<Oz>"]}),
    ("step", {"actions": ["codegen<size>"]}),
    ("undo", {}),
    "It is as small as I can make it: the reward is 99.",
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
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            for event in (json.dumps(chunk | {"choices": [done]}), "[DONE]"):
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
    env = vf.load_environment(vf.SingleAgentEnvConfig(taskset={"id": "aiocg-codesize", **taskset}, agent=chosen))
    (slot,) = env.slots(next(iter(env.taskset)))
    with scripted_model(script) as address:
        async with env.serving():
            context = vf.ModelContext(model="scripted", client=vf.EvalClientConfig(base_url=address))
            (trace,) = (await env.run_slot(slot, context)).traces
    return trace


def transcript(trace: vf.Trace) -> str:
    """Return what was said, on one line each, and what it has earned."""
    lines = []
    for message in (node.message for node in trace.nodes[1:]):
        lines += [f"> {call.name}({call.arguments})" for call in getattr(message, "tool_calls", None) or []]
        if said := " ".join(str(message.content or "").split()):
            lines.append(said if len(said) <= 120 else f"{said[:117]}...")
    lines += [f"error: {error.message}" for error in trace.errors]
    return "\n".join([*lines, f"reward {trace.reward:.3f}: {trace.info.get('verdict')}"])


if __name__ == "__main__":
    logging.disable(logging.INFO)
    print(transcript(asyncio.run(play(SCRIPT, programs=[*sys.argv[1:], "programs-v0/crc32"]))))
