"""Drives the original, CompilerGym 0.2.5, by requests on standard input: `python drive_compiler_gym.py`; see `driving`.

Runs in a Python that has it: 3.8 to 3.10. `drive_aiocg.py` has the same operations for ours.
"""

import concurrent.futures
import sys
import time

from driving import Channel, Spent, occupied_bytes, parse, python_version, tool_seconds

clock = time.perf_counter


class Original:
    """Its environments, and what is done to them."""

    def __init__(self):
        self.env = None
        self.envs = []
        self.occupied = 0  # before there were several

    def start(self, program):
        """Import, make an environment, reset it for the first time."""
        with Spent() as importing:
            import compiler_gym
            import gym
        from compiler_gym.envs.llvm import make_benchmark

        benchmark = make_benchmark(program)
        with Spent() as making:
            self.env = gym.make("llvm-v0", benchmark=benchmark)
        tools = tool_seconds()
        with Spent() as resetting:
            self.env.reset()
        tools = tool_seconds() - tools
        with Spent() as again:
            second = gym.make("llvm-v0", benchmark=benchmark)
        second.close()
        return {
            "spent": [[one.seconds, one.processor] for one in (importing, making, again, resetting)],
            "tools": tools,
            "python": python_version(),
            "version": compiler_gym.__version__,
            "compiler": self.env.compiler_version,
            "actions": list(self.env.action_space.flags),
            "instructions": int(self.env.observation["IrInstructionCount"]),
        }

    def reset(self, count):
        """Start over again and again."""
        self._settle(None, None)
        seconds = []
        with Spent() as spent:
            for _ in range(count):
                began = clock()
                self.env.reset()
                seconds.append(clock() - began)
        return {"seconds": seconds, "processor": spent.processor / count}

    def steps(self, batches, observation, reward, several):
        """Do one action, or several at once, after another; the time is that of one, or of an empty step."""
        self._settle(observation, reward)
        given = [indices if several else indices[0] for indices in map(self._indices, batches)]
        each = max(1, len(batches[0]))
        step = self.env.multistep if several else self.env.step
        seconds, failures = [], 0
        with Spent() as spent:
            for action in given:
                began = clock()
                done = step(action)[2]
                seconds.append((clock() - began) / each)
                if done:
                    failures += 1
                    self.env.reset()
        return {"seconds": seconds, "processor": spent.processor / (each * len(batches)), "failures": failures}

    def facade_steps(self, batches, observation, reward):
        """Do one action after another; all of its environments are made by `gym.make`."""
        return self.steps(batches, observation, reward, False)

    def fork(self, prefix, steps):
        """Fork from a state some steps away from the start, and let each fork do a step, be it an empty one."""
        self._settle(None, None)
        for action in self._indices(prefix):
            self.env.step(action)
        given = list(map(self._indices, steps))
        seconds, failures = [], 0
        with Spent() as spent:
            for actions in given:
                began = clock()
                child = self.env.fork()
                failures += bool(child.multistep(actions)[2])
                seconds.append(clock() - began)
                child.close()
        return {"seconds": seconds, "processor": spent.processor / len(steps), "failures": failures}

    def greedy(self, prefix, actions, reward):
        """Try every action on a fork of its own."""
        self._settle(None, reward)
        for action in self._indices(prefix):
            self.env.step(action)
        failures = 0
        indices = self._indices(actions)
        with Spent() as spent:
            for action in indices:
                child = self.env.fork()
                failures += bool(child.step(action)[2])
                child.close()
        return {"seconds": [spent.seconds], "processor": spent.processor, "failures": failures}

    def many(self, programs, observation, reward, way):
        """Make an environment for each program, with a service of its own as `gym.make` does, and reset it.

        There is one `way` only, which `play` has.
        """
        import gym
        from compiler_gym.envs.llvm import make_benchmark

        self.occupied = occupied_bytes()
        benchmarks = {program: make_benchmark(program) for program in set(programs)}

        def one(program):
            benchmark = benchmarks[program]
            env = gym.make("llvm-v0", benchmark=benchmark, observation_space=observation, reward_space=reward)
            env.reset()
            return env

        with Spent() as spent, concurrent.futures.ThreadPoolExecutor(8) as pool:
            self.envs = list(pool.map(one, programs))
        return {"seconds": [spent.seconds], "processor": spent.processor}

    def play(self, plans):
        """Step all of them, each in a thread of its own."""
        for env in self.envs:
            env.reset()
        plans = [self._indices(plan) for plan in plans]

        def one(env, plan):
            failures = 0
            for action in plan:
                if env.step(action)[2]:
                    failures += 1
                    env.reset()
            return failures

        with concurrent.futures.ThreadPoolExecutor(len(self.envs)) as pool, Spent() as spent:
            failures = sum(pool.map(one, self.envs, plans))
        steps = sum(map(len, plans))
        return {"rate": steps / spent.seconds, "processor": spent.processor / steps, "failures": failures}

    def fewer(self):
        """Close what `many` has made; return what it occupied in the end."""
        occupied = occupied_bytes() - self.occupied
        for env in self.envs:
            env.close()
        self.envs = []
        return {"bytes": occupied}

    def close(self):
        """Close everything."""
        self.fewer()
        if self.env is not None:
            self.env.close()

    def _settle(self, observation, reward):
        self.env.observation_space = observation
        self.env.reward_space = reward
        self.env.reset()

    def _indices(self, actions):
        flags = self.env.action_space.flags
        return [flags.index(action) for action in actions]


def main():
    """Do what is asked until there is nothing more."""
    channel, original = Channel(), Original()
    try:
        for line in sys.stdin:
            operation, arguments = parse(line)
            try:
                channel.reply(getattr(original, operation)(**arguments))
            except Exception as error:
                channel.reply_error(error)
    finally:
        original.close()


if __name__ == "__main__":
    main()
