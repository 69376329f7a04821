CREATE TABLE IF NOT EXISTS States (
  benchmark_uri TEXT NOT NULL,
  done INTEGER NOT NULL,                       -- 0 or 1
  ir_instruction_count_oz_reward REAL NULLABLE,  -- of the episode
  state_id TEXT NOT NULL,                      -- SHA-1, 40 characters
  actions TEXT NOT NULL,                       -- numbers with spaces between
  PRIMARY KEY (benchmark_uri, actions),
  FOREIGN KEY (state_id) REFERENCES Observations(state_id) ON UPDATE CASCADE
);
CREATE TABLE IF NOT EXISTS Observations (
  state_id TEXT NOT NULL,
  ir_instruction_count INTEGER NOT NULL,
  compressed_llvm_ir BLOB NOT NULL,            -- zlib
  pickled_compressed_programl BLOB NOT NULL,   -- a pickled networkx.MultiDiGraph, zlib
  autophase TEXT NOT NULL,                     -- numbers with spaces between
  instcount TEXT NOT NULL,                     -- numbers with spaces between
  PRIMARY KEY (state_id)
);
