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
from aiocg.spaces import ActionSpace, MappingActions, OptionActions, ParametrizedActions, TargetedActions
from aiocg.transport.options import Option

_LISTED = 400  # actions that are listed without being asked for


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
                        "settings": dict(spec.settings),
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

    Settings of an environment stand behind its id: `gcc-v0?gcc_bin=gcc-12`.

    Example: aiocg describe llvm-v0 --action-space Pipelines
    """
    run(_describe(environment, action_space, json))


async def _describe(environment: str, action_space: str | None, json: bool) -> None:
    async with Runtime(workers=1) as runtime:
        env = await runtime.make(environment, action_space=action_space)
        if json:
            print_json(_as_json(env))
        else:
            _print_tables(env, listed=action_space is not None or len(env.action_space.names) <= _LISTED)


def _as_json(env: Env) -> dict[str, Any]:
    return {
        "id": env.spec.id,
        "description": env.spec.description,
        "compiler_version": env.compiler_version,
        "settings": dict(env.spec.settings),
        "action_space": env.action_space.name,
        "actions": [_action_as_json(env.action_space, index) for index in range(len(env.action_space.names))],
        "options": [_option_as_json(option) for option in getattr(env.action_space, "options", ())],
        "action_spaces": [
            {
                "name": space.name,
                "kind": space.kind,
                "actions": len(space.names),
                "options": len(getattr(space, "options", ())),
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
    if isinstance(space, MappingActions):
        return f"Dict({len(space.options)} names of options: Discrete)"
    if isinstance(space, OptionActions) and space.kind == "options":
        return f"MultiDiscrete({list(space.counts)})"
    return f"Discrete({len(space.names)})" if space.names else "Text()"


def _option_as_json(option: Option) -> dict[str, Any]:
    described: dict[str, Any] = {"name": option.name, "kind": option.kind, "choices": len(option)}
    if option.template:
        described |= {"low": option.low, "high": option.high}
    return {**described, "texts": list(option.texts), "initial": option.initial, "description": option.description}


def _action_as_json(space: ActionSpace, index: int) -> dict[str, Any]:
    described: dict[str, Any] = {"name": space.names[index], "description": space.descriptions[index]}
    if isinstance(space, ParametrizedActions):
        described["parameters"] = {one.name: list(one.choices) for one in space.actions[index].parameters}
    return described


def _print_tables(env: Env, listed: bool) -> None:
    console.print(f"[bold]{env.spec.id}[/]: {env.spec.description} ({env.compiler_version})")
    for name, value in env.spec.settings.items():
        console.print(f"setting {name}: {escape(value)}")
    spaces = Table("action space", "kind", "actions", "description", title="Action spaces")
    for actions in env.action_spaces.values():
        spaces.add_row(actions.name, actions.kind, _count(actions), escape(actions.description))
    console.print(spaces)
    if isinstance(env.action_space, OptionActions):
        _print_options(env.action_space)
    elif env.action_space.names and listed:
        _print_actions(env.action_space)
    elif env.action_space.names:
        name = env.action_space.name
        console.print(f"{len(env.action_space.names)} actions of {name}: --action-space {name} lists them")
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


def _count(space: ActionSpace) -> str:
    if isinstance(space, OptionActions):
        return f"{len(space.options)} options"
    return str(len(space.names) or "any")


def _print_options(space: OptionActions) -> None:
    table = Table("option", "choices", "if not given", "description", title=f"Options ({len(space.options)})")
    for option in space.options:
        numbers = [f"{option.low} to {option.high}"] if option.template else []
        words = [text.removeprefix(f"{option.name}=") for text in option.texts]
        row = (option.name, ", ".join([*words, *numbers]), option.initial, option.description)
        table.add_row(*map(escape, row))
    table.columns[0].overflow = table.columns[1].overflow = "fold"
    console.print(table)


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
