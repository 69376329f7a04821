"""The dashboard for Grafana asks for numbers that there are."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from aiocg.telemetry import metrics

ROOT = Path(__file__).resolve().parents[2]
BOARD = json.loads((ROOT / "deploy" / "grafana.json").read_text())
PANELS: list[dict[str, Any]] = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
FAMILIES = [one for one in vars(metrics).values() if isinstance(one, metrics._Family)]
GIVEN = {"instance", "job"}  # labels that Prometheus adds


def labels_by_name() -> dict[str, set[str]]:
    """Return the labels of all metrics, by the names that Prometheus has for them."""
    found = {}
    for family in FAMILIES:
        (sample, *_) = family._metric({tuple("x" for _ in family.labels): 1}).samples  # type: ignore[arg-type]
        found[sample.name] = set(family.labels)
    return found


LABELS = labels_by_name()


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: f"{panel['id']}: {panel['title']}")
def test_panel_names_metrics_and_labels_that_exist(panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        names = re.findall(r"\baiocg_\w+", target["expr"])
        assert len(names) == 1 and names[0] in LABELS
        (kept,) = re.findall(r"by \(([\w, ]+)\)", target["expr"]) or [""]
        filtered = re.findall(r"(\w+)=~", target["expr"])
        shown = re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])
        assert set(shown) == set(kept.split(", ")) - {""}
        assert {*shown, *filtered} <= LABELS[names[0]] | GIVEN
        assert ("rate(" in target["expr"]) is names[0].endswith("_total")  # counters only grow


def test_every_panel_has_a_place_of_its_own() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in BOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken and place["x"] + place["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])


def test_what_most_metrics_say_is_shown() -> None:
    asked = {
        name for panel in PANELS for target in panel["targets"] for name in re.findall(r"\baiocg_\w+", target["expr"])
    }
    assert set(LABELS) - asked == {"aiocg_node_attached_clients_total", "aiocg_node_expired_leases_total",
                                   "aiocg_node_worker_starts_total", "aiocg_node_received_bytes_total",
                                   "aiocg_node_sent_bytes_total"}  # fmt: skip
