"""Sessions that return what they should not: the error names the method and what was expected."""

import os

import pytest

import aiocg
from aiocg.errors import AiocgError, EnvClosed, ForkedProcess
from aiocg.testing import scripted_benchmark

WORDS = {
    "effect": "apply_action of the session returned 'yes'; expected True or False",
    "hash": "state_hash of the session returned 'seven'; expected an unsigned integer of 64 bits",
    "negative": "state_hash of the session returned -1; expected",
    "refusal": r"refused \udcff, as asked",
    "text": "get_observation of the session returned a value that cannot be sent; Observed.observations[0]",
    "object": "get_observation of the session returned a value that cannot be sent; Observed.observations[0]",
}


@pytest.mark.parametrize("lie", WORDS)
async def test_a_step_says_which_method_returned_what(runtime: aiocg.Runtime, lie: str) -> None:
    env, other = [await runtime.make("scripted-v0", benchmark=scripted_benchmark(5)) for _ in range(2)]
    for one in (env, other):
        await one.reset()
    before = runtime.worker_pids()
    _, _, terminated, _, info = await env.step_texts([f"lie<{lie}>"])
    assert terminated and WORDS[lie] in info["error_details"]
    assert runtime.worker_pids() == before and (await other.step("double"))[0] == 10
    assert (await env.reset())[0] == 5


@pytest.mark.parametrize("lie", ["effect", "hash"])
async def test_a_candidate_says_so_and_the_others_come_back(env: aiocg.Env, lie: str) -> None:
    lying, honest = await env.expand_texts([[f"lie<{lie}>"], ["double"]])
    assert WORDS[lie] in str(lying.error) and honest.observation == 10


async def test_a_fork_that_is_none_says_so(env: aiocg.Env) -> None:
    await env.step_texts(["lie<fork>"])
    child = await env.fork()
    with pytest.raises(AiocgError, match="fork of the session returned None; expected another session"):
        await child.observe("value")
    assert (await env.step("double"))[0] == 10


async def test_a_closed_environment_is_not_validated(env: aiocg.Env) -> None:
    await env.close()
    with pytest.raises(EnvClosed):
        await env.validate()


async def test_a_fork_of_the_process_is_told_whose_the_environment_is(env: aiocg.Env, runtime: aiocg.Runtime) -> None:
    child = os.fork()
    if not child:
        words = []
        for use in (env.step("double"), env.reset(), runtime.make("scripted-v0"), runtime.close()):
            try:
                use.send(None)
            except ForkedProcess as error:
                words.append(str(error))
            except BaseException as error:  # the test runner's must not go on here
                words.append(repr(error))
        os._exit(0 if all(f"belongs to process {os.getppid()}" in text for text in words) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0  # noqa: ASYNC222
    assert (await env.step("double"))[0] == 10
