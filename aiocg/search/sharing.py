"""Evaluates common prefixes of action lists once."""

from collections.abc import Iterator, Sequence

__all__ = ["Group", "common_length", "share"]

Actions = tuple[str, ...]
Group = tuple[Actions, list[int]]
"""What some lists begin with, and the indices of those that are evaluated from there; none where others branch off."""

WORTH = 3  # actions that must be saved, for the time that it takes to go to a state and come back


def share(lists: Sequence[Actions]) -> list[Group]:
    """Divide lists into groups, each of which is evaluated from the state after what its members have in common.

    A worker that does one list after the other does their common beginning once as long as the next list goes on where
    the last one ended. So groups begin where lists part, and not where one merely ends.
    """
    if not lists:
        return []
    order = sorted(range(len(lists)), key=lambda index: lists[index])
    return list(_groups(lists, order, common_length(lists[order[0]], lists[order[-1]])))


def _groups(lists: Sequence[Actions], members: list[int], here: int) -> Iterator[Group]:
    """Yield the group of the state after the first `here` actions, and those of states further on."""
    alone: list[int] = []
    further: list[tuple[list[int], int]] = []
    for branch in _branches(lists, members, here):
        ends, going, parting = _until_they_part(lists, branch)
        ways = len({lists[index][parting] for index in going}) if len(going) > 1 else 1
        alone += ends
        if (ways - 1) * (parting - here) >= WORTH:
            further.append((going, parting))
        else:
            alone += going
    if alone or len(further) > 1:
        yield lists[members[0]][:here], alone
    for branch, parting in further:
        yield from _groups(lists, branch, parting)


def _branches(lists: Sequence[Actions], members: list[int], here: int) -> Iterator[list[int]]:
    """Yield runs of members that go on with the same action."""
    branch: list[int] = []
    for index in members:
        if branch and lists[branch[0]][here : here + 1] != lists[index][here : here + 1]:
            yield branch
            branch = []
        branch.append(index)
    yield branch


def _until_they_part(lists: Sequence[Actions], branch: list[int]) -> tuple[list[int], list[int], int]:
    """Return the members that end on the way, those that go on, and after how many actions these part."""
    for done in range(len(branch)):
        parting = common_length(lists[branch[done]], lists[branch[-1]])  # they are sorted
        if len(lists[branch[done]]) > parting:
            return branch[:done], branch[done:], parting
    return branch, [], 0


def common_length(one: Actions, other: Actions) -> int:
    """Return how many actions two lists have in common at their beginnings."""
    for length, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return length
    return min(len(one), len(other))
