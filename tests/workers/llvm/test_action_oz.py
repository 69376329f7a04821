"""Is -Oz reachable? As one action, as a nested text of its passes, and one pass after another."""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aiocg.workers.llvm._library import Library
from aiocg.workers.llvm._passes import CLANG_OZ_PIPELINES, clang_oz
from aiocg.workers.llvm._pipeline_text import Element, read
from aiocg.workers.llvm.session import LlvmSession

Compile = Callable[..., bytes]
PROGRAMS = ("sorting.c", "matrix.c", "calculator.c", "shapes.cc")


@pytest.fixture(params=["loaded", pytest.param("19", marks=pytest.mark.slow)])
def oz(
    request: pytest.FixtureRequest,
    library: Library,
    system_library: Callable[[int], Library],
    clang: str,
    cache_dir: Path,
) -> Iterator[str]:
    """Start an LLVM, and return what its `default<Oz>` is as a text."""
    clangs = ",slp-vectorizer" if library.has_size_levels else "<vectorize-forced-only>"
    text = clang_oz(library).replace(clangs, "")
    if request.param == "19":
        opt = shutil.which("opt-19")
        if opt is None:
            pytest.skip("this machine has no opt-19 (apt install llvm-19)")
        library = system_library(19)
        inliner = printed(opt, "scc-oz-module-inliner").removesuffix(",verify")
        text = printed(opt, "default<Oz>").replace(inliner, "scc-oz-module-inliner")
        assert "scc-oz-module-inliner" in text
    elif library.version[0] not in CLANG_OZ_PIPELINES:
        pytest.skip(f"the pipeline of LLVM {library.version_text} is not known")
    LlvmSession.start({"library": str(library.path), "clang": clang, "cache_dir": str(cache_dir)})
    yield text
    LlvmSession.start({"cache_dir": str(cache_dir)})


def printed(opt: str, pipeline: str) -> str:
    """Return what `opt` says a pipeline is."""
    command = [opt, f"-passes={pipeline}", "-print-pipeline-passes", "-disable-output"]
    return subprocess.run(command, input=b"", check=True, capture_output=True).stdout.decode().strip()


def single_passes(elements: tuple[Element, ...]) -> Iterator[str]:
    """Yield one pipeline over the module for each pass over functions, and each other element as it is."""
    for element in elements:
        if element.name.partition("<")[0] == "function":
            yield from (f"function({inner})" for inner in element.inner)
        else:
            yield str(element)


@pytest.fixture
def sessions(oz: str, compile_with: Compile, clang: str) -> list[LlvmSession]:
    """Sessions at the start of each program; LLVM 19 gets what its own clang makes."""
    version = LlvmSession.engine.library.version[0]
    compiler = "clang-19" if version == 19 else clang
    if shutil.which(compiler) is None:
        pytest.skip(f"this machine has no {compiler}")
    found = [LlvmSession(LlvmSession.load_benchmark(compile_with(compiler, name))) for name in PROGRAMS]
    for session in found:
        if not LlvmSession.engine.library.has_size_levels:
            session.apply_action("mark<minsize>")
    return found


@pytest.mark.slow
def test_level_is_one_action(oz: str, sessions: list[LlvmSession]) -> None:
    for session in sessions:
        assert session.apply_action("default<Oz>")
        assert session.get_observation("IrInstructionCount") == session.get_observation("IrInstructionCountOz")


@pytest.mark.slow
def test_nested_text_of_its_passes_leads_to_the_very_same_program(oz: str, sessions: list[LlvmSession]) -> None:
    for session in sessions:
        assert session.apply_action(oz)
        assert session.state is session.benchmark.at("Oz")


@pytest.mark.slow
def test_its_passes_one_after_another_lead_to_a_program_of_its_size(oz: str, sessions: list[LlvmSession]) -> None:
    """Not to the same bytes: what one pass leaves in memory for the next does not outlive an action."""
    steps = list(single_passes(read(oz)))
    assert len(steps) > 50
    for session in sessions:
        for step in steps:
            session.apply_action(step)
        assert session.get_observation("IrInstructionCount") == session.get_observation("IrInstructionCountOz")
