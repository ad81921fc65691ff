-- Version 5: whole numbers as keys, shared texts, packed samples. One million inspections take
-- less than 1 GB. What was a table in version 4 and is packed now can be read as a view of the same
-- name: lock_artifacts, load_set_members, inspections, row_origins.
--
-- Keys are local to a file; ids identify, and are the same in every file. Columns that refer to
-- another row are NULL only where a damaged file of an earlier version had no such row.

CREATE TABLE artifacts (
    key INTEGER PRIMARY KEY,
    name TEXT NOT NULL,                     -- PEP 503
    version TEXT NOT NULL,                  -- PEP 440
    sha256 TEXT NOT NULL,                   -- "" where the index stated none
    filename TEXT NOT NULL,
    url TEXT NOT NULL,                      -- without credentials; "" in a public export
    index_name TEXT NOT NULL,               -- as configured; never credentials
    size INTEGER,                           -- bytes
    requires_python TEXT,
    uploaded TEXT,                          -- ISO 8601
    yanked TEXT,                            -- the reason, perhaps ""; NULL where it is not yanked
    UNIQUE (name, version, sha256)
);

CREATE TABLE locks (key INTEGER PRIMARY KEY, id TEXT UNIQUE);

CREATE TABLE lock_pins (
    lock_key INTEGER NOT NULL REFERENCES locks (key),
    artifact_key INTEGER NOT NULL REFERENCES artifacts (key),
    PRIMARY KEY (lock_key, artifact_key)
) WITHOUT ROWID;
CREATE INDEX lock_pins_by_artifact ON lock_pins (artifact_key);

CREATE TABLE stacks (
    key INTEGER PRIMARY KEY,
    id TEXT UNIQUE,
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
    key INTEGER PRIMARY KEY,
    id TEXT UNIQUE,
    identity TEXT NOT NULL,                 -- JSON: [[name, value], ...]
    circumstances TEXT NOT NULL             -- JSON: [[name, value], ...]
);

CREATE TABLE indicators (                   -- one row is a script with its arguments
    key INTEGER PRIMARY KEY,
    id TEXT UNIQUE,
    name TEXT NOT NULL,
    component TEXT NOT NULL,
    summary TEXT NOT NULL,
    unit TEXT NOT NULL,                     -- of the work: FLOP, byte; "" where time is all
    sha256 TEXT NOT NULL,                   -- of script and harness, as first recorded
    one_shot INTEGER NOT NULL,
    timeout_s NOT NULL,
    parameters TEXT NOT NULL,               -- JSON: [[name, type, default, [allowed], help], ...]
    arguments TEXT NOT NULL,                -- JSON: [[parameter, value], ...]
    revision INTEGER NOT NULL DEFAULT 1,    -- of the script
    protocol INTEGER NOT NULL DEFAULT 1,    -- of the harness
    own_sha256 TEXT NOT NULL DEFAULT ''     -- of a script that belongs to the identity
);

CREATE TABLE campaigns (
    key INTEGER PRIMARY KEY,
    id TEXT UNIQUE,
    kind TEXT NOT NULL,                     -- explore, compare, nightly
    request TEXT NOT NULL,                  -- canonical JSON; "" where a public export left it out
    seed TEXT NOT NULL,                     -- a whole number, of any size
    machine_id TEXT NOT NULL REFERENCES machines (id),
    stackgen_version TEXT NOT NULL,         -- that first began it
    started_at TEXT NOT NULL                -- when it first began; ISO 8601, UTC
);

CREATE TABLE distributions (
    key INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    UNIQUE (name, version)
);

CREATE TABLE load_sets (key INTEGER PRIMARY KEY, id TEXT UNIQUE);

CREATE TABLE load_set_rows (
    load_set_key INTEGER NOT NULL REFERENCES load_sets (key),
    position INTEGER NOT NULL,
    distribution_key INTEGER REFERENCES distributions (key),
    compiled INTEGER NOT NULL,              -- 1 where a shared library of it was loaded
    PRIMARY KEY (load_set_key, position)
) WITHOUT ROWID;

CREATE TABLE texts (                        -- each once: logs, environments, lists of limits
    key INTEGER PRIMARY KEY,
    digest BLOB NOT NULL UNIQUE,            -- first 16 bytes of SHA-256
    text TEXT NOT NULL
);

CREATE TABLE inspection_rows (
    key INTEGER PRIMARY KEY,
    id BLOB UNIQUE,                         -- 32 bytes
    stack_key INTEGER REFERENCES stacks (key),
    machine_key INTEGER REFERENCES machines (key),
    indicator_key INTEGER REFERENCES indicators (key),
    campaign_key INTEGER REFERENCES campaigns (key),
    block INTEGER NOT NULL,                 -- from 1; 0 outside of blocks
    position INTEGER NOT NULL,              -- within the block, from 0
    role TEXT NOT NULL,                     -- ROLE_CODES of stackgen/model/inspections.py
    outcome TEXT NOT NULL,                  -- OUTCOME_CODES: ok, or how it failed
    started_at TEXT NOT NULL,               -- ISO 8601, UTC
    duration_s NOT NULL,
    log_key INTEGER NOT NULL REFERENCES texts (key),
    unenforced_key INTEGER NOT NULL REFERENCES texts (key),  -- JSON: [limit, ...]
    -- 1 where a public export left out log, limits and circumstances: the id is as it was stated.
    redacted INTEGER NOT NULL DEFAULT 0,
    -- The observation; all NULL unless the outcome is ok.
    -- Seconds per operation, in run order: 8 bytes each, IEEE 754 binary64, most significant byte
    -- first; as JSON where a value is a whole number, below 1e-21 or above 4e15.
    samples,
    best_s REAL,                            -- the fastest sample
    loops INTEGER,
    work,                                   -- FLOP or bytes per operation
    steady INTEGER,
    checksum TEXT,                          -- JSON number; as REAL, nan would become NULL
    peak_memory_bytes INTEGER,
    -- JSON: [[name, value], ...]; a number n in the place of a value stands for "measured"[n].
    environment_key INTEGER REFERENCES texts (key),
    measured TEXT,                          -- JSON: [value, ...], of this inspection alone
    load_set_key INTEGER REFERENCES load_sets (key),
    CHECK ((outcome = 'ok') = (samples IS NOT NULL))
);
CREATE INDEX inspections_by_place ON inspection_rows (campaign_key, block, stack_key, indicator_key, role);
CREATE INDEX inspections_by_stack ON inspection_rows (stack_key);
CREATE INDEX inspections_by_indicator ON inspection_rows (indicator_key, machine_key);
CREATE INDEX inspections_by_failure ON inspection_rows (outcome) WHERE outcome <> 'ok';

CREATE TABLE origins (                      -- the installations that measured
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,                -- random, 32 hexadecimal digits
    label TEXT NOT NULL,                    -- the file from which its rows came first; local
    first_seen TEXT NOT NULL                -- ISO 8601, UTC; local
);

-- Each row has an entry for each installation that is said to have recorded it. Kinds: 1 artifacts,
-- 2 locks, 3 stacks, 4 machines, 5 indicators, 6 campaigns, 7 load_sets, 8 inspections.
CREATE TABLE row_origin_keys (
    kind INTEGER NOT NULL,
    row_key INTEGER NOT NULL,
    origin_key INTEGER NOT NULL REFERENCES origins (key),
    PRIMARY KEY (kind, row_key, origin_key)
) WITHOUT ROWID;
CREATE INDEX row_origin_keys_by_origin ON row_origin_keys (origin_key);

-- What follows is derived, can be made again, and is never handed on.
CREATE TABLE derived_campaigns (            -- whose contrasts are up to date
    campaign_key INTEGER PRIMARY KEY REFERENCES campaigns (key),
    derivation INTEGER NOT NULL             -- DERIVATION of stackgen/knowledge/derived.py
);
CREATE TABLE derived_contrasts (
    campaign_key INTEGER NOT NULL REFERENCES campaigns (key),
    indicator_key INTEGER NOT NULL REFERENCES indicators (key),
    content BLOB NOT NULL,                  -- JSON: the fields of the contrasts
    PRIMARY KEY (campaign_key, indicator_key)
) WITHOUT ROWID;

CREATE VIEW lock_artifacts AS
SELECT locks.id AS lock_id, artifacts.name, artifacts.version, artifacts.sha256
FROM lock_pins JOIN locks ON locks.key = lock_key JOIN artifacts ON artifacts.key = artifact_key;

CREATE VIEW load_set_members AS
SELECT load_sets.id AS load_set_id, position, distributions.name, distributions.version, compiled
FROM load_set_rows JOIN load_sets ON load_sets.key = load_set_key
JOIN distributions ON distributions.key = distribution_key;

CREATE VIEW inspections AS
SELECT lower(hex(i.id)) AS id, stacks.id AS stack_id, machines.id AS machine_id,
       indicators.id AS indicator_id, campaigns.id AS campaign_id, i.block, i.position, i.role,
       i.outcome, i.started_at, i.duration_s,
       (SELECT text FROM texts WHERE key = i.log_key) AS log,
       (SELECT text FROM texts WHERE key = i.unenforced_key) AS unenforced,
       i.redacted,
       CASE typeof(i.samples) WHEN 'blob' THEN (
           WITH RECURSIVE
           place(n) AS (VALUES (0) UNION ALL SELECT n + 1 FROM place WHERE 8 * n + 16 <= length(i.samples)),
           half(n, high, low) AS (
               SELECT n, hex(substr(i.samples, 8 * n + 1, 4)), hex(substr(i.samples, 8 * n + 5, 4)) FROM place
           ),
           word(n, high, low) AS (
               SELECT n,
                      (instr('123456789ABCDEF', substr(high, 1, 1)) << 28)
                      | (instr('123456789ABCDEF', substr(high, 2, 1)) << 24)
                      | (instr('123456789ABCDEF', substr(high, 3, 1)) << 20)
                      | (instr('123456789ABCDEF', substr(high, 4, 1)) << 16)
                      | (instr('123456789ABCDEF', substr(high, 5, 1)) << 12)
                      | (instr('123456789ABCDEF', substr(high, 6, 1)) << 8)
                      | (instr('123456789ABCDEF', substr(high, 7, 1)) << 4)
                      | instr('123456789ABCDEF', substr(high, 8, 1)),
                      (instr('123456789ABCDEF', substr(low, 1, 1)) << 28)
                      | (instr('123456789ABCDEF', substr(low, 2, 1)) << 24)
                      | (instr('123456789ABCDEF', substr(low, 3, 1)) << 20)
                      | (instr('123456789ABCDEF', substr(low, 4, 1)) << 16)
                      | (instr('123456789ABCDEF', substr(low, 5, 1)) << 12)
                      | (instr('123456789ABCDEF', substr(low, 6, 1)) << 8)
                      | (instr('123456789ABCDEF', substr(low, 7, 1)) << 4)
                      | instr('123456789ABCDEF', substr(low, 8, 1))
               FROM half
           ),
           -- Value = fraction / 2^shift, where the shift of what is packed is from 1 to 123.
           part(n, fraction, shift) AS (
               SELECT n, (1 << 52) | ((high & 1048575) << 32) | low, 1075 - ((high >> 20) & 2047) FROM word
           )
           SELECT '[' || group_concat(printf('%!.17g',
               CAST(fraction AS REAL) / (1 << min(shift, 62)) / (1 << max(shift - 62, 0))
           ), ', ') || ']' FROM part
       ) ELSE i.samples END AS values_s,
       i.best_s, i.loops, i.work, i.steady, i.checksum, i.peak_memory_bytes,
       load_sets.id AS load_set_id
FROM inspection_rows AS i
LEFT JOIN stacks ON stacks.key = i.stack_key
LEFT JOIN machines ON machines.key = i.machine_key
LEFT JOIN indicators ON indicators.key = i.indicator_key
LEFT JOIN campaigns ON campaigns.key = i.campaign_key
LEFT JOIN load_sets ON load_sets.key = i.load_set_key;

-- What was recorded around each process: load, clock, variables.
CREATE VIEW inspection_circumstances AS
SELECT lower(hex(i.id)) AS inspection_id, name.value AS name,
       CASE held.type WHEN 'integer' THEN own.value ELSE held.value END AS value
FROM inspection_rows AS i JOIN texts ON texts.key = i.environment_key
JOIN json_each(texts.text) AS pair
JOIN json_each(pair.value) AS name ON name.key = 0
JOIN json_each(pair.value) AS held ON held.key = 1
LEFT JOIN json_each(i.measured) AS own ON held.type = 'integer' AND own.key = held.value;

-- What each process had loaded when it ended.
CREATE VIEW inspection_loaded AS
SELECT lower(hex(i.id)) AS inspection_id, m.position, d.name, d.version, m.compiled
FROM inspection_rows AS i JOIN load_set_rows AS m ON m.load_set_key = i.load_set_key
JOIN distributions AS d ON d.key = m.distribution_key;

-- The statistic that blocks compare: the fastest sample of each process that ended well.
CREATE VIEW timings AS
SELECT id AS inspection_id, stack_id, machine_id, indicator_id, campaign_id, block, role, best_s
FROM inspections WHERE outcome = 'ok';

CREATE VIEW row_origins AS
SELECT CASE kind WHEN 1 THEN 'artifacts' WHEN 2 THEN 'locks' WHEN 3 THEN 'stacks'
                 WHEN 4 THEN 'machines' WHEN 5 THEN 'indicators' WHEN 6 THEN 'campaigns'
                 WHEN 7 THEN 'load_sets' ELSE 'inspections' END AS table_name,
       CASE kind
       WHEN 1 THEN (SELECT json_array(name, version, sha256) FROM artifacts WHERE key = row_key)
       WHEN 2 THEN (SELECT id FROM locks WHERE key = row_key)
       WHEN 3 THEN (SELECT id FROM stacks WHERE key = row_key)
       WHEN 4 THEN (SELECT id FROM machines WHERE key = row_key)
       WHEN 5 THEN (SELECT id FROM indicators WHERE key = row_key)
       WHEN 6 THEN (SELECT id FROM campaigns WHERE key = row_key)
       WHEN 7 THEN (SELECT id FROM load_sets WHERE key = row_key)
       ELSE (SELECT lower(hex(id)) FROM inspection_rows WHERE key = row_key) END AS row_key,
       origins.id AS origin, origins.label, origins.first_seen
FROM row_origin_keys JOIN origins ON origins.key = origin_key;
