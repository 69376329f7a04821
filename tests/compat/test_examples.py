"""Scripts that call what the examples in CompilerGym's repository call.

Of those, `RandomSearch.cc` and the services in C++ call its C++ interface, `cgra` came after 0.2.5, and the networks of
`actor_critic.py`, `rllib.ipynb`, `llvm_rl` and `gnn_cost_model` are replaced by what needs no packages. Names that were
gone by 0.2.5, such as `get_system_includes`, are those of 0.2.5 here.
"""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).with_name("examples")
ABSL = ("absl",)
EXAMPLES = {  # packages that a script needs, and its arguments
    "actor_critic": (ABSL, "--benchmark=programs-v0/gcd --episodes=2"),
    "brute_force": (
        (*ABSL, "humanize"),
        "--env=llvm-ic-v0 --benchmark=programs-v0/gcd --brute_force_action_list=-sroa,-gvn --nproc=2 --output_dir=out",
    ),
    "cost_model": ((), ""),
    "explore": (ABSL, "--env=llvm-ic-v0 --benchmark=programs-v0/gcd --explore_actions=-simplifycfg,-mem2reg --nproc=2"),
    "gcc_search": (ABSL, "--gcc_bin=gcc --output_dir=out --nproc=2"),
    "getting_started": ((), ""),
    "llvm_autotuning": (("nevergrad", "pydantic"), ""),
    "llvm_rl": (("pydantic",), ""),
    "loop_tool_sweep": ((), ""),
    "makefile_integration": ((), ""),
    "op_benchmarks": ((), "--n 3 --outdir out"),
    "own_service": ((), f"{FOLDER.parent / 'service_script.py'}"),
    "random_walk": (
        (*ABSL, "humanize"),
        "--env=llvm-v0 --benchmark=programs-v0/gcd --reward=IrInstructionCount --step_min=5 --step_max=5",
    ),
    "rllib": ((), ""),
    "sensitivity_analysis": (ABSL, "--env=llvm-v0 --benchmark=programs-v0/gcd --nproc=2 --output_dir=out"),
    "tabular_q": (ABSL, "--benchmark=programs-v0/gcd --episodes=5"),
    "unrolling": ((), f"{FOLDER.parent / 'unrolling_script.py'}"),
}


def test_every_script_is_run() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == set(EXAMPLES)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_what_an_example_of_compiler_gym_does_can_be_done(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages, arguments = EXAMPLES[name]
    for package in packages:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"the script needs the package {package}")
    if name == "gcc_search" and shutil.which("gcc") is None:
        pytest.skip("the script needs gcc")
    monkeypatch.setenv("COMPILER_GYM_LOGS", str(tmp_path / "logs"))
    monkeypatch.setenv("COMPILER_GYM_TRANSIENT_CACHE", str(tmp_path / "transient"))
    command = [sys.executable, "-P", "-m", "aiocg.compat", str(FOLDER / f"{name}.py"), *arguments.split()]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout
