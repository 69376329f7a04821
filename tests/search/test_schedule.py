"""The tuner of `schedule` on its own, on a landscape of arithmetic; and what measures the winners of noisy searches."""

import itertools
import math

import pytest

from aiocg.search._dispatcher import FINALISTS, ROUNDS, Finals
from aiocg.search._schedule import MEASURED, Scheduler
from aiocg.search.budget import Budget
from aiocg.search.tuner import FAILED, Outcome, Proposal

ROWS = 24
TILES = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32]
TEMPLATES = [f"i,j,k,i:{rows}=unroll,j:{columns}=vectorize" for rows in TILES for columns in (2, 4, 8, 16, 32, 64)]


def features(text: str) -> tuple[float, ...]:
    """Return rows of features, as the worker does, of a schedule of one statement or several."""
    rows = []
    for number, layout in enumerate(text.removeprefix("nests<").removesuffix(">").split(";")):
        for place in layout.split(","):
            turns = int(place.partition(":")[2].partition("=")[0] or 1)
            rows.append((1.0, float(number), math.log2(turns), float("unroll" in place), float("vectorize" in place)))
    rows += [(0.0,) * 5] * (ROWS - len(rows))
    return tuple(itertools.chain.from_iterable(rows[:ROWS]))


def seconds(text: str) -> float:
    """Return the running time of a schedule: there is one best size for each kind of tile."""
    time = 1.0
    for _, number, turns, unrolled, vectorized in zip(*[iter(features(text))] * 5, strict=True):
        time *= 2 ** (abs(turns - 3 - number) * unrolled + abs(turns - 5) * vectorized)
    return time


def outcome_of(proposal: Proposal) -> Outcome:
    (text,) = proposal.actions
    if "k:" in text:  # refused
        return Outcome(0.0, (), 7, costs=features(text) if proposal.look else (9.0,))
    if not proposal.look and "i:32" in text:
        return Outcome(FAILED)
    costs = features(text) if proposal.look else (seconds(text),)
    return Outcome(0.0 if proposal.look else 1 / seconds(text), proposal.actions, hash(text), costs=costs)


def play(tuner: Scheduler, measurements: int) -> list[str]:
    """Return the texts that were measured, in order."""
    measured: list[str] = []
    while len(measured) < measurements and (proposals := tuner.ask(48)):
        assert len(proposals) <= 48 and tuner.ask(48) == []  # it waits for the outcomes
        assert len({proposal.look for proposal in proposals}) == 1
        if not proposals[0].look:
            assert len(proposals) <= MEASURED
            measured += [proposal.actions[0] for proposal in proposals]
        for proposal in proposals:
            tuner.tell(proposal, outcome_of(proposal))
    return measured


def test_the_first_templates_are_measured_first_and_nothing_twice() -> None:
    measured = play(Scheduler([TEMPLATES], 0, ROWS), 80)
    assert measured[:MEASURED] == [f"nests<{text}>" for text in TEMPLATES[:MEASURED]]
    assert len(set(measured)) == len(measured) and not any("k:" in text for text in measured)


@pytest.mark.parametrize("seed", range(4))
def test_the_model_comes_to_the_best_templates_before_their_turn(seed: int) -> None:
    worst_first = sorted(TEMPLATES, key=lambda text: -seconds(f"nests<{text}>"))
    measured = play(Scheduler([worst_first], seed, ROWS), 40)
    in_order = [seconds(f"nests<{text}>") for text in worst_first]
    assert min(map(seconds, measured)) <= in_order[-5] < in_order[40]


@pytest.mark.parametrize("seed", range(4))
def test_what_is_better_than_all_templates_is_found_by_changes(seed: int) -> None:
    poor = ["i,j,k,i:2=unroll,j:4=vectorize", "i,j,k,i:3=unroll,j:2=vectorize"]
    measured = play(Scheduler([poor], seed, ROWS), 120)
    assert min(map(seconds, measured)) < 0.5 * min(map(seconds, measured[:2]))


def test_statements_are_changed_by_themselves() -> None:
    other = [text.replace("i", "a").replace("vectora", "vectori").replace("aze", "ize") for text in TEMPLATES]
    measured = play(Scheduler([TEMPLATES, [], other], 1, ROWS), 100)
    assert measured[0] == f"nests<{TEMPLATES[0]};;{other[0]}>"
    assert all(text.count(";") == 2 and ";;" in text for text in measured)
    assert min(map(seconds, measured)) < 0.1 * seconds(measured[0])


def test_a_search_without_anything_left_ends() -> None:
    tuner = Scheduler([["k:1,i:2=vectorize", "i,i:2=vectorize", "i,i:4=vectorize"]], 0, ROWS)
    measured = []
    while proposals := tuner.ask(48):
        for proposal in proposals:
            template = proposal.actions[0] in ("nests<i,i:2=vectorize>", "nests<i,i:4=vectorize>")
            tuner.tell(proposal, outcome_of(proposal) if template else Outcome(0.0, (), 7, costs=()))
            measured += [] if proposal.look else proposal.actions
    assert measured == ["nests<i,i:2=vectorize>", "nests<i,i:4=vectorize>"]


def test_changes_that_lead_nowhere_new_do_not_end_the_search() -> None:
    tuner = Scheduler([TEMPLATES[:1]], 0, ROWS)
    measured, rounds = [], 0
    for _ in range(12):
        proposals = tuner.ask(4)
        assert proposals
        rounds += proposals[0].look
        for proposal in proposals:
            known = proposal.look and rounds in (2, 3)  # as if all changes of these rounds were known states
            tuner.tell(proposal, Outcome(0.0, (), 7, costs=()) if known else outcome_of(proposal))
            measured += [] if proposal.look else proposal.actions
    assert len(measured) > 4


def test_the_same_seed_proposes_the_same() -> None:
    assert play(Scheduler([TEMPLATES], 3, ROWS), 64) == play(Scheduler([TEMPLATES], 3, ROWS), 64)
    assert play(Scheduler([TEMPLATES], 3, ROWS), 64) != play(Scheduler([TEMPLATES], 4, ROWS), 64)


class Noisy:
    """Evaluates lists whose rewards are known in advance, one after the other."""

    def __init__(self, rewards: dict[str, list[float]]) -> None:
        self.left = {(name,): list(values) for name, values in rewards.items()}
        self.order: list[str] = []

    async def evaluate(self, lists: list[tuple[str, ...]]) -> list[Outcome]:
        self.order += [name for (name,) in lists]
        return [Outcome(self.left[one].pop(0), one) for one in lists]


async def right(actions: tuple[str, ...], state: int) -> bool:
    """Find nothing wrong but with what is called so."""
    return "wrong" not in actions


@pytest.mark.asyncio
async def test_a_winner_that_does_something_else_is_passed_over() -> None:
    finals = Finals()
    for name in ("fair", "wrong"):
        finals.offer((name,), 9.0)
    lane = Noisy({"fair": [5.0] * 9, "wrong": [9.0] * 9})
    assert await finals.decide(lane, Budget().start(), right) == (("fair",), 5.0)  # type: ignore[arg-type]


@pytest.mark.asyncio
async def test_the_winner_is_who_is_best_in_the_median_of_rounds_in_turns() -> None:
    finals = Finals()
    for name, reward in (("bad", 1.0), ("lucky", 50.0), ("good", 30.0), ("fair", 20.0), ("poor", 2.0), ("lucky", 51.0)):
        finals.offer((name,), reward)
    lane = Noisy({"lucky": [35, 1, 1] * 3, "good": [29, 28, 60] * 3, "fair": [20] * 9, "poor": [2] * 9})
    assert await finals.decide(lane, Budget().start(), right) == (("good",), 29)  # type: ignore[arg-type]
    assert FINALISTS == 4 and len(lane.order) == 4 * ROUNDS
    assert set(lane.order[:4]) == set(lane.order[4:8]) == {"lucky", "good", "fair", "poor"}


@pytest.mark.asyncio
async def test_the_unchanged_program_takes_no_part_and_a_failure_has_no_state() -> None:
    finals, states = Finals(), []
    for actions in ((), ("flaky",)):
        finals.offer(actions, 1.0)

    class Flaky(Noisy):
        async def evaluate(self, lists: list[tuple[str, ...]]) -> list[Outcome]:
            (outcome,) = await super().evaluate(lists)
            return [Outcome(FAILED) if len(self.order) == 1 else Outcome(outcome.reward, lists[0], 77)]

    async def noted(actions: tuple[str, ...], state: int) -> bool:
        states.append(state)
        return True

    lane = Flaky({"flaky": [2.0] * 9})
    assert await finals.decide(lane, Budget().start(), noted) == (("flaky",), 2.0)  # type: ignore[arg-type]
    assert states == [77] and set(lane.order) == {"flaky"}


@pytest.mark.asyncio
async def test_after_the_time_is_up_there_are_few_rounds_and_what_gains_nothing_is_no_answer() -> None:
    finals = Finals()
    finals.offer(("a",), 3.0)
    lane = Noisy({"a": [-1.0] * 9})
    assert await finals.decide(lane, Budget(seconds=0).start(), right) == ((), 0.0)  # type: ignore[arg-type]
    assert len(lane.order) == 3


def test_what_a_loop_stages_and_is_bound_to_stays_when_others_change() -> None:
    template = "i=block.x,j:8=thread.x,m=pipeline@A@B,m:16=unroll"
    measured = play(Scheduler([[template]], 0, ROWS), 60)
    kinds = {place.partition("=")[2] for text in measured for place in text[6:-1].split(",")}
    assert (
        {"pipeline@A@B", "serial@A@B"} <= kinds <= {"block.x", "thread.x", "pipeline@A@B", "serial@A@B", "unroll", ""}
    )


def test_schedules_that_join_statements_take_turns_with_the_others() -> None:
    joined = ["i,j:8=vectorize;i=join,j:8=vectorize", "i,j:4=vectorize;i=join,j:4=vectorize"]
    alone = [f"i,j:{turns}=vectorize" for turns in (2, 16, 32)]
    measured = play(Scheduler([alone, alone], 0, ROWS, joined), 7)
    assert [text for text in measured if "join" in text] == [f"nests<{text}>" for text in joined]
    assert [("join" in text) for text in measured[:5]] == [False, True, False, True, False]
