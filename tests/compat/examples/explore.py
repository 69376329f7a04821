"""As examples/explore.py: states that several lists of actions reach are visited once, by a pool of threads."""

import hashlib
from multiprocessing.pool import ThreadPool
from queue import Queue

import compiler_gym.util.flags.nproc  # noqa: F401, it defines a flag
from absl import app, flags
from compiler_gym.util.flags.benchmark_from_flags import benchmark_from_flags
from compiler_gym.util.flags.env_from_flags import env_from_flags
from compiler_gym.wrappers import ConstrainedCommandline

flags.DEFINE_list("explore_actions", [], "The actions.")
flags.DEFINE_integer("episode_length", 3, "The depth.")
FLAGS = flags.FLAGS


def make_env():
    env = env_from_flags(benchmark=benchmark_from_flags())
    return ConstrainedCommandline(env, flags=FLAGS.explore_actions) if FLAGS.explore_actions else env


def main(argv: list[str]) -> None:
    envs: Queue = Queue()
    for _ in range(FLAGS.nproc):
        envs.put(make_env())

    def expand(path: tuple[int, ...]) -> list[tuple[tuple[int, ...], bytes, float]]:
        env = envs.get()
        found = []
        for action in range(env.action_space.n):
            env.reset()
            reward = sum(env.step(one)[1] for one in (*path, action))
            found.append(((*path, action), hashlib.sha256(env.observation["Ir"].encode()).digest(), reward))
        envs.put(env)
        return found

    states: dict[bytes, tuple[float, tuple[int, ...]]] = {}
    edge: list[tuple[int, ...]] = [()]
    with ThreadPool(FLAGS.nproc) as pool:
        for depth in range(FLAGS.episode_length):
            reached = [one for several in pool.map(expand, edge) for one in several]
            edge = []
            for path, state, reward in reached:
                if state in states:
                    assert abs(states[state][0] - reward) < 1e-9
                else:
                    states[state] = reward, path
                    edge.append(path)
            print(f"depth {depth + 1}: {len(edge)} of {len(reached)} states are new")
    env = envs.get()
    reward, path = max(states.values())
    print(f"{reward:.4f}", ", ".join(env.action_space.flags[action] for action in path))
    env.close()


if __name__ == "__main__":
    app.run(main)
