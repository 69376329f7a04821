"""CompilerGym's utilities, and what it took from others."""

import io
import logging
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aiocg.compat.compiler_gym.errors import DownloadFailed, TooManyRequests
from aiocg.compat.compiler_gym.third_party import llvm
from aiocg.compat.compiler_gym.third_party.autophase import AUTOPHASE_FEATURE_NAMES
from aiocg.compat.compiler_gym.third_party.inst2vec import Inst2vecEncoder
from aiocg.compat.compiler_gym.third_party.llvm.instcount import INST_COUNT_FEATURE_NAMES
from aiocg.compat.compiler_gym.util import (
    commands,
    debug_util,
    download,
    filesystem,
    minimize_trajectory,
    runfiles_path,
    statistics,
)
from aiocg.compat.compiler_gym.util.executor import Executor
from aiocg.compat.compiler_gym.util.logging import init_logging
from aiocg.compat.compiler_gym.util.parallelization import thread_safe_tee
from aiocg.compat.compiler_gym.util.shell_format import emph, indent, join_cmd, plural
from aiocg.compat.compiler_gym.util.tabulate import tabulate
from aiocg.compat.compiler_gym.util.thread_pool import get_thread_pool_executor
from aiocg.compat.compiler_gym.util.timer import Timer, humanize_duration, humanize_duration_hms
from aiocg.compat.compiler_gym.util.truncate import truncate, truncate_lines
from aiocg.compat.programs._flags import FLAGS, define, define_shared
from aiocg.datasets.toolchain import find_toolchain

# ------------------------------------------------------------------------------------------------------- texts


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("abc", {}, "abc"),
        ("abcdefgh", {"max_line_len": 5}, "ab..."),
        ("abc\ndef\n123", {"max_line_len": 10, "max_lines": 2}, "abc\ndef..."),
        ("abc\ndef\n123", {"max_line_len": 5, "max_lines": 2}, "abc\nde..."),
        ("abc\ndef\n123", {"max_lines": 2, "tail": True}, "def\n123"),
        (7, {}, "7"),
    ],
)
def test_text_is_cut(text: object, options: dict[str, Any], expected: str) -> None:
    assert truncate(text, **options) == expected


def test_endless_lines_are_not_read_to_their_end() -> None:
    def lines() -> Any:
        yield from ("a", "b")
        raise AssertionError("too far")

    assert truncate_lines(lines(), max_lines=1) == "a..."
    with pytest.raises(ValueError, match="too short"):
        truncate("abcdef", max_line_len=3)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1e-7, "100.0ns"), (15e-6, "15.0us"), (0.25, "250.0ms"), (1.5, "1.500s"), (90, "90.0s"), (-1.5, "-1.500s")],
)
def test_durations_are_short(seconds: float, text: str) -> None:
    assert humanize_duration(seconds) == text


def test_formats() -> None:
    assert humanize_duration_hms(3600 * 4 + 62.9) == "4:01:02"
    assert [plural(number, "state", "states") for number in (0, 1, 2)] == ["states", "state", "states"]
    assert indent("a\nb", 2) == "  a\n  b"
    assert join_cmd(["a", "b c"]) == "a 'b c'"
    assert emph("x") == "\033[1m\033[94mx\033[0m"


def test_timer_stops_at_the_end_of_its_block() -> None:
    printed: list[str] = []
    assert Timer().time == 0
    with Timer("Done", printed.append) as timer:
        assert timer.time >= 0
    taken = timer.time
    time.sleep(0.002)
    assert timer.time == taken
    assert printed == [f"Done in {timer}"]


def test_table_is_drawn() -> None:
    rows = [("a", 1), ("bc", 20)]
    assert tabulate(rows, ("name", "n")) == (
        "+--------+-----+\n| name   |   n |\n+========+=====+\n| a      |   1 |\n+--------+-----+\n| bc     |  20 |\n"
        "+--------+-----+"
    )
    assert tabulate(rows, ("name", "n"), "csv") == "name,n\r\na,1\r\nbc,20\r\n"
    assert r"\begin{tabular}" in tabulate(rows, ("name", "n"), "latex")


def test_means_of_nothing_are_zero() -> None:
    assert statistics.geometric_mean([1, 2, 4]) == pytest.approx(2)
    assert [statistics.geometric_mean(values) for values in ([], [0, 1], [-1, 2])] == [0, 0, 0]
    assert (statistics.arithmetic_mean([1, 3]), statistics.arithmetic_mean([])) == (2, 0)
    assert (statistics.stdev([1, 3]), statistics.stdev([])) == (1, 0)


# ------------------------------------------------------------------------------------------ files and processes


def test_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with filesystem.atomic_file_write(path) as temporary:
        temporary.write_text("one")
        assert not path.exists()
    with filesystem.atomic_file_write(path, fileobj=True, mode="w") as file:
        file.write("two")
    with pytest.raises(RuntimeError), filesystem.atomic_file_write(path, fileobj=True) as file:
        file.write(b"half")
        raise RuntimeError
    assert path.read_text() == "two"
    assert os.listdir(tmp_path) == ["out"]


def test_folders_are_compiler_gyms_if_it_has_been_set_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOCG_CACHE", str(tmp_path / "ours"))
    for name in ("COMPILER_GYM_CACHE", "COMPILER_GYM_TRANSIENT_CACHE", "COMPILER_GYM_SITE_DATA"):
        monkeypatch.delenv(name, raising=False)
    assert runfiles_path.cache_path("a") == tmp_path / "ours/compiler_gym/a"
    assert runfiles_path.transient_cache_path("a").is_absolute()
    monkeypatch.setenv("COMPILER_GYM_CACHE", str(tmp_path))
    monkeypatch.setenv("COMPILER_GYM_TRANSIENT_CACHE", str(tmp_path))
    monkeypatch.setenv("COMPILER_GYM_SITE_DATA", str(tmp_path))
    for function in (runfiles_path.cache_path, runfiles_path.transient_cache_path, runfiles_path.site_data_path):
        assert function("b") == tmp_path / "b"
    assert runfiles_path.runfiles_path("compiler_gym/third_party/cbench/benchmarks.txt").is_file()


def test_temporary_files_can_be_made_among_the_short_lived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an example of CompilerGym's repository does."""
    monkeypatch.setenv("COMPILER_GYM_TRANSIENT_CACHE", str(tmp_path / "new"))
    with tempfile.TemporaryDirectory(dir=runfiles_path.transient_cache_path(".")) as folder:
        assert Path(folder).parent == tmp_path / "new"


@pytest.mark.slow
def test_log_folders_are_distinct(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPILER_GYM_LOGS", str(tmp_path))
    made: list[Path] = []
    threads = [threading.Thread(target=lambda: made.append(runfiles_path.create_user_logs_dir("x"))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 2
    assert all(folder.is_dir() and folder.parent.parent == tmp_path / "x" for folder in made)
    assert (tmp_path / "x/latest").resolve() == max(made).resolve()


def test_program_that_fails_is_an_error_with_its_output() -> None:
    assert commands.run_command([sys.executable, "-c", "print(1)"], timeout=60) == "1\n"
    with pytest.raises(OSError, match="returncode 3") as caught:
        commands.run_command([sys.executable, "-c", "import sys; sys.stderr.write('no'); sys.exit(3)"], 60)
    assert "Stderr: no" in str(caught.value)


def _sum(*values: int, plus: int = 0) -> int:
    return sum(values) + plus


@pytest.mark.parametrize("kind", ["local", "debug"])
def test_jobs_have_results(kind: str, tmp_path: Path) -> None:
    with Executor(type=kind, cpus=1).get_executor(tmp_path) as executor:
        assert executor.submit(_sum, 1, 2, plus=3).result() == 6
    with Executor(type="noop").get_executor(tmp_path) as executor:
        assert executor.submit(_sum, 1).result() is None


def test_executor_that_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="partition"):
        Executor(type="slurm")
    with pytest.raises(ValueError, match="greater than 0"):
        Executor(type="local", timeout_hours=0)
    with pytest.raises(ValueError, match="frozen"):
        Executor(type="local").cpus = 3
    assert Executor(type="local", cpus=-1).cpus == os.cpu_count()
    with pytest.raises(ZeroDivisionError), Executor(type="debug").get_executor(tmp_path) as executor:
        executor.submit(divmod, 1, 0)


# ------------------------------------------------------------------------------------------------------ others


def test_debug_level_is_that_of_logging(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPILER_GYM_DEBUG", "0")
    logger = logging.getLogger("compiler_gym")
    before = logger.level
    levels = [logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG, logging.DEBUG]
    for level, expected in enumerate(levels):
        debug_util.set_debug_level(level)
        assert debug_util.get_debug_level() == level
        assert debug_util.get_logging_level() == logger.level == expected
    logger.setLevel(before)


def test_logging_is_to_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    stdout = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stdout)
    logger = logging.getLogger("compat-test")
    init_logging(logging.INFO, logger)
    logger.info("hello")
    logger.debug("never")
    assert stdout.getvalue().endswith("compat-test] hello\n")


def test_tee_is_for_several_threads() -> None:
    copies = thread_safe_tee(iter(range(1000)), 4)
    sums: list[int] = []
    threads = [threading.Thread(target=lambda items=items: sums.append(sum(items))) for items in copies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums == [499500] * 4


def _in_the_pool() -> int:
    return get_thread_pool_executor().submit(os.getpid).result()


def test_fork_has_threads_of_its_own(tmp_path: Path) -> None:
    assert get_thread_pool_executor() is get_thread_pool_executor()
    assert _in_the_pool() == os.getpid()
    with Executor(type="local", cpus=1).get_executor(tmp_path) as executor:
        assert executor.submit(_in_the_pool).result() != os.getpid()


def test_download_is_kept_by_its_checksum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPILER_GYM_CACHE", str(tmp_path))
    sha256 = "4ae7c3b6ac0beff671efa8cf57386151c06e58ca53a78d83f36107316cec125f"
    asked: list[str] = []
    monkeypatch.setattr(download, "_get_url_data", lambda url: (asked.append(url), b"Hello, world")[1])
    assert [download.download("url", sha256) for _ in range(2)] == [b"Hello, world"] * 2
    assert asked == ["url"]
    with pytest.raises(DownloadFailed, match="Checksum of download does not match"):
        download.download("url", "123")
    with pytest.raises(ValueError, match="No URLs"):
        download.download([])


def test_busy_server_is_left_alone_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(download, "sleep", pauses.append)

    def busy(url: str) -> bytes:
        raise TooManyRequests("429")

    monkeypatch.setattr(download, "_get_url_data", busy)
    with pytest.raises(TooManyRequests):
        download.download(["a", "b"], max_retries=2)
    assert pauses == [10, 15, 22.5, 33.75]


def test_nothing_is_downloaded_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOCG_OFFLINE", "1")
    with pytest.raises(DownloadFailed, match="AIOCG_OFFLINE"):
        download.download("https://example.org/", max_retries=1)


class Recorder:
    """An environment that only remembers its actions."""

    benchmark = "b"

    def __init__(self, actions: list[int]) -> None:
        self.all, self.actions = actions, list(actions)

    def reset(self, benchmark: str) -> None:
        self.actions = []

    def multistep(self, actions: list[int]) -> tuple[None, None, bool, dict[str, Any]]:
        assert set(actions) <= set(self.all)
        self.actions = self.actions + actions
        return None, None, False, {}


@pytest.mark.parametrize("needed", range(10))
def test_actions_are_bisected_from_both_ends(needed: int) -> None:
    env = Recorder(list(range(10)))
    list(minimize_trajectory.bisect_trajectory(env, lambda env: needed in env.actions))
    assert env.actions == list(range(needed + 1))
    env = Recorder(list(range(10)))
    list(minimize_trajectory.bisect_trajectory(env, lambda env: needed in env.actions, reverse=True, flakiness=2))
    assert env.actions == list(range(needed, 10))


def test_actions_are_removed_one_by_one_and_at_random() -> None:
    needed = {0, 3, 4, 5, 8, 9}
    env = Recorder(list(range(10)))
    list(minimize_trajectory.minimize_trajectory_iteratively(env, lambda env: needed <= set(env.actions)))
    assert set(env.actions) == needed
    env = Recorder(list(range(40)))
    list(minimize_trajectory.random_minimization(env, lambda env: {1, 4} <= set(env.actions)))
    assert {1, 4} <= set(env.actions)
    assert env.actions == sorted(env.actions)
    env = Recorder([])
    assert list(minimize_trajectory.random_minimization(env)) == []


def test_hypothesis_that_does_not_hold_is_an_error() -> None:
    for minimize in (minimize_trajectory.bisect_trajectory, minimize_trajectory.random_minimization):
        with pytest.raises(minimize_trajectory.MinimizationError):
            list(minimize(Recorder([1, 2]), lambda env: False))


def test_a_flag_that_a_script_has_defined_is_not_defined_again() -> None:
    define_shared("seed")
    define("integer", "seed", 7, "another one")
    assert FLAGS["seed"].default == 0xCC


def test_features_have_names() -> None:
    assert (len(AUTOPHASE_FEATURE_NAMES), len(INST_COUNT_FEATURE_NAMES)) == (56, 70)
    assert (AUTOPHASE_FEATURE_NAMES[51], INST_COUNT_FEATURE_NAMES[0]) == ("TotalInsts", "TotalInsts")


def test_programs_of_llvm_are_found_or_said_to_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert subprocess.run([llvm.clang_path(), "--version"], capture_output=True, check=True).stdout
    assert (llvm.download_llvm_files() / "bin").is_dir()
    monkeypatch.setenv("PATH", "/nonexistent")
    for find in (llvm.opt_path, llvm.llvm_dis_path):
        try:
            assert find().is_file()
        except FileNotFoundError as error:
            assert f"LLVM {find_toolchain().major}" in str(error)  # noqa: PT017  either is right, depending on the machine


@pytest.mark.slow
def test_statements_are_numbered(monkeypatch: pytest.MonkeyPatch) -> None:
    from aiocg.llvm import inst2vec

    monkeypatch.setattr(inst2vec, "dictionary", lambda: {"!UNK": 2, "ret i32 <%ID>": 0})
    monkeypatch.setattr(inst2vec, "embeddings", lambda: np.arange(6, dtype=np.float32).reshape(3, 2))
    encoder = Inst2vecEncoder()
    assert encoder.encode(["ret i32 <%ID>", "nonsense"]) == [0, 2]
    assert encoder.embed([0, 2]).tolist() == [[0, 1], [4, 5]]
    statements = encoder.preprocess("define i32 @f(i32 %x) {\n  ret i32 %x\n}\n")
    assert "ret i32 <%ID>" in statements
