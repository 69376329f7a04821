"""Pipelines as texts."""

import pytest

from aiocg.workers.llvm._pipeline_text import size_levels, with_scalar_pre, without_size_levels


def test_levels_for_size_become_the_level_that_is_left() -> None:
    pipeline = "module(thinlto-pre-link<Os>,default<O3>),lto<Oz>,function(simplifycfg)"
    assert size_levels(pipeline) == {"s", "z"} and size_levels("default<O2>") == set()
    assert without_size_levels(pipeline) == "module(thinlto-pre-link<O2>,default<O3>),lto<O2>,function(simplifycfg)"


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("gvn<no-pre>", "gvn<no-scalar-pre;no-load-pre>"),
        ("function(sroa,gvn<no-pre;load-pre>)", "function(sroa,gvn<no-scalar-pre;load-pre;no-load-pre>)"),
        ("gvn<pre;no-memdep>", "gvn<scalar-pre;no-memdep>"),
        ("gvn<no-load-pre>,gvn,newgvn", "gvn<no-load-pre>,gvn,newgvn"),
    ],
)
def test_redundancies_that_are_left_have_their_new_names(before: str, now: str) -> None:
    assert with_scalar_pre(before) == now == with_scalar_pre(now)
