"""What is published where: the same as in the sources of CompilerGym 0.2.5, out of the wheel in the package index."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from aiocg.datasets import Datasets, DownloadError
from aiocg.datasets.package_index import Wheel, fetch_members
from aiocg.datasets.published import published_datasets
from aiocg.datasets.published._sources import PRELUDE, CLgenDataset
from aiocg.datasets.published.cbench import COMMANDS, CBenchDataset, _program_of
from aiocg.datasets.tar import TarDataset, TarDatasetWithManifest

FOLDER = "compiler_gym-0.2.5.data/purelib/compiler_gym/envs/llvm/datasets/"
NAMES = "compiler_gym-0.2.5.data/purelib/compiler_gym/third_party/cbench/benchmarks.txt"
WHEEL = Wheel(
    "compiler_gym-0.2.5-py3-none-manylinux2014_x86_64.whl",
    "49a335c925ccc493c2e1b801867986982f0c7dd500041775fa6b3247b1d54ccf",
    {
        f"{FOLDER}__init__.py": "d13fdec97c55bdaf73ba5c1e5448176ae58f5a912c6015209afa5009b92e9c1e",
        f"{FOLDER}anghabench.py": "d98d340d16d65ee21fa491d4a2e434edff884dde8615f860342c1d6e19135e3b",
        f"{FOLDER}cbench.py": "e6337c70f9a3e83abc8f54d9b4193e7ba51fe853a555fa78e472b2fc87920d88",
        f"{FOLDER}chstone.py": "9bb05b1fe49519f2e1e26ecbb02ac6a5d18291afd292451cd16803376edc52f4",
        f"{FOLDER}clgen.py": "d093719ae1c98148296374a9970ec16539627f8bd6c1f4f968018ebaaf3c974b",
        f"{FOLDER}jotaibench.py": "ca208b7465631820905e098a419a033eab60d641b38410901a0f99f8989d0b0d",
        f"{FOLDER}poj104.py": "4b5b319f6f0ea74fed4dcd06556c47fe12009ae5d580d05ebf3dbee1c54ada63",
        NAMES: "5b03de3c7be17334d6e9769afe6421b712884ea70f98dcbe5653964b3b9e5919",
    },
)
SIZES = {  # from the documentation of CompilerGym
    "anghabench-v1": 1041333,
    "blas-v0": 300,
    "cbench-v1": 23,
    "chstone-v0": 12,
    "clgen-v0": 996,
    "github-v0": 49738,
    "jotaibench-v0": 18761,
    "linux-v0": 13894,
    "mibench-v1": 40,
    "npb-v0": 122,
    "opencv-v0": 442,
    "poj104-v1": 49816,
    "tensorflow-v0": 1985,
}
OLD_SIZES = {"anghabench-v0": 1042976, "cBench-v0": 23, "cBench-v1": 23, "mibench-v0": 40, "poj104-v0": 49628}
DATASETS = {dataset.name: dataset for dataset in published_datasets()}
TARS = {name: dataset for name, dataset in DATASETS.items() if isinstance(dataset, TarDataset)}


@pytest.fixture(scope="module")
def sources() -> str:
    """All modules together."""
    try:
        return "\n".join(path.read_text() for path in fetch_members(WHEEL).values() if path.suffix == ".py")
    except DownloadError as error:
        pytest.skip(f"the package index does not give it: {error}")


def checksums(text: str) -> dict[str, set[str]]:
    """Return the addresses that stand before each checksum, as far back as the one before."""
    found: dict[str, set[str]] = {}
    addresses: set[str] = set()
    for literal in re.findall(r'"(https?://[^"]+|[0-9a-f]{64})"', text):
        if literal.startswith("http"):
            addresses.add(literal)
        else:
            found.setdefault(literal, set()).update(addresses)
            addresses = set()
    return found


def words(text: str) -> str:
    """Return a text without its breaks into lines and literals."""
    return re.sub(r'"\s*"', "", text)


@pytest.mark.parametrize("name", TARS)
def test_addresses_and_checksums_are_those_of_compilergym(name: str, sources: str) -> None:
    dataset, known = TARS[name], checksums(sources)
    assert dataset.urls[0] in known[dataset.sha256]
    if isinstance(dataset, TarDatasetWithManifest):
        assert dataset.manifest_urls[0] in known[dataset.manifest_sha256] and "macos" not in dataset.manifest_urls[0]
    if isinstance(dataset, CBenchDataset):
        assert dataset.input_urls[0] in known[dataset.input_sha256]
    if isinstance(dataset, CLgenDataset):
        assert all(urls[0] in known[sha256] for urls, sha256 in (dataset.library, dataset.header))
    assert "macos" not in dataset.urls[0] and len(set(dataset.urls)) == len(dataset.urls)


@pytest.mark.parametrize("name", TARS)
def test_what_is_said_of_a_dataset_is_what_compilergym_said(name: str, sources: str) -> None:
    dataset, text = TARS[name], words(sources)
    assert f'"benchmark://{name}"' in text
    assert f'strip_prefix="{dataset.strip_prefix}"' in text
    assert f'description="{dataset.description}"' in text and f'license="{dataset.license}"' in text
    for title, address in dataset.references.items():
        assert f'"{title}": "{address}"' in text
    assert bool(dataset.deprecated) == (name in OLD_SIZES)


def test_all_datasets_are_there_with_their_sizes(sources: str) -> None:
    named = {name for name in re.findall(r'"benchmark://([\w-]+)"', sources)}
    assert named == set(DATASETS)
    for name, size in {**SIZES, **OLD_SIZES, "jotai-runnable-v0": 18761}.items():
        assert DATASETS[name].size == size
    assert set(DATASETS) == {*SIZES, *OLD_SIZES, "jotai-runnable-v0"}
    assert sum(SIZES.values()) == 1177462  # what the documentation says of all together


def test_the_programs_of_chstone_are_the_same(sources: str) -> None:
    names = re.findall(r'"benchmark://chstone-v0/(\w+)"', sources)
    assert [uri.path for uri in DATASETS["chstone-v0"].benchmark_uris()] == names and len(names) == 12
    files = dict(re.findall(r'"(\w+)": "(\w+\.c)"', sources))
    for name in names:
        assert TARS["chstone-v0"].file_of(name) == f"{name}/{files.get(name, f'{name}.c')}"


def test_the_constants_that_poj104_defines_are_the_same(sources: str) -> None:
    defined = set(re.findall(r"#define (\w+ \d+)", sources))
    assert len(defined) == 3 and set(re.findall(r"#define (\w+ \d+)", PRELUDE.decode())) == defined


def validators(text: str) -> Iterator[dict[str, Any]]:
    """Yield the arguments of each call of `validator`, with `{i}` where the number of the input stands."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "validator":
            yield {keyword.arg: value(keyword.value) for keyword in node.keywords if keyword.arg}


def value(node: ast.expr) -> Any:
    """Return what an expression says, a name by itself."""
    match node:
        case ast.Constant():
            return node.value
        case ast.JoinedStr():
            return "".join(part.value if isinstance(part, ast.Constant) else "{i}" for part in node.values)
        case ast.List():
            return [value(part) for part in node.elts]
        case ast.Dict():
            return {value(key): value(item) for key, item in zip(node.keys, node.values, strict=True) if key}
        case ast.Attribute():
            return node.attr
        case ast.Name():
            return node.id
    raise AssertionError(ast.dump(node))


@pytest.mark.usefixtures("sources")
def test_the_programs_of_cbench_are_the_same() -> None:
    listed = fetch_members(WHEEL)["benchmarks.txt"].read_text().split()
    assert [str(uri) for uri in DATASETS["cbench-v1"].benchmark_uris()] == listed and len(listed) == 23


@pytest.mark.usefixtures("sources")
def test_cbench_is_run_as_compilergym_ran_it() -> None:
    calls = list(validators(fetch_members(WHEEL)["cbench.py"].read_text()))
    assert len(calls) == 19  # bitcount has two
    seen: dict[str, int] = {}
    for call in calls:
        name = call["benchmark"].removeprefix("benchmark://cbench-v1/")
        command = COMMANDS[name][seen.get(name, 0)]
        seen[name] = seen.get(name, 0) + 1
        assert f"$BIN {command.arguments.replace('{n}', '{i}')}" == call["cmd"]
        assert list(command.outputs) == call.get("outs", [])
        assert dict(command.environment) == call.get("env", {})
        assert command.output_varies == (call.get("compare_output") is False)
        assert set(call.get("data", [])) <= {file.replace("1.", "{i}.", 1) for file in command.inputs(0)}
        if "sanitizers" in call:
            assert command.sanitizers is not None
            assert set(command.sanitizers) == {sanitizer.lower() for sanitizer in call["sanitizers"]}
        else:
            assert command.sanitizers is None or name == "sha"
    assert {name for name, commands in COMMANDS.items() if commands} == set(seen) and len(COMMANDS) == 23
    assert sorted(set(COMMANDS) - set(seen)) == ["adpcm", "ghostscript", "ispell", "lame", "rijndael"]


def test_a_program_of_cbench_has_its_inputs_by_number() -> None:
    def unexpected() -> Any:
        raise AssertionError("a file was asked for")

    program = _program_of("stringsearch", unexpected)
    assert list(program.runs) == [str(number) for number in range(20)]
    run = program.runs["4"]
    assert run.arguments == ("office_data/5.txt", "office_data/5.s.txt", "output.txt")
    assert list(run.files) == ["_finfo_dataset", "office_data/5.txt", "office_data/5.s.txt"]
    assert run.files["_finfo_dataset"] == b"1\n" and dict(run.output_files) == {"output.txt": None}
    assert [len(_program_of(name, unexpected).runs) for name in ("bitcount", "stringsearch2", "lame")] == [2, 1, 0]
    assert _program_of("bitcount", unexpected).runs["1"].arguments == ("512",)


def test_making_them_all_opens_no_file_and_imports_little() -> None:
    program = (
        "import sys\nfrom aiocg.datasets.published import published_datasets\n"
        "import aiocg.datasets.published._sources\n"
        "import aiocg.datasets.published._sources, aiocg.datasets.published.cbench\n"
        "opened = []\n"
        "sys.addaudithook(lambda event, arguments: opened.append(arguments) if event == 'open' else None)\n"
        "datasets = published_datasets()\n"
        "heavy = {'requests', 'rich', 'sqlite3', 'numpy', 'msgspec', 'tarfile'}\n"
        "print(len(datasets), opened, heavy & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True)
    assert done.stdout == "19 [] set()\n", done.stderr


def test_names_that_have_changed_are_still_understood() -> None:
    datasets = Datasets(published_datasets())
    assert not [dataset for dataset in datasets if dataset.deprecated]
    for name, better in (("cBench-v1", "cbench-v1"), ("mibench-v0", "mibench-v1"), ("poj104-v0", "poj104-v1")):
        with pytest.warns(DeprecationWarning, match=f"use {better}"):
            assert datasets[name].version == int(name[-1])
