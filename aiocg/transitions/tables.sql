CREATE TABLE Meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE Benchmarks (id INTEGER PRIMARY KEY, uri TEXT NOT NULL UNIQUE, state INTEGER);
CREATE TABLE Actions (id INTEGER PRIMARY KEY, texts TEXT NOT NULL UNIQUE);
CREATE TABLE Spaces (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE States (state INTEGER PRIMARY KEY, benchmark INTEGER NOT NULL REFERENCES Benchmarks);
CREATE TABLE Observations (
    state INTEGER NOT NULL, space INTEGER NOT NULL REFERENCES Spaces, codec TEXT NOT NULL, value,
    PRIMARY KEY (state, space)
) WITHOUT ROWID;
CREATE TABLE StateTransitions (
    id INTEGER PRIMARY KEY, state INTEGER NOT NULL, action INTEGER NOT NULL REFERENCES Actions,
    next INTEGER, rewards TEXT NOT NULL, UNIQUE (state, action)
);
CREATE TABLE Conflicts (
    state INTEGER NOT NULL, action INTEGER NOT NULL REFERENCES Actions, next INTEGER, UNIQUE (state, action, next)
);
CREATE VIEW Steps AS
    SELECT uri AS benchmark_uri, StateTransitions.state AS state_id, texts AS action, next AS next_state_id,
           next IS NULL AS done, rewards
    FROM StateTransitions JOIN Actions ON Actions.id = action
    LEFT JOIN States ON States.state = StateTransitions.state LEFT JOIN Benchmarks ON Benchmarks.id = benchmark;
