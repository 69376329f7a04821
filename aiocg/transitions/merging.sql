INSERT OR IGNORE INTO Conflicts
    SELECT a.state, new, a.next FROM other.StateTransitions a JOIN ActionsIds ON old = a.action
    JOIN main.StateTransitions b ON b.state = a.state AND b.action = new WHERE a.next IS NOT b.next;
INSERT OR IGNORE INTO Conflicts SELECT state, new, next FROM other.Conflicts JOIN ActionsIds ON old = action;
INSERT INTO StateTransitions (state, action, next, rewards)
    SELECT state, new, next, rewards FROM other.StateTransitions JOIN ActionsIds ON old = action WHERE true
    ON CONFLICT DO UPDATE SET rewards = json_patch(rewards, excluded.rewards)
    WHERE next IS excluded.next AND rewards IS NOT excluded.rewards;
INSERT OR IGNORE INTO States SELECT state, new FROM other.States JOIN BenchmarksIds ON old = benchmark;
INSERT OR IGNORE INTO Observations
    SELECT state, new, codec, value FROM other.Observations JOIN SpacesIds ON old = space;
UPDATE Benchmarks AS mine SET state = theirs.state FROM other.Benchmarks AS theirs
    WHERE mine.uri = theirs.uri AND mine.state IS NULL;
