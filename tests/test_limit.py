"""LLVM alone, beside which our steps are measured, does what our environments do. How fast, is not tested."""

import random
import sys
from pathlib import Path

import pytest

import aiocg
from bench import limit, profile_step
from bench.versus.driver import Driver

PROGRAM = "programs-v0/gcd"


async def test_llvm_alone_comes_to_the_same_program(tmp_path: Path) -> None:
    path = tmp_path / "program"
    (plan,) = next(limit.plans("seed", 1, 12))
    async with aiocg.Runtime(workers=1) as runtime, Driver(sys.executable, "drive_bare.py") as bare:
        path.write_bytes(runtime.benchmark(PROGRAM).content)
        env = await runtime.make("llvm-v0", benchmark=PROGRAM)
        await env.reset()
        said = await bare.ask("start", program=str(path))
        assert said["compiler"] == env.compiler_version
        assert said["instructions"] == await env.observe("IrInstructionCount")
        await env.step(plan)
        reply = await bare.ask("walk", pipelines=plan, observation="Autophase", way="as values")
        assert reply["instructions"] == await env.observe("IrInstructionCount") != said["instructions"]
        assert len(reply["seconds"]) == len(plan)
        assert sum(reply["parts"].values()) == pytest.approx(sum(reply["seconds"]) / len(plan))


async def test_llvm_alone_changes_a_module_in_place(tmp_path: Path) -> None:
    path = tmp_path / "program"
    path.write_text("define i32 @f() {\n  %x = add i32 1, 2\n  %y = mul i32 %x, 3\n  ret i32 %y\n}\n")
    async with Driver(sys.executable, "drive_bare.py") as bare:
        assert (await bare.ask("start", program=str(path)))["instructions"] == 3
        reply = await bare.ask("walk", pipelines=["instcombine", "dce"], observation="InstCount", way="in place")
        assert reply["instructions"] == 1
        assert reply["parts"]["parse"] == reply["parts"]["write"] == 0


def test_both_are_given_the_same_actions() -> None:
    one, other = limit.plans("seed", 3, 5), limit.plans("seed", 3, 5)
    first = next(one)
    assert first == next(other)
    assert [len(plan) for plan in first] == [5, 5, 5]
    assert next(one) != first
    assert random.Random("seed").choices(limit.ACTIONS, k=5) == first[0]


def test_samples_are_told_apart_by_file_and_function() -> None:
    llvm = "libLLVM.so.22.1"
    assert profile_step.kind(llvm, "llvm::BitstreamWriter::EmitVBR") == "LLVM: writing bitcode"
    assert profile_step.kind(llvm, "llvm::BitstreamCursor::readRecord") == "LLVM: reading bitcode"
    assert profile_step.kind(llvm, "(anonymous namespace)::Verifier::visit") == "LLVM: verifying"
    assert profile_step.kind(llvm, "llvm::Value::setName") == "LLVM: passes, and the rest"
    assert profile_step.kind("libzmq-2f02442c.so.5.2.5", "zmq::mailbox_t::recv") == "messages: ZeroMQ, msgspec"
    assert profile_step.kind("_zmq.cpython-311-x86_64-linux-gnu.so", "") == "messages: ZeroMQ, msgspec"
    assert profile_step.kind("libpython3.11.so.1.0", "_PyEval_EvalFrameDefault") == "Python"
    seal = "seal-0e332f3d8b5d8a312f04-68152f8333654ce1de5f.so"
    assert profile_step.kind(seal, "aiocg_seal") == "our C: canonical order, fingerprints, counting"
    assert profile_step.kind("[kernel.kallsyms]", "do_syscall_64") == "kernel"
    assert profile_step.kind("libsomething.so", "f") == profile_step.REST


def test_shares_add_up_what_perf_reports() -> None:
    report = [
        "# To display the perf.data header info, please use --header/--header-only options.",
        "",
        "     4.51%\tlibpython3.11.so.1.0   \t[.] _PyEval_EvalFrameDefault",
        "     2.44%\tlibc.so.6              \t[.] _int_malloc",
        "     2.18%\tlibc.so.6              \t[.] malloc",
    ]
    assert profile_step.shares(report) == pytest.approx({"memory: malloc, free, copying": 4.62, "Python": 4.51})
