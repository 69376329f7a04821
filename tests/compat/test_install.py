"""`compiler_gym` and `gym` mean ours: in this process, in those that it starts, and in scripts that are run."""

import importlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import aiocg.compat
from aiocg.compat._command import main


@pytest.fixture
def installed() -> Iterator[None]:
    aiocg.compat.install()
    try:
        yield
    finally:
        aiocg.compat.uninstall()


def run(*arguments: str, cwd: Path | None = None, code: int = 0, **options: str) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run(
        [sys.executable, "-m", "aiocg.compat", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, **options},
        input="",
    )
    assert done.returncode == code, done.stderr
    return done


@pytest.mark.usefixtures("installed")
def test_old_names_are_the_same_modules_and_classes() -> None:
    old = importlib.import_module("compiler_gym.errors.service_errors")
    new = importlib.import_module("aiocg.compat._errors")
    assert old is new is importlib.import_module("aiocg.compat.compiler_gym.errors.service_errors")
    assert new.__spec__ is not None
    assert new.__spec__.name == new.__name__ == "aiocg.compat._errors"
    assert importlib.import_module("compiler_gym").errors.ServiceError is new.ServiceError
    assert importlib.import_module("gym.spaces").Discrete is importlib.import_module("aiocg.compat.gym").spaces.Discrete


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("name", ["gym.vector", "compiler_gym.nonsense", "compiler_gym.envs.llvm.nonsense"])
def test_a_module_that_there_is_not_says_so(name: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=f"No module named '{name}'.*aiocg.compat") as caught:
        importlib.import_module(name)
    assert caught.value.name == name


def test_installing_twice_is_installing_once_and_uninstalling_brings_back_what_was_there() -> None:
    real = ModuleType("gym")
    sys.modules["gym"] = real
    try:
        aiocg.compat.install()
        aiocg.compat.install()
        assert aiocg.compat.installed()
        assert importlib.import_module("gym").__version__ == "0.21.0"
        aiocg.compat.uninstall()
        assert not aiocg.compat.installed()
        assert sys.modules["gym"] is real
        assert not [name for name in sys.modules if name.partition(".")[0] == "compiler_gym"]
        aiocg.compat.uninstall()
    finally:
        sys.modules.pop("gym", None)


def test_a_missing_package_of_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tabulate", None)
    with pytest.raises(ImportError, match=r"needs tabulate: pip install 'aiocg\[compat\]'"):
        aiocg.compat.install()


def test_the_command_names_it_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "tabulate", None)
    with pytest.raises(SystemExit) as ended:
        main(["-c", "import compiler_gym"])
    assert ended.value.code == 2 and "needs tabulate: pip install 'aiocg[compat]'" in capsys.readouterr().err


def test_installed_packages_of_the_names_are_shadowed(tmp_path: Path) -> None:
    for name in ("gym", "compiler_gym"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('the wrong one')")
    program = "import gym, compiler_gym.spaces; print(gym.__version__, compiler_gym.spaces.Box.__module__)"
    done = run("-c", program, PYTHONPATH=str(tmp_path))
    assert done.stdout == "0.21.0 aiocg.compat.spaces._values\n"


def test_a_script_finds_everything_as_with_plain_python(tmp_path: Path) -> None:
    (tmp_path / "neighbour.py").write_text("name = 'neighbour'")
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """\
            import sys, neighbour, __main__
            assert __main__.here is None if hasattr(__main__, "here") else True
            here = 1
            print(__name__, __file__, sys.argv, sys.path[0], neighbour.name, vars(__main__) is globals())
            """
        )
    )
    plain = subprocess.run([sys.executable, str(script), "-h", "--x=1"], capture_output=True, text=True, check=True)
    assert run(str(script), "-h", "--x=1").stdout == plain.stdout


def test_modules_and_code_are_run_too(tmp_path: Path) -> None:
    (tmp_path / "tool").mkdir()
    (tmp_path / "tool" / "__init__.py").write_text("")
    (tmp_path / "tool" / "__main__.py").write_text("import sys; print(__name__, __spec__.name, sys.argv, sys.path[0])")
    plain = [sys.executable, "-m", "tool", "a"]
    expected = subprocess.run(plain, capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    assert run("-m", "tool", "a", cwd=tmp_path).stdout == expected
    assert run("-c", "import sys; print(sys.argv)", "a").stdout == "['-c', 'a']\n"
    assert run("-m", "compiler_gym.util.version").stdout == ""


@pytest.mark.slow
def test_processes_that_a_script_starts_import_ours(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """\
            import multiprocessing, subprocess, sys
            import gym

            def ask(_):
                import compiler_gym.errors
                return gym.__name__, compiler_gym.errors.__name__

            if __name__ == "__main__":
                with multiprocessing.get_context("spawn").Pool(1) as pool:
                    print(pool.map(ask, [0]))
                code = "import gym.spaces; print(gym.spaces.__name__)"
                print(subprocess.check_output([sys.executable, "-c", code], text=True))
            """
        )
    )
    first, second = run(str(script)).stdout.split("\n")[:2]
    assert first == "[('aiocg.compat.gym', 'aiocg.compat.compiler_gym.errors')]"
    assert second == "aiocg.compat.gym.spaces"


def test_an_error_shows_the_lines_of_the_script_only(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("def f():\n    return 1 / 0\n\n\nf()\n")
    lines = run(str(script), code=1).stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1] == f'  File "{script}", line 5, in <module>'
    assert lines[-1] == "ZeroDivisionError: division by zero"
    assert not [line for line in lines if "aiocg" in line or "runpy" in line]
    script.write_text("f(\n")
    assert run(str(script), code=1).stderr.splitlines()[-1].startswith("SyntaxError")
    script.write_text("import sys; sys.exit(3)")
    run(str(script), code=3)


def test_an_interrupt_ends_a_script_as_plain_python_is_ended(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import time\nprint('started', flush=True)\ntime.sleep(60)\n")
    command = [sys.executable, "-m", "aiocg.compat", str(script)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, messages = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert messages.splitlines()[-1] == "KeyboardInterrupt"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((), "nothing to run: give a script"),
        (("nothing.py",), "can't open file 'nothing.py': No such file or directory"),
        (("-m", "nothing.at.all"), "No module named nothing.at.all"),
        (("-m",), "-m needs a module"),
        (("--verbose", "script.py"), "there is no option --verbose"),
    ],
)
def test_what_cannot_be_run_is_told(arguments: tuple[str, ...], problem: str, tmp_path: Path) -> None:
    done = run(*arguments, cwd=tmp_path, code=2)
    assert problem in done.stderr
    assert "Traceback" not in done.stderr


def test_help_has_an_example() -> None:
    assert "python -m aiocg.compat random_walk.py" in run("--help").stdout
