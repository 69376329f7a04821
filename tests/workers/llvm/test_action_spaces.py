"""Action spaces: what they offer is what the library takes, and does what it says."""

import contextlib
import faulthandler
import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from aiocg.transport.messages import ActionSpaceSpec, ActionSpec, FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.llvm._library import Library
from aiocg.workers.llvm._passes import FLAGS, MACROS, SEQUENCES, Probe, nested
from aiocg.workers.llvm._vocabulary import Vocabulary
from aiocg.workers.llvm.module import LlvmError, Module, TargetMachine
from aiocg.workers.llvm.session import LlvmSession

Compile = Callable[..., bytes]
FORMS = {"$<>": "<{}>", "${}": "{{{}}}"}

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


@pytest.fixture(scope="module", autouse=True)
def _started(cache_dir: Path) -> None:
    LlvmSession.start({"cache_dir": str(cache_dir)})


@pytest.fixture
def opaque(library: Library) -> None:
    if library.version[0] < 15:
        pytest.skip(f"LLVM {library.version_text} does not read `ptr`")


@pytest.fixture
def threshold(library: Library) -> None:
    if not library.has("LLVMPassBuilderOptionsSetInlinerThreshold"):
        pytest.skip(f"LLVM {library.version_text} cannot set the threshold of the inliner")


def space(name: str) -> ActionSpaceSpec:
    return next(one for one in LlvmSession.action_spaces if one.name == name)


def opened(content: bytes) -> LlvmSession:
    return LlvmSession(LlvmSession.load_benchmark(content))


def text_of(action: ActionSpec) -> str:
    return action.name if action.text is None else action.text


def filled(action: ActionSpec, choices: list[str]) -> str:
    """Return the text of a parametrised action with choices made, as the declaration of `ActionSpec` says."""
    text, made = text_of(action), ";".join(filter(None, choices))
    for place, form in FORMS.items():
        text = text.replace(place, form.format(made) if made else "")
    return text


def refusal(action: object) -> str:
    with pytest.raises(CompilationError) as caught:
        LlvmSession.check_action(action)
    assert caught.value.code == FailureCode.ACTION_UNKNOWN
    return caught.value.message


# ---------------------------------------------------------------------------------------------- what is offered


@pytest.mark.slow
def test_passes_come_first_and_every_space_says_what_it_is() -> None:
    spaces = LlvmSession.action_spaces
    assert [one.name for one in spaces if one.kind == "discrete"] == ["Passes", "PassesLegacy124", "Pipelines"]
    assert spaces[0].name == "Passes"
    assert {one.name for one in spaces} >= {"ParametrizedPasses", "PipelineText"}
    assert all(one.description and all(action.description for action in one.actions) for one in spaces)
    for one in spaces:
        names = [action.name for action in one.actions]
        assert len(names) == len(set(names))


def test_targets_are_observations_that_exist() -> None:
    targeted = [one for one in LlvmSession.action_spaces if one.kind == "targeted"]
    observations = {spec.name: spec for spec in LlvmSession.observation_spaces}
    assert all(observations[one.targets].kind == "texts" for one in targeted)


def test_every_action_of_every_space_is_one_that_the_worker_takes() -> None:
    target = {"Functions": "@f", "Loops": "@f:0", "CallSites": "@f:@g:0", "Branches": "@f:branch:0"}
    for one in LlvmSession.action_spaces:
        for action in one.actions:
            text = filled(action, [parameter.choices[0] for parameter in action.parameters])
            LlvmSession.check_action(f"{target[one.targets]}({text})" if one.targets else text)


def test_flags_of_compiler_gym_are_in_its_order_and_mean_the_pass_of_today() -> None:
    actions = space("PassesLegacy124").actions
    assert [action.name for action in actions] == [f"-{flag}" for flag in FLAGS]
    by_name = {spelling: one.name for one in LlvmSession.vocabulary.passes for spelling in (one.name, *one.aliases)}
    for flag, action in zip(FLAGS, actions, strict=True):
        if action.text:
            assert action.text == by_name.get(flag, SEQUENCES.get(flag))
        else:
            assert action.description.startswith("gone: ")
    gone = {action.name for action in actions if not action.text}
    assert gone <= {
        "-barrier",
        "-insert-gcov-profiling",
        "-loop-reroll",
        "-sancov",
        "-attributor",
        "-loweratomic",
        "-lowerinvoke",
        "-mergereturn",
    }


def test_flag_that_is_gone_does_nothing(compile_program: Compile) -> None:
    session = opened(compile_program("sorting.c"))
    state = session.state
    assert not session.apply_action("")
    assert session.state is state


@pytest.mark.usefixtures("opaque")
def test_prune_eh_drops_what_unwinding_needed() -> None:
    session = opened(
        b"define void @f() {\n  ret void\n}\n"
        b"define void @g() personality ptr @p {\n  invoke void @f() to label %ok unwind label %bad\nok:\n  ret void\n"
        b"bad:\n  %x = landingpad { ptr, i32 } cleanup\n  resume { ptr, i32 } %x\n}\ndeclare i32 @p(...)\n"
    )
    assert session.apply_action("function-attrs")
    assert session.apply_action(SEQUENCES["prune-eh"])
    assert "landingpad" not in session.get_observation("Ir")


# ------------------------------------------------------------------------------------------------ macro actions


def test_macro_actions_are_all_there_and_valid_on_every_program(compile_program: Compile) -> None:
    actions = space("Pipelines").actions
    assert [action.name for action in actions] == [macro.name for macro in MACROS]
    for name in ("sorting.c", "matrix.c", "calculator.c", "shapes.cc"):
        session = opened(compile_program(name))
        effects = [session.fork().apply_action(text_of(action)) for action in actions]
        assert sum(effects) > len(effects) // 2


@pytest.mark.parametrize("level", ["O3", "Oz"])
def test_level_as_an_action_leads_to_its_baseline(compile_program: Compile, level: str) -> None:
    for name in ("sorting.c", "matrix.c", "calculator.c", "shapes.cc"):
        session = opened(compile_program(name))
        session.apply_action(f"default<{level}>")
        assert session.state is session.benchmark.at(level)
        assert session.get_observation("IrInstructionCount") == session.get_observation(f"IrInstructionCount{level}")


def test_the_parts_of_oz_come_near_it(compile_program: Compile) -> None:
    texts = {action.name: text_of(action) for action in space("Pipelines").actions}
    parts = [texts[f"oz-{part}"] for part in ("early", "module", "inline", "global", "vectorize", "last")]
    for name in ("sorting.c", "matrix.c", "calculator.c", "shapes.cc"):
        session = opened(compile_program(name))
        before = session.get_observation("IrInstructionCount")
        if not session.engine.library.has_size_levels:
            session.apply_action("mark<minsize>")  # as the level does, which is but -O2 otherwise
        for part in parts:
            session.apply_action(part)
        gained = before - session.get_observation("IrInstructionCount")
        assert gained >= 0.95 * (before - session.get_observation("IrInstructionCountOz"))


# --------------------------------------------------------------------------------------------------- parameters


def test_every_choice_is_one_that_the_library_takes() -> None:
    for action in space("ParametrizedPasses").actions:
        for place, parameter in enumerate(action.parameters):
            assert parameter.choices
            for choice in parameter.choices:
                choices = [other.choices[0] for other in action.parameters]
                choices[place] = choice
                LlvmSession.check_action(filled(action, choices))


def test_random_choices_are_valid_on_programs(compile_program: Compile) -> None:
    chance = random.Random(3)
    sessions = [opened(compile_program(name, "-O2")) for name in ("sorting.c", "matrix.c", "calculator.c")]
    actions = [action for action in space("ParametrizedPasses").actions if "$<>" in text_of(action)]
    effects = 0
    for _ in range(150):
        action = chance.choice(actions)
        text = filled(action, [chance.choice(parameter.choices) for parameter in action.parameters])
        child = chance.choice(sessions).fork()
        child.apply_action("sroa")
        effects += child.apply_action(text)
    assert effects > 50


def test_nothing_chosen_is_the_pass_itself() -> None:
    by_name = {one.name: one for one in LlvmSession.vocabulary.passes}
    for action in space("ParametrizedPasses").actions:
        if action.name in by_name and "$<>" in text_of(action):
            text = filled(action, [parameter.choices[0] for parameter in action.parameters])
            assert LlvmSession.vocabulary.resolve(text) in (by_name[action.name].pipeline, f"cgscc({action.name})")


WORK = "\n".join(f"  %x{n} = mul i32 %x{n - 1}, %x0\n  %y{n} = xor i32 %x{n}, {n}" for n in range(1, 30))
CALLS = f"""
define i32 @big(i32 %x0) {{
{WORK}
  %last = add i32 %y1, %x29
  ret i32 %last
}}
define i32 @f(i32 %x, i32 %y) {{
  %a = call i32 @big(i32 %x)
  %b = call i32 @big(i32 %y)
  %c = add i32 %a, %b
  ret i32 %c
}}
""".encode()


@pytest.mark.usefixtures("threshold")
@pytest.mark.parametrize(
    "pipeline", ["default<O1>", "default<O2>", "default<O3>", "default<Os>", "default<Oz>", "scc-oz-module-inliner"]
)
def test_inliner_threshold_decides_what_a_pipeline_of_llvms_own_inlines(pipeline: str) -> None:
    counts = []
    for threshold in (0, 1000):
        session = opened(CALLS)
        session.apply_action(f"{{inliner-threshold={threshold}}}{pipeline}")
        counts.append(session.get_observation("Ir").count("call i32 @big"))
    never = pipeline == "default<Oz>" and not LlvmSession.engine.library.has_size_levels  # calls of minsize functions
    assert counts == [2, 2 if never else 0]


@pytest.mark.usefixtures("threshold")
@pytest.mark.parametrize("pipeline", ["cgscc(inline)", "inliner-wrapper", "module-inline"])
def test_inliner_that_is_named_itself_has_its_own_threshold(pipeline: str) -> None:
    states = []
    for threshold in (0, 1000):
        session = opened(CALLS)
        session.apply_action(f"{{inliner-threshold={threshold}}}{pipeline}")
        states.append(session.state)
    assert states[0] is states[1]


LOOPS = b"""
target triple = "x86_64-unknown-linux-gnu"
define void @vector(ptr noalias %a, ptr noalias %b, i64 %n) {
entry:
  br label %body
body:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %from = getelementptr i32, ptr %b, i64 %i
  %x = load i32, ptr %from
  %y = add i32 %x, 1
  %to = getelementptr i32, ptr %a, i64 %i
  store i32 %y, ptr %to
  %next = add nuw nsw i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %body, label %done
done:
  ret void
}
define void @unroll(ptr %p) {
entry:
  br label %body
body:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  store volatile i32 7, ptr %p
  %next = add nuw nsw i64 %i, 1
  %more = icmp ult i64 %next, 8
  br i1 %more, label %body, label %done
done:
  ret void
}
define void @promote(ptr noalias %p, ptr noalias %q, i64 %n) {
entry:
  br label %body
body:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %x = load i64, ptr %p
  %y = load i64, ptr %q
  %z = xor i64 %x, %y
  store i64 %z, ptr %p
  %next = add nuw nsw i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %body, label %done
done:
  ret void
}
"""
TWINS = CALLS + CALLS.replace(b"@big", b"@twin").replace(b"@f(", b"@g(")


@pytest.mark.usefixtures("opaque", "threshold")
@pytest.mark.parametrize(
    ("content", "option", "values", "pattern"),
    [
        (LOOPS, "loop-unrolling", "01", "store volatile"),
        (LOOPS, "loop-interleaving", "01", "add <4 x i32>"),
        (LOOPS, "licm-mssa-max-acc-promotion", ("250", "0"), "store i64"),
        (TWINS, "merge-functions", "10", "mul i32"),
        (TWINS, "inliner-threshold", ("1000", "0"), "call i32 @big"),
    ],
)
def test_option_of_a_level_has_an_effect(content: bytes, option: str, values: Sequence[str], pattern: str) -> None:
    """What is counted is fewer with the first value than with the second."""
    counts = []
    for value in values:
        session = opened(content)
        session.apply_action(f"{{{option}={value}}}default<O3>")
        counts.append(len(re.findall(pattern, session.get_observation("Ir"))))
    assert counts[0] < counts[1]


def test_cap_on_what_licm_asks_has_an_effect(library: Library, compile_program: Compile) -> None:
    if library.version[0] < 19:
        pytest.skip("with this LLVM it makes no difference to these programs")
    states = []
    for cap in ("0", "100"):
        sessions = [opened(compile_program(name, "-O2")) for name in ("sorting.c", "matrix.c", "calculator.c")]
        for session in sessions:
            session.apply_action(f"{{licm-mssa-optimization-cap={cap}}}default<O3>")
        states.append([session.state_hash() for session in sessions])
    assert states[0] != states[1]


# --------------------------------------------------------------------------------------------------- the check


def test_check_runs_nothing() -> None:
    runs = LlvmSession.statistics()["pipelines_run"]
    for text in ("default<O3>", "function(sroa,gvn)", "loop-mssa(licm)", "{loop-unrolling=0}default<O2>"):
        LlvmSession.check_action(text)
    assert LlvmSession.statistics()["pipelines_run"] == runs


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gvm", ["unknown pass name 'gvm'", "gvn"]),
        ("function(sroa,simplify-cfg)", ["unknown function pass 'simplify-cfg'", "simplifycfg"]),
        ("-mem2regs", ["near to '-mem2regs': mem2reg"]),
        ("simplifycfg<fast>", ["invalid SimplifyCFG pass parameter 'fast'"]),
        ("gvn,", ["unknown function pass ''"]),
        ("function(gvn", ["invalid pipeline 'function(gvn'"]),
        ("gvn)", ["invalid pipeline 'gvn)'"]),
        ("default<O9>", ["O9"]),
        (" gvn", ["unknown pass name ' gvn'"]),
        ("@main(globaldce)", ["globaldce is a module pass"]),
        ("@main(gvm)", ["unknown function pass 'gvm'", "gvn"]),
        ("{loop-unroling=0}default<O2>", ["no option 'loop-unroling'", "loop-unrolling"]),
        ("{loop-unrolling=2}default<O2>", ["0 or 1"]),
        ("{inliner-threshold=many}default<O2>", ["whole number"]),
        ("{inliner-threshold=99999999999}default<O2>", ["32 bits"]),
        (f"{{inliner-threshold={'9' * 5000}}}default<O2>", ["32 bits"]),
        ("function(sroa,licm)", ["loop-mssa(licm)"]),
        ("loop(licm)", ["loop-mssa(licm)"]),
        ("loop-rotate,licm", ["loop-mssa(licm)"]),
        ("@main(loop(lnicm))", ["loop-mssa(lnicm)"]),
        ("@main(licm,loop-rotate)", ["loop-mssa(licm)"]),
        ("@main", ["position 5"]),
    ],
)
def test_text_that_is_no_action_is_refused_with_llvms_words_and_near_names(text: str, words: list[str]) -> None:
    if text.startswith("@main(") and not LlvmSession.engine.library.has("LLVMRunPassesOnFunction"):
        pytest.skip("this LLVM cannot run passes on one function")
    message = refusal(text)
    assert repr(text) in message
    assert "aiocg-end" not in message
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("dot-cfg", "writes files"),
        ("function(loop(print<ddg>))", "prints"),
        ("default<O1>,view-callgraph", "viewer"),
        ("insert-gcov-profiling", "writes files"),
        ("memprof-use<profile-filename=/etc/passwd>", "reads a file"),
        ("trigger-crash-module", "crash"),
        ("machine-function(free-machine-function)", "machine code"),
        ("{loop-unrolling=0}print", "prints"),
    ],
)
def test_pass_that_does_more_than_change_the_program_is_refused_with_the_reason(text: str, reason: str) -> None:
    message = refusal(text)
    assert "may not be run" in message
    assert reason in message


@pytest.mark.parametrize(
    "text",
    [
        "function(loop-mssa(licm,loop-rotate),gvn)",
        "licm,loop-rotate",
        "require<globals-aa>,function(invalidate<aa>,gvn),verify",
        "cgscc(devirt<4>(inline,function<eager-inv>(sroa,simplifycfg)))",
        "strip-dead-debug-info",
    ],
)
def test_text_that_opt_takes_is_an_action(text: str) -> None:
    LlvmSession.check_action(text)


def test_pass_that_asks_for_a_machine_when_it_is_named_is_an_action(library: Library) -> None:
    if library.version[0] < 18:
        pytest.skip(f"LLVM {library.version_text} has no such pass")
    LlvmSession.check_action("codegenprepare")


def passes_that_llvm_lists(library: Library) -> Iterator[str]:
    """Yield the names of passes, without parameters where they may be left out."""
    command = [sys.executable, "-c", PRINT_PASSES, str(library.path)]
    section = ""
    for line in subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines():
        if not line.startswith(" "):
            section = line
        elif "analyses" not in section and not section.startswith("Machine"):
            name = line.strip()
            yield name if name.startswith(("print<", "verify<", "invalidate<")) else name.partition("<")[0]


def outside_effects(library: Library, content: bytes, pipelines: Sequence[str], folder: Path) -> list[str]:
    """Run pipelines in children, each going on until it dies; return what each printed and the files it left."""
    places = [folder / str(number) for number in range(len(pipelines))]
    effects: list[str] = []
    while len(effects) < len(pipelines):
        child = os.fork()
        if child == 0:
            faulthandler.disable()
            for place, pipeline in list(zip(places, pipelines, strict=True))[len(effects) :]:
                signal.alarm(30)
                place.mkdir()
                os.chdir(place)
                output = os.open(place.with_suffix(".out"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
                for stream in (1, 2):
                    os.dup2(output, stream)
                with contextlib.suppress(LlvmError), Module.parse(library, content) as module:
                    module.run_passes(pipeline, TargetMachine.create(library, module.triple))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        begun = sum(place.exists() for place in places)
        assert begun > len(effects)
        for place in places[len(effects) : begun]:
            written = [path.name for path in place.iterdir()]
            said = place.with_suffix(".out").read_text()
            refused = place == places[begun - 1] and status in (signal.SIGABRT, 1 << 8) and "LLVM ERROR" in said
            effects.append("" if refused else f"{' '.join(written)}{said}")
    return effects


def test_no_pass_that_may_be_run_prints_or_writes_files(
    library: Library, compile_program: Compile, tmp_path: Path
) -> None:
    vocabulary, content = Vocabulary(library), compile_program("matrix.c")
    pipelines = {}
    for name in sorted(set(passes_that_llvm_lists(library))):
        with contextlib.suppress(CompilationError):
            pipelines[name] = vocabulary.resolve(name)
    effects = outside_effects(library, content, list(pipelines.values()), tmp_path)
    assert {name: effect for name, effect in zip(pipelines, effects, strict=True) if effect} == {}
    assert len(pipelines) > 150


# -------------------------------------------------------------------------------------- pipelines for tools outside


def test_pipeline_of_an_action_can_stand_anywhere_in_a_list() -> None:
    for name in ("Passes", "PassesLegacy124", "Pipelines"):
        for action in space(name).actions:
            if action.pipeline:
                assert LlvmSession.vocabulary.resolve(f"globaldce,{action.pipeline},globaldce")
            else:
                assert text_of(action) == ""


@pytest.mark.parametrize(
    ("name", "pipeline"),
    [
        ("globaldce", "globaldce"),
        ("argpromotion", "cgscc(argpromotion)"),
        ("inline", "cgscc(inline)"),
        ("gvn", "function(gvn)"),
        ("licm", "function(loop-mssa(licm))"),
        ("loop-rotate", "function(loop(loop-rotate))"),
        ("guard-widening", "function(guard-widening)"),
        ("loop(guard-widening)", "function(loop(guard-widening))"),
        ("chr", "require<profile-summary>,function(chr)"),
    ],
)
def test_pipeline_of_a_pass_has_the_managers_that_it_needs(name: str, pipeline: str) -> None:
    assert {action.name: action.pipeline for action in space("Passes").actions}[name] == pipeline


def test_pipeline_of_a_pass_does_what_its_action_does(compile_program: Compile) -> None:
    """Wherever LLVM puts a pass that is named alone, its pipeline puts it too."""
    content = compile_program("calculator.c", "-O2")
    for prefix in ([], ["sroa", "loop-rotate"]):
        session = opened(content)
        for action in prefix:
            session.apply_action(action)
        for action in space("Passes").actions:
            alone, inside = session.fork(), session.fork()
            alone.apply_action(action.name)
            inside.apply_action(action.pipeline)
            assert alone.state is inside.state, action.name


@pytest.mark.slow
@pytest.mark.parametrize("major", [14, 19])
def test_old_releases_have_spaces_of_what_they_take(
    system_library: Callable[[int], Library], clang: str, cache_dir: Path, major: int
) -> None:
    try:
        LlvmSession.start({"library": str(system_library(major).path), "clang": clang, "cache_dir": str(cache_dir)})
        assert len(space("ParametrizedPasses").actions) > 10
        assert len(space("Pipelines").actions) == len(MACROS)
        test_every_choice_is_one_that_the_library_takes()
        test_every_action_of_every_space_is_one_that_the_worker_takes()
        test_pipeline_of_an_action_can_stand_anywhere_in_a_list()
        session = opened(CALLS)
        for action in space("Pipelines").actions:
            session.fork().apply_action(text_of(action))
    finally:
        LlvmSession.start({"cache_dir": str(cache_dir)})


def test_probe_tells_what_a_library_takes(library: Library) -> None:
    probe = Probe(library)
    assert probe("gvn")
    assert probe("default<O2>")
    assert not probe("gvn,globaldce")
    assert probe.refusal("function(nothing)") == "unknown function pass 'nothing'"
    assert nested(probe, "licm") == "function(loop-mssa(licm))"
    if library.has("LLVMRunPassesOnFunction"):
        assert "unknown function pass 'globaldce'" in (probe.refusal("globaldce", on_function=True) or "")
    probe.close()
