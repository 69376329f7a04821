"""`aiocg dataset index --sample`: measuring programs that a seed draws."""

import sys
from pathlib import Path

import pytest

from aiocg import cli
from aiocg.datasets import default_datasets
from aiocg.datasets.index import DatasetIndex


def _run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> object:
    monkeypatch.setattr(sys, "argv", ["aiocg", "dataset", "index", "programs-v0", "--workers", "1", *arguments])
    try:
        cli.main()
    except SystemExit as ending:
        return ending.code or 0
    return 0


def test_sample_is_what_the_seed_draws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AIOCG_SITE_DATA", str(tmp_path))
    dataset = default_datasets()["programs-v0"]
    assert _run(monkeypatch, "--sample", "2", "--seed", "3") == 0
    drawn = {str(uri) for uri in dataset.shuffled(3)[:2].benchmark_uris()}
    assert {row.uri for row in DatasetIndex.of(dataset).rows()} == drawn


def test_sample_and_limit_exclude_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _run(monkeypatch, "--sample", "2", "--limit", "1") == 2
