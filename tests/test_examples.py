"""Every example runs, says something, and is short enough to be read."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path
from typing import Any

import pytest

from aiocg.datasets.toolchain import find_clang, loader_environment

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
ARGUMENTS = {
    "async_agent.py": ["--agents", "12", "--steps", "5"],
    "beam_own_file.py": [str(EXAMPLES / "dot_product.c"), "best.bc"],
    "custom_reward.py": [],
    "gcc_bandit.py": ["--rounds", "3", "--programs", "2"],
    "greedy_search.py": ["gcd"],
    "inliner_policy.py": ["--programs", "5", "--tests", "2", "--calls", "8"],
    "mcp_client.py": ["programs-v0/gcd", "--steps", "2", "--candidates", "20"],
    "openenv_client.py": ["programs-v0/gcd", "--steps", "2", "--candidates", "20"],
    "own_project.py": ["--seconds", "2"],
    "pipelined_and_forks.py": [],
    "rl_cleanrl.py": ["--updates", "1"],
    "rl_loops.py": ["--updates", "1"],
    "rl_optuna.py": ["--trials", "2", "--episodes", "16", "--programs", "2", "--envs", "4"],
    "rl_rllib.py": ["--iterations", "2", "--kill"],
    "rl_sb3.py": ["--steps", "256", "--programs", "2", "--envs", "4", "--algorithm", "MaskablePPO"],
    "rl_tianshou.py": ["--epochs", "1"],
    "rl_torchrl.py": ["--batches", "2"],
    "train_test_split.py": ["--passes", "1"],
    "vector_random.py": ["--envs", "8", "--steps", "200", "--as-ready"],
    "verifiers_scripted.py": ["programs-v0/gcd"],
    "wrapped_environment.py": ["--episodes", "2"],
}
NEEDED = {  # packages
    "inliner_policy.py": ["sklearn"],
    "mcp_client.py": ["mcp"],
    "rl_cleanrl.py": ["torch"],
    "rl_loops.py": ["llvmlite", "torch"],
    "rl_optuna.py": ["torch"],
    "rl_rllib.py": ["torch"],
    "rl_sb3.py": ["sb3_contrib"],
    "rl_tianshou.py": ["torch"],
    "rl_torchrl.py": ["torch"],
    "verifiers_scripted.py": ["verifiers", "uv"],
}
OWN = {  # requirements that are installed for the example alone, as they want other versions of what we use
    "openenv_client.py": ["openenv>=0.10"],
    "rl_optuna.py": ["optuna>=4"],
    "rl_rllib.py": ["ray[rllib]>=2.50"],
    "rl_tianshou.py": ["tianshou>=2"],
    "rl_torchrl.py": ["torchrl>=0.14"],
}
SELDOM = {  # an installation of a minute or two, each
    "openenv_client.py",
    "rl_rllib.py",
    "rl_tianshou.py",
    "verifiers_scripted.py",
}
PROJECT = EXAMPLES / "makefile_project"


def needs_the_c_library() -> None:
    """Skip where programs cannot be compiled against the C library of this machine."""
    done = subprocess.run(
        [find_clang(), "-x", "c", "-", "-o", "/dev/null", "-lm"],
        input=b'#include <stdio.h>\nint main(void) { return puts(""); }\n',
        capture_output=True,
        env={**os.environ, **loader_environment()},
    )
    if done.returncode:
        pytest.skip(f"needs the C library's headers (apt install libc6-dev): {done.stderr.decode()[:200]}")


def own_python(folder: Path, requirements: list[str]) -> str:
    """Return the Python of a new virtual environment, with all packages of this one behind what is installed there."""
    venv.create(folder)
    (site,) = folder.glob("lib/python*/site-packages")
    outer = [path for path in sys.path if path.endswith("-packages")]
    (site / "outer.pth").write_text("".join(f"import site; site.addsitedir({path!r})\n" for path in outer))
    python = str(folder / "bin/python")
    install = [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-compile", *requirements]
    done = subprocess.run(install, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"{' '.join(requirements)} cannot be installed: {done.stderr[-300:]}")
    return python


RUN_NOTEBOOK = """
import sys
import nbclient, nbformat
notebook = nbformat.read(sys.argv[1], as_version=4)
nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
nbformat.write(notebook, sys.argv[2])
"""


@pytest.mark.every_case
@pytest.mark.slow
def test_what_the_notebook_trains_gets_better_and_is_drawn(place: Any, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    python = own_python(tmp_path / "venv", ["ipykernel", "nbclient"])
    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "TORCHINDUCTOR_CACHE_DIR"):
        place.environment[name] = str(tmp_path / name)
    done = place.run(python, "-P", "-c", RUN_NOTEBOOK, str(EXAMPLES / "rl_notebook.ipynb"), "run.ipynb", timeout=600.0)
    assert done.returncode == 0, done.stderr
    cells = json.loads((place.folder / "run.ipynb").read_text(encoding="utf-8"))["cells"]
    results = [output["data"] for cell in cells for output in cell.get("outputs", []) if "data" in output]
    before, after = (re.search(r"mean=([0-9.]+)", "".join(one["text/plain"])) for one in results[1:3])
    assert before is not None and after is not None and float(after[1]) > float(before[1])
    assert "image/svg+xml" in results[-1]
    assert place.remains() == []


@pytest.fixture
def peephole_path(tmp_path: Path) -> Path:
    """A folder for PYTHONPATH on which the package of the peephole compiler is as if it were installed."""
    project = tomllib.loads((EXAMPLES / "peephole/pyproject.toml").read_text(encoding="utf-8"))["project"]
    folder = tmp_path / "site"
    metadata = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n", encoding="utf-8"
    )
    lines = []
    for group, points in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in points.items())]
    (metadata / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
    (folder / "peephole").symlink_to(EXAMPLES / "peephole/peephole")
    return folder


def test_every_example_is_run_here() -> None:
    assert sorted(path.name for path in EXAMPLES.glob("*.py")) == sorted(ARGUMENTS)


VALIDATE = """
import subprocess, sys
from openenv.cli._validation import validate_running_environment
command = [sys.executable, "-P", "-m", "aiocg.cli", "openenv", "--port", "0"]
with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
    told = validate_running_environment(server.stdout.readline().strip().removeprefix("OpenEnv at "), 60)
    server.terminate()
print(told["summary"])
sys.exit(not told["passed"])
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.every_case if name in SELDOM else ()) for name in sorted(ARGUMENTS)]
)
def test_example_runs(name: str, place: Any, tmp_path: Path) -> None:
    if name == "own_project.py":
        needs_the_c_library()
    if name == "gcc_bandit.py" and shutil.which("gcc") is None:
        pytest.skip("needs gcc")
    for package in NEEDED.get(name, ()):
        pytest.importorskip(package)
    python = own_python(tmp_path / "venv", OWN[name]) if name in OWN else sys.executable
    done = place.run(python, "-P", str(EXAMPLES / name), *ARGUMENTS[name], timeout=600.0)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert "Traceback" not in done.stderr
    if name == "openenv_client.py":
        validated = place.run(python, "-P", "-c", VALIDATE)
        assert validated.returncode == 0, validated.stdout + validated.stderr
    others = ["SB3-", "torchinductor_"]  # folders that libraries leave
    if name == "rl_rllib.py":
        others += ["ray", "aiocg-"]  # Ray kills a process with all below it, and so also what would remove its folder
    assert [left for left in place.leftovers() if not left.startswith(tuple(others))] == []
    for written in (place.folder / argument for argument in ARGUMENTS[name] if argument.endswith(".bc")):
        assert written.read_bytes().startswith(b"BC\xc0\xde")


@pytest.mark.slow
def test_compiler_of_ones_own_is_found_by_its_entry_point_and_searched(place: Any, peephole_path: Path) -> None:
    place.environment["PYTHONPATH"] = str(peephole_path)
    done = place.run(sys.executable, "-P", str(EXAMPLES / "peephole/optimise.py"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1] == "push 28; print; "


@pytest.mark.slow
def test_compiler_of_ones_own_refuses_bad_programs_and_names_the_line(place: Any, peephole_path: Path) -> None:
    place.environment["PYTHONPATH"] = str(peephole_path)
    script = (
        "import asyncio, aiocg, aiocg.datasets, peephole.environment\n"
        "async def main():\n"
        "    async with aiocg.Runtime(workers=1) as runtime:\n"
        "        bad = aiocg.Benchmark.from_file_contents('benchmark://peephole-v0/bad', b'push 1\\nfly\\n')\n"
        "        env = await runtime.make('peephole-v0', benchmark=bad)\n"
        "        try:\n"
        "            await env.reset()\n"
        "        except aiocg.datasets.BenchmarkInitError as error:\n"
        "            print(error)\n"
        "asyncio.run(main())\n"
    )
    done = place.run(sys.executable, "-P", "-c", script)
    assert done.returncode == 0, done.stderr
    assert "line 2: unknown instruction 'fly'" in done.stdout


@pytest.mark.parametrize("path", sorted(EXAMPLES.rglob("*.py")), ids=lambda path: path.name)
def test_example_is_short_and_says_what_it_is(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= (120 if path.parent.name == "cost_model" else 90)
    assert lines[0].startswith('"""')


@pytest.mark.slow
def test_environments_of_installed_packages_are_found_and_broken_ones_do_no_harm(
    place: Any, peephole_path: Path
) -> None:
    points = next(peephole_path.glob("*.dist-info")) / "entry_points.txt"
    points.write_text(
        points.read_text(encoding="utf-8").replace(
            "[aiocg.environments]", "[aiocg.environments]\nbroken = nothing.of.this.name"
        ),
        encoding="utf-8",
    )
    place.environment["PYTHONPATH"] = str(peephole_path)
    command = "from aiocg.cli import main; main()"
    listed = place.run(sys.executable, "-P", "-c", command, "envs", "--json")
    assert '"peephole-v0"' in listed.stdout, listed.stderr
    assert '"llvm-v0"' in listed.stdout
    assert "nothing.of.this.name" in listed.stderr
    described = place.run(sys.executable, "-P", "-c", command, "describe", "peephole-v0")
    assert described.returncode == 0, described.stderr
    assert "peephole rules for a stack machine" in described.stdout


@pytest.mark.slow
def test_project_is_optimised_by_setting_cc_and_nothing_else(place: Any) -> None:
    needs_the_c_library()
    if shutil.which("make") is None:
        pytest.skip("needs make")
    place.environment.update({"AIOCG_CC_SEARCH": "default<Oz>,simplifycfg", "AIOCG_CACHE": str(place.folder / "cache")})
    compiler = f"CC={sys.executable} -P -m aiocg.cli cc"
    make = ["make", "-j2", "-C", str(PROJECT), compiler, f"BUILD={place.folder / 'ours'}"]
    done = place.run(*make, "check")
    assert done.returncode == 0, done.stderr
    assert "check passed" in done.stdout
    reports = [line for line in done.stderr.splitlines() if line.startswith("aiocg cc: ")]
    assert sorted(line.split()[2] for line in reports) == [f"src/{n}.c:" for n in ("bits", "crc32", "lzss", "main")]
    assert place.run(*make, "all").stderr == ""  # nothing is left to be made
    assert place.run(*make, "clean").returncode == 0
    again = place.run(*make, "check")
    assert again.returncode == 0
    assert all(line.endswith("cached") for line in again.stderr.splitlines() if line.startswith("aiocg cc: "))
    assert place.leftovers() == []


@pytest.mark.slow
def test_project_is_smaller_than_with_oz_and_passes_its_own_tests(place: Any) -> None:
    needs_the_c_library()
    place.environment.update({"AIOCG_CC_BUDGET": "10", "AIOCG_CACHE": str(place.folder / "cache")})
    done = place.run(sys.executable, "-P", str(PROJECT / "compare.py"))
    assert done.returncode == 0, done.stderr
    sizes = {line[:12].strip(): int(line.split()[-6]) for line in done.stdout.splitlines()[1:]}
    assert sizes["aiocg cc"] <= sizes["clang -Oz"] < sizes["clang -O2"]  # how much is a matter of time
