"""The page in a real browser: the system's Chromium, driven by Playwright; nothing but this machine is asked for."""

import re
import urllib.parse
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import aiocg
from aiocg.datasets.toolchain import find_toolchain
from aiocg.web._programs import box_exists

pytest.importorskip("nicegui")
playwright = pytest.importorskip("playwright.async_api", reason="needs Playwright: pip install playwright")
expect = playwright.expect

CHROMIUM = next((path for path in ("/usr/bin/chromium", "/usr/bin/chromium-browser") if Path(path).exists()), None)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium"),
]
OPTIONS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
C = "int f(int n) { int s = 0; for (int i = 0; i < n; i++) s += i; return s; }"
PATIENCE = 30_000  # milliseconds; how fast the page is, is not tested here


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, serving: Callable[..., Any]) -> Iterator[Any]:
    """The Explorer of gcd."""
    server = serving(tmp_path_factory.mktemp("t"), "programs-v0/gcd")
    yield server
    server.stop()


@pytest_asyncio.fixture
async def browser(server: Any) -> AsyncIterator[Any]:
    """A browser without any past; it may ask for nothing but the server."""
    asked: list[str] = []
    broken: list[str] = []
    async with playwright.async_playwright() as driver:
        chromium = await driver.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        context = await chromium.new_context(viewport={"width": 1200, "height": 800})
        context.set_default_timeout(PATIENCE)
        expect.set_options(timeout=PATIENCE)
        context.on("request", lambda request: asked.append(request.url))
        context.on("weberror", lambda error: broken.append(str(error.error)))
        yield context
        await chromium.close()
    hosts = {urllib.parse.urlsplit(url).netloc for url in asked if not url.startswith(("data:", "blob:"))}
    assert hosts == {urllib.parse.urlsplit(server.address).netloc}
    assert broken == []


@pytest.fixture
def opened(browser: Any, server: Any) -> Callable[..., Any]:
    """Open a page of a new session, or of the one at an address."""

    async def open(address: str = server.address) -> Any:
        page = await browser.new_page()
        await page.goto(address)
        await expect(page.locator("[data-action]").first).to_be_visible()
        return page

    return open


async def apply(page: Any, action: str, node: int) -> None:
    """Click on an action when the gains of the present state are known, and wait for its node."""
    await expect(page.get_by_label("computing gains")).to_be_hidden()
    await page.locator(f'[data-action="{action}"]').click()
    await expect(page.locator(f'[data-node="{node}"][aria-current]')).to_be_visible()


async def cost(page: Any) -> int:
    """Return the cost that the page shows."""
    text = await page.get_by_test_id("cost").inner_text()
    found = re.match(r"IrInstructionCount ([\d,]+)", text)
    assert found is not None, text
    return int(found[1].replace(",", ""))


async def test_a_step_shows_its_node_and_difference_and_undo_takes_it_back(opened: Callable[..., Any]) -> None:
    page = await opened()
    before = await cost(page)
    gain = await page.locator('[data-action="mem2reg"] .gain').inner_text()
    await apply(page, "mem2reg", 1)
    assert await cost(page) == before - int(gain)
    await expect(page.get_by_test_id("diff").locator(".del").first).to_contain_text("alloca")
    await page.get_by_role("tab", name="Functions").click()
    await expect(page.get_by_role("cell", name="main", exact=True)).to_be_visible()
    await page.get_by_role("tab", name="Chart").click()
    await expect(page.locator("canvas").first).to_be_visible()
    await page.get_by_role("tab", name="Tree").click()
    await page.get_by_role("button", name="Undo (u)").click()
    await expect(page.locator('[data-node="0"][aria-current]')).to_be_visible()
    assert await cost(page) == before
    await page.locator('[data-node="1"]').click()
    await expect(page.locator('[data-node="1"][aria-current]')).to_be_visible()


async def test_actions_are_filtered_and_those_without_effect_are_hidden(opened: Callable[..., Any]) -> None:
    page = await opened()
    shown = await page.locator("[data-action]").count()
    await page.keyboard.press("/")
    await expect(page.get_by_test_id("filter")).to_be_focused()
    await page.keyboard.type("gvn")
    await expect(page.locator('[data-action="mem2reg"]')).to_have_count(0)
    await expect(page.locator('[data-action="gvn"]')).to_have_count(1)
    await page.get_by_test_id("filter").fill("")
    await page.get_by_role("checkbox", name="no-ops").click()
    await expect(page.locator('[data-action="globaldce"]')).to_have_count(1)
    assert await page.locator("[data-action]").count() > shown


async def test_keys_do_what_buttons_do(opened: Callable[..., Any]) -> None:
    page = await opened()
    first = page.locator("[data-action]").first
    await first.focus()
    await page.keyboard.press("Enter")
    await expect(page.locator('[data-node="1"][aria-current]')).to_be_visible()
    await expect(page.get_by_label("computing gains")).to_be_hidden()
    await expect(page.locator("[data-action]:focus")).to_have_count(1)  # the list is another, and one goes on in it
    await page.keyboard.press("u")
    await expect(page.locator('[data-node="0"][aria-current]')).to_be_visible()
    await page.keyboard.press("c")
    await expect(page.get_by_text("aiocg shell --env llvm-ic-v0")).to_be_visible()
    await page.keyboard.press("Escape")
    await page.locator('[data-node="0"]').focus()
    await page.keyboard.press("ArrowDown")
    await expect(page.locator('[data-node="1"]')).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.locator('[data-node="1"][aria-current]')).to_be_visible()
    unnamed = await page.evaluate(
        "[...document.querySelectorAll('button, input, [role=button]')]"
        ".filter(e => e.offsetParent && !(e.ariaLabel || e.innerText.trim() || e.closest('label, [aria-label]')))"
        ".map(e => e.outerHTML.slice(0, 200))"
    )
    assert unnamed == []


async def test_a_killed_worker_is_told_and_takes_nothing(opened: Callable[..., Any], server: Any) -> None:
    page = await opened()
    await apply(page, "mem2reg", 1)
    for worker in server.workers():
        worker.kill()
    await expect(page.get_by_text("a worker died").first).to_be_visible()
    await apply(page, "simplifycfg", 2)
    await page.get_by_role("button", name="Undo (u)").click()
    await expect(page.locator('[data-node="1"][aria-current]')).to_be_visible()


async def test_a_session_outlasts_a_reload_and_is_the_same_in_two_tabs(opened: Callable[..., Any]) -> None:
    page = await opened()
    await apply(page, "mem2reg", 1)
    await page.reload()
    await expect(page.locator('[data-node="1"][aria-current]')).to_be_visible()
    other = await opened(page.url)
    await apply(other, "gvn", 2)
    await expect(page.locator('[data-node="2"][aria-current]')).to_be_visible()
    async with page.context.expect_page() as opening:
        await page.get_by_role("button", name="Fork into a new tab (f)").click()
    fork = await opening.value
    await expect(fork.locator('[data-node="2"][aria-current]')).to_be_visible()
    assert fork.url != page.url
    await fork.get_by_role("button", name="Undo (u)").click()
    await expect(fork.locator('[data-node="1"][aria-current]')).to_be_visible()
    await expect(page.locator('[data-node="2"][aria-current]')).to_be_visible()


async def test_a_program_can_be_pasted_and_what_is_wrong_with_it_is_told(opened: Callable[..., Any]) -> None:
    page = await opened()
    await page.get_by_role("button", name="Choose a program (o)").click()
    await page.get_by_label("or paste a program").fill("int f( {")
    await page.get_by_role("button", name="compile").click()
    problem = page.get_by_role("alert")
    await expect(problem).to_contain_text("error:")
    assert len((await problem.inner_text()).splitlines()) > 2
    await expect(page.locator(".q-notification")).to_have_count(0)
    assert await problem.evaluate("label => label.closest('[role=dialog], .q-dialog') !== null")
    await page.get_by_label("or paste a program").fill(C)
    await page.get_by_role("button", name="compile").click()
    await expect(page.get_by_text("user-v0/program.c")).to_be_visible()
    await expect(page.locator('[data-action="mem2reg"]')).to_be_visible()


@pytest.mark.parametrize("dark", [False, True])
async def test_gains_can_be_read_in_the_light_and_in_the_dark(opened: Callable[..., Any], dark: bool) -> None:
    page = await opened()
    if dark:
        await page.get_by_role("button", name="Light or dark (d)").click()
        await expect(page.locator("body.body--dark")).to_be_visible()
    shade = (
        "element => { const [r, g, b] = getComputedStyle(element).color.match(/[0-9.]+/g).map((part) => {"
        " const one = part / 255; return one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4; });"
        " return 0.2126 * r + 0.7152 * g + 0.0722 * b; }"
    )  # the relative luminance of WCAG 2
    found = await page.locator(".rows .win").first.evaluate(shade)
    paper = 0.006 if dark else 1.0  # of #121212 and white
    assert (max(found, paper) + 0.05) / (min(found, paper) + 0.05) > 4.5


async def test_oz_is_explained_and_one_goes_on_from_any_point(opened: Callable[..., Any]) -> None:
    page = await opened()
    await page.get_by_role("tab", name="Explain -Oz").click()
    await page.get_by_role("button", name="explain", exact=True).click()
    await expect(page.get_by_text("change the program; the others are hidden")).to_be_visible(timeout=120_000)
    await page.get_by_role("button", name="show what sroa<modify-cfg> changed").first.click()
    await expect(page.get_by_text(re.compile(r"what sroa.*, pass \d+ of -Oz, changed"))).to_be_visible()
    await expect(page.get_by_test_id("diff").locator(".del").first).to_contain_text("alloca")
    await page.get_by_role("button", name="go to the program after sroa<modify-cfg>").first.click()
    await expect(page.get_by_text("… → sroa changed")).to_be_visible()
    await page.get_by_role("tab", name="Tree").click()
    await apply(page, "simplifycfg", 3 if find_toolchain().major >= 23 else 2)  # which marks functions first


async def test_a_search_is_watched_and_one_goes_on_from_its_best(opened: Callable[..., Any]) -> None:
    page = await opened()
    await page.get_by_role("tab", name="Search").click()
    await page.get_by_role("button", name="start", exact=True).click()
    await expect(page.get_by_test_id("search")).to_contain_text("at the end", timeout=120_000)
    said = await page.get_by_test_id("search").inner_text()
    found = re.search(r"lowest cost ([\d,]+) at the end; ([\d,]+) evaluated, ([\d,]+) nodes", said)
    assert found is not None and int(found[3].replace(",", "")) > 20
    await expect(page.get_by_test_id("cost")).to_have_text(f"IrInstructionCount {found[1]}")
    await page.get_by_role("tab", name="Tree").click()
    await expect(page.locator("[data-node][aria-current]")).to_be_visible()
    await expect(page.locator('[data-node^="more-"]').first).to_be_visible()
    await page.get_by_role("tab", name="Search").click()
    await page.get_by_role("combobox", name="search").click()
    await page.get_by_role("option", name="random").click()
    await page.get_by_role("spinbutton", name="seconds").fill("100")
    await page.get_by_role("button", name="start", exact=True).click()
    await searched(page, "random:", 50)
    await page.get_by_role("button", name="pause", exact=True).click()
    await expect(page.get_by_test_id("search")).to_contain_text("random: lowest cost")
    await expect(page.get_by_test_id("search")).to_contain_text("at the end")
    paused = await evaluated(page)
    await page.get_by_role("button", name="Undo (u)").click()  # by hand, meanwhile
    await page.get_by_role("button", name="go on", exact=True).click()
    await searched(page, "random:", paused)
    await page.get_by_role("button", name="pause", exact=True).click()
    await expect(page.get_by_test_id("search")).to_contain_text("at the end")
    await page.get_by_role("checkbox", name="from here").click()
    await page.get_by_role("button", name="start", exact=True).click()
    await searched(page, "random from node", 0)
    await page.get_by_role("button", name="pause", exact=True).click()
    await expect(page.get_by_test_id("search")).to_contain_text("at the end")
    await page.get_by_role("button", name="compare").click()
    await page.get_by_role("combobox", name="one").click()
    await page.get_by_role("option", name="1 greedy").click()
    await expect(page.get_by_test_id("compared").locator(".del, .add").first).to_be_visible()
    assert await page.locator(".q-notification").all_inner_texts() == []
    await page.get_by_role("button", name="close", exact=True).click()


async def searched(page: Any, name: str, count: int) -> None:
    """Wait until a search has evaluated more than so many candidates."""
    await page.wait_for_function(
        "([name, count]) => { const said = document.querySelector('[data-testid=search]').innerText;"
        " return said.startsWith(name) && said.match(/([0-9,]+) evaluated/)[1].replaceAll(',', '') > count; }",
        arg=[name, count],
    )


async def evaluated(page: Any) -> int:
    """Return how many candidates the search says it has evaluated."""
    found = re.search(r"([\d,]+) evaluated", await page.get_by_test_id("search").inner_text())
    assert found is not None
    return int(found[1].replace(",", ""))


async def test_a_search_goes_on_when_workers_are_killed(opened: Callable[..., Any], server: Any) -> None:
    page = await opened()
    await page.get_by_role("tab", name="Search").click()
    await page.get_by_role("combobox", name="search").click()
    await page.get_by_role("option", name="mcts", exact=True).click()
    await page.get_by_role("spinbutton", name="seconds").fill("100")
    await page.get_by_role("button", name="start", exact=True).click()
    await searched(page, "mcts:", 20)
    for worker in server.workers():
        worker.kill()
    await expect(page.get_by_text("a worker died").first).to_be_visible()
    await searched(page, "mcts:", await evaluated(page) + 100)
    await page.get_by_role("button", name="pause", exact=True).click()
    await expect(page.get_by_test_id("search")).to_contain_text("at the end")
    assert await cost(page) < 138


async def test_counts_and_assembly_follow_the_state(opened: Callable[..., Any]) -> None:
    page = await opened()
    await page.get_by_role("tab", name="Features").click()
    await expect(page.get_by_role("cell", name="AllocaCount")).to_have_count(0)  # as nothing has changed yet
    await page.get_by_role("checkbox", name="unchanged ones, too").click()
    await expect(page.get_by_role("cell", name="AllocaCount")).to_be_visible()
    await page.get_by_role("checkbox", name="unchanged ones, too").click()
    await apply_on(page, "mem2reg")
    row = page.locator("tr", has=page.get_by_role("cell", name="AllocaCount"))
    await expect(row).to_have_text(re.compile(r"AllocaCount\s*0\s*-\d+\s*-\d+"))
    await page.get_by_role("combobox", name="text").click()
    await page.get_by_role("option", name="assembly").click()
    await expect(page.get_by_test_id("diff").locator(".del").first).to_contain_text("rsp")
    await page.get_by_role("combobox", name="compared with").click()
    await page.get_by_role("option", name="nothing").click()
    await expect(page.get_by_test_id("diff")).to_contain_text("retq")
    await expect(page.get_by_test_id("diff").locator(".del")).to_have_count(0)


async def apply_on(page: Any, action: str) -> None:
    """Click on an action where the tree is not seen, and wait for what it has changed."""
    await expect(page.get_by_label("computing gains")).to_be_hidden()
    await page.locator(f'[data-action="{action}"]').click()
    await expect(page.get_by_text(f"what {action} changed")).to_be_visible()


async def test_a_link_is_the_state_itself(opened: Callable[..., Any], server: Any) -> None:
    page = await opened()
    await apply(page, "mem2reg", 1)
    await apply(page, "gvn", 2)
    link = await linked(page)
    assert link.startswith(f"{server.address}?env=llvm-ic-v0&benchmark=programs-v0/gcd&action=mem2reg")
    other = await opened(link)
    await expect(other.locator('[data-node="2"][aria-current]')).to_be_visible()
    assert "session=" in other.url and other.url != page.url
    await page.get_by_role("button", name="Choose a program (o)").click()
    await page.get_by_label("or paste a program").fill(C)
    await page.get_by_role("button", name="compile").click()
    await expect(page.get_by_text("user-v0/program.c")).to_be_visible()
    await apply(page, "mem2reg", 1)
    link = await linked(page)
    await other.goto(link)  # which may come from anybody, so one is asked first
    await expect(other.get_by_text("int f(int n)")).to_be_visible()
    if box_exists():
        await other.get_by_role("button", name="open", exact=True).click()
        await expect(other.locator('[data-node="1"][aria-current]')).to_be_visible()


async def linked(page: Any) -> str:
    """Return the link that the page offers to copy."""
    await page.keyboard.press("c")
    await page.get_by_role("button", name="copy link").wait_for()
    text: str = await page.get_by_text(re.compile(r"^http://.*\?env=")).inner_text()
    await page.keyboard.press("Escape")
    await page.get_by_role("button", name="copy link").wait_for(state="detached")
    return text.strip()


async def test_control_flow_is_drawn_and_follows_the_state(opened: Callable[..., Any]) -> None:
    page = await opened()
    await page.get_by_role("tab", name="CFG").click()
    boxes = page.get_by_test_id("picture").locator("svg rect.box")
    await expect(boxes.first).to_be_visible()
    before = await boxes.count()
    assert before > 3
    await page.locator('[data-action="simplifycfg"]').click()
    await expect(page.get_by_test_id("picture").locator("svg rect.box")).not_to_have_count(before)
    await page.get_by_role("checkbox", name="instructions").click()
    await expect(page.get_by_test_id("picture").locator("svg text", has_text="ret ").first).to_be_visible()
    for name in ("SVG", "dot"):
        async with page.expect_download() as saving:
            await page.get_by_role("link", name=name).and_(page.locator(":visible")).click()
        assert Path(await (await saving.value).path()).stat().st_size > 200


async def test_a_saved_state_is_opened_on_the_page(opened: Callable[..., Any], tmp_path: Path) -> None:
    page = await opened()
    rows = ["environment,benchmark,actions"]
    rows += [f"llvm-ic-v0,benchmark://programs-v0/gcd,{actions}" for actions in ("mem2reg gvn", "sroa")]
    for name, count in (("one.csv", 2), ("two.csv", 3)):
        (tmp_path / name).write_text("\n".join(rows[:count]) + "\n")
    await page.get_by_role("button", name="Choose a program (o)").click()
    await page.locator("input[type=file]").set_input_files(tmp_path / "one.csv")
    await expect(page.locator('[data-node="2"][aria-current]')).to_be_visible()
    await page.get_by_role("button", name="Choose a program (o)").click()
    await page.locator("input[type=file]").set_input_files(tmp_path / "two.csv")
    await page.get_by_role("button", name="open", exact=True).click()
    await expect(page.locator('[data-node="2"][aria-current]')).to_be_visible()


async def test_a_file_of_transitions_becomes_a_tree(opened: Callable[..., Any], tmp_path: Path) -> None:
    pytest.importorskip("zstandard")
    async with aiocg.Runtime(workers=1) as runtime:
        runtime.log_to(tmp_path / "seen.db")
        env = await runtime.make("llvm-ic-v0", benchmark="programs-v0/gcd")
        await env.reset()
        await env.expand_texts([["mem2reg"], ["sroa", "gvn"]])
    page = await opened()
    await page.get_by_role("button", name="Choose a program (o)").click()
    await page.locator("input[type=file]").set_input_files(tmp_path / "seen.db")
    await expect(page.locator('[data-node="0"][aria-current]')).to_be_visible()
    await expect(page.locator("[data-node]")).to_have_count(4)


async def test_old_lines_stand_beside_new_ones(opened: Callable[..., Any]) -> None:
    page = await opened()
    await apply(page, "mem2reg", 1)
    await page.get_by_role("checkbox", name="side by side").click()
    old, new = (
        page.get_by_test_id("diff").locator(".beside .del").first,
        page.get_by_test_id("diff").locator(".beside .at").first,
    )
    await expect(old).to_be_visible()
    left, whole = await old.bounding_box(), await new.bounding_box()
    assert left["width"] < whole["width"] * 0.6


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_it_is_usable_at_800_pixels(opened: Callable[..., Any], scheme: str) -> None:
    page = await opened()
    await page.emulate_media(color_scheme=scheme)
    await page.set_viewport_size({"width": 800, "height": 700})
    await expect(page.locator("body.body--dark")).to_have_count(int(scheme == "dark"))
    assert await page.evaluate("document.documentElement.scrollWidth") <= 800
    for _ in range(2):
        await page.keyboard.press("d")
        scheme = "light" if scheme == "dark" else "dark"
        await expect(page.locator("body.body--dark")).to_have_count(int(scheme == "dark"))
    for button in await page.locator("header button").all():
        box = await button.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 800 and box["y"] < 40
    await apply(page, "mem2reg", 1)
