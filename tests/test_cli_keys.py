"""`aiocg keys`, as a node's operator and its users type it."""

import json
from pathlib import Path

import pytest

from .command_line import Run, runner

NODE = "tcp://node.example:4400"


@pytest.fixture
def aiocg(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    monkeypatch.setenv("AIOCG_KEYS", str(tmp_path / "keys"))
    monkeypatch.setenv("COLUMNS", "100")
    return runner(monkeypatch, capfd, "keys")


@pytest.mark.slow
def test_a_client_is_let_in_and_out_again(aiocg: Run, tmp_path: Path) -> None:
    made = json.loads(aiocg("new", "--json").out)
    assert Path(made["path"]).is_relative_to(tmp_path / "keys")
    assert aiocg("show").out == made["public"] + "\n"
    assert aiocg("authorize", "alice", made["public"]).status == 0
    assert aiocg("trust", NODE, made["public"]).status == 0
    listed = json.loads(aiocg("list", "--json").out)
    assert listed == {
        "folder": str(tmp_path / "keys"),
        "own": [{"name": "own", "public": made["public"]}],
        "authorized": [{"name": "alice", "public": made["public"]}],
        "nodes": [{"address": NODE, "public": made["public"]}],
    }
    for text in ("own pair", "alice", NODE, made["public"]):
        assert text in aiocg("list").out
    assert json.loads(aiocg("revoke", "alice", "--json").out) == {"name": "alice", "public": made["public"]}
    assert json.loads(aiocg("list", "--json").out)["authorized"] == []


def test_what_is_listed_can_be_copied_however_narrow_the_terminal(
    aiocg: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert f"there are no keys in {tmp_path / 'keys'}; make a pair with: aiocg keys new\n" == aiocg("list").out
    public = json.loads(aiocg("new", "--json").out)["public"]
    aiocg("trust", NODE, public)
    monkeypatch.setenv("COLUMNS", "40")
    own, node = aiocg("list").out.splitlines()
    assert own.split() == ["own", "pair", "own", public]
    assert node.split() == ["node", "known", NODE, public]


@pytest.mark.parametrize("arguments", [("new",), ("show",), ("list",), ("authorize", "alice", "y" * 40)])
def test_a_folder_that_cannot_be_used_is_one_message_with_the_way_out(
    aiocg: Run, arguments: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "keys").write_text("no folder")
    done = aiocg(*arguments)
    assert done.status == 1 and str(tmp_path / "keys") in done.err and "Traceback" not in done.err
    assert done.err.count("\n") == 1


@pytest.mark.slow
def test_the_secret_key_is_never_printed(aiocg: Run, tmp_path: Path) -> None:
    outputs = [aiocg("new"), aiocg("show"), aiocg("list"), aiocg("list", "--json"), aiocg("new")]
    secret = json.loads((tmp_path / "keys" / "own" / "own.key").read_bytes())["secret"]
    first, *_ = outputs
    assert first.status == 0
    assert not [done for done in outputs if secret in done.out + done.err]


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("show",), "make one with `aiocg keys new`"),
        (("show", "laptop"), "make one with `aiocg keys new laptop`"),
        (("authorize", "alice", "short"), "the public key 'short' is not a key"),
        (("authorize", "../x", "y" * 40), "is not a name for a key"),
        (("revoke", "alice"), "no key with the name alice is authorised; there are: none"),
        (("trust", "node", "y" * 40), "must be tcp://HOST:PORT"),
        (("trust", "tcp://node:99999", "y" * 40), "must be tcp://HOST:PORT"),
    ],
)
def test_what_cannot_be_done_is_one_message(aiocg: Run, arguments: tuple[str, ...], message: str) -> None:
    done = aiocg(*arguments)
    assert done.status == 1 and message in done.err and "Traceback" not in done.err
