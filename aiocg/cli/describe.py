"""`aiocg envs` and `aiocg describe`: what environments there are, and what is in them."""

from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from aiocg.cli.loop import run
from aiocg.cli.output import Json, console, print_json
from aiocg.env import Env
from aiocg.registry import environments
from aiocg.runtime import Runtime
from aiocg.spaces import ActionSpace, ParametrizedActions, TargetedActions


def envs(json: Json = False) -> None:
    """List the environments.

    Example: aiocg envs
    """
    if json:
        print_json(
            {
                "environments": [
                    {
                        "id": spec.id,
                        "description": spec.description,
                        "benchmark": str(spec.benchmark),
                        "observation_space": spec.observation_space,
                        "reward_space": spec.reward_space,
                    }
                    for spec in environments().values()
                ]
            }
        )
        return
    table = Table("environment", "observation", "reward", "description", title="Environments")
    for column in table.columns[:3]:
        column.no_wrap = True
    for spec in environments().values():
        table.add_row(spec.id, spec.observation_space or "-", spec.reward_space or "-", spec.description)
    console.print(table)


def describe(
    environment: Annotated[str, typer.Argument(help="Id of the environment; `aiocg envs` lists them.")],
    action_space: Annotated[
        str | None, typer.Option(help="Action space whose actions to list, the first if none.", show_default=False)
    ] = None,
    json: Json = False,
) -> None:
    """Describe an environment: its action spaces and the actions of one, observation spaces and reward spaces.

    Example: aiocg describe llvm-v0 --action-space Pipelines
    """
    run(_describe(environment, action_space, json))


async def _describe(environment: str, action_space: str | None, json: bool) -> None:
    async with Runtime(workers=1) as runtime:
        env = await runtime.make(environment, action_space=action_space)
        if json:
            print_json(_as_json(env))
        else:
            _print_tables(env)


def _as_json(env: Env) -> dict[str, Any]:
    return {
        "id": env.spec.id,
        "description": env.spec.description,
        "compiler_version": env.compiler_version,
        "action_space": env.action_space.name,
        "actions": [_action_as_json(env.action_space, index) for index in range(len(env.action_space.names))],
        "action_spaces": [
            {
                "name": space.name,
                "kind": space.kind,
                "actions": len(space.names),
                "targets": space.targets_from or None,
                "space": _form(space),
                "description": space.description,
            }
            for space in env.action_spaces.values()
        ],
        "observation_spaces": [
            {
                "name": space.name,
                "space": repr(space.space),
                "deterministic": space.deterministic,
                "platform_dependent": space.platform_dependent,
                "description": space.description,
            }
            for space in env.observation_spaces.values()
        ],
        "reward_spaces": [
            {"name": reward.name, "deterministic": reward.deterministic, "description": reward.description}
            for reward in env.reward_spaces.values()
        ],
    }


def _form(space: ActionSpace) -> str:
    """Return the Gymnasium space that the form of the actions is."""
    if isinstance(space, TargetedActions):
        return f"MultiDiscrete([number of {space.targets_from}, {len(space.names)}])"
    if isinstance(space, ParametrizedActions):
        return f"MultiDiscrete({space.nvec.tolist()})"
    return f"Discrete({len(space.names)})" if space.names else "Text()"


def _action_as_json(space: ActionSpace, index: int) -> dict[str, Any]:
    described: dict[str, Any] = {"name": space.names[index], "description": space.descriptions[index]}
    if isinstance(space, ParametrizedActions):
        described["parameters"] = {one.name: list(one.choices) for one in space.actions[index].parameters}
    return described


def _print_tables(env: Env) -> None:
    console.print(f"[bold]{env.spec.id}[/]: {env.spec.description} ({env.compiler_version})")
    spaces = Table("action space", "kind", "actions", "description", title="Action spaces")
    for actions in env.action_spaces.values():
        spaces.add_row(actions.name, actions.kind, str(len(actions.names) or "any"), escape(actions.description))
    console.print(spaces)
    if env.action_space.names:
        _print_actions(env.action_space)
    observations = Table("observation space", "space", "deterministic", "description", title="Observation spaces")
    observations.columns[0].overflow = "fold"
    for space in env.observation_spaces.values():
        shown = repr(space.space)
        shown = shown if len(shown) <= 40 else shown[:37] + "..."
        deterministic = "yes" if space.deterministic else "no"
        observations.add_row(space.name, escape(shown), deterministic, escape(space.description))
    console.print(observations)
    rewards = Table("reward space", "description", title="Reward spaces")
    for reward in env.reward_spaces.values():
        rewards.add_row(reward.name, escape(reward.description))
    console.print(rewards)


def _print_actions(space: ActionSpace) -> None:
    parametrized = isinstance(space, ParametrizedActions)
    headings = ["index", "action", *(["parameters"] if parametrized else []), "description"]
    table = Table(*headings, title=f"Actions of {space.name} ({len(space.names)})")
    for index, name in enumerate(space.names):
        row = [str(index), escape(name), escape(space.descriptions[index])]
        if isinstance(space, ParametrizedActions):
            row.insert(2, escape("\n".join(" | ".join(one.choices) for one in space.actions[index].parameters)))
        table.add_row(*row)
    table.columns[1].overflow = "fold"
    console.print(table)
