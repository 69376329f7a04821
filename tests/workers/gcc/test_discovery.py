"""Which options a real compiler has, and the file that keeps them."""

import concurrent.futures
import contextlib
import random
import stat
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from aiocg.transport.messages import FailureCode
from aiocg.transport.options import Option, OptionReader
from aiocg.workers.compilation import CompilationError
from aiocg.workers.gcc._discovery import (
    CompilerOptions,
    OptionsFile,
    Proposal,
    Trials,
    check,
    discover,
    exclusion,
    propose,
    question,
    read_help,
)
from aiocg.workers.gcc._local import LocalRunner
from aiocg.workers.gcc._runner import Completed
from aiocg.workers.gcc.session import edits


class Counted:
    """A runner that counts its commands."""

    def __init__(self, runner: LocalRunner) -> None:
        self._runner = runner
        self.name, self.compiler, self.identity, self.root = runner.name, runner.compiler, runner.identity, runner.root
        self.is_apart, self.memory = runner.is_apart, runner.memory
        self.commands: list[Sequence[str]] = []

    def run(
        self, command: Sequence[str], *, folder: str, timeout: float, stdin: bytes = b"", memory: int = 0
    ) -> Completed:
        self.commands.append(command)
        return self._runner.run(command, folder=folder, timeout=timeout, stdin=stdin, memory=memory)

    def close(self) -> None:
        self._runner.close()


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def found(runner: LocalRunner, cache: Path) -> CompilerOptions:
    return discover(runner, str(cache))


@pytest.mark.slow
def test_what_the_help_names_is_an_option_or_has_a_reason(runner: LocalRunner, found: CompilerOptions) -> None:
    names = {option.name for option in found.options}
    assert len(names) == len(found.options)
    reasons = {drop.name: drop.reason for drop in found.dropped}
    assert all(reasons.values())
    proposals, _ = propose(
        entry for topic in ("optimizers", "params") for entry in read_help(question(runner, f"--help={topic}", "-Q"))
    )
    for proposal in proposals:
        assert (proposal.option.name in names) != (proposal.option.name in reasons)
    assert found.version.startswith("gcc")


def test_a_clang_that_is_called_gcc_is_told_from_a_gcc(tmp_path: Path) -> None:
    clang = tmp_path / "gcc"
    clang.write_text("#!/bin/sh\necho \"clang: error: unknown argument: '$1'\" >&2\nexit 1\n")
    clang.chmod(0o755)
    with contextlib.closing(LocalRunner(str(clang))) as runner, pytest.raises(CompilationError, match="clang under"):
        question(runner, "--help=optimizers")


@pytest.mark.slow
def test_each_word_of_each_option_and_both_ends_of_its_range_are_taken(
    runner: LocalRunner, found: CompilerOptions
) -> None:
    reader = OptionReader(found.options)
    trials = Trials(runner)
    for choices in ([0] * len(found.options), [len(option) - 1 for option in found.options]):
        line = [option.word(choice) for option, choice in zip(found.options, choices, strict=True)]
        assert reader.read(line) == choices
        assert trials.refused(line) == {}


@pytest.mark.slow
def test_options_are_those_that_change_code(found: CompilerOptions) -> None:
    by_name = {option.name: option for option in found.options}
    assert {"-O0", "-O1", "-O2", "-O3", "-Os", "-Ofast", "-Og"} <= set(by_name["-O"].texts)
    assert by_name["-fgcse"].texts == ("-fgcse", "-fno-gcse")
    assert by_name["-fgcse"].description == "Perform global common subexpression elimination."
    assert by_name["-ffp-contract"].texts[:1] == ("-ffp-contract=off",)
    assert by_name["-falign-loops"].kind == "alignment"
    assert (by_name["--param=align-threshold"].low, by_name["--param=align-threshold"].high) == (1, 65536)
    assert by_name["--param=max-unroll-times"].high == 2**31 - 1
    assert by_name["--param=selsched-max-lookahead"].high == 65536  # more would be that much memory
    assert by_name["-fassociative-math"].texts == ("-fassociative-math", "-fno-associative-math")
    assert by_name["-fstrict-enums"].kind == "flag"  # for C++ only
    assert not [name for name in by_name if exclusion(name)]
    assert len(found.options) > 400 and found.size > 10**1700
    assert 1900 < len(edits(found.options)) < 3000


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("version", range(9, 17))
def test_random_command_lines_of_each_installed_version_compile(version: int) -> None:
    try:
        runner = LocalRunner(f"gcc-{version}")
    except CompilationError as error:
        pytest.skip(error.message)
    options = discover(runner).options
    trials = Trials(runner)
    rng = random.Random(version)
    for _ in range(20):
        given = [option for option in options if rng.random() < 0.7]
        line = [option.word(min(int(2 ** rng.uniform(0, 12)) - 1, rng.randrange(len(option)))) for option in given]
        assert trials.refused(["-w", *line]) == {}


def test_the_file_is_read_the_second_time(runner: LocalRunner, found: CompilerOptions, cache: Path) -> None:
    counted = Counted(runner)
    assert discover(counted, str(cache)) == found
    assert [command[1:] for command in counted.commands] == [["--version"]]
    assert [path.suffix for path in sorted(cache.iterdir())] == [".json", ".lock"]


SOME = CompilerOptions("gcc 99", (Option("-fgcse", "flag", "", ("-fgcse",)),))


def never() -> CompilerOptions:
    raise AssertionError("the file should have been read")


def test_what_is_written_is_read(found: CompilerOptions, tmp_path: Path) -> None:
    assert OptionsFile(str(tmp_path), "one", "1").get(lambda: found) == found
    assert OptionsFile(str(tmp_path), "one", "1").get(never) == found
    with pytest.raises(AssertionError, match="should have been read"):
        OptionsFile(str(tmp_path), "one", "2").get(never)
    with pytest.raises(AssertionError, match="should have been read"):
        OptionsFile(str(tmp_path), "other", "1").get(never)


def _between(content: bytes, first: bytes, last: bytes, new: bytes) -> bytes:
    before, _, rest = content.partition(first)
    return before + first + new + last + rest.partition(last)[2]


@pytest.mark.parametrize(
    "damage", ["half", "empty", "other format", "not JSON", "another compiler's", "no options", "a folder"]
)
def test_a_damaged_file_is_as_none(found: CompilerOptions, tmp_path: Path, damage: str) -> None:
    OptionsFile(str(tmp_path), "one", "1").get(lambda: SOME)
    (path,) = tmp_path.glob("*.json")
    content = path.read_bytes()
    if damage == "a folder":
        path.unlink()
        path.mkdir()
    else:
        path.write_bytes(
            {
                "half": content[: len(content) // 2],
                "empty": b"",
                "other format": content.replace(b'"format": 1', b'"format": 0'),
                "not JSON": b"\xff\x00" * 100,
                "no options": _between(content, b'"options":', b'"dropped":', b"[], "),
                "another compiler's": content.replace(b'"one"', b'"two"'),
            }[damage]
        )
    assert OptionsFile(str(tmp_path), "one", "1").get(lambda: found) == found
    if damage != "a folder":
        assert OptionsFile(str(tmp_path), "one", "1").get(never) == found
    assert len(list(tmp_path.iterdir())) == 2


def test_a_folder_that_cannot_be_written_to_is_no_error(found: CompilerOptions, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (str(tmp_path / "file" / "folder"), "/proc/none", "/dev/full", ""):
        assert OptionsFile(folder, "one", "1").get(lambda: found) == found


PROGRAM = """
import os, resource, sys
from aiocg.transport.options import Option
from aiocg.workers.gcc._discovery import CompilerOptions
from aiocg.workers.gcc._discovery import OptionsFile

found = CompilerOptions("gcc 99", (Option("-fgcse", "flag", "", ("-fgcse",)),))
folder, mark, limit = sys.argv[1:]
resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))

def discover():
    os.close(os.open(f"{mark}{os.getpid()}", os.O_CREAT))
    return found

print("ready", flush=True)
sys.stdin.readline()
assert OptionsFile(folder, "one", "1").get(discover) == found
"""


def test_of_several_processes_one_discovers_and_the_others_wait(tmp_path: Path) -> None:
    command = [sys.executable, "-B", "-P", "-c", PROGRAM, str(tmp_path / "cache"), f"{tmp_path}/did-", "1000000"]
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(4)]
    for process in processes:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    for process in processes:
        process.communicate(b"\n")
    assert [process.returncode for process in processes] == [0, 0, 0, 0]
    assert len(list(tmp_path.glob("did-*"))) == 1


def test_a_process_that_was_stopped_is_not_waited_for_for_ever(
    found: CompilerOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiocg.workers.gcc._discovery.PATIENCE", 0.1)
    begun = threading.Event()
    end = threading.Event()

    def discover_for_long() -> CompilerOptions:
        begun.set()
        assert end.wait(60)
        return found

    with concurrent.futures.ThreadPoolExecutor() as pool:
        first = pool.submit(OptionsFile(str(tmp_path), "one", "1").get, discover_for_long)
        assert begun.wait(60)
        assert OptionsFile(str(tmp_path), "one", "1").get(lambda: found) == found
        end.set()
        assert first.result() == found


def test_a_file_that_there_is_no_room_for_is_not_written(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    command = [sys.executable, "-B", "-P", "-c", PROGRAM, str(cache), f"{tmp_path}/did-", "20"]
    for _ in range(2):
        subprocess.run(command, input=b"\n", check=True, stdout=subprocess.DEVNULL)
    assert len(list(tmp_path.glob("did-*"))) == 2
    assert [path.suffix for path in cache.iterdir()] == [".lock"]


@pytest.mark.parametrize(
    ("script", "says"),
    [("echo no such thing >&2; exit 3", "no such thing"), ("exit 4", "status 4"), ("kill -9 $$", "status -9")],
)
def test_what_is_no_compiler_is_an_error_that_says_so(tmp_path: Path, script: str, says: str) -> None:
    program = tmp_path / "gcc"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(stat.S_IRWXU)
    with pytest.raises(CompilationError, match=says) as caught:
        discover(LocalRunner(str(program)))
    assert caught.value.code == "compiler"


def test_a_compiler_that_answers_and_compiles_nothing_is_an_error_with_its_words(
    runner: LocalRunner, tmp_path: Path
) -> None:
    program = tmp_path / "gcc"
    program.write_text(f'#!/bin/sh\ncase "$*" in *-S*) echo no cc1 >&2; exit 1;; esac\nexec {runner.compiler} "$@"\n')
    program.chmod(stat.S_IRWXU)
    with pytest.raises(CompilationError, match="cannot compile a small program: no cc1") as caught:
        discover(LocalRunner(str(program)))
    assert caught.value.code == "compiler"


def test_what_a_compiler_says_to_everything_is_held_against_no_option(runner: LocalRunner, tmp_path: Path) -> None:
    program = tmp_path / "gcc"
    program.write_text(f'#!/bin/sh\necho "gcc: warning: it is Monday" >&2\nexec {runner.compiler} "$@"\n')
    program.chmod(stat.S_IRWXU)
    trials = Trials(LocalRunner(str(program)))
    assert trials.refused(["-fgcse", "-fdce"]) == {}
    (refused,) = trials.refused(["-fgcse", "-fno-such-thing", "-fdce"]).items()
    assert refused[0] == "-fno-such-thing"
    assert "unrecognized command-line option" in refused[1].replace("command line", "command-line")


def test_the_end_of_a_range_that_is_refused_is_cut_at_the_next_power_of_two(runner: LocalRunner) -> None:
    name = "--param=align-threshold"  # takes 1 to 65536
    promised = Option(name, "param", template=f"{name}={{}}", low=-3, high=100_000)
    (option,), dropped = check([Proposal(promised)], Trials(runner))
    assert (option.low, option.high) == (1, 65536)
    assert [drop.name for drop in dropped] == [f"{name}=-3", f"{name}=100000"]


def test_a_flag_without_its_positive_form_is_none_and_one_without_its_negative_form_stays(runner: LocalRunner) -> None:
    flags = [
        Option("-fgcse", "flag", texts=("-fgcse", "-fno-nonsense")),
        Option("-fnonsense", "flag", texts=("-fnonsense", "-fno-gcse")),
        Option("-fx", "enum", texts=("-fx=1", "-fx=2")),
    ]
    (option,), dropped = check([Proposal(flag) for flag in flags], Trials(runner))
    assert option.texts == ("-fgcse",)
    assert [drop.name for drop in dropped] == ["-fno-nonsense", "-fnonsense", "-fx"]


def test_values_that_the_help_does_not_name_are_asked_for(runner: LocalRunner) -> None:
    option = Option("-ffp-contract", "integer", texts=("-ffast-math",), template="-ffp-contract={}", high=9)
    (found,), dropped = check([Proposal(option, ask=True)], Trials(runner))
    assert {"-ffast-math", "-ffp-contract=fast", "-ffp-contract=off"} <= set(found.texts)
    assert (found.kind, found.template, dropped) == ("enum", "", [])


class Killed(Counted):
    """A runner whose compilers are killed so many times after all is well at first."""

    def __init__(self, runner: LocalRunner, times: int) -> None:
        super().__init__(runner)
        self.times = times

    def run(self, command: Sequence[str], **more: object) -> Completed:  # type: ignore[override]
        if self.commands and self.times:
            self.times -= 1
            said = b"" if self.times % 2 else b"gcc: fatal error: Killed signal terminated program cc1\n"
            return Completed(1 if said else -9, b"", said, 0.0)
        return super().run(command, **more)  # type: ignore[arg-type]


def test_a_killed_compiler_is_held_against_no_option(runner: LocalRunner) -> None:
    assert Trials(Killed(runner, 2)).refused(["-fgcse"]) == {}
    with pytest.raises(CompilationError, match="was killed") as e:
        Trials(Killed(runner, 100)).refused(["-fgcse"])
    assert e.value.code == FailureCode.COMPILER
