"""The strategies that make lists smaller, answered by hand."""

from collections.abc import Callable, Iterator

from hypothesis import given
from hypothesis import strategies as st

from aiocg.validation.minimize import Strategy, bisect_prefix, bisect_suffix, delta_debug, one_by_one, random_removal

STRATEGIES: dict[str, Strategy[int]] = {
    "bisect_prefix": bisect_prefix,
    "bisect_suffix": bisect_suffix,
    "delta_debug": delta_debug,
    "one_by_one": one_by_one,
    "random_removal": random_removal(7),
}


def follow(strategy: Strategy[int], items: tuple[int, ...], holds: Callable[[tuple[int, ...]], bool]) -> Iterator[int]:
    """Answer a strategy by hand; count the questions by yielding, and return what it found."""
    search, found = strategy(items), None
    while True:
        try:
            candidates = search.send(found)
        except StopIteration as end:
            return end.value
        for candidate in candidates:
            assert len(candidate) < len(items), "a candidate that is not smaller"
            yield 1
        found = next((index for index, candidate in enumerate(candidates) if holds(candidate)), None)


def reduced(
    strategy: Strategy[int], items: tuple[int, ...], holds: Callable[[tuple[int, ...]], bool]
) -> tuple[tuple[int, ...], int]:
    """Return what a strategy comes to and how many lists it asked about."""
    questions, run = 0, follow(strategy, items, holds)
    while True:
        try:
            questions += next(run)
        except StopIteration as end:
            return end.value, questions


def subsequences(items: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Enumerate the lists with one item fewer."""
    return (items[:i] + items[i + 1 :] for i in range(len(items)))


any_items = st.lists(st.integers(0, 5), max_size=24).map(tuple)


@given(items=any_items, wanted=st.sets(st.integers(0, 5)), seed=st.integers())
def test_what_a_strategy_finds_holds_and_is_a_part_of_the_list(items, wanted, seed) -> None:  # type: ignore[no-untyped-def]
    def holds(candidate: tuple[int, ...]) -> bool:
        return wanted & set(items) <= set(candidate)

    for strategy in (*STRATEGIES.values(), random_removal(seed)):
        result, _ = reduced(strategy, items, holds)
        assert holds(result)
        rest = iter(items)
        assert all(item in rest for item in result), f"{result} is no subsequence of {items}"


@given(items=any_items, salt=st.integers(0, 1000))
def test_delta_debugging_and_one_by_one_are_1_minimal_whatever_the_hypothesis(items, salt) -> None:  # type: ignore[no-untyped-def]
    def holds(candidate: tuple[int, ...]) -> bool:  # neither monotone nor anything
        return candidate == items or hash((candidate, salt)) % 3 == 0

    for strategy in (delta_debug, one_by_one):
        result, _ = reduced(strategy, items, holds)
        assert holds(result)
        assert not any(map(holds, subsequences(result)))


@given(length=st.integers(1, 200), data=st.data())
def test_bisection_finds_the_first_action_that_matters_in_a_logarithm_of_questions(length, data) -> None:  # type: ignore[no-untyped-def]
    culprit = data.draw(st.integers(0, length - 1))
    items = tuple(range(length))
    for strategy, expected in ((bisect_prefix, items[: culprit + 1]), (bisect_suffix, items[culprit:])):
        result, questions = reduced(strategy, items, lambda candidate: culprit in candidate)
        assert result == expected
        assert questions <= length.bit_length()


def test_delta_debugging_of_a_pair_among_many_takes_far_fewer_questions_than_one_by_one() -> None:
    def holds(candidate: tuple[int, ...]) -> bool:
        return {13, 77} <= set(candidate)

    questions = {}
    for name in ("delta_debug", "one_by_one"):
        result, questions[name] = reduced(STRATEGIES[name], tuple(range(200)), holds)
        assert result == (13, 77)
    assert questions["delta_debug"] < questions["one_by_one"] / 2


def test_random_removal_cuts_a_long_list_within_its_bound_of_questions() -> None:
    items = tuple(range(256))
    result, questions = reduced(random_removal(3), items, lambda candidate: 100 in candidate)
    assert len(result) < 64
    assert questions <= 8 * 5
