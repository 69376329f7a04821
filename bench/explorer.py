"""Measures the Explorer in the system's Chromium: `python -m bench.explorer [WHAT...]`, all of it if nothing is named.

`page`: seconds until a page shows its actions. `click`: from a click on an action to its node, on all of programs-v0,
and the processor time of the page and of the server until all of the page shows it.
`sessions`: the same over HTTP, with twenty sessions on two workers, each acting once a second. `large`: a tree of
10,000 nodes. `watched`: processor time of a search that is watched and of one that is not, in turns. `screenshot` takes
the picture of docs/explorer.md. It needs Playwright and Chromium.
"""

import asyncio
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil

import aiocg
from aiocg import search
from aiocg.search import Budget
from aiocg.web._searching import LiveSearch
from aiocg.web._session import ExplorerSession
from aiocg.web.limits import Limits

CHROMIUM = "/usr/bin/chromium"
OPTIONS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run")
PROGRAM = "programs-v0/qsort"
PAGES, CLICKS = 10, 4
SESSIONS, ACTIONS, THINKING = 20, 15, 1.0
SHOWN, BRANCH = ("mem2reg", "gvn", "instcombine", "simplifycfg"), "gvn"  # on the picture; one is undone
LARGE = 9_900  # nodes, of the 10,000 that a session may have, as clicks make new ones
EVALUATIONS, TURNS = 4_000, 9  # of a search that is watched or not
PATIENCE = 100.0  # seconds for that
METRICS = ("TaskDuration", "ScriptDuration", "LayoutDuration", "RecalcStyleDuration")  # of Chromium
# From a click to the first frame in which its node is there and is the present one.
CLICK = """async action => {
  const before = document.querySelector('[aria-current]').dataset.node;
  const start = performance.now();
  document.querySelector(`[data-action="${CSS.escape(action)}"]`).click();
  while (document.querySelector('[aria-current]')?.dataset.node === before) {
    if (performance.now() - start > 60e3) throw new Error(`${action} leads nowhere`);
    await new Promise(requestAnimationFrame);
  }
  return performance.now() - start;
}"""


# Until the gains are known; looks seldom, since looking costs time of the page, too.
SETTLED = """async () => {
  const busy = document.querySelector('[aria-label="computing gains"]');
  while (busy.offsetParent !== null) await new Promise(done => setTimeout(done, 20));
}"""


def summary(values: list[float]) -> dict[str, float]:
    """Return the median, the 95th percentile and the most."""
    ordered = sorted(values)
    at = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
    return {"n": len(ordered), "median": statistics.median(ordered), "p95": at, "most": ordered[-1]}


@asynccontextmanager
async def served(*options: str) -> AsyncIterator[tuple[str, psutil.Process]]:
    """Serve the Explorer with two workers, and give its address and process."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            str(Path(sys.executable).parent / "aiocg"),
            "explore",
            "--no-browser",
            "--port",
            "0",
            "--workers",
            "2",
        ]
        process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True, cwd=folder)
        assert process.stdout is not None
        try:
            line = await asyncio.to_thread(process.stdout.readline)
            yield line.strip().removeprefix("explorer at "), psutil.Process(process.pid)
        finally:
            process.terminate()
            process.wait()
            process.stdout.close()


@asynccontextmanager
async def browsing() -> AsyncIterator[Any]:
    """Give a browser."""
    from playwright.async_api import async_playwright

    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=CHROMIUM, args=list(OPTIONS))
        yield browser
        await browser.close()


async def opened(browser: Any, address: str) -> tuple[Any, float]:
    """Open a page in a browser without any past; return it, and the seconds until it shows actions."""
    context = await browser.new_context(viewport={"width": 1400, "height": 900})
    context.set_default_timeout(120_000)
    page, started = await context.new_page(), time.monotonic()
    await page.goto(address)
    await page.locator("[data-action]").first.wait_for()
    return page, time.monotonic() - started


@asynccontextmanager
async def charged(page: Any, server: psutil.Process) -> AsyncIterator[dict[str, float]]:
    """Give the milliseconds of processor time that the page and the server spend meanwhile."""
    devtools = await page.context.new_cdp_session(page)
    await devtools.send("Performance.enable", {"timeDomain": "threadTicks"})

    async def now() -> dict[str, float]:
        metrics = (await devtools.send("Performance.getMetrics"))["metrics"]
        times = {one["name"]: one["value"] * 1000 for one in metrics if one["name"] in METRICS}
        used = server.cpu_times()
        return {**times, "server": (used.user + used.system) * 1000}

    spent: dict[str, float] = {}
    before = await now()
    yield spent
    spent |= {name: value - before[name] for name, value in (await now()).items()}
    await devtools.detach()


async def clicked(page: Any, server: psutil.Process, action: str) -> dict[str, float]:
    """Click on an action; return milliseconds to its node, and what was spent until all of the page shows it."""
    async with charged(page, server) as spent:
        took = await page.evaluate(CLICK, action)
        await page.evaluate(SETTLED)
    return {"milliseconds": took, **spent}


def summaries(values: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    """Return the summary of each kind of number."""
    return {name: summary([one[name] for one in values]) for name in values[0]}


async def measure_page() -> Any:
    """Measure how long a page takes."""
    seconds = []
    async with served(PROGRAM) as (address, _), browsing() as browser:
        for _ in range(PAGES):
            page, took = await opened(browser, address)
            seconds.append(took)
            await page.context.close()
    return {"seconds": summary(seconds), "first": seconds[0]}


async def measure_click() -> Any:
    """Measure how long it takes from a click to its node, and what it costs until gains are known, on all programs."""
    found: dict[str, list[dict[str, float]]] = {}
    chance = random.Random(0)
    async with (
        served(PROGRAM) as (address, server),
        browsing() as browser,
        httpx.AsyncClient(base_url=address, timeout=60) as client,
    ):
        listed = (await client.get("/datasets", params={"prefix": "programs-v0/"})).json()["items"]
        for program in [one["name"] for one in listed]:
            page, _ = await opened(browser, f"{address}?benchmark={program}")
            found[program] = []
            for _ in range(CLICKS):
                await page.get_by_label("computing gains").wait_for(state="hidden")
                rows = await page.locator("[data-action]").all()
                action = await chance.choice(rows[:30]).get_attribute("data-action")
                found[program].append(await clicked(page, server, action))
            await page.context.close()
    slowest = max(found, key=lambda program: statistics.median(one["milliseconds"] for one in found[program]))
    return {
        **summaries([one for values in found.values() for one in values]),
        "slowest": {slowest: summaries(found[slowest])["milliseconds"]},
    }


async def measure_sessions() -> Any:
    """Measure steps and gains of twenty sessions on two workers, over HTTP."""
    steps: list[float] = []
    gains: list[float] = []
    async with served(PROGRAM) as (address, _), httpx.AsyncClient(base_url=address, timeout=120) as client:
        listed = (await client.get("/datasets", params={"prefix": "programs-v0/"})).json()["items"]

        async def timed(into: list[float], path: str, body: Any = None) -> Any:
            started = time.monotonic()
            reply = await client.post(path, json=body)
            into.append((time.monotonic() - started) * 1000)
            reply.raise_for_status()
            return reply.json()

        async def visit(number: int) -> None:
            chance = random.Random(number)
            body = {"benchmark": listed[number % len(listed)]["name"]}
            path = f"/sessions/{(await client.post('/sessions', json=body)).json()['id']}"
            await asyncio.sleep(chance.random() * THINKING)
            for _ in range(ACTIONS):
                known = (await timed(gains, f"{path}/expand"))["gains"]
                await asyncio.sleep(THINKING)
                await timed(steps, f"{path}/step", {"actions": [chance.choice(known[:20])["action"]]})

        await asyncio.gather(*map(visit, range(SESSIONS)))
    return {"step milliseconds": summary(steps), "gains milliseconds": summary(gains)}


async def measure_large() -> Any:
    """Measure a page whose tree has 10,000 nodes, which a search has made."""
    async with served(PROGRAM) as (address, server), browsing() as browser:
        async with httpx.AsyncClient(base_url=address, timeout=120) as client:
            path = f"/sessions/{(await client.post('/sessions', json={'benchmark': PROGRAM})).json()['id']}"
            for name in ("random", "mcts", "beam", "greedy", "random"):
                await client.post(f"{path}/search", json={"name": name, "seconds": 100})
                while (await client.get(f"{path}/search")).json()["search"]["running"]:
                    await asyncio.sleep(0.5)
                    if (nodes := (await client.get(path)).json()["nodes"]) >= LARGE:
                        await client.delete(f"{path}/search")
                if nodes >= LARGE:
                    break
            await client.post(f"{path}/goto/0")
            started = time.monotonic()
            drawn = (await client.get(f"{path}/tree.svg")).content
            svg = time.monotonic() - started
        page, took = await opened(browser, f"{address}?session={path.rpartition('/')[2]}")
        clicks = []
        for _ in range(3 * CLICKS):
            if len(clicks) % CLICKS == 0:  # where no action gains anything, it may lead nowhere
                await page.locator('[data-node="0"]').click()
                await page.locator('[data-node="0"][aria-current]').wait_for()
            await page.get_by_label("computing gains").wait_for(state="hidden")
            gaining = page.locator("[data-action]").first
            clicks.append(await clicked(page, server, await gaining.get_attribute("data-action")))
        shown = await page.locator("[data-node]").count()
        started = time.monotonic()
        async with charged(page, server) as spent:
            await page.locator('[data-node^="more-"]').first.click()
            await page.wait_for_function(
                "count => document.querySelectorAll('[data-node]').length !== count", arg=shown
            )
        unfolded = time.monotonic() - started
    return {
        "nodes": nodes,
        "page seconds": took,
        "nodes shown": shown,
        "click": summaries(clicks),
        "unfold": {"milliseconds": unfolded * 1000, **spent},
        "svg seconds": svg,
        "svg bytes": len(drawn),
    }


def processor_time(process: psutil.Process) -> float:
    """Return the processor time of a process and of those that it has started."""
    times = [one.cpu_times() for one in (process, *process.children(recursive=True))]
    return sum(one.user + one.system for one in times)


async def measure_watched() -> Any:
    """Measure processor time for an evaluation: of a search alone, one that grows a tree, and one on an open page."""
    costs: dict[str, list[float]] = {"alone": [], "in a tree": [], "served": [], "on a page": []}
    ours = psutil.Process()
    async with aiocg.Runtime(workers=1) as runtime:  # of two, a search with a tree may use one, and one alone both

        async def alone() -> int:
            async with await runtime.make("llvm-ic-v0", benchmark=PROGRAM, reward_space="IrInstructionCount") as env:
                return (await search.random(env, budget=Budget(evaluations=EVALUATIONS))).evaluations

        async def in_a_tree() -> int:
            session = await ExplorerSession.open(runtime, "llvm-ic-v0", benchmark=PROGRAM, limits=Limits())
            live = LiveSearch(session)
            with session.events() as events:
                live.start("random", PATIENCE)
                while (await events.get()).get("evaluations", 0) < EVALUATIONS:
                    pass
                await live.pause()
            await live.close()
            await session.close()
            assert live.last is not None and not live.last.error, live.last
            return live.last.evaluations

        runs = {"alone": alone, "in a tree": in_a_tree}
        await alone()  # so that the worker remembers what it is asked
        for turn in range(TURNS):
            for name in list(runs)[:: 1 if turn % 2 else -1]:
                before = processor_time(ours)
                evaluations = await runs[name]()
                costs[name].append((processor_time(ours) - before) / evaluations * 1e6)
    async with (
        served(PROGRAM) as (address, server),
        browsing() as browser,
        httpx.AsyncClient(base_url=address, timeout=120) as client,
    ):
        for turn in range(-1, TURNS):
            for name in ("served", "on a page")[:: 1 if turn % 2 else -1]:
                path = f"/sessions/{(await client.post('/sessions', json={'benchmark': PROGRAM})).json()['id']}"
                page = None
                if name == "on a page":
                    page, _ = await opened(browser, f"{address}?session={path.rpartition('/')[2]}")
                    await page.get_by_label("computing gains").wait_for(state="hidden")
                before = processor_time(server)
                await client.post(f"{path}/search", json={"name": "random", "seconds": PATIENCE})
                evaluations = 0
                while evaluations < EVALUATIONS:
                    await asyncio.sleep(0.2)
                    evaluations = (await client.get(f"{path}/search")).json()["search"]["evaluations"]
                took = processor_time(server) - before  # without the end, after which a page shows another state
                costs[name] += [took / evaluations * 1e6] if turn >= 0 else []
                await client.delete(f"{path}/search")
                if page is not None:
                    await page.context.close()
                await client.delete(path)
    middle = {name: statistics.median(values) for name, values in costs.items()}
    return {
        "microseconds for an evaluation": costs,
        "slower in a tree": middle["in a tree"] / middle["alone"] - 1,
        "slower on a page": middle["on a page"] / middle["served"] - 1,
    }


async def screenshot() -> Any:
    """Take the picture of the documentation."""
    async with served(PROGRAM) as (address, _), browsing() as browser:
        context = await browser.new_context(viewport={"width": 1280, "height": 760})
        page = await context.new_page()
        await page.goto(address)
        for action in SHOWN:
            await page.locator(f'[data-action="{action}"]').click()
            await page.get_by_text(f"what {action} changed").wait_for()
            await page.get_by_label("computing gains").wait_for(state="hidden")
            if action == BRANCH:
                await page.get_by_role("button", name="Undo (u)").click()
                await page.get_by_text(f"what {action} changed").wait_for(state="detached")
                await page.get_by_label("computing gains").wait_for(state="hidden")
        await page.mouse.move(0, 0)
        await page.screenshot(path="docs/explorer.png")
    return "docs/explorer.png"


MEASURES: dict[str, Callable[[], Awaitable[Any]]] = {
    "page": measure_page,
    "click": measure_click,
    "sessions": measure_sessions,
    "large": measure_large,
    "watched": measure_watched,
    "screenshot": screenshot,
}


def main() -> None:
    """Measure what is named, and print it."""
    for name in sys.argv[1:] or MEASURES:
        print(json.dumps({name: asyncio.run(MEASURES[name]())}, indent=1), flush=True)


if __name__ == "__main__":
    main()
