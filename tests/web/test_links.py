"""Links that are a state: what is copied is what opens, and what others have made up is refused."""

import base64
import random
import urllib.parse
import zlib
from pathlib import Path

import pytest

import aiocg
from aiocg.datasets import default_datasets, resolve
from aiocg.web._links import Link, _source, link_to, read_link
from aiocg.web._programs import box_exists, sent
from aiocg.web._session import ExplorerSession
from aiocg.web.limits import Limits, Refusal
from aiocg.web.saved import Opening
from aiocg.web.sessions import Sessions

IR = "define i32 @f(i32 %x) {\n  %y = add i32 %x, 0\n  ret i32 %y\n}\n"
C = "int f(int n) { int s = 0; for (int i = 0; i < n; i++) s += i; return s; }\n"
ACTIONS = ["mem2reg", "simplifycfg<forward-switch-cond;keep-loops>", "loop(loop-rotate),gvn"]


def read(link: str) -> Link:
    found = read_link(urllib.parse.urlsplit(link).query, Limits())
    assert found is not None
    return found


@pytest.mark.parametrize(
    "program", ["programs-v0/gcd", sent(C, "c", Limits()), sent(IR, "ir", Limits())], ids=["named", "c", "ir"]
)
async def test_a_link_leads_to_the_state_that_it_was_made_of(
    runtime: aiocg.Runtime, program: str | aiocg.datasets.Benchmark
) -> None:
    session = await ExplorerSession.open(runtime, "llvm-ic-v0", benchmark=program)
    *_, node = await session.step(ACTIONS)
    link = link_to(session)
    await session.close()
    assert link.startswith("/?env=llvm-ic-v0&") and len(link) < 400
    if read(link).language == "c" and not box_exists():
        pytest.skip("needs bubblewrap, in which C of visitors is compiled")
    async with Sessions(runtime, Limits()) as sessions:
        found = read(link)
        opening = found.opening(sessions.limits)
        if found.language == "c":  # in a box, which cannot be made everywhere
            opening = Opening("llvm-ic-v0", sent(found.source, "c", Limits()), found.actions)
        again = sessions.find(await sessions.open_saved(opening))
        assert again.tree.present.state == node.state and again.tree.present.depth == node.depth


async def test_bitcode_is_in_its_link(runtime: aiocg.Runtime) -> None:
    session = await ExplorerSession.open(runtime, "llvm-ic-v0", benchmark=sent(IR, "ir", Limits()))
    bitcode = base64.b64encode(await session.observe("Bitcode")).decode()
    other = await ExplorerSession.open(runtime, "llvm-ic-v0", benchmark=sent(bitcode, "bitcode", Limits()))
    found = read(link_to(other))
    assert (found.language, found.source) == ("bitcode", bitcode)
    for one in (session, other):
        await one.close()


async def test_what_a_file_includes_and_the_reward_space_are_in_its_link(
    runtime: aiocg.Runtime, tmp_path: Path
) -> None:
    (tmp_path / "times.h").write_text("#define TIMES 3\n")
    (tmp_path / "f.c").write_text('#include "times.h"\nint f(int n) { return n * TIMES; }\n')
    session = await ExplorerSession.open(
        runtime, "llvm-ic-v0", benchmark=str(tmp_path / "f.c"), reward_space="ObjectImageSizeBytes"
    )
    (node,) = await session.step(["mem2reg"])
    found = read(link_to(session))
    assert (found.language, found.reward_space) == ("bitcode", "ObjectImageSizeBytes")
    await session.close()
    (tmp_path / "times.h").unlink()
    async with Sessions(runtime, Limits()) as sessions:
        again = sessions.find(await sessions.open_saved(found.opening(sessions.limits)))
        assert again.costs == ("ObjectImageSizeBytes",) and again.tree.present.state == node.state


def test_what_a_file_includes_cannot_be_in_a_link_of_gcc(tmp_path: Path) -> None:
    path = tmp_path / "f.c"
    for text, whole in (("int f(int n) { return n; }\n", True), ('  # include "times.h"\n', False)):
        path.write_text(text)
        benchmark = resolve(str(path), default_datasets())
        if whole:
            assert _source(benchmark, "gcc") == (text.encode(), "c")
        else:
            with pytest.raises(Refusal, match="needs other files or options, which a link cannot have"):
                _source(benchmark, "gcc")


@pytest.mark.parametrize("worker", ["gcc", "llvm"])
def test_what_was_sent_is_whole_whatever_it_includes(worker: str) -> None:
    text = '#include "stdio.h"\n' + C
    assert _source(sent(text, "c", Limits()), worker) == (text.encode(), "c")


def packed(data: bytes) -> str:
    return base64.urlsafe_b64encode(zlib.compress(data)).decode()


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("source=nonsense", "copy the whole link"),
        (f"source={packed(C.encode())[:-8]}", "copy the whole link"),
        (f"source={packed(bytes(1 << 21))}", "copy the whole link"),
        (f"source={packed(bytes([255]))}", "copy the whole link"),
        (f"source={packed(C.encode())}&language=fortran", "must be one of"),
        ("benchmark=/etc/passwd", "file of this machine"),
        ("benchmark=file:///etc/passwd", "file of this machine"),
    ],
)
def test_a_link_that_was_made_up_is_refused(query: str, said: str) -> None:
    with pytest.raises(Refusal, match=said):
        found = read_link(query, Limits())
        assert found is not None
        found.opening(Limits())


def test_other_addresses_are_no_links() -> None:
    assert read_link("", Limits()) is None and read_link("session=x&fork=y", Limits()) is None


async def test_a_program_that_is_too_long_has_no_link(runtime: aiocg.Runtime) -> None:
    text = IR + "".join(f"; {random.Random(number).getrandbits(64):x}\n" for number in range(4000))
    session = await ExplorerSession.open(runtime, "llvm-ic-v0", benchmark=sent(text, "ir", Limits()))
    with pytest.raises(Refusal, match="send the program"):
        link_to(session)
    await session.close()
