"""A compiler of one's own, as scripts for CompilerGym have it: a service that counts what is done to it."""

import sys
import time
from pathlib import Path

from compiler_gym.service import CompilationSession
from compiler_gym.service.proto import (
    ActionSpace,
    Benchmark,
    DoubleRange,
    Event,
    Int64Box,
    Int64Range,
    Int64Tensor,
    NamedDiscreteSpace,
    ObservationSpace,
    Space,
    StringSpace,
)
from compiler_gym.service.runtime import create_and_run_compiler_gym_service


class CountingSession(CompilationSession):
    """Its state is how often each of its actions was done."""

    compiler_version = "1.0.0"
    action_spaces = [
        ActionSpace(name="default", space=Space(named_discrete=NamedDiscreteSpace(name=["a", "b", "c", "die", "hang"])))
    ]
    observation_spaces = [
        ObservationSpace(
            name="ir",
            space=Space(string_value=StringSpace(length_range=Int64Range(min=0))),
            deterministic=True,
            default_observation=Event(string_value=""),
        ),
        ObservationSpace(
            name="features",
            space=Space(
                int64_box=Int64Box(
                    low=Int64Tensor(shape=[3], value=[0, 0, 0]), high=Int64Tensor(shape=[3], value=[100, 100, 100])
                )
            ),
            default_observation=Event(int64_tensor=Int64Tensor(shape=[3], value=[0, 0, 0])),
        ),
        ObservationSpace(
            name="runtime",
            space=Space(double_value=DoubleRange(min=0)),
            platform_dependent=True,
            default_observation=Event(double_value=0),
        ),
    ]

    def __init__(self, working_directory: Path, action_space: ActionSpace, benchmark: Benchmark) -> None:
        super().__init__(working_directory, action_space, benchmark)
        assert working_directory.is_dir()
        self.text = benchmark.program.contents.decode()
        self.counts = [0, 0, 0]

    def apply_action(self, action: Event) -> tuple[bool, ActionSpace | None, bool]:
        index = action.int64_value
        if not 0 <= index < 5:
            raise ValueError("Out-of-range")
        if index == 3:
            sys.exit(7)
        if index == 4:
            time.sleep(60)
        self.counts[index] += 1
        return sum(self.counts) == 10, None, False

    def get_observation(self, observation_space: ObservationSpace) -> Event:
        if observation_space.name == "ir":
            return Event(string_value=self.text)
        if observation_space.name == "features":
            observation = Event()
            observation.int64_tensor.shape[:] = [3]
            observation.int64_tensor.value[:] = self.counts
            return observation
        return Event(double_value=float(sum(self.counts)))

    def handle_session_parameter(self, key: str, value: str) -> str | None:
        return value.upper() if key == "shout" else None


if __name__ == "__main__":
    create_and_run_compiler_gym_service(CountingSession)
