"""`aiocg rl`, and `aiocg search policy`."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from aiocg.policies import Features, Policy, PolicyFacts

from ..command_line import Run, runner

ACTIONS = ("mem2reg", "instcombine", "simplifycfg", "gvn")


@pytest.fixture
def aiocg(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Run `aiocg` in this process, in a fresh folder with a policy that was not trained."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "140")
    features = Features(len(ACTIONS))
    layer = (np.random.default_rng(0).normal(size=(features.size, len(ACTIONS) + 1)), np.zeros(len(ACTIONS) + 1))
    facts = PolicyFacts(compiler="LLVM 22.1.8", actions=ACTIONS, steps=8, starts=("O0", "OzMinsize"))
    Path("my.npz").write_bytes(Policy(facts, [layer]).to_bytes())
    return runner(monkeypatch, capfd)


@pytest.mark.slow
def test_a_search_follows_a_policy_and_is_never_worse_than_the_baselines(aiocg: Run) -> None:
    done = aiocg("search", "policy", "programs-v0/gcd", "--policy", "my.npz", "--evaluations", 20, "--json")
    assert done.status == 0
    assert done.json["algorithm"] == "policy" and done.json["reward"] >= 1


@pytest.mark.slow
@pytest.mark.parametrize("search", ["mcts", "beam"])
def test_searches_with_a_policy_as_prior_are_among_its_actions(aiocg: Run, search: str) -> None:
    words = ("search", search, "programs-v0/gcd", "--evaluations", 12, "--no-minimize", "--json")
    done = aiocg(*words, "--prior", "my.npz", "--reward", "IrInstructionCountO0")
    assert done.status == 0, done.err
    assert done.json["reward"] >= max(done.json["baselines"].values())
    assert set(done.json["actions"]) <= {*ACTIONS, "mark<minsize>"} or "default<" in str(done.json["actions"])
    assert aiocg(*words, "--prior", "instructions", "--action-space", "Pipelines").status == 0
    for absent in ("nobody", "functions"):  # the latter is for single functions
        said = aiocg(*words, "--prior", absent).err.replace("\n", " ")
        assert "nor a policy of that name: instructions" in said


@pytest.mark.slow
def test_a_policy_is_evaluated_with_and_without_the_fallback(aiocg: Run) -> None:
    words = ("--programs", "programs-v0/gcd", "--programs", "programs-v0/crc32", "--count", 2, "-o", "scores.json")
    done = aiocg("rl", "evaluate", "my.npz", *words)
    assert done.status == 0
    assert "with fallback" in done.out and "O0, last state" in done.out and "2 programs" in done.out
    assert "benchmark://programs-v0/crc32" in Path("scores.json").read_text()


@pytest.mark.slow
def test_a_file_that_is_no_policy_is_an_error_in_one_line(aiocg: Run) -> None:
    Path("text.npz").write_text("no policy")
    for command in (("rl", "evaluate", "text.npz"), ("search", "policy", "programs-v0/gcd", "--policy", "text.npz")):
        done = aiocg(*command)
        assert done.status == 1
        assert "text.npz" in done.err and "Traceback" not in done.err
    assert "there is no policy none.npz" in aiocg("rl", "evaluate", "none.npz").err


def test_what_cannot_work_is_told_before_anything_is_trained(aiocg: Run) -> None:
    Path("run.ckpt").write_bytes(b"")
    assert "--resume" in aiocg("rl", "train", "run.ckpt").err
    assert "there is no checkpoint" in aiocg("rl", "train", "other.ckpt", "--resume").err
    assert "there is no directory" in aiocg("rl", "train", "nowhere/run.ckpt").err
    done = aiocg("rl", "evaluate", "my.npz", "--start", "O7")
    assert done.status == 1 and "O0 or OzMinsize, not with 'O7'" in done.err


def test_without_torch_the_extra_is_named(aiocg: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    for command in (("rl", "train", "run.ckpt"), ("rl", "export", "run.ckpt", "out.npz")):
        done = aiocg(*command)
        assert done.status == 1 and "pip install 'aiocg[rl]'" in done.err


@pytest.mark.slow
def test_nothing_of_it_is_loaded_before_it_is_used() -> None:
    script = (
        "import sys, aiocg, aiocg.search, aiocg.cli.app\n"
        "print([name for name in sys.modules if name == 'torch' or name.startswith('aiocg.rl')])"
    )
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_from_nothing_to_a_policy_that_is_searched_with(aiocg: Run) -> None:
    pytest.importorskip("torch", reason="training needs PyTorch: pip install 'aiocg[rl]'")
    pytest.importorskip("matplotlib")
    programs = ("--programs", "csmith-v0", "--programs", "aiocg-v0", "--count", 6)
    whole = aiocg(
        "rl", "train", "run.ckpt", *programs, "--episodes", 24, "--batch", 8, "--steps", 10, "--plot", "c.png"
    )
    assert whole.status == 0 and whole.out.count("episodes") == 3
    assert Path("c.png").read_bytes().startswith(b"\x89PNG")
    assert aiocg("rl", "evaluate", "my.npz", "--count", 2, "-o", "scores.json").status == 0
    told = aiocg("rl", "export", "run.ckpt", "out.npz", "--scores", "scores.json", "--json").json
    assert told["bytes"] < 300_000 and told["episodes"] == 24
    facts = Policy.load("out.npz").facts
    assert facts.programs and facts.sources == ("csmith-v0", "aiocg-v0") and "2 of csmith-v0" in facts.scores
    done = aiocg("search", "policy", "programs-v0/gcd", "--policy", "out.npz", "--evaluations", 10, "--json")
    assert done.json["reward"] >= 1
    assert "kept for tests" in aiocg("rl", "train", "x.ckpt", "--programs", "programs-v0").err
    assert aiocg("rl", "train", "run.ckpt", "--resume").status == 0  # there is nothing left to do


@pytest.mark.slow
def test_a_training_is_written_for_tensorboard(aiocg: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="training needs PyTorch: pip install 'aiocg[rl]'")
    words = ("--programs", "generator://csmith-v0/100", "--episodes", 8, "--batch", 4, "--steps", 4)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "torch.utils.tensorboard", None)
        done = aiocg("rl", "train", "run.ckpt", *words, "--tensorboard", "board")
        assert done.status == 1 and "pip install tensorboard" in done.err
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    assert aiocg("rl", "train", "run.ckpt", *words).status == 0
    assert aiocg("rl", "train", "other.ckpt", *words, "--tensorboard", "board").status == 0
    for folder in ("run.tensorboard", "board"):
        found = events.EventAccumulator(folder)
        found.Reload()
        assert [one.step for one in found.Scalars("entropy")] == [4, 8]


@pytest.mark.slow
def test_a_training_is_written_for_weights_and_biases(aiocg: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="training needs PyTorch: pip install 'aiocg[rl]'")
    words = ("--programs", "generator://csmith-v0/100", "--episodes", 8, "--batch", 4, "--steps", 4)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "wandb", None)
        done = aiocg("rl", "train", "run.ckpt", *words, "--wandb", "runs")
        assert done.status == 1 and "pip install wandb" in done.err
    pytest.importorskip("wandb")
    done = aiocg("rl", "train", "run.ckpt", *words, "--wandb", "runs", "--json")
    assert done.status == 0 and done.out.startswith("{")
    (written,) = Path("runs").rglob("*.wandb")
    assert b"entropy" in written.read_bytes()


@pytest.mark.slow
def test_a_search_is_imitated_first(aiocg: Run) -> None:
    pytest.importorskip("torch", reason="training needs PyTorch: pip install 'aiocg[rl]'")
    seen = "generator://csmith-v0/100"
    Path("actions.txt").write_text("\n".join(ACTIONS))
    words = ("--evaluations", 300, "--log", "t.db", "--reward", "IrInstructionCountOzMinsize", "--no-minimize")
    assert aiocg("search", "greedy", seen, *words, "--json").status == 0
    common = ("--programs", seen, "--actions", "actions.txt", "--episodes", 8, "--batch", 8, "--steps", 10)
    done = aiocg("rl", "train", "run.ckpt", *common, "--imitate", "t.db")
    assert done.status == 0 and "imitated 1 demonstration;" in done.out


@pytest.mark.slow
def test_an_interrupted_training_goes_on_to_the_same_policy_with_any_number_of_environments(aiocg: Run) -> None:
    pytest.importorskip("torch", reason="training needs PyTorch: pip install 'aiocg[rl]'")
    words = ["--programs", "csmith-v0", "--count", "4", "--episodes", "32", "--batch", "4", "--steps", "6"]
    assert aiocg("rl", "train", "whole.ckpt", *words, "--envs", 2).status == 0
    command = [sys.executable, "-P", "-m", "aiocg.cli", "rl", "train", "parts.ckpt", *words, "--envs", "5"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        said = next(line for line in process.stdout if "episodes" in line)
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
    assert process.returncode == 130 and "go on with --resume" in rest, said + rest
    assert aiocg("rl", "train", "parts.ckpt", "--resume").status == 0
    for name in ("whole", "parts"):
        assert aiocg("rl", "export", f"{name}.ckpt", f"{name}.npz").status == 0
    whole, parts = Policy.load("whole.npz"), Policy.load("parts.npz")
    assert whole.facts == parts.facts and whole.facts.episodes == 32
    assert whole.to_bytes() == parts.to_bytes()
