"""Prints what the original, CompilerGym 0.2.5, observes of a program: `python observe_compiler_gym.py FILE < LISTS`.

The lists, of lists of actions, are JSON; what is printed is a JSON object for each of them, with the program after the
actions. Runs in a Python that has the original: 3.8 to 3.10.
"""

import base64
import json
import sys

from driving import Channel

NUMBERS = ("Autophase", "InstCount", "Inst2vecEmbeddingIndices")


def observed(env, actions):
    """Return all that is observed after some actions."""
    env.reset()
    _, _, done, info = env.multistep([env.action_space.flags.index(action) for action in actions])
    if done:
        raise RuntimeError(f"{actions}: {info}")
    view = env.observation
    return {
        "actions": actions,
        "bitcode": base64.b64encode(view["Bitcode"].tobytes()).decode(),
        "IrInstructionCount": int(view["IrInstructionCount"]),
        **{name: [int(number) for number in view[name]] for name in NUMBERS},
        "Inst2vecPreprocessedText": list(view["Inst2vecPreprocessedText"]),
        "Programl": columns(view["Programl"]),
    }


def columns(graph):
    """Return a graph as columns: four of its nodes, four of its edges, and the names of its functions."""
    nodes = [graph.nodes[number] for number in range(len(graph))]
    edges = [(source, target, edge) for source, target, edge in graph.edges(data=True)]
    return {
        **{name: [node[name] for node in nodes] for name in ("type", "text", "function", "block")},
        "source": [source for source, _, _ in edges],
        "target": [target for _, target, _ in edges],
        **{name: [edge[name] for _, _, edge in edges] for name in ("flow", "position")},
        "functions": [function["name"] for function in graph.graph["function"]],
    }


def main():
    """Observe the one program after each list of actions."""
    channel = Channel()
    import gym
    from compiler_gym.envs.llvm import make_benchmark

    with gym.make("llvm-v0", benchmark=make_benchmark(sys.argv[1])) as env:
        channel.reply([observed(env, actions) for actions in json.load(sys.stdin)])


if __name__ == "__main__":
    main()
