"""A taskset of verifiers: a language model makes programs small, with the tools of `aiocg mcp`.

`vf-eval aiocg-codesize` evaluates a model with it, and `verifiers.v1.load_environment` loads it. Tools run in a process
of their own for each rollout. The reward is computed in the trainer's, from nothing but the texts of actions.
"""

import functools
import inspect
import itertools
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from aiocg.errors import AiocgError, InvalidAction, ServiceError

try:
    import verifiers.v1 as vf
except ImportError:
    raise AiocgError("a taskset of verifiers needs its package: pip install 'aiocg[verifiers]'") from None

from aiocg.agents.server import LOOKING, answering
from aiocg.agents.sessions import AgentSessions, Limits, Refused
from aiocg.datasets import default_datasets
from aiocg.datasets.uri import BenchmarkUri
from aiocg.env.env import Env
from aiocg.leaderboard._checks import losses, offered_passes, unoffered
from aiocg.leaderboard._track import EXPORTS
from aiocg.runtime import Runtime
from aiocg.search.lanes import go_to

__all__ = ["CodeSize", "CodeSizeConfig", "Compiler", "Program", "Reached", "Shrink", "earned"]

ENVIRONMENT, REWARD = "llvm-codesize-v0", "ObjectImageSizeOzMinsize"
BASELINE = ("mark<minsize>", "clang<Oz>")  # the reward is 1 for what these make
OFFERED = (*LOOKING, "step", "undo", "expand", "observe")
PROMPT = """\
Make the program {program} small, with LLVM and the tools that you have. Its size is what its object file brings into an
image, in bytes: code, constants, initialised data, unwind tables and relocations. Actions are names of passes, which
list_actions has, and pipelines of them such as `function(sroa,instcombine)`. expand says what actions would be worth,
without taking them; step takes them, and you have {steps} steps; undo takes a step back. episode_reward is 0 for the
program as it came, and 1 for what clang -Oz makes of it. You earn the highest episode_reward that a step has reached,
if the program still does what it did: it is run to find out, and a wrong one earns nothing.
"""


class Program(vf.TaskData):  # type: ignore[misc]
    """What a task is about.

    Attributes:
        program: its URI, which must have a run: what cannot be run earns nothing.
        steps: that the model may take.
        seconds: that the compiler may take for the actions of a step, or for a candidate.
    """

    program: str
    steps: int
    seconds: float


class Reached(vf.State):  # type: ignore[misc]
    """The best program that a step has reached.

    Attributes:
        actions: their texts; empty if none was better than the program as it came.
        reward: of the episode up to there, as the model was told.
    """

    actions: list[str] = []
    reward: float = 0.0


class Compiler(vf.Toolset[vf.ToolsetConfig, Reached]):  # type: ignore[misc]
    """The tools of one rollout, without sessions, of which there is one."""

    TOOL_PREFIX = None

    async def setup_task(self, task: Program) -> None:
        """Start a worker, and begin the episode."""
        runtime = await self._exit_stack.enter_async_context(Runtime(workers=1, options={"untrusted": True}))
        limits = Limits(sessions=1, seconds=task.seconds)
        offered = {task.program: runtime.datasets.benchmark(task.program)}  # which may be a file
        self._sessions = AgentSessions(runtime, ENVIRONMENT, reward_space=REWARD, programs=offered, limits=limits)
        self._exit_stack.push_async_callback(self._sessions.close_all)
        self._session: str = (await self._sessions.reset(task.program))["session"]
        self._steps = self._left = task.steps

    def register(self, mcp: Any) -> None:
        """Offer the tools."""
        for name in OFFERED:
            tool = self.step if name == "step" else self._bound(getattr(self._sessions, name))
            mcp.add_tool(answering(self._with_state(tool)))

    async def step(self, actions: list[str]) -> dict[str, Any]:
        """Take actions one after the other; the reward is that of all of them together."""
        if not self._left:
            raise Refused(f"you have had your {self._steps} steps, and what you have reached is kept: end here")
        self._left -= 1
        session = self._sessions.find(self._session)
        check_passes(session.env, actions)
        told = await session.step(actions)
        if (reward := told["episode_reward"] or 0.0) > self.state.reward:
            self.state.actions, self.state.reward = list(session.env.action_texts), reward
        return {**told, "steps_left": self._left}

    def _bound(self, tool: Callable[..., Awaitable[dict[str, Any]]]) -> Callable[..., Awaitable[dict[str, Any]]]:
        """Return a tool that asks for no session."""
        signature = inspect.signature(tool)
        if "session" not in signature.parameters:
            return tool

        @functools.wraps(tool)
        async def call(**arguments: Any) -> dict[str, Any]:
            return await tool(self._session, **arguments)

        rest = [one for name, one in signature.parameters.items() if name != "session"]
        call.__signature__ = signature.replace(parameters=rest)  # type: ignore[attr-defined]
        return call


class Shrink(vf.Task[Program, Reached, vf.TaskConfig]):  # type: ignore[misc]
    """One program to make small."""

    @classmethod
    def toolsets(cls, config: Any) -> list[Any]:
        """Return the tools, for each rollout anew."""
        return [Compiler(vf.ToolsetConfig())]

    @vf.reward  # type: ignore[untyped-decorator]
    async def code_size(self, trace: Any) -> float:
        """Return what the best program has earned; the trace's `info` has the verdict."""
        program, seconds = self.data.program, self.data.steps * self.data.seconds
        reward, trace.info["verdict"] = await earned(program, trace.state.actions, seconds)
        return reward


class CodeSizeConfig(vf.TasksetConfig):  # type: ignore[misc]
    """Which programs there are, and what a model may do.

    Attributes:
        programs: names of programs, or of datasets for all of theirs; a file is `file:///home/me/my.c`.
        steps, seconds: see `Program`.
    """

    programs: list[str] = ["programs-v0"]
    steps: int = 45
    seconds: float = 30.0


class CodeSize(vf.Taskset[Shrink, CodeSizeConfig]):  # type: ignore[misc]
    """Programs to make small."""

    def load(self) -> Iterable[Shrink]:
        """Yield a task for each program."""
        datasets, config = default_datasets(), self.config
        for uri in map(BenchmarkUri.from_string, config.programs):
            # Those of a generator have no end.
            named = [uri] if uri.path else itertools.islice(datasets[uri.dataset].benchmark_uris(), MOST)
            for program in map(str, named):
                prompt = PROMPT.format(program=program, steps=config.steps)
                limits = {"steps": config.steps, "seconds": config.seconds}
                yield Shrink(Program(name=program, prompt=prompt, program=program, **limits), config.task)


MOST = 10_000  # programs of a dataset


def check_passes(env: Env, actions: Sequence[str]) -> None:
    """Refuse passes that are no actions, of which some delete the program.

    Raises:
        Refused: when there is one, however it is nested or parametrised.
    """
    ours = [text for text in actions if text not in BASELINE]
    if found := sorted(set(unoffered(env, offered_passes(env), ours))):
        raise Refused(f"the action spaces of {env.spec.id} have no {', '.join(found)}: list_actions has what there is")


async def earned(program: str, actions: Sequence[str], seconds: float = 600.0) -> tuple[float, str]:
    """Return the reward for a program after some actions, and the verdict; all is done again, with a new worker.

    Args:
        program: its URI.
        actions: their texts; nobody is trusted to have applied them.
        seconds: that the compiler may take for all of them.

    Returns:
        (C0 - C) / max(C0 - CB, 1) with the bytes of the program as it came, of the one found and of what `clang -Oz`
        makes; 0 if it has a pass that is no action, lacks what others can see of the program, or is not proved to do
        the same by running it.

    Raises:
        AiocgError, DatasetError: when this machine cannot have the program or a worker.
    """
    if not actions:
        return 0.0, "no step has made it smaller"
    async with (
        Runtime(workers=1, options={"untrusted": True}) as runtime,
        await runtime.make(ENVIRONMENT, benchmark=program, reward_space=REWARD) as env,
    ):
        env.timeout = seconds
        await env.reset()
        original = await env.observe(EXPORTS)
        await go_to(env, BASELINE)
        baseline = await env.observe(EXPORTS)
        try:
            check_passes(env, actions)
            await go_to(env, actions)
        except (InvalidAction, Refused, ServiceError) as error:
            return 0.0, str(error)
        if lost := "; ".join(losses(original, baseline, await env.observe(EXPORTS))):
            return 0.0, lost
        result = await env.validate(minimize=False)
        return result.reward or 0.0 if result.okay() else 0.0, result.verdict


if __name__ == "__main__":
    Compiler.run()
