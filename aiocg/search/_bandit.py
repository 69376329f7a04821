"""A tuning run of OpenTuner's with a database in memory, and nothing that depends on time or on addresses.

Importing this needs OpenTuner.
"""

import itertools
import logging
import math
import warnings
from collections.abc import Sequence
from typing import Any

FORMATTER = logging.Formatter
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of what Python and SQLAlchemy have deprecated since OpenTuner was written
    import opentuner  # type: ignore[import-untyped]
    from opentuner import tuningrunmain
    from opentuner.api import TuningRunManager  # type: ignore[import-untyped]
    from opentuner.search import technique  # type: ignore[import-untyped]
    from opentuner.search.bandittechniques import AUCBanditMetaTechnique  # type: ignore[import-untyped]
    from opentuner.search.differentialevolution import (  # type: ignore[import-untyped]
        DifferentialEvolutionAlt,
        PopulationMember,
    )
    from opentuner.search.evolutionarytechniques import (  # type: ignore[import-untyped]
        NormalGreedyMutation,
        UniformGreedyMutation,
    )
    from opentuner.search.simplextechniques import RandomNelderMead  # type: ignore[import-untyped]
logging.Formatter = FORMATTER  # type: ignore[misc]  # OpenTuner puts its own in place for everybody
tuningrunmain.init_logging = lambda: None  # which writes a file into the working directory


NAME = "aiocg"
ARGUMENTS = ("--quiet", "--no-dups", "--database=sqlite://", "--parallelism=1", "--pipelining=1000000")


class Run:
    """A tuning run that minimises a function of integers."""

    def __init__(self, sizes: Sequence[int], starts: Sequence[Sequence[int]]) -> None:
        self._names = [str(place) for place in range(len(sizes))]
        manipulator = opentuner.ConfigurationManipulator()
        for name, size in zip(self._names, sizes, strict=True):
            manipulator.add_parameter(opentuner.IntegerParameter(name, 0, size - 1))
        arguments = opentuner.default_argparser().parse_args([*ARGUMENTS, f"--technique={NAME}"])
        seeds = [dict(zip(self._names, start, strict=True)) for start in starts]
        self._manager = TuningRunManager(_Interface(seeds, args=arguments, manipulator=manipulator), arguments)

    def ask(self) -> tuple[list[int], Any] | None:
        """Return the next vector that is desired, and the desire; None if there is none now."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of SQLAlchemy, that objects are added later
            desired = self._manager.get_next_desired_result()
        if desired is None:
            return None
        return [desired.configuration.data[name] for name in self._names], desired

    def tell(self, desired: Any, cost: float) -> None:
        """Report what a vector costs."""
        failed = cost == math.inf
        self._manager.report_result(desired, opentuner.Result(state="ERROR" if failed else "OK", time=cost))


class _Interface(opentuner.MeasurementInterface):  # type: ignore[misc]
    """Gives a run its first configurations; measuring is done elsewhere."""

    def __init__(self, seeds: list[dict[str, int]], **options: Any) -> None:
        super().__init__(project_name=NAME, program_name=NAME, program_version="", **options)
        self._seeds = seeds

    def seed_configurations(self) -> list[dict[str, int]]:
        return self._seeds

    def run(self, *arguments: Any) -> None:
        raise NotImplementedError("OpenTuner requires this method, and calls it only where it measures itself")


class _Member(PopulationMember):  # type: ignore[misc]
    """A member of a population, hashed by its number: OpenTuner shuffles sets of members."""

    _touches = itertools.count()

    def __init__(self, config: Any, number: int) -> None:
        super().__init__(config, submitted=False)
        self._number = number
        self.touch()

    def touch(self) -> None:
        self.timestamp = next(self._touches)

    def __hash__(self) -> int:
        return self._number


class _Evolution(DifferentialEvolutionAlt):  # type: ignore[misc]
    """Differential evolution of such members."""

    def initial_population(self) -> None:
        super().initial_population()
        self.population: list[Any] = [_Member(member.config, number) for number, member in enumerate(self.population)]


technique.register(  # AUCBanditMetaTechniqueA, OpenTuner's default
    AUCBanditMetaTechnique(
        [_Evolution(), UniformGreedyMutation(), NormalGreedyMutation(mutation_rate=0.3), RandomNelderMead()], name=NAME
    )
)
