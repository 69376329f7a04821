"""Coroutines: what no pass has split has no machine code, so code and counts are of the split form."""

from pathlib import Path

import anyio
import pytest

from aiocg import Runtime
from aiocg.datasets import Benchmark
from aiocg.llvm import compute_observation
from aiocg.llvm.tools import SPLIT, apply
from aiocg.programs.project import write_program
from aiocg.workers.llvm import _object_code

from ..machine import needs_headers

pytestmark = pytest.mark.asyncio(loop_scope="session")

SOURCE = """\
using size = decltype(sizeof 0);
void *operator new(size bytes) { return __builtin_malloc(bytes); }
void operator delete(void *memory, size) noexcept { __builtin_free(memory); }
namespace std {
template <class R, class...> struct coroutine_traits { using promise_type = typename R::promise_type; };
template <class P = void> struct coroutine_handle;
template <> struct coroutine_handle<void> {
  void *frame;
  static coroutine_handle from_address(void *a) noexcept { return {a}; }
};
template <class P> struct coroutine_handle {
  void *frame;
  static coroutine_handle from_address(void *a) noexcept { return {a}; }
  static coroutine_handle from_promise(P &p) { return {__builtin_coro_promise(&p, alignof(P), true)}; }
  operator coroutine_handle<>() const noexcept { return {frame}; }
  bool done() const { return __builtin_coro_done(frame); }
  void resume() const { __builtin_coro_resume(frame); }
  void destroy() const { __builtin_coro_destroy(frame); }
  P &promise() const { return *(P *)__builtin_coro_promise(frame, alignof(P), false); }
};
struct suspend_always {
  bool await_ready() noexcept { return false; }
  void await_suspend(coroutine_handle<>) noexcept {}
  void await_resume() noexcept {}
};
}
struct Squares {
  struct promise_type {
    int value;
    Squares get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    std::suspend_always yield_value(int v) { value = v; return {}; }
    void return_void() {}
    void unhandled_exception() {}
  };
  std::coroutine_handle<promise_type> handle;
};
Squares squares(int end) { for (int i = 1; i < end; i++) co_yield i * i; }
int main() {
  Squares s = squares(4);
  int sum = 0;
  for (s.handle.resume(); !s.handle.done(); s.handle.resume()) sum += s.handle.promise().value;
  s.handle.destroy();
  return sum;
}
"""


@pytest.fixture(scope="module")
def squares(tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    path = tmp_path_factory.mktemp("coroutines") / "squares.cc"
    path.write_text(SOURCE)
    return Benchmark.from_file(path, ["-std=c++20"])


async def test_sizes_of_the_program_as_it_is_are_those_of_its_split_form(runtime: Runtime, squares: Benchmark) -> None:
    split = Benchmark.from_file_contents("benchmark://user-v0/split", apply(squares.content, [SPLIT]))
    observed = []
    for benchmark in (squares, split):
        async with await runtime.make("llvm-codesize-v0", benchmark=benchmark) as env:
            await env.reset()
            observed.append(await env.observe("ObjectTextSizeO0", "IrInstructionCount", "IrInstructionCountO0"))
            assert (await env.step_texts(["default<Oz>"]))[1] > 0
    assert observed[0] == observed[1]


async def test_fewer_instructions_are_not_gained_by_leaving_coroutines_unsplit(
    runtime: Runtime, squares: Benchmark
) -> None:
    async with await runtime.make("llvm-ic-v0", benchmark=squares) as env:
        await env.reset()
        before = await env.observe("IrInstructionCount")
        await env.step_texts(["mem2reg"])
        after, bitcode = await env.observe("IrInstructionCount", "Bitcode")
    assert b"llvm.coro.begin" in bitcode
    assert after == compute_observation("IrInstructionCount", apply(bitcode, [SPLIT])) <= before


@needs_headers
@pytest.mark.parametrize("actions", [[], ["mem2reg"], ["default<Oz>"]])
async def test_program_is_linked_and_does_what_it_should(
    runtime: Runtime, squares: Benchmark, tmp_path: Path, actions: list[str]
) -> None:
    async with await runtime.make("llvm-v0", benchmark=squares) as env:
        await env.reset()
        await env.step_texts(actions)
        linked = await write_program(env, tmp_path / "squares")
    assert (await anyio.run_process([linked], check=False)).returncode == 1 + 4 + 9


async def test_pipeline_is_written_once() -> None:
    assert SPLIT == _object_code.SPLIT
