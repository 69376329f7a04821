"""`aiocg envs`, `describe`, `llvm` and `gcc`: environments, their spaces, and the compilers in use."""

import fnmatch
from typing import TYPE_CHECKING, Any

import typer
from rich.markup import escape

from aiocg.cli._options import command
from aiocg.cli.output import answer, console, fields, print_json, run, table, working

if TYPE_CHECKING:
    from rich.table import Table

    from aiocg import Env
    from aiocg.spaces import ActionSpace, OptionActions
    from aiocg.transport.options import Option


_LISTED = 400  # actions listed by default


def envs(json: bool = False) -> None:
    """List the environments.

    Example: aiocg envs
    """
    from aiocg.registry import environments

    names = ("id", "description", "observation_space", "reward_space")
    listed = [
        {**fields(spec, *names), "benchmark": str(spec.benchmark), "settings": dict(spec.settings)}
        for spec in environments().values()
    ]
    answer(json, {"environments": listed}, environments_table())


def environments_table() -> "Table":
    """Return the table of the environments."""
    from aiocg.registry import environments

    rows = [
        (spec.id, "\n".join(filter(None, (spec.observation_space, spec.reward_space))) or "-", spec.description)
        for spec in environments().values()
    ]
    return table("Environments", ("environment", "observation\nand reward", "description"), rows, whole=(0, 1))


def describe(environment: str, action_space: str | None = None, json: bool = False) -> None:
    """Describe an environment: its action spaces and the actions of one, observation spaces and reward spaces.

    Settings of an environment stand behind its id: `gcc-v0?gcc_bin=gcc-12`.

    Example: aiocg describe llvm-v0 --action-space Pipelines

    Args:
        environment: Id of the environment; `aiocg envs` lists them.
        action_space: Action space whose actions to list, the first if none.
    """
    run(_describe(environment, action_space, json))


async def _describe(environment: str, action_space: str | None, json: bool) -> None:
    from aiocg import Runtime

    async with Runtime(workers=1) as runtime:
        env = await runtime.make(environment, action_space=action_space)
        if json:
            print_json(_as_json(env))
        else:
            _print_tables(env, listed=action_space is not None or len(env.action_space.names) <= _LISTED)


def _as_json(env: "Env") -> dict[str, Any]:
    space = env.action_space
    return {
        **fields(env.spec, "id", "description"),
        "compiler_version": env.compiler_version,
        "settings": dict(env.spec.settings),
        "action_space": space.name,
        "actions": [_action_as_json(space, index) for index in range(len(space.names))],
        "options": [_option_as_json(option) for option in getattr(space, "options", ())],
        "action_spaces": [
            {
                **fields(one, "name", "kind", "description"),
                "actions": len(one.names),
                "options": len(getattr(one, "options", ())),
                "targets": one.targets_from or None,
                "space": _form(one),
            }
            for one in env.action_spaces.values()
        ],
        "observation_spaces": [
            {**fields(one, "name", "deterministic", "platform_dependent", "description"), "space": repr(one.space)}
            for one in env.observation_spaces.values()
        ],
        "reward_spaces": [fields(one, "name", "deterministic", "description") for one in env.reward_spaces.values()],
    }


def _form(space: "ActionSpace") -> str:
    """Return the Gymnasium space of the actions."""
    from aiocg.spaces import MappingActions, OptionActions, ParametrizedActions, TargetedActions

    if isinstance(space, TargetedActions):
        return f"MultiDiscrete([number of {space.targets_from}, {len(space.names)}])"
    if isinstance(space, ParametrizedActions):
        return f"MultiDiscrete({space.nvec.tolist()})"
    if isinstance(space, MappingActions):
        return f"Dict({len(space.options)} names of options: Discrete)"
    if isinstance(space, OptionActions) and space.kind == "options":
        return f"MultiDiscrete({list(space.counts)})"
    return f"Discrete({len(space.names)})" if space.names else "Text()"


def _option_as_json(option: "Option") -> dict[str, Any]:
    bounds = ("low", "high") if option.template else ()
    described = fields(option, "name", "kind", *bounds, "initial", "description")
    return described | {"choices": len(option), "texts": list(option.texts)}


def _action_as_json(space: "ActionSpace", index: int) -> dict[str, Any]:
    from aiocg.spaces import ParametrizedActions

    described: dict[str, Any] = {"name": space.names[index], "description": space.descriptions[index]}
    if isinstance(space, ParametrizedActions):
        described["parameters"] = {one.name: list(one.choices) for one in space.actions[index].parameters}
    return described


def _print_tables(env: "Env", listed: bool) -> None:
    from aiocg.spaces import OptionActions

    console.print(f"[bold]{env.spec.id}[/]: {env.spec.description} ({env.compiler_version})")
    for name, value in env.spec.settings.items():
        console.print(f"setting {name}: {escape(value)}")
    console.print(action_spaces_table(env))
    if isinstance(env.action_space, OptionActions):
        console.print(_options_table(env.action_space))
    elif env.action_space.names and listed:
        console.print(actions_table(env.action_space))
    elif env.action_space.names:
        name = env.action_space.name
        console.print(f"{len(env.action_space.names)} actions of {name}: --action-space {name} lists them")
    console.print(observation_spaces_table(env))
    console.print(reward_spaces_table(env))


def action_spaces_table(env: "Env") -> "Table":
    """Return the table of the action spaces of an environment."""
    rows = [
        (space.name, _default(space.name == env.action_space.name), space.kind, _count(space), space.description)
        for space in env.action_spaces.values()
    ]
    return table("Action spaces", ("action space", "", "kind", "actions", "description"), rows)


def observation_spaces_table(env: "Env") -> "Table":
    """Return the table of the observation spaces of an environment."""
    rows = []
    for space in env.observation_spaces.values():
        shown = repr(space.space)
        shown = shown if len(shown) <= 40 else shown[:37] + "..."
        name = space.name if space.name != env.observation_space else f"{space.name}\n(default)"
        rows.append((name, shown if space.deterministic else f"{shown}\n(may vary)", space.description))
    return table("Observation spaces", ("observation space", "space", "description"), rows, whole=(0,))


def reward_spaces_table(env: "Env") -> "Table":
    """Return the table of the reward spaces of an environment."""
    rows = [
        (reward.name, _default(reward.name == env.reward_space), reward.description)
        for reward in env.reward_spaces.values()
    ]
    return table("Reward spaces", ("reward space", "", "description"), rows)


def _default(so: bool) -> str:
    return "default" if so else ""


def _count(space: "ActionSpace") -> str:
    from aiocg.spaces import OptionActions

    if isinstance(space, OptionActions):
        return f"{len(space.options)} options"
    return str(len(space.names) or "any")


def _options_table(space: "OptionActions") -> "Table":
    rows = []
    for option in space.options:
        numbers = [f"{option.low} to {option.high}"] if option.template else []
        words = [text.removeprefix(f"{option.name}=") for text in option.texts]
        rows.append((option.name, ", ".join([*words, *numbers]), option.initial, option.description))
    return table(f"Options ({len(rows)})", ("option", "choices", "if not given", "description"), rows)


def actions_table(space: "ActionSpace", pattern: str = "") -> "Table":
    """Return the table of the actions of a space, of those that match part of a name, or a whole one with * and ?."""
    from aiocg.spaces import ParametrizedActions

    parameters = [
        "\n".join(" | ".join(one.choices) for one in action.parameters)
        for action in (space.actions if isinstance(space, ParametrizedActions) else ())
    ]
    wanted = pattern.lower() if set(pattern) & set("*?[") else f"*{pattern.lower()}*"
    rows = []
    for index, name in enumerate(space.names):
        if fnmatch.fnmatchcase(name.lower(), wanted):
            rows.append((index, name, *parameters[index : index + 1], space.descriptions[index]))
    title = f"Actions of {space.name} ({len(rows)})"
    if space.targets is not None:
        title += f", for {', '.join(space.targets[:5])}{' ...' if len(space.targets) > 5 else ''}"
    headings = ("index", "action", *(("parameters",) if parameters else ()), "description")
    return table(title, headings, rows, right=(0,))


llvm = typer.Typer(help="About the LLVM that is in use.", no_args_is_help=True)


@command(llvm, "install")
def install(version: str, json: bool = False) -> None:
    """Install a release of LLVM with its clang from the package index, into the cache.

    Example: aiocg llvm install 19

    Then `AIOCG_LLVM=19`, `Runtime(llvm="19")` or `llvm-v0?llvm=19` use it.

    Args:
        version (VERSION): Such as 19, of which the newest is installed, or 19.1.7.
    """
    from aiocg.datasets.llvm_releases import install

    with working("install", f"LLVM {version}", json=json):
        release = install(version)
    value = {"version": release.version, "library": str(release.library), "clang": str(release.clang)}
    answer(json, value, f"LLVM {release.version} is installed: AIOCG_LLVM={release.version.partition('.')[0]} uses it")


@command(llvm, "list")
def list_releases(available: bool = False, json: bool = False) -> None:
    """List the releases of LLVM that can be chosen by number.

    Example: aiocg llvm list --available

    Args:
        available: Those that the package index has, instead of those on this machine.
    """
    from aiocg.datasets.llvm_releases import available as in_index
    from aiocg.datasets.llvm_releases import on_this_machine

    if available:
        versions = in_index()
        answer(json, {"available": versions}, *versions)
        return
    here = on_this_machine()
    rows = [(one.version, one.origin, str(one.library), str(one.clang)) for one in here]
    listed = [dict(zip(("version", "origin", "library", "clang"), row, strict=True)) for row in rows]
    hint = "none: `aiocg llvm install VERSION` installs one, `aiocg llvm list --available` lists them"
    shown = table("LLVM by number", ["Version", "From", "Library", "Clang"], rows) if rows else hint
    answer(json, {"releases": listed}, shown)


gcc = typer.Typer(name="gcc", no_args_is_help=True)


@gcc.callback()
def _gcc() -> None:
    """Images with compilers for gcc-v0. And `aiocg gcc -- make` makes a build by GCC smaller: `aiocg shrink --gcc`."""


@command(gcc, "pull")
def pull_image(image: str, if_missing: bool = False, json: bool = False) -> None:
    """Have Docker or Podman get an image with a GCC from its registry, for `gcc_bin=docker:IMAGE`.

    Example: aiocg gcc pull gcc:13

    Args:
        image (IMAGE): Its name, such as gcc:13.
        if_missing: Only if the engine does not have it.
    """
    from aiocg.gcc.compiler_spec import DOCKER
    from aiocg.gcc.compiler_spec import pull_image as pull

    image = image.removeprefix(DOCKER)
    identity = pull(image, if_missing=if_missing)
    answer(json, {"image": image, "id": identity}, f"{image} is {identity}")
