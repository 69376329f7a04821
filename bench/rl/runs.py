"""One agent: trained, validated now and then, and judged on programs that it has not seen."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import msgspec
import numpy as np
import psutil

from aiocg.datasets.benchmark import Benchmark
from aiocg.policies import Features, Policy, PolicyFacts
from aiocg.rl import PhaseOrdering, Program, SyncRuntime, evaluate, find_programs, prepare_programs
from aiocg.rl.ppo import Learner, Settings, train
from aiocg.rl.programs import STARTS, check_training
from bench.rl import rllib
from bench.rl.variants import LEVERS, RLLIB, STEPS, VARIANTS, Variant
from bench.search.stored import Row

TEST, VALIDATION, TRAINING = 0, 50, 100  # the first seed, or place, of each
TESTED = 50  # programs of a set
ENVS = 32
SUFFIXES = (".bc", ".ll")


class Job(NamedTuple):
    """One agent: what no two results have in common.

    Attributes:
        variant: its name in `VARIANTS`.
        training: the datasets that it is trained on, with a plus sign between.
        episodes: that it is trained for.
        seed: of everything.
    """

    variant: str
    training: str
    episodes: int
    seed: int

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """Return what a row is the result of.

        Raises:
            KeyError: when it does not say.
        """
        return cls(*(row[name] for name in cls._fields))


class ByStep(Learner):
    """A learner of as many steps as its episodes can have, as levers change how long episodes are."""

    @property
    def part(self) -> float:
        """The part of these steps that are done."""
        return sum(told["steps"] for told in self.curve) / (self.settings.episodes * STEPS)


@dataclasses.dataclass(slots=True)
class Bench:
    """Where agents are trained and judged.

    Attributes:
        runtime: whose workers compile.
        tests: datasets, or folders of bitcode, to judge them by.
        programs: to train on, at most.
        largest: instructions of a program to train on.
        validations: how often a policy is judged on other programs while it is trained; the best one counts. With 0 it
            is the last.
        work: the folder for checkpoints.
        compiler: its name and version.
    """

    runtime: SyncRuntime
    tests: Sequence[str]
    programs: int
    largest: int
    validations: int
    work: Path
    compiler: str
    _prepared: dict[Any, list[Program]] = dataclasses.field(default_factory=dict)

    def run(self, job: Job) -> Row:
        """Train an agent, or go on where that was interrupted, and return how it does on the test programs."""
        began, variant = processor_time(), VARIANTS[job.variant]
        policy, steps = (self._trained_by_rllib if job.variant in RLLIB else self._trained)(job, variant)
        trained = processor_time()
        tests = {Path(name).name: self._judged(policy, variant, name, job.seed) for name in self.tests}
        return {
            **job._asdict(),
            "programs": policy.facts.programs,
            "largest": self.largest,
            "validations": self.validations,
            "steps": steps,
            "processor": trained - began,
            "testing": processor_time() - trained,
            "tests": tests,
        }

    def _trained(self, job: Job, variant: Variant) -> tuple[Policy, int]:
        """Return a policy, and the steps that it was trained for."""
        sources = job.training.split("+")
        checkpoint = checkpoint_of(job, self.work)
        best = checkpoint.with_suffix(".npz")
        if checkpoint.exists():
            learner, _ = kind_of(job).load(checkpoint)
        else:
            learner = new_learner(variant, job, self.compiler)
        programs = self._learned_from(sources, variant)
        learner.know(one.uri for one in programs)
        against = [dataclasses.replace(one, oz_minsize=getattr(one, variant.baseline)) for one in programs]
        every = max(1, learner.settings.updates // max(self.validations, 1))
        with self._envs(variant) as envs:

            def validate(told: dict[str, float]) -> None:
                if learner.finished or (self.validations and learner.update % every == 0):
                    self._keep_better(envs, variant, learner, sources, best)

            train(envs, learner, against, checkpoint=checkpoint, progress=validate)
        return Policy.load(best), int(sum(told["steps"] for told in learner.curve))

    def _trained_by_rllib(self, job: Job, variant: Variant) -> tuple[Policy, int]:
        programs = self._learned_from(job.training.split("+"), variant)
        facts = msgspec.structs.replace(facts_of(variant, job, self.compiler), programs=len(programs))
        return rllib.train(rllib.Given(self.runtime, programs, variant), facts, job.variant, job.episodes, job.seed)

    def _learned_from(self, sources: Sequence[str], variant: Variant) -> list[Program]:
        check_training(sources)
        return self._programs(sources, variant.starts, self.programs, TRAINING, self.largest)

    def _keep_better(
        self, envs: PhaseOrdering, variant: Variant, learner: Learner, sources: Sequence[str], best: Path
    ) -> None:
        """Write the present policy unless there is one that does better on the validation programs."""
        policy, score = learner.policy(), 0.0
        if self.validations:
            programs = self._programs(sources, variant.starts, TESTED, VALIDATION, self.largest)
            found = evaluate(envs, policy, programs, variant.starts, temperature=variant.temperature)
            logs = [np.log(one.oz / max(end, 1)) for one in found for end in getattr(one, variant.counts).values()]
            score = float(np.mean(logs))
            if best.exists() and Policy.load(best).facts.scores["validation"]["log"] >= score:
                return
        facts = msgspec.structs.replace(policy.facts, scores={"validation": {"log": score}})
        best.write_bytes(Policy(facts, policy.layers).to_bytes())

    def _judged(self, policy: Policy, variant: Variant, name: str, seed: int) -> list[dict[str, Any]]:
        """Return what a policy makes of the programs of a test set."""
        programs = self._programs([name], variant.starts, TESTED, TEST, None)
        with self._envs(variant) as envs:
            found = evaluate(envs, policy, programs, variant.starts, temperature=variant.temperature, seed=seed)
        kept = ("uri", "unoptimised", "oz", "oz_minsize", "best", "last")
        return [{name: getattr(one, name) for name in kept} for one in found]

    def _envs(self, variant: Variant) -> PhaseOrdering:
        return PhaseOrdering(
            self.runtime,
            variant.actions,
            num_envs=ENVS,
            steps=STEPS,
            step_cost=variant.step_cost,
            episode=variant.episode,
        )

    def _programs(
        self, sources: Sequence[str], starts: Sequence[str], count: int, first: int, largest: int | None
    ) -> list[Program]:
        """Return programs of datasets, or of a folder, compiled and measured the first time they are asked for."""
        key = (*sources, count, first, largest)
        if key not in self._prepared:
            folder, runtime = Path(sources[0]), self.runtime.runtime
            found = (
                [Benchmark.from_file(path) for path in sorted(folder.iterdir()) if path.suffix in SUFFIXES]
                if folder.is_dir()
                else list(find_programs(runtime, sources, count, first))
            )
            self._prepared[key] = self.runtime.run(
                lambda: prepare_programs(runtime, found[:count], starts=list(STARTS), largest=largest)
            )
            if not self._prepared[key]:
                raise ValueError(f"{', '.join(sources)} has no programs that can be used")
        return self._prepared[key]


def facts_of(variant: Variant, job: Job, compiler: str) -> PolicyFacts:
    """Return what is known of a policy before it is trained."""
    return PolicyFacts(
        compiler=compiler,
        actions=variant.actions,
        parts=variant.parts,
        activation=variant.activation,  # type: ignore[arg-type]
        steps=STEPS,
        starts=variant.starts,
        sources=tuple(job.training.split("+")),
        seed=job.seed,
    )


def checkpoint_of(job: Job, work: Path) -> Path:
    """Return the file that an agent's training is kept in."""
    return work / f"{job.variant}-{job.training}-{job.episodes}-{job.seed}.ckpt"


def kind_of(job: Job) -> type[Learner]:
    """Return what learns: levers are compared at equal steps, as the paper's agents are at equal episodes."""
    return ByStep if job.variant in LEVERS else Learner


def new_learner(variant: Variant, job: Job, compiler: str) -> Learner:
    """Return a learner that has learned nothing."""
    facts = facts_of(variant, job, compiler)
    settings = Settings(episodes=job.episodes, seed=job.seed, **variant.settings)
    return kind_of(job)(facts, settings, Features(len(variant.actions), variant.parts).size)


def processor_time() -> float:
    """Return the seconds of the processor that this process and those below it have taken."""
    own = psutil.Process()
    total = 0.0
    for process in (own, *own.children(recursive=True)):
        try:
            total += sum(process.cpu_times()[:2])
        except psutil.NoSuchProcess:
            continue
    return total
