"""What a cluster may be told of its nodes."""

import os
from pathlib import Path

import pytest

import aiocg
from aiocg.cluster.hosts import Host, HostsError, HostsFile, hosts_of
from aiocg.errors import AiocgError

FILE = """
[[node]]
address = "tcp://one.example:5757"
workers = 8

[[node]]
address = "tcp://two.example:5757"
"""


def test_nodes_are_a_list_a_text_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "hosts.toml").write_text(FILE)
    one, two = Host("tcp://one.example:5757", workers=8), Host("tcp://two.example:5757")
    assert hosts_of([one, "tcp://two.example:5757"]) == [one, two]
    assert hosts_of("tcp://one.example:5757, tcp://two.example:5757") == [Host("tcp://one.example:5757"), two]
    assert hosts_of(f"file:{tmp_path / 'hosts.toml'}") == [one, two]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[[node]]\nworkers = 3", "missing required field `address`"),
        ('[[node]]\naddress = "big:5757"', "it must be tcp://HOST:PORT"),
        ('[[node]]\naddress = "tcp://big:5757"\nworkers = "3"', "Expected `int`, got `str` - at .*workers"),
        (
            '[[node]]\naddress = "tcp://big:5757"\nsecret = "3"',
            "unknown field `secret` - at .*; a file of nodes has only .* address, key, workers",
        ),
        ('[[node]]\naddress = "tcp://big:5757"\n[[node]]\naddress = "tcp://big:5757"', "occurs twice"),
        ("[nodes]", "has only"),
        ("[[", "cannot be read"),
    ],
)
def test_a_wrong_file_says_what_is_wrong_and_where(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "hosts.toml"
    path.write_text(content)
    with pytest.raises(HostsError, match=words) as caught:
        hosts_of(f"file:{path}")
    assert str(path) in str(caught.value)


def test_a_file_is_read_again_when_it_has_changed_and_a_broken_one_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "hosts.toml"
    path.write_text(FILE)
    file = HostsFile(path)
    assert file.changed() is None
    path.write_text(FILE + "[[")
    assert file.changed() is None
    path.write_text('[[node]]\naddress = "tcp://three.example:5757"')
    assert file.changed() == [Host("tcp://three.example:5757")]
    os.remove(path)
    assert file.changed() is None


def test_a_node_and_a_cluster_are_not_given_together(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="not both"):
        aiocg.Runtime(node="tcp://big:5757", cluster=["tcp://other:5757"])
    monkeypatch.setenv("AIOCG_NODE", "tcp://big:5757")
    monkeypatch.setenv("AIOCG_CLUSTER", "tcp://other:5757")
    with pytest.raises(AiocgError, match="leave one of them out"):
        aiocg.Runtime()
    assert aiocg.Runtime(node="").cluster is None
    assert aiocg.Runtime(cluster="tcp://third:5757").cluster is not None
