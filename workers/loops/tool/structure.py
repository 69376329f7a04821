"""The state of a `loop_tool` environment: loops around one computation, one of which the cursor is at.

The loops go through the elements of a vector in order. Each has a size and a tail: it runs all that is inside of it
`size` times, and then as much of it as makes up the `tail`, in elements. So elements are

    elements(loop) = size * elements(inside) + tail

and all changes leave them as they are: what a loop gains, the one around it loses.
"""

from typing import NamedTuple

__all__ = ["ACTIONS", "MAX_LOOPS", "Level", "Structure"]

ACTIONS = {
    "toggle_mode": "switch between changing the size of the loop at the cursor, and moving the cursor",
    "up": "make the loop larger, and the one around it smaller; or move the cursor inwards",
    "down": "make the loop smaller, and the one around it larger; or move the cursor outwards",
    "toggle_thread": "have the turns of the loop carried out in parallel, or not",
    "split": "make the loop two, the inner one of size 2",
}
MAX_LOOPS = 8


class Level(NamedTuple):
    """A loop.

    Attributes:
        size: how often it runs what is inside.
        tail: elements that are left over for one more turn.
        thread: its turns are carried out in parallel.
    """

    size: int
    tail: int = 0
    thread: bool = False


class Structure(NamedTuple):
    """The loops, from the outermost to the innermost, and what the next action is for.

    Attributes:
        loops: the loops; the innermost has no tail.
        cursor: index of the loop that actions are for.
        selecting: `up` and `down` move the cursor; otherwise they change sizes.
    """

    loops: tuple[Level, ...]
    cursor: int = 0
    selecting: bool = False

    @classmethod
    def initial(cls, elements: int) -> "Structure":
        """Return three loops, all elements being the parallel outermost one's."""
        return cls((Level(elements, thread=True), Level(1), Level(1)))

    @property
    def current(self) -> Level:
        """The loop at the cursor."""
        return self.loops[self.cursor]

    def elements(self, index: int = 0) -> int:
        """Return the elements of a loop, with all that is inside; 1 behind the innermost."""
        count = 1
        for loop in reversed(self.loops[index:]):
            count = loop.size * count + loop.tail
        return count

    def after(self, action: str) -> "Structure":
        """Return what an action, one of `ACTIONS`, leads to; the same where it is not possible."""
        match action:
            case "toggle_mode":
                return self._replace(selecting=not self.selecting)
            case "toggle_thread":
                return self._with(self.cursor, self.current._replace(thread=not self.current.thread))
            case "split":
                return self._split()
        step = 1 if action == "up" else -1
        if self.selecting:
            return self._replace(cursor=(self.cursor + step) % len(self.loops))
        return self._resized(self.cursor, step)

    def _with(self, index: int, *loops: Level) -> "Structure":
        return self._replace(loops=(*self.loops[:index], *loops, *self.loops[index + len(loops) :]))

    def _resized(self, index: int, step: int) -> "Structure":
        """Return the loop larger or smaller by one; without a tail, which first goes to the loop around it."""
        loop = self.loops[index]
        size = loop.size if step < 0 and loop.tail else loop.size + step
        if index == 0 or size < 1:
            return self
        around, tail = divmod(self.elements(index - 1), size * self.elements(index + 1))
        if around < 1:
            return self
        outer = self.loops[index - 1]._replace(size=around, tail=tail)
        return self._with(index - 1, outer, loop._replace(size=size, tail=0))

    def _split(self) -> "Structure":
        """Return the loop with another one inside, of size 2, if it is large enough for that."""
        if len(self.loops) == MAX_LOOPS or self.current.size < 2:
            return self
        place = self.cursor + 1
        grown = self._replace(loops=(*self.loops[:place], Level(1), *self.loops[place:]))
        return grown._resized(place, 1)
