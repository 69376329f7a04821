"""The tree of states, beside a model that is nothing but a table of where actions lead."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiocg.web.tree import BEST, SHOWN, Tree, TreeError

STATES = 7  # of a machine in which action k leads from s to s * k + 1, as a program's actions lead to few states
MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("step"), st.integers(0, 4)),
        st.tuples(st.just("undo"), st.just(0)),
        st.tuples(st.just("goto"), st.integers(0, STATES)),
    ),
    max_size=30,
)


def after(state: int, action: int) -> int:
    return (state * action + 1) % STATES


def cost(state: int) -> dict[str, float]:
    return {"cost": float(state * state)}


def walked(moves: list[tuple[str, int]]) -> tuple[Tree, list[int]]:
    """Return the tree after some moves, and the states on the way that was taken as a model has them."""
    tree, trail = Tree(3, cost(3)), [3]
    for move, value in moves:
        if move == "step":
            there = after(trail[-1], value)
            node = tree.step(str(value), there, cost(there))
            assert (node.state, node.costs) == (there, cost(there))
            if there != trail[-1]:
                trail.append(there)
        elif move == "undo" and len(trail) > 1:
            tree.undo()
            trail.pop()
        elif move == "goto" and value < len(tree):
            tree.goto(value)
            trail = [node.state for node in tree.line(value)]
        assert tree.present.state == trail[-1]
    return tree, trail


@given(MOVES)
def test_the_present_state_and_the_way_to_it_are_those_of_the_model(moves: list[tuple[str, int]]) -> None:
    tree, trail = walked(moves)
    assert [tree[number].state for number in tree.trail] == trail


@given(MOVES)
def test_there_is_one_node_for_each_state_and_its_path_leads_there(moves: list[tuple[str, int]]) -> None:
    tree, _ = walked(moves)
    states = [node.state for node in tree]
    assert len(states) == len(set(states)) == len(tree)
    for node in tree:
        state = 3
        for action in tree.path(node.number):
            state = after(state, int(action))
        assert state == node.state
        assert len(tree.path(node.number)) == node.depth
        for action, number in node.edges.items():
            assert tree[number].state == after(node.state, int(action))


@given(MOVES)
def test_every_node_but_the_first_is_the_child_of_one(moves: list[tuple[str, int]]) -> None:
    tree, _ = walked(moves)
    children = [child.number for node in tree for child in tree.children(node.number)]
    assert sorted(children) == list(range(1, len(tree)))


@given(MOVES, MOVES)
def test_a_copy_grows_by_itself(moves: list[tuple[str, int]], more: list[tuple[str, int]]) -> None:
    tree, _ = walked(moves)
    before = [(node.state, dict(node.edges)) for node in tree], tree.trail
    other = tree.copy()
    assert ([(node.state, node.edges) for node in other], other.trail) == before
    for _, value in more:
        there = after(other.present.state, value)
        other.step(str(value), there, cost(there))
    assert ([(node.state, node.edges) for node in tree], tree.trail) == before


def test_undo_goes_back_the_way_that_was_taken_into_a_merged_node() -> None:
    tree = Tree(1, {})
    tree.step("a", 2, {})
    tree.step("b", 3, {})
    tree.goto(0)
    left = tree.step("c", 4, {})
    merged = tree.step("d", 3, {})
    assert merged.number == 2 and tree.path(2) == ("a", "b")
    assert tree.undo() is left


def test_what_there_is_not_is_named() -> None:
    tree = Tree(1, {}, most=2)
    with pytest.raises(TreeError, match="nothing to undo"):
        tree.undo()
    with pytest.raises(TreeError, match="no node 5: they are numbered from 0 to 0"):
        tree.goto(5)
    tree.step("a", 2, {})
    with pytest.raises(TreeError, match="2 nodes, the most it may have"):
        tree.step("b", 3, {})
    assert tree.present.number == 1 and tree.step("again", 1, {}).number == 0


def test_all_children_of_a_node_can_be_shown_however_large_the_tree_is() -> None:
    tree = Tree(0, {"cost": 0.0})
    for state in range(1, 2 * SHOWN):  # two levels, with more nodes than are shown
        tree.goto(0)
        tree.step(str(state), state, {"cost": float(state)})
        for more in range(BEST + 3):
            below = 10_000 + 100 * state + more
            tree.step(str(below), below, {"cost": float(below)})
            tree.undo()
    tree.goto(0)
    parts = tree.part("cost", {0}).children
    hidden = next(part for part in parts if not part.children)
    assert hidden.rest == BEST + 3
    parts = tree.part("cost", {0, hidden.node.number}).children
    again = next(part for part in parts if part.node.number == hidden.node.number)
    assert (len(again.children), again.rest) == (BEST + 3, 0)
