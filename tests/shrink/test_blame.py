"""Finding what makes a check fail."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from aiocg.shrink.delta_debugging import Step, actions_of, guilty, steps_of


@given(st.sets(st.integers(0, 60)), st.integers(1, 60))
def test_each_of_several_culprits_is_found_and_nobody_else(wrong: set[int], count: int) -> None:
    wrong = {one for one in wrong if one < count}
    assert set(guilty(range(count), lambda some: bool(wrong & set(some)))) == wrong


def test_a_pair_that_fails_only_together_loses_one_of_the_two_or_both() -> None:
    found = guilty(range(30), lambda some: {3, 17} <= set(some))
    assert found and set(found) <= {3, 17}


def test_all_are_left_out_when_the_check_does_not_always_say_the_same() -> None:
    answers = iter([True] + [False] * 100)
    assert guilty(range(5), lambda _: next(answers)) == [0, 1, 2, 3, 4]


def test_a_culprit_among_many_is_found_in_few_runs() -> None:
    runs: list[Sequence[int]] = []

    def fails(some: Sequence[int]) -> bool:
        runs.append(some)
        return 700 in some

    assert guilty(range(1000), fails) == [700] and len(runs) < 60


ACTIONS = (
    "default<Oz>",
    '@main(inline<@a;@"b,(c">,loop-mssa(licm<no-allowspeculation>),sroa<modify-cfg>)@"b,(c"(gvn)',
    "mergefunc",
    "@main(adce)",
)


def test_actions_are_taken_apart_to_passes_on_functions() -> None:
    assert steps_of(ACTIONS) == [
        Step(0, "", "default<Oz>"),
        Step(1, "@main", 'inline<@a;@"b,(c">'),
        Step(1, "@main", "loop-mssa(licm<no-allowspeculation>)"),
        Step(1, "@main", "sroa<modify-cfg>"),
        Step(1, '@"b,(c"', "gvn"),
        Step(2, "", "mergefunc"),
        Step(3, "@main", "adce"),
    ]


def test_steps_are_put_together_to_the_same_actions() -> None:
    assert actions_of(steps_of(ACTIONS)) == ACTIONS


def test_what_is_left_of_an_action_is_an_action() -> None:
    steps = steps_of(ACTIONS)
    assert actions_of(steps[2:3] + steps[4:]) == (
        '@main(loop-mssa(licm<no-allowspeculation>))@"b,(c"(gvn)',
        "mergefunc",
        "@main(adce)",
    )
    assert actions_of([]) == ()
