"""Drives the original, CompilerGym 0.2.5, by requests on standard input: `python drive_compiler_gym.py`; see `driving`.

Runs in a Python that has it: 3.8 to 3.10. `drive_aiocg.py` has the same operations for ours.
"""

import concurrent.futures
import sys
import time

from driving import Channel, occupied_bytes, parse, python_version, tool_seconds

clock = time.perf_counter


class Original:
    """Its environments, and what is done to them."""

    def __init__(self):
        self.program = self.env = None
        self.envs = []

    def start(self, program):
        """Import, make an environment, reset it for the first time."""
        begun = clock()
        import compiler_gym
        import gym

        imported = clock()
        from compiler_gym.envs.llvm import make_benchmark

        self.program = make_benchmark(program)
        began = clock()
        self.env = gym.make("llvm-v0", benchmark=self.program)
        made = clock()
        tools = tool_seconds()
        self.env.reset()
        reset = clock()
        return {
            "import": imported - begun,
            "make": made - began,
            "reset": reset - made,
            "tools": tool_seconds() - tools,
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
        for _ in range(count):
            self._step(self.env, 0)
            began = clock()
            self.env.reset()
            seconds.append(clock() - began)
        return {"seconds": seconds}

    def walk(self, actions, observation, reward):
        """Do one action after another."""
        self._settle(observation, reward)
        seconds, failures = [], 0
        for action in self._indices(actions):
            began = clock()
            done = self._step(self.env, action)
            seconds.append(clock() - began)
            if done:
                failures += 1
                self.env.reset()
        return {"seconds": seconds, "failures": failures}

    def empty(self, count):
        """Do steps of no action at all, which observe nothing."""
        self._settle(None, None)
        seconds = []
        for _ in range(count):
            began = clock()
            self.env.multistep([])
            seconds.append(clock() - began)
        return {"seconds": seconds}

    def batches(self, batches, observation, reward):
        """Do several actions at once; the time is that of one."""
        self._settle(observation, reward)
        seconds, failures = [], 0
        for batch in batches:
            indices = self._indices(batch)
            began = clock()
            done = self.env.multistep(indices)[2]
            seconds.append((clock() - began) / len(batch))
            if done:
                failures += 1
                self.env.reset()
        return {"seconds": seconds, "failures": failures}

    def fork(self, actions, count, answer):
        """Fork from a state some steps away from the start; if asked to, until the fork has done an empty step."""
        self._settle(None, None)
        for action in self._indices(actions):
            self._step(self.env, action)
        seconds = []
        for _ in range(count):
            began = clock()
            child = self.env.fork()
            if answer:
                child.multistep([])
            seconds.append(clock() - began)
            child.close()
        return {"seconds": seconds}

    def greedy(self, prefix, actions, reward):
        """Try every action on a fork of its own."""
        self._settle(None, reward)
        for action in self._indices(prefix):
            self._step(self.env, action)
        failures = 0
        indices = self._indices(actions)
        began = clock()
        for action in indices:
            child = self.env.fork()
            failures += self._step(child, action)
            child.close()
        return {"seconds": [clock() - began], "failures": failures}

    def many(self, envs, observation, reward):
        """Make so many environments, each with a service of its own as `gym.make` does, and reset them."""
        import gym

        before, began = occupied_bytes(), clock()

        def one(_):
            env = gym.make("llvm-v0", benchmark=self.program, observation_space=observation, reward_space=reward)
            env.reset()
            return env

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            self.envs = list(pool.map(one, range(envs)))
        return {"seconds": [clock() - began], "bytes": occupied_bytes() - before}

    def play(self, plans):
        """Step all of them, each in a thread of its own."""
        for env in self.envs:
            env.reset()
        plans = [self._indices(plan) for plan in plans]

        def one(env, plan):
            failures = 0
            for action in plan:
                if self._step(env, action):
                    failures += 1
                    env.reset()
            return failures

        with concurrent.futures.ThreadPoolExecutor(len(self.envs)) as pool:
            began = clock()
            failures = sum(pool.map(one, self.envs, plans))
            seconds = clock() - began
        return {"rate": sum(map(len, plans)) / seconds, "failures": failures}

    def fewer(self):
        """Close what `many` has made."""
        for env in self.envs:
            env.close()
        self.envs = []
        return {}

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

    @staticmethod
    def _step(env, action):
        return bool(env.step(action)[2])


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
