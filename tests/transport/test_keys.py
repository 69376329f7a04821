"""Keys as files: modes, damage, and that nothing is overwritten or half written."""

import os
import re
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from aiocg.transport import keys
from aiocg.transport.errors import SecurityError
from aiocg.transport.keys import AuthorizedKeys, KeyFolder
from aiocg.transport.security import ClientSecurity, KeyPair, ServerSecurity, WorkerKeys

NODE = "tcp://node.example:4400"


@pytest.fixture(autouse=True)
def any_pair_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not look for pairs whose public keys are easily typed, of which there are few."""
    monkeypatch.setattr(keys, "_LEGIBLE", re.compile(".*"))


@pytest.fixture
def folder(tmp_path: Path) -> KeyFolder:
    return KeyFolder(tmp_path / "keys")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# --------------------------------------------------------------------------------------------------- pairs


def test_no_secret_is_in_any_repr() -> None:
    pair = KeyPair.generate()
    shown = [pair, ClientSecurity(pair, pair.public), ServerSecurity.for_clients(pair, [pair.public])]
    shown += [WorkerKeys(pair.secret, pair.public)]
    for one in shown:
        assert pair.secret not in repr(one) and pair.secret not in str(one) and pair.secret not in f"{one!r:>10}"


def test_what_is_no_key_is_refused_without_showing_a_secret() -> None:
    pair, other = KeyPair.generate(), KeyPair.generate()
    for public, secret in ((pair.public, other.secret), (pair.public, "x" * 39), (pair.public, "\x00" * 40)):
        with pytest.raises(SecurityError) as caught:
            KeyPair(public, secret)
        assert secret not in str(caught.value)
    with pytest.raises(SecurityError, match="the server's public key 'short' is not a key"):
        ClientSecurity(pair, "short")
    with pytest.raises(SecurityError, match="damaged"):
        KeyPair.from_secret("#" * 40)


def test_what_a_worker_is_handed_down_survives_the_way_and_garbage_shows_nothing() -> None:
    pair, client = KeyPair.generate(), KeyPair.generate()
    handed = WorkerKeys.decode(WorkerKeys(pair.secret, client.public, {"sessions": 4.0}).encode())
    security = handed.security()
    assert security.own == pair and security.admits(client.public) and not security.admits(pair.public)
    for garbage in (b"", b"[]", b'{"secret": "tell nobody"}', b'{"secret": "tell nobody", "client": 5}', b"\xff"):
        with pytest.raises(SecurityError, match="does not contain a worker") as caught:
            WorkerKeys.decode(garbage)
        assert "tell nobody" not in str(caught.value)


# --------------------------------------------------------------------------------------------------- files


def test_a_pair_is_kept_in_a_file_for_the_owner_only(folder: KeyFolder) -> None:
    old = os.umask(0)
    try:
        pair = folder.create()
    finally:
        os.umask(old)
    assert folder.pair() == pair
    assert mode(folder.pair_path()) == 0o600
    assert mode(folder.path) == mode(folder.path / "own") == 0o700
    assert folder.pairs() == {"own": pair.public}


def test_public_keys_can_be_typed_into_a_shell(folder: KeyFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    for number in range(2):
        public = folder.create(f"n{number}").public
        assert public[0].isalnum() and not set(public) & set("!$&*()<>?[]{}#`'\"\\|;~^ \t")


def test_a_pair_is_not_overwritten_unless_asked(folder: KeyFolder) -> None:
    first = folder.create("laptop")
    with pytest.raises(SecurityError, match="--force"):
        folder.create("laptop")
    assert folder.pair("laptop") == first
    second = folder.create("laptop", replace=True)
    assert folder.pair("laptop") == second != first


def test_of_many_that_make_a_pair_at_once_one_succeeds(folder: KeyFolder) -> None:
    def make(_: int) -> KeyPair | None:
        try:
            return folder.create()
        except SecurityError:
            return None

    with ThreadPoolExecutor(8) as pool:
        made = [pair for pair in pool.map(make, range(8)) if pair is not None]
    assert made == [folder.pair()]
    assert [path.name for path in (folder.path / "own").iterdir()] == ["own.key"]


@pytest.mark.parametrize("bits", [0o640, 0o604, 0o660, 0o666])
def test_a_secret_key_that_others_can_read_is_refused_with_what_mends_it(folder: KeyFolder, bits: int) -> None:
    pair = folder.create()
    folder.pair_path().chmod(bits)
    with pytest.raises(SecurityError, match=rf"others can read .*\({bits:04o}\)|chmod 600") as caught:
        folder.pair()
    assert pair.secret not in str(caught.value)
    command = str(caught.value).partition("correct that with: ")[2].partition(",")[0]
    assert os.system(command) == 0
    assert folder.pair() == pair


def test_a_folder_or_file_that_others_can_write_lets_nobody_in(folder: KeyFolder) -> None:
    public = KeyPair.generate().public
    folder.authorize("alice", public)
    path = folder.path / "authorized" / "alice.key"
    for one, bits in ((path, 0o622), (path.parent, 0o777)):
        kept = mode(one)
        one.chmod(bits)
        with pytest.raises(SecurityError, match=r"others can change .* chmod"):
            folder.authorized()
        assert folder.authorized_whole() == {}
        one.chmod(kept)
    assert folder.authorized() == {"alice": public}


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"public": 5}', b'{"public": "short"}', b"\xff\xfe", b"x" * 9999]
)
def test_damaged_files_are_named_and_hold_up_nobody_else(folder: KeyFolder, content: bytes) -> None:
    public = KeyPair.generate().public
    folder.authorize("alice", public)
    folder.authorize("bob", KeyPair.generate().public)
    folder.create()
    (folder.path / "authorized" / "bob.key").write_bytes(content)
    folder.pair_path().write_bytes(content)
    with pytest.raises(SecurityError, match=r"bob\.key is damaged"):
        folder.authorized()
    assert folder.authorized_whole() == {"alice": public}
    with pytest.raises(SecurityError, match=r"own\.key is damaged"):
        folder.pair()
    assert folder.revoke("bob") in ("", "short")
    assert folder.authorized() == {"alice": public}


def test_a_link_or_a_pipe_is_no_key_file(folder: KeyFolder, tmp_path: Path) -> None:
    folder.create()
    folder.pair_path().rename(tmp_path / "elsewhere")
    folder.pair_path().symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SecurityError, match="cannot be read"):
        folder.pair()
    folder.pair_path().unlink()
    os.mkfifo(folder.pair_path(), 0o600)
    with pytest.raises(SecurityError, match="is not a file"):
        folder.pair()


@pytest.mark.parametrize("name", ["", "../own", "a/b", ".hidden", "-x", "a b", "x" * 65, "a\n"])
def test_names_that_would_lead_elsewhere_are_refused(folder: KeyFolder, name: str) -> None:
    with pytest.raises(SecurityError, match="is not a name"):
        folder.authorize(name, KeyPair.generate().public)
    with pytest.raises(SecurityError, match="is not a name"):
        folder.create(name)
    with pytest.raises(SecurityError, match="is not a name"):
        folder.revoke(name)


def test_a_key_is_authorised_under_one_name_and_a_name_has_one_key(folder: KeyFolder) -> None:
    first, second = KeyPair.generate().public, KeyPair.generate().public
    folder.authorize("alice", first)
    folder.authorize("alice", first)
    with pytest.raises(SecurityError, match="authorised already, as alice"):
        folder.authorize("bob", first)
    with pytest.raises(SecurityError, match="another key with the name alice"):
        folder.authorize("alice", second)
    folder.authorize("alice", second, replace=True)
    assert folder.authorized() == {"alice": second}
    assert folder.revoke("alice") == second
    with pytest.raises(SecurityError, match=r"no key with the name alice is authorised; there are: none"):
        folder.revoke("alice")


def test_nodes_are_known_by_address(folder: KeyFolder) -> None:
    first, second = KeyPair.generate().public, KeyPair.generate().public
    with pytest.raises(SecurityError, match=f"aiocg keys trust {NODE} PUBLIC_KEY"):
        folder.node(NODE)
    folder.trust(NODE, first)
    folder.trust(NODE, first)
    folder.trust("tcp://[::1]:4400", second)
    with pytest.raises(SecurityError, match="--force"):
        folder.trust(NODE, second)
    assert folder.nodes() == {NODE: first, "tcp://[::1]:4400": second}
    folder.trust(NODE, second, replace=True)
    assert folder.node(NODE) == second
    for address in ("node.example:4400", "tcp://node", "ipc:///tmp/x", "tcp://../../x:1", "tcp://a:1/.."):
        with pytest.raises(SecurityError, match="is not the address of a node"):
            folder.trust(address, first)


def test_what_is_authorised_or_revoked_counts_while_a_server_runs(
    folder: KeyFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(keys.time, "monotonic", lambda: now[0])
    admitted, public = AuthorizedKeys(folder), KeyPair.generate().public
    assert not admitted.names()
    folder.authorize("alice", public)
    now[0] += 2 * keys.SHORT_REFRESH_SECONDS
    assert admitted.names() == {}
    assert admitted.names(keys.SHORT_REFRESH_SECONDS) == {public: "alice"}
    folder.revoke("alice")
    now[0] += keys.REFRESH_SECONDS
    assert not admitted.names()


def test_the_folder_is_the_users_or_the_one_that_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AIOCG_KEYS", str(tmp_path / "mine"))
    assert KeyFolder().path == tmp_path / "mine"
    monkeypatch.delenv("AIOCG_KEYS")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    assert KeyFolder().path == tmp_path / "config" / "aiocg" / "keys"


def test_a_machine_without_curve_is_told_what_to_install(folder: KeyFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zmq.has", lambda capability: False)
    with pytest.raises(SecurityError, match=r"not support CURVE.*pip install"):
        folder.create()
