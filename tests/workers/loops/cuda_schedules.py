"""Schedules for GPUs as people write them."""

from aiocg.workers.loops._language import parse
from aiocg.workers.loops._schedule import Schedule, Step, arrange, read_layouts
from aiocg.workers.loops.cuda.target import Program, _generate


def scheduled(text: str, steps: str) -> Schedule:
    """Return the schedule that steps lead to, such as `split<loop=0;factor=8> unroll<loop=1>`."""
    schedule = Schedule.of(parse(text), "cuda")
    for step in steps.split():
        schedule = schedule.apply(Step.parse(step))
    return schedule


def laid_out(text: str, *layouts: str) -> Schedule:
    """Return the schedule with these layouts, one for each statement."""
    found = read_layouts(f"nests<{';'.join(layouts)}>")
    assert found is not None
    return arrange(Schedule.of(parse(text), "cuda"), found)


def program(schedule: Schedule) -> Program:
    """Return its program."""
    return _generate(schedule.computation, schedule.nests)


def pointwise(size: int, threads: int = 256, each: int = 4) -> Schedule:
    """Return an addition of vectors: each thread adds some elements that are a block's width apart."""
    steps = f"""
        split<loop=0;factor={threads * each}> split<loop=1;factor={threads}> reorder<loop=1>
        bind<loop=0;to=block.x> bind<loop=1;to=thread.x> unroll<loop=2>
    """
    return scheduled(f"C[i:{size}] = A[i] + B[i]", steps)


def neighbours(size: int, threads: int = 256, each: int = 4) -> Schedule:
    """Return an addition of vectors: each thread adds some elements that lie side by side."""
    steps = f"""
        split<loop=0;factor={threads * each}> split<loop=1;factor={each}>
        bind<loop=0;to=block.x> bind<loop=1;to=thread.x> unroll<loop=2>
    """
    return scheduled(f"C[i:{size}] = A[i] + B[i]", steps)


def matmul(n: int, m: int, k: int, tile: int = 16, depth: int = 16) -> Schedule:
    """Return a product of matrices: a thread for each element of a tile of C, tiles of A and B in shared memory."""
    steps = f"""
        split<loop=0;factor={tile}> split<loop=2;factor={tile}> reorder<loop=1> split<loop=4;factor={depth}>
        bind<loop=0;to=block.y> bind<loop=1;to=block.x> bind<loop=2;to=thread.y> bind<loop=3;to=thread.x>
        stage<loop=4;tensor=0> stage<loop=4;tensor=1> unroll<loop=5>
    """
    return scheduled(f"C[i:{n}, j:{m}] = sum(k:{k}) A[i, k] * B[k, j]", steps)


def register_matmul(n: int, m: int, k: int, tile: int = 64, each: int = 4, depth: int = 16,
                    more: str = "") -> Schedule:  # fmt: skip
    """Return a product of matrices in which each thread has several rows and columns of a tile of C in registers."""
    steps = f"""
        split<loop=0;factor={tile}> split<loop=1;factor={each}> split<loop=3;factor={tile}> split<loop=4;factor={each}>
        split<loop=6;factor={depth}>
        reorder<loop=2> reorder<loop=1> reorder<loop=3>
        reorder<loop=5> reorder<loop=4> reorder<loop=6> reorder<loop=5>
        bind<loop=0;to=block.y> bind<loop=1;to=block.x> bind<loop=2;to=thread.y> bind<loop=3;to=thread.x>
        stage<loop=4;tensor=0> stage<loop=4;tensor=1> unroll<loop=5> unroll<loop=6> unroll<loop=7>
        {more}
    """
    return scheduled(f"C[i:{n}, j:{m}] = sum(k:{k}) A[i, k] * B[k, j]", steps)


def warp_matmul(n: int, m: int, k: int) -> Schedule:
    """Return a product of matrices in which a warp has a tile of 32 x 64 elements of C, a thread 8 x 8 of them."""
    steps = """
        split<loop=0;factor=128> split<loop=1;factor=32> split<loop=2;factor=16> split<loop=3;factor=4>
        split<loop=5;factor=128> split<loop=6;factor=64> split<loop=7;factor=32> split<loop=8;factor=4>
        split<loop=10;factor=8>
        reorder<loop=4> reorder<loop=3> reorder<loop=2> reorder<loop=1>
        reorder<loop=5> reorder<loop=4> reorder<loop=3> reorder<loop=4>
        reorder<loop=7> reorder<loop=6> reorder<loop=5>
        reorder<loop=9> reorder<loop=8> reorder<loop=7> reorder<loop=6>
        reorder<loop=10> reorder<loop=9> reorder<loop=8> reorder<loop=7>
        fuse<loop=2>
        bind<loop=0;to=block.y> bind<loop=1;to=block.x>
        bind<loop=2;to=thread.z> bind<loop=3;to=thread.y> bind<loop=4;to=thread.x>
        stage<loop=5;tensor=0> stage<loop=5;tensor=1> pipeline<loop=5>
        unroll<loop=6> unroll<loop=7> unroll<loop=8> unroll<loop=9> unroll<loop=10>
    """
    return scheduled(f"C[i:{n}, j:{m}] = sum(k:{k}) A[i, k] * B[k, j]", steps)


def deep_matmul(n: int, m: int, k: int) -> Schedule:
    """Return a product of matrices whose tiles have 51,200 bytes."""
    steps = """
        split<loop=0;factor=8> split<loop=2;factor=8> reorder<loop=1> split<loop=4;factor=800>
        bind<loop=0;to=block.y> bind<loop=1;to=block.x> bind<loop=2;to=thread.y> bind<loop=3;to=thread.x>
        stage<loop=4;tensor=0> stage<loop=4;tensor=1>
    """
    return scheduled(f"C[i:{n}, j:{m}] = sum(k:{k}) A[i, k] * B[k, j]", steps)


def transpose(n: int, m: int, tile: int = 16, rows: int = 4) -> Schedule:
    """Return a transposition: a tile is read along rows, and written along columns of the source."""
    steps = f"""
        split<loop=0;factor={tile}> split<loop=2;factor={tile}> reorder<loop=1>
        split<loop=2;factor={rows}> reorder<loop=3>
        bind<loop=0;to=block.y> bind<loop=1;to=block.x> bind<loop=2;to=thread.y> bind<loop=3;to=thread.x>
        stage<loop=4;tensor=0>
    """
    return scheduled(f"B[i:{n}, j:{m}] = A[j, i]", steps)


def columns(n: int) -> Schedule:
    """Return a transposition in tiles of 32 rows and columns, of which neighbouring threads read one column each."""
    steps = """
        split<loop=0;factor=32> split<loop=0;factor=4> split<loop=2;factor=4> split<loop=4;factor=32>
        reorder<loop=3> reorder<loop=2> reorder<loop=1> reorder<loop=2> reorder<loop=4> reorder<loop=3>
        bind<loop=0;to=block.y> bind<loop=1;to=block.x> bind<loop=2;to=thread.y> bind<loop=3;to=thread.x>
        stage<loop=4;tensor=0>
    """
    return scheduled(f"B[i:{n}, j:{n}] = A[j, i]", steps)


def rows(n: int, m: int, threads: int = 64, each: int = 2, reducer: str = "sum") -> Schedule:
    """Return a reduction of rows: the threads of a row of a block have a row of the matrix together."""
    return laid_out(f"R[i:{n}] = {reducer}(j:{m}) X[i, j]", f"i=block.x,i:{each}=thread.y,j:{threads}=thread.x,j")


def column_sums(n: int, m: int, threads: int = 32, sharing: int = 8) -> Schedule:
    """Return the sums of columns: neighbouring threads have neighbouring columns, and several share one."""
    return laid_out(f"R[j:{m}] = sum(i:{n}) X[i, j]", f"j=block.x,i:{sharing}=thread.y,j:{threads}=thread.x,i")


def split_sums(n: int, m: int, k: int, threads: int = 8) -> Schedule:
    """Return a product of matrices with tiles in which threads share the sums of each element of C."""
    layout = f"i=block.y,j=block.x,i:4=thread.y,k:{threads}=thread.x,k=serial@A@B,j:3,k:4"
    return laid_out(f"C[i:{n}, j:{m}] = sum(k:{k}) A[i, k] * B[k, j]", layout)


def softmax_text(rows: int, columns: int) -> str:
    return f"""
        M[i:{rows}] = max(j:{columns}) X[i, j]
        E[i:{rows}, j:{columns}] = exp(X[i, j] - M[i])
        S[i:{rows}] = sum(j:{columns}) E[i, j]
        Y[i:{rows}, j:{columns}] = E[i, j] / S[i]
    """


def joined_softmax(rows: int, columns: int, threads: int = 256) -> Schedule:
    """Return the softmax of rows as one kernel: threads share a row."""
    row = f"j:{threads}=thread.x,j"
    return laid_out(softmax_text(rows, columns), f"i=block.x,{row}", *[f"i=join,{row}"] * 3)


def softmax(rows: int, columns: int, threads: int = 32) -> Schedule:
    """Return the softmax of rows: a thread for each row, and for each element where nothing is reduced."""
    steps = f"""
        split<loop=0;factor={threads}> bind<loop=0;to=block.x> bind<loop=1;to=thread.x>
        fuse<loop=3> split<loop=3;factor={threads}> bind<loop=3;to=block.x> bind<loop=4;to=thread.x>
        split<loop=5;factor={threads}> bind<loop=5;to=block.x> bind<loop=6;to=thread.x>
        bind<loop=8;to=block.x> split<loop=9;factor={threads}> reorder<loop=9> bind<loop=9;to=thread.x>
    """
    return scheduled(softmax_text(rows, columns), steps)
