"""The action table: complete, unambiguous, and safe on real programs."""

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from aiocg.workers.llvm._library import Library
from aiocg.workers.llvm._passes import ENTRIES, EXCLUSIONS, FLAGS, SEQUENCES, WITHOUT_EQUIVALENT, Pass, available
from aiocg.workers.llvm._vocabulary import action_spaces
from aiocg.workers.llvm.module import Module
from aiocg.workers.llvm.session import LlvmSession
from bench.actions_page import render

CHECKOUT = Path(__file__).parents[3]

DOCUMENT = CHECKOUT / "docs" / "actions.md"
SWEEP = Path(__file__).with_name("pass_sweep.py")
PROGRAMS = 4

# `PassBuilder::printPassNames(llvm::outs())`, for a library that has no `opt` beside it.
PRINT_PASSES = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
out = library._ZN4llvm4outsEv
out.restype = ctypes.c_void_p
stream = ctypes.c_void_p(out())
library._ZN4llvm11PassBuilder14printPassNamesERNS_11raw_ostreamE(None, stream)
library._ZN4llvm11raw_ostream14flush_nonemptyEv(stream)
"""

Sequences = list[tuple[int, list[str]]]
Sweep = Callable[[Sequences], list[list[list[str]]]]


@pytest.fixture(scope="module")
def passes(library: Library) -> tuple[Pass, ...]:
    return available(library)


@pytest.fixture(scope="module")
def programs(compile_program, tmp_path_factory) -> list[Path]:
    folder = tmp_path_factory.mktemp("programs")
    sources = {"sorting.c": (), "matrix.c": (), "calculator.c": (), "shapes.cc": ("-fexceptions", "-fcxx-exceptions")}
    for name, flags in sources.items():
        (folder / f"{name}.bc").write_bytes(compile_program(name, *flags))
    assert len(sources) == PROGRAMS
    return sorted(folder.iterdir())


@pytest.fixture(scope="module")
def sweep(library, clang, cache_dir, programs) -> Sweep:
    """A function that runs sequences in two processes and returns the outcomes of both."""

    def run(sequences: Sequences) -> list[list[list[str]]]:
        work = json.dumps({"programs": [str(path) for path in programs], "sequences": sequences}).encode()
        running = []
        for seed in "12":
            command = [sys.executable, "-P", str(SWEEP), str(library.path), seed, clang, str(cache_dir)]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            process.stdin.write(work)
            process.stdin.close()
            running.append(process)
        results = [json.loads(process.stdout.read()) for process in running]
        assert [process.wait() for process in running] == [0, 0]
        return results

    return run


def complaints(sequences: Sequences, results: list[list[list[str]]]) -> list[str]:
    """Say which steps failed, and after which step two processes disagree."""
    found = []
    for (program, pipelines), first, second in zip(sequences, *results, strict=True):
        found += [f"program {program}: {line} (in {pipelines})" for line in first if line.startswith("error")]
        differing = [p for p, one, two in zip(pipelines, first, second, strict=False) if one != two]
        if differing:
            found.append(f"program {program}: {differing[0]} differs between processes (in {pipelines})")
    return found


def listed_passes(text: str) -> set[str]:
    """Read the names of passes, without parameters, from what `opt --print-passes` prints."""
    names = set()
    for line in text.splitlines():
        if not line.startswith(" "):
            section = line
        elif "analyses" not in section and not section.startswith("Machine"):
            name = line.strip()
            names.add(name if name.startswith(("print<", "verify<", "invalidate<")) else name.partition("<")[0])
    return names


def unaccounted(names: set[str]) -> set[str]:
    """Return the names that are neither actions nor excluded."""
    known = {text for entry in ENTRIES for text in (entry.name, *entry.texts)} | {"chr", "guard-widening"}
    known |= {text.partition("<")[0] for text in known}
    patterns = [pattern for group in EXCLUSIONS.values() for pattern in group]
    return {n for n in names if n not in known and not any(fnmatchcase(n, pattern) for pattern in patterns)}


def test_actions_are_sorted_by_name_and_the_same_each_time(library, passes):
    names = [one.name for one in passes]
    assert names == sorted(set(names))
    assert available(library) == passes
    assert len(passes) >= 140


def test_no_two_actions_share_a_spelling(passes):
    spellings = [spelling for one in passes for spelling in (one.name, *one.aliases)]
    assert len(spellings) == len(set(spellings))


def test_every_action_has_a_description_of_one_line_of_its_own(passes):
    descriptions = [one.description for one in passes]
    assert len(set(descriptions)) == len(descriptions)
    assert all(text and text[0].isupper() and "\n" not in text and text[-1] != "." for text in descriptions)


def test_at_least_116_of_the_124_flags_of_compiler_gym_are_actions(passes):
    spellings = {spelling for one in passes for spelling in (one.name, *one.aliases)}
    assert len(FLAGS) == len(set(FLAGS)) == 124
    assert sum(flag in spellings and f"-{flag}" in spellings for flag in FLAGS) >= 116


def test_no_action_space_has_passes_that_make_another_program(library, passes):
    texts = {text for space in action_spaces(library, passes) for one in space.actions for text in (one.name, one.text)}
    assert not {text for text in texts if text and ("lower-atomic" in text or "lower-invoke" in text)}


def test_every_flag_of_compiler_gym_is_in_the_table_or_has_a_reason_not_to_be():
    spellings = {spelling for entry in ENTRIES for spelling in (entry.name, *entry.flags, *entry.similar)}
    assert {flag for flag in FLAGS if flag not in spellings} <= set(WITHOUT_EQUIVALENT) | set(SEQUENCES)
    assert set(WITHOUT_EQUIVALENT) | set(SEQUENCES) <= set(FLAGS)
    assert {flag for entry in ENTRIES for flag in (*entry.flags, *entry.similar)} <= set(FLAGS)


@pytest.mark.parametrize(
    ("flag", "name"),
    [
        ("-mem2reg", "mem2reg"),
        ("-functionattrs", "function-attrs"),
        ("early-cse-memssa", "early-cse<memssa>"),
        ("-loop-unswitch", "simple-loop-unswitch<nontrivial>"),
        ("-loop-guard-widening", "loop(guard-widening)"),
        ("-constprop", "instsimplify"),
        ("-die", "dce"),
    ],
)
def test_flag_of_compiler_gym_means_the_pass_of_today(passes, flag, name):
    assert [one.name for one in passes if flag in one.aliases] == [name]


def test_old_release_runs_passes_under_its_own_spellings(library_14):
    pipelines = {one.name: one.pipeline for one in available(library_14)}
    assert pipelines["lower-switch"] == "lowerswitch"
    assert pipelines["instcombine"] == "instcombine"
    assert pipelines["ipsccp<func-spec>"] == "function-specialization"
    assert "loop-reroll" in pipelines
    assert "sroa<preserve-cfg>" not in pipelines


def test_instcombine_is_told_not_to_abort_where_it_can_be_told(library, passes):
    if library.version[0] < 18:
        pytest.skip(f"instcombine of LLVM {library.version_text} has no check to switch off")
    assert next(one.pipeline for one in passes if one.name == "instcombine") == "instcombine<no-verify-fixpoint>"


def test_every_pass_that_the_library_lists_is_an_action_or_excluded(library):
    command = [sys.executable, "-c", PRINT_PASSES, str(library.path)]
    names = listed_passes(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert {"mem2reg", "licm", "asan", "inline", "globaldce"} <= names
    assert unaccounted(names) == set()


@pytest.mark.parametrize("release", [14, 19])
def test_every_pass_that_opt_lists_is_an_action_or_excluded(release):
    opt = shutil.which(f"opt-{release}")
    if opt is None:
        pytest.skip(f"this machine has no opt-{release} (apt install llvm-{release})")
    names = listed_passes(subprocess.run([opt, "--print-passes"], check=True, capture_output=True, text=True).stdout)
    assert {"mem2reg", "licm", "inline", "globaldce"} <= names
    assert unaccounted(names) == set()


def test_no_pass_is_both_an_action_and_excluded():
    patterns = [pattern for group in EXCLUSIONS.values() for pattern in group]
    assert len(patterns) == len(set(patterns))
    assert [e.name for e in ENTRIES if any(fnmatchcase(e.name, pattern) for pattern in patterns)] == []


def test_reference_of_actions_is_current():
    command = "python -m bench.actions_page > docs/actions.md"
    assert DOCUMENT.read_text() == render(), f"docs/actions.md is out of date; run: {command}"


def test_every_action_alone_is_valid_and_the_same_in_two_processes(passes, sweep):
    sequences = [(program, [one.pipeline]) for program in (0, 3) for one in passes]
    assert complaints(sequences, sweep(sequences)) == []


def test_every_action_runs_on_a_program_without_a_target(library, passes, simple):
    for one in passes:
        with Module.parse(library, simple) as module:
            module.run_passes(one.pipeline, None)
            assert module.verify() is None, one.name


@pytest.mark.slow
def test_random_sequences_of_actions_are_valid_and_the_same_in_two_processes(passes, sweep):
    sequences = random_sequences(passes, count=60)
    assert complaints(sequences, sweep(sequences)) == []


@pytest.mark.slow
def test_actions_of_all_spaces_are_valid_and_the_same_in_two_processes(cache_dir, programs, sweep):
    LlvmSession.start({"cache_dir": str(cache_dir)})
    chance = random.Random(17)
    sequences = [
        (number, varied_actions(program.read_bytes(), chance)) for number, program in enumerate(programs) for _ in "123"
    ]
    assert complaints(sequences, sweep(sequences)) == []


def varied_actions(content: bytes, chance: random.Random) -> list[str]:
    """Go a random way with actions of every space, and return their canonical texts."""
    session = LlvmSession(LlvmSession.load_benchmark(content))
    texts = [LlvmSession.vocabulary.resolve(name) for name in ("sroa", "loop-rotate")]
    for text in texts:
        session.apply_action(text)
    for _ in range(25):
        space = chance.choice([one for one in LlvmSession.action_spaces if one.actions])
        action = chance.choice(space.actions)
        text = action.name if action.text is None else action.text
        made = ";".join(filter(None, (chance.choice(parameter.choices) for parameter in action.parameters)))
        text = text.replace("$<>", made and f"<{made}>").replace("${}", made and f"{{{made}}}")
        if space.targets:
            targets = session.get_observation(space.targets)
            if not targets:
                continue
            text = f"{chance.choice(targets)}({text})"
        texts.append(LlvmSession.vocabulary.resolve(text))
        session.apply_action(text)
    return texts


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_many_random_sequences_of_actions_rarely_fail_and_never_differ(passes, sweep):
    sequences = random_sequences(passes, count=1000 if os.environ.get("EVERY_CASE") else 300)
    found = complaints(sequences, sweep(sequences))
    assert [line for line in found if "differs" in line] == []
    assert len(found) <= 4, found  # LLVM's own crashes, which the supervisor survives


def random_sequences(passes: tuple[Pass, ...], count: int) -> Sequences:
    """Return random sequences of 6 to 21 actions, one program after another."""
    chooser = random.Random(count)
    pipelines = [one.pipeline for one in passes]
    return [(i % PROGRAMS, chooser.choices(pipelines, k=chooser.randrange(6, 22))) for i in range(count)]
