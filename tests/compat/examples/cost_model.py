"""As examples/gnn_cost_model: graphs and rewards out of the database that a wrapper writes; no network is trained."""

import pickle
import sqlite3
import zlib
from pathlib import Path

import compiler_gym
import networkx
from compiler_gym.wrappers import SynchronousSqliteLogger

database = Path("transitions.db")
with SynchronousSqliteLogger(
    compiler_gym.make("llvm-autophase-ic-v0", benchmark="programs-v0/gcd"), database, commit_frequency_in_seconds=0
) as env:
    env.reset()
    for name in ("-mem2reg", "-gvn", "-simplifycfg"):
        env.step(env.action_space[name])
    env.flush()

cursor = sqlite3.connect(database).cursor()
states = cursor.execute("SELECT * FROM States").fetchall()
print(len(states), "states")
for state in states:
    query = "SELECT * FROM Observations WHERE state_id = ?"
    _, count, ir, graph, _, autophase = cursor.execute(query, (state[3],)).fetchone()[:6]
    programl = pickle.loads(zlib.decompress(graph))
    assert isinstance(programl, networkx.MultiDiGraph)
    assert zlib.decompress(ir).decode().count("\n") > 10
    texts = {data["text"] for _, data in programl.nodes(data=True) if data["type"] == 1}
    assert texts & {"i64", "i32"} and "ptr" not in texts
    print(count, len(programl), sorted(texts)[:5], len(autophase))
