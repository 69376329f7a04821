"""Pipelines as texts."""

from aiocg.workers.llvm.pipeline_text import size_levels, without_size_levels


def test_levels_for_size_become_the_level_that_is_left() -> None:
    pipeline = "module(thinlto-pre-link<Os>,default<O3>),lto<Oz>,function(simplifycfg)"
    assert size_levels(pipeline) == {"s", "z"} and size_levels("default<O2>") == set()
    assert without_size_levels(pipeline) == "module(thinlto-pre-link<O2>,default<O3>),lto<O2>,function(simplifycfg)"
