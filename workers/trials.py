"""The evaluation of an expand's candidates, in which what neighbours begin with is done once."""

from typing import NamedTuple, Self

from aiocg.transport.messages import Action, Candidate
from aiocg.workers.compilation import CompilationSession
from aiocg.workers.session_calls import apply_actions, as_compilation_error, forked, hash_of

__all__ = ["Stems", "Trial"]

Actions = tuple[Action, ...]


class Trial:
    """The evaluation of one candidate.

    Attributes:
        session: where the candidate's actions are applied.
        effects: whether each of them had an effect.
        failure: the result, if one of the actions failed.
    """

    def __init__(self, session: CompilationSession, effects: list[bool]) -> None:
        self.session = session
        self.effects = effects
        self.failure: Candidate | None = None

    def observe(self, names: tuple[str, ...]) -> Candidate:
        """Return the result."""
        if self.failure is not None:
            return self.failure
        try:
            observations = tuple([self.session.get_observation(name) for name in names])
            return Candidate(observations, hash_of(self.session), tuple(self.effects))
        except Exception as caught:
            return _failed(caught)


class _Stem(NamedTuple):
    """A session after the actions that several candidates begin with."""

    actions: Actions
    session: CompilationSession
    effects: list[bool]


class Stems:
    """Sessions that the next candidates start from, each of which goes on where the one before it ends.

    Args:
        session: where all candidates start; it is left as it is.
    """

    def __init__(self, session: CompilationSession) -> None:
        self._stems = [_Stem((), session, [])]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        while len(self._stems) > 1:
            self._stems.pop().session.close()

    def grow(self, actions: Actions, following: Actions) -> Trial:
        """Apply a candidate's actions.

        Args:
            actions: those of the candidate.
            following: those of the next candidate.
        """
        while actions[: len(self._stems[-1].actions)] != self._stems[-1].actions:
            self._stems.pop().session.close()
        done = len(self._stems[-1].actions)
        trial = Trial(forked(self._stems[-1].session), list(self._stems[-1].effects))
        try:
            for action in actions[done:]:
                trial.session.check_action(action)
            shared = _common_length(actions, following)
            if shared > done:
                apply_actions(trial.session, actions[done:shared], trial.effects)
                self._stems.append(_Stem(actions[:shared], forked(trial.session), list(trial.effects)))
                done = shared
            apply_actions(trial.session, actions[done:], trial.effects)
        except Exception as caught:
            trial.failure = _failed(caught)
        return trial


def _common_length(one: Actions, other: Actions) -> int:
    length = 0
    while length < min(len(one), len(other)) and one[length] == other[length]:
        length += 1
    return length


def _failed(caught: Exception) -> Candidate:
    error = as_compilation_error(caught)
    return Candidate(code=error.code, message=error.message)
