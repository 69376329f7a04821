"""The actions of `loops-v0`: steps of a schedule, for a loop by its number or for the one at the cursor.

A step for the loop at the cursor is a step without `loop=`: `reorder`, `split<factor=8>`. Two more move the cursor.

A recipe is a whole schedule as one action: up to `PLACES` steps, which are done to the computation as it is at first.
Those that are refused are left out, and numbers of loops start again at 0 where there are not as many: so most steps
mean something. `schedule 1:split<loop=2;factor=8> 3:reorder<loop=0>` has two, at the first and the third place. So a
schedule is a choice for each place, as a compiler's command line is one for each option, and what searches those
searches schedules.
"""

import re
from functools import cache
from typing import NamedTuple

from aiocg.transport.messages import ActionParameter, ActionSpaceSpec, ActionSpec
from aiocg.transport.options import UNSET, Option, OptionReader
from aiocg.workers.loops.schedule import MAX_LOOPS, Step, steps

__all__ = ["CURSOR_MOVES", "PLACES", "RECIPE", "action_spaces", "at_cursor", "offered", "read_recipe", "resolve"]

CURSOR_MOVES = {"cursor_up": -1, "cursor_down": 1}
RECIPE = "schedule"  # the first word of one
PLACES = 12  # for steps, in a recipe
_LOOPS = 12  # whose steps recipes can have; there are seldom more
_FACTORS = (2, 4, 8, 16, 32, 64)  # of splits that recipes can have

_AT_CURSOR = re.compile(r"(?P<primitive>[a-z]+)(?:<(?P<argument>[a-z]+=[a-z0-9.]+)>)?")

_WHAT = {
    "split": "make two loops of one, the inner one of so many turns",
    "reorder": "exchange a loop and the next inner one",
    "fuse": "make one loop of a loop and the next inner one",
    "unroll": "repeat the body of a loop for each of its turns",
    "vectorize": "do all turns of a loop at once, by vector instructions",
    "parallel": "distribute the turns of a loop over threads",
    "serial": "do the turns of a loop one after the other",
    "bind": "have each turn of a loop done by another block or thread of the device",
    "stage": "copy what each turn of a loop reads of a tensor to the memory that a block shares",
}


class _Primitive(NamedTuple):
    """A primitive as it is offered.

    Attributes:
        arguments: the texts behind the loop, such as `factor=8`; none if it takes nothing else.
    """

    name: str
    arguments: tuple[str, ...]


@cache
def offered(target: str) -> tuple[str, ...]:
    """Return the texts of the steps that are offered for a target, by their indices in the first space."""
    return tuple(step.text for step in steps(target))


def resolve(action: str, cursor: int) -> Step:
    """Return the step that an action is, which is none that moves the cursor.

    Args:
        action: a text.
        cursor: the number of the loop that is meant where the text does not say one.

    Raises:
        ValueError: when it is no step.
    """
    found = _AT_CURSOR.fullmatch(action)
    if found and "loop=" not in action:
        argument = f";{found['argument']}" if found["argument"] else ""
        action = f"{found['primitive']}<loop={cursor}{argument}>"
    return Step.parse(action)


def at_cursor(action: str) -> bool:
    """Does a step leave it to the cursor which loop is meant?"""
    return "loop=" not in action


def action_spaces(target: str) -> tuple[ActionSpaceSpec, ...]:
    """Return the spaces for a target, which are views of one language."""
    primitives = _primitives(target)
    return (
        ActionSpaceSpec(
            "steps",
            tuple(ActionSpec(step.text, _WHAT[step.primitive]) for step in steps(target)),
            description="one change of one loop",
        ),
        ActionSpaceSpec(
            "primitives",
            tuple(_parametrized(one) for one in primitives),
            kind="parametrized",
            description="a primitive, the number of a loop, and what else the primitive takes",
        ),
        ActionSpaceSpec(
            "cursor",
            (
                ActionSpec("cursor_up", "go to the loop before, which is the next outer one of a stage"),
                ActionSpec("cursor_down", "go to the loop behind, which is the next inner one of a stage"),
                *(
                    ActionSpec(f"{one.name}<{argument}>" if argument else one.name, _WHAT[one.name])
                    for one in primitives
                    for argument in one.arguments or ("",)
                ),
            ),
            description="moves of a cursor, and changes of the loop that it is at",
        ),
        ActionSpaceSpec(
            "recipes",
            kind="options",
            options=_places(target),
            program=RECIPE,
            description=f"whole schedules: {PLACES} steps from the start, or fewer",
        ),
    )


def read_recipe(target: str, text: str) -> tuple[Step, ...]:
    """Return the steps of a recipe.

    Raises:
        ValueError: when it is none.
    """
    options = _places(target)
    choices = _reader(target).read(text.split(" ")[1:])
    made = (option.word(choice) for option, choice in zip(options, choices, strict=True) if choice != UNSET)
    return tuple(Step.parse(word.partition(":")[2]) for word in made)


@cache
def _places(target: str) -> tuple[Option, ...]:
    texts = [
        step.text
        for step in steps(target, loops=_LOOPS)
        if step.primitive not in ("split", "serial") or step.argument in _FACTORS
    ]
    return tuple(
        Option(str(place), "enum", f"the step at place {place}", tuple(f"{place}:{text}" for text in texts))
        for place in range(1, PLACES + 1)
    )


@cache
def _reader(target: str) -> OptionReader:
    return OptionReader(_places(target))


def _primitives(target: str) -> tuple[_Primitive, ...]:
    """Return what is offered, in the order of the steps."""
    found: dict[str, dict[str, None]] = {}
    for step in steps(target):
        if step.loop == 0:
            _, _, argument = step.text.removesuffix(">").partition(";")
            found.setdefault(step.primitive, {}).update({argument: None} if argument else {})
    return tuple(_Primitive(name, tuple(arguments)) for name, arguments in found.items())


def _parametrized(primitive: _Primitive) -> ActionSpec:
    loops = ActionParameter("loop", tuple(f"loop={number}" for number in range(MAX_LOOPS)))
    parameters = [loops]
    if primitive.arguments:
        parameters.append(ActionParameter(primitive.arguments[0].partition("=")[0], primitive.arguments))
    return ActionSpec(primitive.name, _WHAT[primitive.name], text=f"{primitive.name}$<>", parameters=tuple(parameters))
