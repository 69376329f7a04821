"""The first command of the README in a root that has Python and nothing else: no compiler, linker, or libc headers."""

import os
import shutil
import subprocess
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[1]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(os.geteuid() != 0, reason="a root of one's own needs root"),
    pytest.mark.needs("debootstrap"),
]

LINK_AND_RUN = textwrap.dedent("""
    import subprocess
    from pathlib import Path
    from aiocg.datasets import default_datasets, find_toolchain
    from aiocg.datasets.linking import link

    for name in ("qsort", "raytracer"):
        benchmark = default_datasets().benchmark(f"programs-v0/{name}")
        link(benchmark.content, Path("/tmp/program"), find_toolchain())
        size = benchmark.program.runs["small"]
        done = subprocess.run(["/tmp/program", *size.arguments], capture_output=True)
        assert (done.returncode, done.stdout) == (0, size.expected_output()), done
    print("linked and run")
""")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Debian's minimal base with python3 and venv, and the package installed as the README says."""
    root = tmp_path_factory.mktemp("minimal") / "root"
    command = ["debootstrap", "--variant=minbase", "--include=python3,python3-venv", "bookworm", str(root)]
    made = subprocess.run(command, capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"debootstrap failed: {made.stdout[-300:]}{made.stderr[-300:]}")
    for name in ("etc/resolv.conf", "etc/hosts", "etc/ssl/certs/ca-certificates.crt"):
        if (Path("/") / name).is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(Path("/") / name, root / name)
    subprocess.run(["git", "clone", "-q", str(CHECKOUT), str(root / "aiocg")], check=True)
    done = inside(root, "cd /aiocg; python3 -m venv /venv; . /venv/bin/activate; pip install -q -e .")
    assert done.returncode == 0, done.stdout + done.stderr
    yield root
    shutil.rmtree(root, ignore_errors=True)


def inside(root: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script in the root, with process and mount tables of its own."""
    environment = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    environment |= {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/root", "LANG": "C.UTF-8"}
    isolated = ["unshare", "--mount", "--pid", "--fork", f"--mount-proc={root}/proc", "chroot", str(root)]
    return subprocess.run([*isolated, "sh", "-ec", script], env=environment, capture_output=True, text=True)


def test_the_first_command_works_where_there_is_no_compiler(root: Path) -> None:
    assert not any((root / "usr/bin" / tool).exists() for tool in ("gcc", "cc", "clang", "ld", "make"))
    assert not (root / "usr/include/stdio.h").exists()
    done = inside(root, ". /venv/bin/activate; aiocg search greedy programs-v0/qsort")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "-Oz" in done.stdout
    assert "actions" in done.stdout


def test_programs_link_and_run_where_there_is_no_linker(root: Path) -> None:
    (root / "tmp/check.py").write_text(LINK_AND_RUN)
    done = inside(root, ". /venv/bin/activate; python -P /tmp/check.py")
    assert "linked and run" in done.stdout, done.stdout + done.stderr


def test_a_missing_system_header_names_the_package(root: Path) -> None:
    (root / "tmp/hello.c").write_text('#include <stdio.h>\nint main(void) { return puts("hello"); }\n')
    done = inside(root, ". /venv/bin/activate; aiocg search greedy /tmp/hello.c")
    assert done.returncode == 1
    assert "libc6-dev" in done.stderr
    assert "Traceback" not in done.stderr
