"""What a worker does while no request waits."""

import asyncio

import aiocg


async def test_state_that_a_step_led_to_is_parsed_ahead() -> None:
    async with aiocg.Runtime(workers=1) as runtime:
        env = await runtime.make("llvm-v0", benchmark="programs-v0/gcd")
        await env.reset()
        info = (await env.step("mem2reg"))[4]
        assert not info["action_had_no_effect"]
        for _ in range(3000):  # the reply goes out before
            (counts,) = await runtime.statistics()
            if counts["modules_kept"]:
                return
            await asyncio.sleep(0.01)
    raise AssertionError("nothing was parsed ahead")
