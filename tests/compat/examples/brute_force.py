"""As examples/brute_force.py: all lists of some actions, shared out among threads with an environment each."""

import itertools
import json
from pathlib import Path
from queue import Queue
from threading import Thread

import compiler_gym.util.flags.nproc
import compiler_gym.util.flags.output_dir  # noqa: F401, it defines a flag
import humanize
from absl import app, flags
from compiler_gym.util.flags.benchmark_from_flags import benchmark_from_flags
from compiler_gym.util.flags.env_from_flags import env_from_flags
from compiler_gym.util.runfiles_path import create_user_logs_dir

flags.DEFINE_list("brute_force_action_list", [], "The actions.")
flags.DEFINE_integer("episode_length", 2, "Of each list.")
FLAGS = flags.FLAGS


class Worker(Thread):
    def __init__(self, lists: Queue, results: Queue) -> None:
        super().__init__()
        self.env, self.lists, self.results = env_from_flags(benchmark_from_flags()), lists, results

    def run(self) -> None:
        while actions := self.lists.get():
            self.env.reset()
            rewards = [self.env.step(action)[1] for action in actions]
            self.results.put((sum(rewards), actions, rewards))
        self.env.close()


def main(argv: list[str]) -> None:
    with env_from_flags(benchmark=benchmark_from_flags()) as env:
        env.reset()
        names = FLAGS.brute_force_action_list or env.action_space.names
        numbers = [env.action_space.names.index(name) for name in names]
        folder = Path(FLAGS.output_dir or create_user_logs_dir(f"brute_force/{env.benchmark.uri}"))
        meta = {"env": env.spec.id, "benchmark": str(env.benchmark), "reward": env.reward_space.name}
        meta["init_reward"] = env.reward[env.reward_space.name]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "meta.json").write_text(json.dumps(meta))
        lists: Queue = Queue()
        results: Queue = Queue()
        workers = [Worker(lists, results) for _ in range(FLAGS.nproc)]
        for worker in workers:
            worker.start()
        for actions in itertools.product(numbers, repeat=FLAGS.episode_length):
            lists.put(actions)
        for _ in workers:
            lists.put(None)
        for worker in workers:
            worker.join()
        found = [results.get() for _ in range(results.qsize())]
        with open(folder / "results.csv", "w") as file:
            for _, actions, rewards in found:
                print(*actions, *rewards, sep=",", file=file)
        best = max(found)
        flags_ = " ".join(env.action_space.flags[action] for action in best[1])
        print(f"completed {humanize.intcomma(len(found))} trials, best sequence {flags_}: {best[0]:.4f}")


if __name__ == "__main__":
    app.run(main)
