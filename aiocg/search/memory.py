"""Memo of visited states."""

from aiocg.search.tuner import Outcome

__all__ = ["Memory"]

Actions = tuple[str, ...]


class Memory:
    """Gives each list of actions the one form in which it is evaluated.

    Two lists that lead to the same state go on alike: where that is known, both get the form of the first one.
    """

    def __init__(self, *, merging: bool) -> None:
        """Begin with nothing known.

        Args:
            merging: whether the reward of an episode depends on nothing but the state that it comes to; otherwise
                every list is a form of its own.
        """
        self._merging = merging
        self._forms: dict[Actions, Actions] = {}  # of lists whose state is known
        self._first: dict[int, Actions] = {}  # the first list that led to a state
        self._failed: set[Actions] = set()

    def form(self, actions: Actions) -> Actions:
        """Return the form of a list, as far as is known by now."""
        if not self._merging:
            return actions
        known = self._forms
        form: Actions = ()
        for action in actions:
            longer = (*form, action)
            form = known.get(longer, longer)
        return form

    def learn(self, actions: Actions, form: Actions, outcome: Outcome) -> None:
        """Take note of the state that a list and its form lead to."""
        if outcome.failed:
            self._failed.add(form)
        if outcome.failed or not self._merging:
            return
        first = self._first.setdefault(outcome.state, outcome.actions)
        for one in (actions, form, outcome.actions):
            if one:
                self._forms[one] = first

    def fails(self, form: Actions) -> bool:
        """Is it known that a list fails, since it begins with one that does?"""
        return bool(self._failed) and any(form[:length] in self._failed for length in range(1, len(form) + 1))
