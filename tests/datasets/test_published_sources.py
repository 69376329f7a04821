"""Published sources that are compiled on demand: the same layout as the originals', with small sources of ours."""

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import aiocg
from aiocg.datasets import BenchmarkInitError, Dataset, Datasets, DownloadError
from aiocg.datasets._headers import headers_directory
from aiocg.datasets.frontend import is_bitcode
from aiocg.datasets.published._sources import (
    JOTAI_PROGRAM,
    PRELUDE,
    AnghaBenchDataset,
    CHStoneDataset,
    CLgenDataset,
    JotaiBenchDataset,
    POJ104Dataset,
    facts,
    repaired,
)

from .conftest import LoggingClang
from .published_server import PublishedServer
from .published_sets import manifest, pack, serve

FUNCTION = """
#define NULL ((void*)0)
typedef unsigned long size_t;
typedef int bool;
struct node { struct node *next; int key; };
int release (struct node*) ;
static counter;
__attribute__((used)) static struct node *drop(struct node *list, int key) {
  bool found = 0;
  for (size_t n = 0; list != NULL && !found; n++) { found = list->key == key; list = list->next; ++counter; }
  undeclared(list);
  return found ? list : key;
}
"""
JOTAI = """
#include "stdio.h"
#include "stdlib.h"
#include "string.h"
int next_i() { static counter = 0; return ++counter; }
#define NULL ((void*)0)
typedef int bool;
__attribute__((used)) static int sum(int *data, int len) {
  int total = 0;
  for (int i = 0; i < len; i++) total += data[i];
  return total;
}
int main(int argc, char *argv[]) {
  if (argc != 2) { fprintf(stderr, "Usage\\n"); return 1; }
  switch (atoi(argv[1])) {
  case 0: {
    int len = 100, *data = (int *) malloc(len * sizeof(int));
    for (int i = 0; i < len; i++) data[i] = next_i();
    printf("%d\\n", sum(data, len));
    free(data);
  }
  }
  return 0;
}
"""
KERNEL = "kernel void A(global float* a, const int b) {\n  a[get_global_id(0)] = fma(a[b], 2.0f, sqrt(a[0]));\n}\n"
CLC = (
    "typedef unsigned int uint;\ntypedef __SIZE_TYPE__ size_t;\n"
    "#define overloaded __attribute__((overloadable))\n"
    "size_t overloaded get_global_id(uint);\nfloat overloaded fma(float, float, float);\n"
    "float overloaded sqrt(float);\n"
)
ANGHABENCH, CHSTONE = (facts(name)["strip_prefix"] for name in ("anghabench-v1", "chstone-v0"))
ARCHIVES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "anghabench-v1": (f"{ANGHABENCH}.tar.gz", {f"{ANGHABENCH}/curl/lib/extr_list.c_drop.c": FUNCTION}),
    "chstone-v0": (
        "chstone.tar.gz",
        {
            f"{CHSTONE}/{name}": text
            for name, text in {
                "motion/mpeg2.c": '#include <stdio.h>\n#include "global.h"\n#include "getbits.c"\n'
                'main() { printf("%d\\n", bits(SIZE)); return 0; }\n',
                "motion/global.h": "#define SIZE 3\n",
                "motion/getbits.c": "int bits(n) int n; { return 8 * n; }\n",
                "motion/Makefile": "all:\n",
                "sha/sha_driver.c": "int main() { return }\n",
            }.items()
        },
    ),
    "clgen-v0": ("clgen-1000.tar.bz2", {"clgen-1000/kernels/a-1.cl": KERNEL}),
    "jotai-runnable-v0": ("jotaibench.bz2", {"jotaibench/jotaibench-v0/extr_sum_Final.c": JOTAI}),
    "poj104-v1": (
        "llvm_bitcodes-10.0.0-poj104-v1.tar.gz",
        {
            "ProgramData/1/1000.txt": "#include <stdio.h>\r\nvoid main()\r\n{ char s[LEN]; gets(s); cout << s; }\r\n",
            "ProgramData/104/2.txt": 'int a[MAX];\nmain()\n{ sort(a, a + 9); printf("\xc4\xe3 %d", a[0]); }\n',
        },
    ),
}
NAMES = {
    "anghabench-v1": ("curl/lib/extr_list.c_drop", "curl/lib/none"),
    "clgen-v0": ("a-1",),
    "jotai-runnable-v0": ("extr_sum_Final",),
    "poj104-v1": ("1/1000", "104/2"),
}


@pytest.fixture(scope="module")
def headers() -> Path:
    """The folder of headers in the cache of whoever runs the tests, so that they are fetched once."""
    try:
        return headers_directory().parent
    except DownloadError as error:
        pytest.skip(f"the package index does not give the headers: {error}")


@pytest.fixture
def make(headers: Path, own_cache: Path, publish: Callable[[str], Any]) -> Callable[[str], Any]:
    """Make a dataset as `publish` does, and have the headers that clang needs."""
    (own_cache / "headers").symlink_to(headers)
    return publish


@pytest.fixture
def publish(
    own_cache: Path, tmp_path: Path, published_server: PublishedServer, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], Any]:
    """Make a dataset whose files are served here, of which the first address gives nothing."""
    monkeypatch.setenv("AIOCG_SITE_DATA", str(tmp_path / "site"))

    def new(name: str) -> Any:
        file, sources = ARCHIVES[name]
        archive = pack(published_server, file, {path: text.encode("latin-1") for path, text in sources.items()})
        facts: dict[str, Any] = {"urls": archive.urls, "sha256": archive.sha256}
        if name == "chstone-v0":
            return CHStoneDataset(**facts)
        names = manifest(published_server, f"{name}-manifest.bz2", NAMES[name])
        facts |= {"manifest_urls": names.urls, "manifest_sha256": names.sha256, "size": 0}
        match name:
            case "anghabench-v1":
                return AnghaBenchDataset(**facts)
            case "jotai-runnable-v0":
                return JotaiBenchDataset(name, program=JOTAI_PROGRAM, **facts)
            case "poj104-v1":
                return POJ104Dataset(**facts)
        library = pack(published_server, "libclc-v0.tar.bz2", {"clc/clc.h": CLC.encode()})
        header = serve(published_server, "opencl.h", b"#include <clc/clc.h>\n#define __OPENCL_VERSION__ 1\n")
        return CLgenDataset(
            **facts,
            library_urls=library.urls,
            library_sha256=library.sha256,
            header_urls=header.urls,
            header_sha256=header.sha256,
        )

    return new


def compiled(dataset: Dataset, path: str) -> bytes:
    """Return the bitcode of a program, after looking whether it is some, and is the same when compiled again."""
    benchmark = dataset[path]
    content = benchmark.content
    again = benchmark.recompiled(("-DUNUSED",))
    assert again is not None and is_bitcode(content) and again.content == content
    return content


def test_a_function_of_anghabench_is_compiled_once(make: Callable[[str], Any], logging_clang: LoggingClang) -> None:
    dataset = make("anghabench-v1")
    assert len(dataset) == 2 and logging_clang.runs == 0
    benchmark = dataset["curl/lib/extr_list.c_drop"]
    assert not dataset.installed
    content = benchmark.content
    assert b"undeclared" in content and logging_clang.runs == 1
    assert [(source.filename, source.contents.decode()) for source in benchmark.sources] == [("function.c", FUNCTION)]
    assert dataset["curl/lib/extr_list.c_drop"].content == content
    with pytest.raises(BenchmarkInitError, match="is missing; uninstall"):
        assert dataset["curl/lib/none"].content


def test_without_a_manifest_all_sources_are_listed(
    make: Callable[[str], Any], published_server: PublishedServer
) -> None:
    """That it is gone is an error, for else numbers would mean other programs; but one can do without it."""
    dataset = make("anghabench-v1")
    published_server.withdraw("anghabench-v1-manifest.bz2")
    with pytest.raises(DownloadError, match="manifest"):
        dataset.install()
    assert not dataset.installed
    listed = AnghaBenchDataset(urls=dataset.urls, sha256=dataset.sha256, manifest_urls=())
    assert listed.size == 1 and listed.uri_at(0).path == "curl/lib/extr_list.c_drop" and listed.installed
    assert is_bitcode(listed["curl/lib/extr_list.c_drop"].content)


def test_a_program_of_chstone_has_all_its_files(make: Callable[[str], Any]) -> None:
    dataset = make("chstone-v0")
    assert dataset.size == 12 and dataset.uri_at(10).path == "motion" and not dataset.installed
    assert b"bits" in compiled(dataset, "motion")
    assert [source.filename for source in dataset["motion"].sources] == ["mpeg2.c", "getbits.c", "global.h"]


def test_what_does_not_compile_is_an_error_with_the_words_of_clang(make: Callable[[str], Any]) -> None:
    with pytest.raises(BenchmarkInitError) as caught:
        assert make("chstone-v0")["sha"].content
    assert "sha_driver.c:1:21: error: expected expression" in caught.value.diagnostics


@pytest.mark.slow
@pytest.mark.parametrize("path", ["1/1000", "104/2"])
def test_programs_of_poj104_are_repaired(make: Callable[[str], Any], path: str) -> None:
    dataset = make("poj104-v1")
    content = dataset[path].content
    assert b"source.cc" in content and (b"gets" in content) == (path == "1/1000")
    (source,) = dataset[path].sources
    assert (source.filename, source.contents.decode("latin-1")) == (
        "source.cc",
        ARCHIVES["poj104-v1"][1][f"ProgramData/{path}.txt"],
    )


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (b"void main(){}", b"int main(){}"),
        (b"void  main(){}", b"int main(){}"),
        (b"main(){}", b"int main(){}"),
        (b"#include <stdio.h>\nmain(){}", b"#include <stdio.h>\nint main(){}"),
        (b"#define N n\r\nmain(){}", b"#define N n\r\nint main(){}"),
        (b"int x;\n\n// the\nmain(){}", b"int x;\n\n// the\nint main(){}"),
        (b"int\nmain(){}", b"int\nmain(){}"),
        (b"int f();\nint main(){}", b"int f();\nint main(){}"),
        (b"int mainly;\nmainly_();", b"int mainly;\nmainly_();"),
    ],
)
def test_main_returns_an_int(source: bytes, expected: bytes) -> None:
    assert repaired(source) == PRELUDE + expected


def test_other_compilers_get_the_sources_as_they_were_published(publish: Callable[[str], Any]) -> None:
    dataset = publish("anghabench-v1")
    benchmark = dataset["curl/lib/extr_list.c_drop"].source_form
    assert not dataset.installed
    tree = dataset["curl/lib/extr_list.c_drop"].source_tree
    assert dataset.installed and benchmark.content == tree.encode()
    assert tree.files == {"extr_list.c_drop.c": FUNCTION.encode()} and tree.flags == ("-std=gnu17", "-fpermissive")

    tree = publish("chstone-v0")["motion"].source_tree
    assert tree.units == ("mpeg2.c",) and set(tree.files) == {"mpeg2.c", "global.h", "getbits.c"}

    tree = publish("poj104-v1")["104/2"].source_tree
    assert tree.files["source.cc"].startswith(PRELUDE)
    assert (tree.language, tree.flags) == ("c++", ("-std=c++11",))

    with pytest.raises(BenchmarkInitError, match="sources are not known"):
        assert publish("clgen-v0")["a-1"].source_form.content


@pytest.mark.few(1)
@pytest.mark.needs("gcc")
@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("anghabench-v1", "curl/lib/extr_list.c_drop"),
        ("chstone-v0", "motion"),
        ("jotai-runnable-v0", "extr_sum_Final"),
        ("poj104-v1", "1/1000"),
        ("poj104-v1", "104/2"),
    ],
)
def test_published_sources_compile_with_gcc(
    publish: Callable[[str], Any], tmp_path: Path, name: str, path: str
) -> None:
    tree = publish(name)[path].source_tree
    for file, content in tree.files.items():
        (tmp_path / file).write_bytes(content)
    words = ["gcc", *tree.flags, "-w", "-x", tree.language, "-c", *tree.units, "-o", "program.o"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
async def test_a_runnable_function_of_jotai_is_validated(make: Callable[[str], Any]) -> None:
    dataset = make("jotai-runnable-v0")
    assert dataset.validatable
    async with aiocg.Runtime(workers=1, datasets=Datasets([dataset])) as runtime:
        env = await runtime.make("llvm-v0", benchmark="jotai-runnable-v0/extr_sum_Final", action_space="Pipelines")
        await env.reset()
        if not await env.observe("IsRunnable"):
            pytest.skip("programs cannot be linked with the C library of this machine")
        await env.step("Oz")
        (run,) = await env.observe("Execution")
        assert (run["stdout"]["head"], run["problem"]) == ("5050\n", "")
        result = await env.validate(sanitizers=["ubsan"])
        assert result.okay() and result.benchmark_semantics_validated, result.errors


@pytest.mark.slow
async def test_a_kernel_of_clgen_is_for_another_machine(make: Callable[[str], Any]) -> None:
    dataset = make("clgen-v0")
    assert compiled(dataset, "a-1") == dataset["a-1"].content
    assert [source.filename for source in dataset["a-1"].sources] == ["kernel.cl"]
    async with aiocg.Runtime(workers=1, datasets=Datasets([dataset])) as runtime:
        env = await runtime.make("llvm-v0", benchmark="clgen-v0/a-1", action_space="Pipelines")
        await env.reset()
        ir, before = await env.observe("Ir", "IrInstructionCount")
        assert 'target triple = "nvptx64-nvidia-nvcl"' in ir and "@_Z3fmafff" in ir and "addrspace(1)" in ir
        await env.step("Oz")
        assert await env.observe("IrInstructionCount") < before
    dataset.uninstall()
    assert not dataset.site_data_path.exists()
