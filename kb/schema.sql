-- The knowledge base: the record of everything that stackgen observed (SQLite, WAL).
--
-- Ids are digests of content (stackgen/model/identity.py), so equal things meet in one row, rows are only ever
-- added, and the merge of two knowledge bases is a union. Nothing derived is stored: effects,
-- rankings and the graph are computed from these rows.
--
-- Columns without a type keep a number as it came (an affinity would turn 5 into 5.0, and the id
-- of what is read back would differ from the id under which it was stored).

CREATE TABLE migrations (
    version INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    stackgen_version TEXT NOT NULL,
    applied_at TEXT NOT NULL                -- ISO 8601, UTC
);

CREATE TABLE artifacts (
    name TEXT NOT NULL,                     -- PEP 503
    version TEXT NOT NULL,                  -- PEP 440
    sha256 TEXT NOT NULL,                   -- "" where the index stated none
    filename TEXT NOT NULL,
    url TEXT NOT NULL,                      -- without credentials
    index_name TEXT NOT NULL,               -- as configured; never credentials
    size INTEGER,                           -- bytes
    requires_python TEXT,
    uploaded TEXT,                          -- ISO 8601
    yanked TEXT,                            -- the reason, perhaps ""; NULL where it is not yanked
    PRIMARY KEY (name, version, sha256)
);

CREATE TABLE locks (id TEXT PRIMARY KEY);

CREATE TABLE lock_artifacts (
    lock_id TEXT NOT NULL REFERENCES locks (id),
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    PRIMARY KEY (lock_id, name),
    FOREIGN KEY (name, version, sha256) REFERENCES artifacts (name, version, sha256)
) WITHOUT ROWID;
CREATE INDEX lock_artifacts_by_release ON lock_artifacts (name, version);

CREATE TABLE stacks (
    id TEXT PRIMARY KEY,
    lock_id TEXT NOT NULL REFERENCES locks (id),
    python TEXT NOT NULL,                   -- implementation and version: CPython 3.11.2
    python_build TEXT NOT NULL,
    libc TEXT NOT NULL,
    distribution TEXT NOT NULL,
    system_packages TEXT NOT NULL,          -- JSON: [[name, version], ...]
    settings TEXT NOT NULL                  -- JSON: [[variable, value], ...]
);
CREATE INDEX stacks_by_lock ON stacks (lock_id);

CREATE TABLE machines (
    id TEXT PRIMARY KEY,
    identity TEXT NOT NULL,                 -- JSON: [[name, value], ...]
    circumstances TEXT NOT NULL             -- JSON: [[name, value], ...], as first seen
);

CREATE TABLE indicators (                   -- one row is a script with its arguments
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    component TEXT NOT NULL,
    summary TEXT NOT NULL,
    unit TEXT NOT NULL,                     -- of the work: FLOP, byte; "" where time is all
    sha256 TEXT NOT NULL,                   -- of script and harness, as first recorded
    one_shot INTEGER NOT NULL,
    timeout_s NOT NULL,
    parameters TEXT NOT NULL,               -- JSON: [[name, type, default, [allowed], help], ...]
    arguments TEXT NOT NULL                 -- JSON: [[parameter, value], ...]
);

CREATE TABLE campaigns (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,                     -- explore, compare, nightly
    request TEXT NOT NULL,                  -- canonical JSON
    seed TEXT NOT NULL,                     -- a whole number, of any size
    machine_id TEXT NOT NULL REFERENCES machines (id),
    stackgen_version TEXT NOT NULL,         -- that first began it
    started_at TEXT NOT NULL                -- when it first began; ISO 8601, UTC
);

-- Processes of one stack load the same distributions again and again: each list is kept once.
CREATE TABLE load_sets (id TEXT PRIMARY KEY);

CREATE TABLE load_set_members (
    load_set_id TEXT NOT NULL REFERENCES load_sets (id),
    position INTEGER NOT NULL,
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    compiled INTEGER NOT NULL,              -- 1 where a shared library of it was loaded
    PRIMARY KEY (load_set_id, position)
) WITHOUT ROWID;

CREATE TABLE inspections (
    id TEXT PRIMARY KEY,
    stack_id TEXT NOT NULL REFERENCES stacks (id),
    machine_id TEXT NOT NULL REFERENCES machines (id),
    indicator_id TEXT NOT NULL REFERENCES indicators (id),
    campaign_id TEXT NOT NULL REFERENCES campaigns (id),
    block INTEGER NOT NULL,                 -- from 1; 0 outside of blocks
    position INTEGER NOT NULL,              -- within the block, from 0
    role TEXT NOT NULL,                     -- ROLE_CODES of stackgen/model/inspections.py
    outcome TEXT NOT NULL,                  -- OUTCOME_CODES: ok, or how it failed
    started_at TEXT NOT NULL,               -- ISO 8601, UTC
    duration_s NOT NULL,
    log TEXT NOT NULL,
    unenforced TEXT NOT NULL,               -- JSON: [limit, ...]
    -- The observation; all NULL unless the outcome is ok.
    values_s TEXT,                          -- JSON: seconds per operation, in run order
    loops INTEGER,
    work,                                   -- FLOP or bytes per operation
    steady INTEGER,
    checksum TEXT,                          -- JSON number; as REAL, nan would become NULL
    peak_memory_bytes INTEGER,
    circumstances TEXT,                     -- JSON: [[name, value], ...]
    load_set_id TEXT REFERENCES load_sets (id),
    CHECK ((outcome = 'ok') = (values_s IS NOT NULL))
);
CREATE INDEX inspections_by_block ON inspections (campaign_id, block);
CREATE INDEX inspections_by_stack ON inspections (stack_id);
CREATE INDEX inspections_by_indicator ON inspections (indicator_id, machine_id);
CREATE INDEX inspections_by_outcome ON inspections (outcome);

CREATE TABLE releases_seen (
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    first_seen TEXT NOT NULL,               -- ISO 8601, UTC
    PRIMARY KEY (name, version)
) WITHOUT ROWID;

-- What each process had loaded when it ended.
CREATE VIEW inspection_loaded AS
SELECT i.id AS inspection_id, m.position, m.name, m.version, m.compiled
FROM inspections AS i JOIN load_set_members AS m ON m.load_set_id = i.load_set_id;

-- The statistic that blocks compare: the fastest sample of each process that ended well.
CREATE VIEW timings AS
SELECT id AS inspection_id, stack_id, machine_id, indicator_id, campaign_id, block, role,
       (SELECT min(value) FROM json_each(inspections.values_s)) AS best_s
FROM inspections WHERE outcome = 'ok';
