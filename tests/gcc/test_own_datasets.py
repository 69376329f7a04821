"""Datasets that users make of their own projects, compiled by GCC."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from aiocg.datasets import BenchmarkInitError
from aiocg.datasets.own.dataset import OwnDataset
from aiocg.programs.project import Project, create, parse_run

pytestmark = pytest.mark.needs("gcc")

FILES = {
    "src/main.cc": '#include "add.h"\n#include <stdio.h>\nint main() { printf("%d\\n", *new int(add(1, N))); }\n',
    "src/add.c": '#include "add.h"\nint add(int new, int class) { return new + class; }\n',
    "include/add.h": """#ifdef __cplusplus
extern "C"
#endif
int add(int, int);
""",
    "src/other.c": "int other(void) { return OTHER; }\n",
}


@pytest.fixture
def dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OwnDataset:
    """Make a dataset of a project, which is gone then."""
    monkeypatch.setenv("AIOCG_SITE_DATA", str(tmp_path / "site"))
    project = tmp_path / "project"
    for name, text in FILES.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    lines = {
        "main.cc": "g++ -O2 -g -Iinclude -DN=2 -Wall -c src/main.cc",
        "add.c": "gcc -O2 -g -I include -DN=2 -c src/add.c",
        "other.c": "gcc -DOTHER=7 -c src/other.c",
    }
    entries = [{"directory": str(project), "command": line, "file": f"src/{name}"} for name, line in lines.items()]
    (project / "compile_commands.json").write_text(json.dumps(entries))
    commands = Project.from_compile_commands(project / "compile_commands.json")
    made = create("mine", commands, runs=[parse_run("main: ./main", project)])
    assert not made.problems
    shutil.rmtree(project)
    return made.dataset


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="session")
async def test_units_and_targets_of_a_project_are_compiled_and_run_without_it(make: Any, dataset: OwnDataset) -> None:
    assert dataset["other.c"].source_tree.flags == ("-DOTHER=7",)
    tree = dataset["main"].source_tree
    assert (tree.language, tree.units_in_c, tree.flags) == ("c++", ("src/add.c",), ("-DN=2",))
    assert {name: text.decode() for name, text in tree.files.items()} == {
        name: text for name, text in FILES.items() if name != "src/other.c"
    }
    env = await make(benchmark=dataset["main"], observation_space="obj_text_size")
    for line in ("gcc -O0", "gcc -O2 -fno-inline"):
        await env.step_texts([line])
        (run,) = await env.observe("execution")
        assert not run["problem"] and run["stdout"]["head"] == "3\n"
    await env.reset(benchmark=dataset["other.c"])
    assert await env.observe("instruction_counts")


def test_units_with_flags_of_their_own_make_no_program_for_another_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIOCG_SITE_DATA", str(tmp_path / "site"))
    (tmp_path / "a.c").write_text("int b(void); int main(void) { return b(); }\n")
    (tmp_path / "b.c").write_text("int b(void) { return N; }\n")
    entries = [
        {"directory": str(tmp_path), "command": f"gcc -DN={n} -c {name}.c", "file": f"{name}.c"}
        for n, name in enumerate("ab")
    ]
    (tmp_path / "compile_commands.json").write_text(json.dumps(entries))
    dataset = create("mine", Project.from_compile_commands(tmp_path / "compile_commands.json")).dataset
    assert dataset["a.c"].source_tree.flags == ("-DN=0",)
    with pytest.raises(BenchmarkInitError, match="sources are not known"):
        _ = dataset["a"].source_tree
