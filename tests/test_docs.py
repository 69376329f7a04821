"""The documentation tells the truth: its code runs, its commands exist, its links hold, and every page can be found.

`docs_page` says how a page is run and how its blocks are marked.
"""

import importlib
import importlib.util
import inspect
import os
import re
import shlex
import shutil
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest
import typer

from .docs_page import C_LIBRARY, GCC, blocks, has_c_library, has_gcc

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
NAMES = [str(page.relative_to(ROOT / "docs")) for page in PAGES]
NAVIGATION = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
PUBLIC = (
    "aiocg",
    "aiocg.agents",
    "aiocg.compat",
    "aiocg.programs.corpus",
    "aiocg.datasets",
    "aiocg.errors",
    "aiocg.gcc",
    "aiocg.gym",
    "aiocg.gym.vector",
    "aiocg.gym.wrappers",
    "aiocg.gym.wrappers.vector",
    "aiocg.leaderboard",
    "aiocg.llvm",
    "aiocg.loops",
    "aiocg.search.metrics",
    "aiocg.validation.minimize",
    "aiocg.programs.project",
    "aiocg.registry",
    "aiocg.spaces.rewards",
    "aiocg.search",
    "aiocg.search.priors",
    "aiocg.cli.shell",
    "aiocg.spaces",
    "aiocg.states.files",
    "aiocg.telemetry",
    "aiocg.telemetry.metrics",
    "aiocg.testing",
    "aiocg.transitions",
    "aiocg.transitions.parquet",
    "aiocg.transitions.replay",
    "aiocg.validation",
)
MADE = {"contributing.md", "changelog.md", "examples/index.md", "reference/cli.md", "settings.md"}  # by docs/hooks.py


def has(page: Path, mark: str) -> bool:
    """Has a page a block with this mark that a reader can run?"""
    return any(block.mark == mark for block in blocks(page) if block.language == "python" or block.commands())


def run_page(place: Any, page: Path, *options: str) -> None:
    (place.folder / "examples").symlink_to(ROOT / "examples")
    place.environment["AIOCG_SITE_DATA"] = str(place.folder / "site-data")
    done = place.run(sys.executable, "-P", str(ROOT / "tests/docs_page.py"), str(page), *options)
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    assert "Traceback" not in done.stderr
    assert int(done.stdout.splitlines()[-1].split()[0]) > 0
    assert place.leftovers() == []
    assert place.processes() == []


NEEDS = {
    C_LIBRARY: (has_c_library, "needs the C library's headers (apt install libc6-dev)"),
    GCC: (has_gcc, "needs gcc (apt install gcc)"),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if any(has(page, mark) for mark in ("", *NEEDS))],
    ids=lambda page: page.stem,
)
def test_code_of_the_page_runs(page: Path, place: Any) -> None:
    needed = [mark for mark in NEEDS if has(page, mark)]
    if not has(page, "") and not any(NEEDS[mark][0]() for mark in needed):
        pytest.skip(", ".join(NEEDS[mark][1] for mark in needed))
    run_page(place, page)


@pytest.mark.slow
@pytest.mark.parametrize("page", [p for p in PAGES if has(p, "slow")], ids=lambda page: page.stem)
def test_slow_code_of_the_page_runs(page: Path, place: Any) -> None:
    run_page(place, page, "--slow")


def test_commands_of_all_pages_exist_with_their_options() -> None:
    """Those, too, that are not run: they stand indented, or need a network."""
    from aiocg.cli.app import app

    root: Any = typer.main.get_command(app)
    lines = {line for page in PAGES for block in blocks(page) for line in block.commands() if line[:6] == "aiocg "}
    for page in PAGES:
        lines |= set(re.findall(r"^(?: {4}|\$ )(aiocg [a-z].*)$", page.read_text(encoding="utf-8"), re.MULTILINE))
    assert len(lines) > 20
    for line in sorted(lines):
        if " -- " in line:
            line = line.replace("aiocg gcc ", "aiocg shrink --gcc ")  # which it stands for
        command, path = root, "aiocg"
        for word in shlex.split(line, comments=True)[1:]:
            if word == "--":
                break  # another command
            if word.startswith("-") and path != "aiocg cc":
                known = [option for one in command.params for option in (*one.opts, *one.secondary_opts)]
                assert word.partition("=")[0] in (*known, "--help"), f"{line}: {path} has no {word}; it has {known}"
            elif path == "aiocg search" and word not in command.commands:
                break  # a program, for the search that needs no name
            elif hasattr(command, "commands"):
                assert word in command.commands, f"{line}: {path} has no command {word}"
                command, path = command.commands[word], f"{path} {word}"


def test_every_page_is_in_the_navigation_and_everything_in_it_is_a_page() -> None:
    listed = re.findall(r"([\w/]+\.md)$", NAVIGATION, re.MULTILINE)
    assert sorted(listed) == sorted({*NAMES, *MADE})


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_links_between_pages_hold_with_their_anchors(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target, anchor in re.findall(r"\]\(([^)#:\s]*)(#[^)\s]*)?\)", text):
        file = (page.parent / target).resolve() if target else page
        if str(file).endswith(tuple(f"docs/{made}" for made in MADE)):
            continue
        assert file.exists(), f"{page.name} links to {target}"
        if anchor and file.parent.name != "reference":
            assert anchor[1:] in anchors(file), f"{page.name} links to {target}{anchor}"


def anchors(page: Path) -> set[str]:
    """Return the anchors that the site, and GitHub, make of a page's headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built without a warning."""
    if importlib.util.find_spec("mkdocs") is None:
        pytest.skip("needs mkdocs: pip install -e '.[docs]'")
    folder = tmp_path_factory.mktemp("site")
    build = ["-m", "mkdocs", "build", "--strict", "--config-file", str(ROOT / "mkdocs.yml"), "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run([sys.executable, "-P", *build], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 360])
def test_the_start_page_is_not_wider_than_a_small_screen(site: Path, width: int) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="needs Playwright: pip install playwright")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    with (
        playwright.sync_playwright() as driver,
        driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]) as browser,
    ):
        page = browser.new_page(viewport={"width": width, "height": 800})
        page.goto((site / "index.html").as_uri())
        wider = """() => [...document.querySelectorAll("article, article *, header, .md-tabs")]
            .filter(one => one.getBoundingClientRect().right > innerWidth)
            .filter(one => !one.closest("pre, .md-typeset__scrollwrap"))  // which scroll by themselves
            .map(one => one.outerHTML.slice(0, 80))"""
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(wider) == []


@pytest.mark.slow
def test_the_site_needs_no_network_to_be_read(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > len(PAGES)
    assert undocumented(site / "objects.inv") == set()
    for page in pages:
        loaded = re.findall(r'<(?:script|img|link)[^>]*(?:src|href)="(https?:[^"]*)"', page.read_text(encoding="utf-8"))
        assert loaded == [], f"{page.name} loads {loaded}"


def undocumented(inventory: Path) -> set[str]:
    """Return the public classes and functions that the site's inventory of names does not have."""
    lines = zlib.decompress(inventory.read_bytes().split(b"\n", 4)[4]).decode().splitlines()
    documented = {line.split()[0] for line in lines}
    missing = set()
    for module in map(importlib.import_module, PUBLIC):
        for value in (getattr(module, name) for name in getattr(module, "__all__", ())):
            if inspect.isclass(value) or inspect.isfunction(value):
                missing.add(f"{value.__module__}.{value.__qualname__}")
    return missing - documented - {"aiocg.gym._portal.Portal", "aiocg.gym._compilers.register_all"}


# ------------------------------------------------------------------------------------------ the tool that runs pages


@pytest.mark.slow
def test_wrong_block_fails_and_is_named_by_its_line_of_the_page(place: Any, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    setup, first, second = "<!-- test: setup\nx = 1\n-->", "```python\nx += 1\n```", "```python\nassert x == 1\n```"
    page.write_text(f"# Page\n\n{setup}\n\n{first}\n\n<!-- test: slow -->\n\n{second}\n\n{second}\n")
    command = (sys.executable, "-P", str(ROOT / "tests/docs_page.py"), str(page))
    failed = place.run(*command)
    assert failed.returncode == 1
    assert f'"{page}", line 18' in failed.stderr
    assert place.run(*command, "--slow").returncode == 0


@pytest.mark.slow
def test_await_may_stand_outside_of_functions_and_asyncio_run_may_be_called(place: Any, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```python\nimport asyncio\n\nawait asyncio.sleep(0)\n```\n\n```python\nasyncio.run(asyncio.sleep(0))\n```\n"
    )
    assert place.run(sys.executable, "-P", str(ROOT / "tests/docs_page.py"), str(page)).returncode == 0


@pytest.mark.parametrize("comment", ["<!-- test: sloww -->", "<!-- test: slow -->\n\ntext", "<!-- test: setup -->"])
def test_comment_that_marks_nothing_is_an_error(comment: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Page\n\n{comment}\n\n```python\nx = 1\n```\n")
    with pytest.raises(ValueError, match="no block follows it"):
        blocks(page)
