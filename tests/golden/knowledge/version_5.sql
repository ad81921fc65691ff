BEGIN TRANSACTION;
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
INSERT INTO "artifacts" VALUES(1,'numpy','1.26.4','numpy1.26.4','numpy-1.26.4-py3-none-any.whl','https://index.invalid/numpy-1.26.4-py3-none-any.whl','default',NULL,NULL,NULL,NULL);
INSERT INTO "artifacts" VALUES(2,'tensorflow','2.12.1','tensorflow2.12.1','tensorflow-2.12.1-py3-none-any.whl','https://index.invalid/tensorflow-2.12.1-py3-none-any.whl','default',NULL,NULL,NULL,NULL);
INSERT INTO "artifacts" VALUES(3,'numpy','2.0.0','numpy2.0.0','numpy-2.0.0-py3-none-any.whl','https://index.invalid/numpy-2.0.0-py3-none-any.whl','default',NULL,NULL,NULL,NULL);
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
INSERT INTO "campaigns" VALUES(1,'52b1264f8d6ae7e54f2f6cd08f2bd61d06c4de4c0a39e3e6fc037428f75ad9a1','explore','{}','7','fa3d0073cae406f50b93f41714448671f557c9988f05caed1cbcd554725b817d','0.1','2024-05-01T10:00:00+00:00');
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
CREATE TABLE distributions (
    key INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    UNIQUE (name, version)
);
INSERT INTO "distributions" VALUES(1,'numpy','1.26.4');
CREATE TABLE id_scheme (                    -- how all ids of this file were computed
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    version INTEGER NOT NULL                -- ID_SCHEME of stackgen/model/identity.py
);
INSERT INTO "id_scheme" VALUES(1,2);
CREATE TABLE identity (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    id TEXT NOT NULL                        -- random; drawn when this version first opens the file
);
INSERT INTO "identity" VALUES(1,'0123456789abcdef0123456789abcdef');
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
INSERT INTO "indicators" VALUES(1,'1e066d319a5d2488f432b4adc14b8287463ca4a14fb26d256bcb67e9cfc59501','numpy/matmul','numpy','a product','','1f',0,300.0,'[]','[["size", "256"]]',1,1,'1f');
INSERT INTO "indicators" VALUES(2,'b7163353eff559808f78eb3e7ad0c65953a4f992e1ffcaeb5257d783e183d69e','numpy/matmul','numpy','a product','','2a4360acbaff78546fb073dab4f62c9456c19427edfeea679603bfc74c760e07',0,300.0,'[]','[["size", "256"]]',1,1,'');
INSERT INTO "indicators" VALUES(3,'6d68a49c31fa8223806e23a7570d1035258b1fe54592b58b18c14ba1f1bc627f','numpy/matmul','numpy','a product','','abababababababababababababababababababababababababababababababab',0,300.0,'[]','[["size", "256"]]',1,1,'abababababababababababababababababababababababababababababababab');
INSERT INTO "indicators" VALUES(4,'d00d33e3db79e832682bad97e32de4ae32af1896bc94dd2537773f22e230b9bc','smooth','numpy','a product','','cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd',0,300.0,'[]','[["size", "256"]]',1,1,'cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd');
INSERT INTO "indicators" VALUES(5,'636c2c44ac66a0f93cfdef9ed9cf109963781935f0dff0605233e590ceeed551','program','program','a product','','960a8c408c917451f115a237fae4a03a734159b3b3d23fcbf06570f708af89c5',0,300.0,'[]','[["command", "python train.py"], ["threads", "1"]]',1,1,'');
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
INSERT INTO "inspection_rows" VALUES(1,X'1557205C849350EA456FA34AE43F2D222E42ACC140B91C57086BAD0EC94FAE76',1,1,2,1,1,0,'baseline','ok','2024-05-01T10:00:00+00:00',1.5,1,2,0,X'3F60624DD2F1A9FC3F60624DD2F1A9FC',0.002,4,NULL,1,NULL,NULL,2,NULL,1);
INSERT INTO "inspection_rows" VALUES(2,X'7AB9035015ECC9E59C410E0474BECA185F363FD1789F4AFB5663E198286C0163',1,1,3,1,2,0,'candidate','ok','2024-05-01T10:00:00+00:00',1.5,1,2,0,X'3F60624DD2F1A9FC3F689374BC6A7EFA',0.002,4,NULL,1,NULL,NULL,2,NULL,1);
INSERT INTO "inspection_rows" VALUES(3,X'8E00B55470554289ACA2BCEBC9329084266538FD747EDB7BED523F03F424F25F',1,1,4,1,1,0,'twin','ok','2024-05-01T10:00:00+00:00',1.5,1,2,0,X'3F60624DD2F1A9FC3F60624DD2F1A9FC',0.002,4,NULL,1,NULL,NULL,2,NULL,1);
INSERT INTO "inspection_rows" VALUES(4,X'D34788A777EA3DC723C658EA15CF1A552FF98176FD6480EEE609A6D71A969E52',1,1,5,1,1,0,'search','ok','2024-05-01T10:00:00+00:00',1.5,1,2,0,X'3F60624DD2F1A9FC3F60624DD2F1A9FC',0.002,4,NULL,1,NULL,NULL,2,NULL,1);
INSERT INTO "inspection_rows" VALUES(5,X'97AC98C6F822E2AA8250654EF79E69B3028DE3C9652CED99C36E3247FC0F7959',1,1,2,1,0,0,'calibration','timeout','2024-05-01T10:00:00+00:00',1.5,1,2,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "inspection_rows" VALUES(6,X'A65AEEBE01CCB7FF317F413C285828AD3BFDF102B98BEACE3B2D1141AF6FFE8A',1,1,2,1,3,0,'baseline','ok','2024-05-01T10:00:00+00:00',1.5,1,2,0,X'3F60624DD2F1A9FC3F70624DD2F1A9FC',0.002,4,NULL,1,NULL,NULL,2,NULL,1);
CREATE TABLE load_set_rows (
    load_set_key INTEGER NOT NULL REFERENCES load_sets (key),
    position INTEGER NOT NULL,
    distribution_key INTEGER REFERENCES distributions (key),
    compiled INTEGER NOT NULL,              -- 1 where a shared library of it was loaded
    PRIMARY KEY (load_set_key, position)
) WITHOUT ROWID;
INSERT INTO "load_set_rows" VALUES(1,0,1,1);
CREATE TABLE load_sets (key INTEGER PRIMARY KEY, id TEXT UNIQUE);
INSERT INTO "load_sets" VALUES(1,'b6922dcf3c7b95ac0c52b9eff81d7f8bb09948e2a67b714b2e0f254c80ee15e6');
CREATE TABLE lock_pins (
    lock_key INTEGER NOT NULL REFERENCES locks (key),
    artifact_key INTEGER NOT NULL REFERENCES artifacts (key),
    PRIMARY KEY (lock_key, artifact_key)
) WITHOUT ROWID;
INSERT INTO "lock_pins" VALUES(1,1);
INSERT INTO "lock_pins" VALUES(1,2);
INSERT INTO "lock_pins" VALUES(2,3);
CREATE TABLE locks (key INTEGER PRIMARY KEY, id TEXT UNIQUE);
INSERT INTO "locks" VALUES(1,'58900a98a3b447aee486cf78f2cc114a843949d7ed1b674cbdef67616a307256');
INSERT INTO "locks" VALUES(2,'1ee57fbbf8598f8c88838e34f63fa8b02da3466518158a3c927964884e898309');
CREATE TABLE machines (
    key INTEGER PRIMARY KEY,
    id TEXT UNIQUE,
    identity TEXT NOT NULL,                 -- JSON: [[name, value], ...]
    circumstances TEXT NOT NULL             -- JSON: [[name, value], ...]
);
INSERT INTO "machines" VALUES(1,'fa3d0073cae406f50b93f41714448671f557c9988f05caed1cbcd554725b817d','[["cpu", "example"]]','[]');
CREATE TABLE migrations (
    version INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    stackgen_version TEXT NOT NULL,
    applied_at TEXT NOT NULL                -- ISO 8601, UTC
);
INSERT INTO "migrations" VALUES(1,'initial','0.1.0','2024-05-01T00:00:00+00:00');
INSERT INTO "migrations" VALUES(2,'origins','0.1.0','2024-05-01T00:00:00+00:00');
INSERT INTO "migrations" VALUES(3,'id scheme','0.1.0','2024-05-01T00:00:00+00:00');
INSERT INTO "migrations" VALUES(4,'state','0.1.0','2024-05-01T00:00:00+00:00');
INSERT INTO "migrations" VALUES(5,'compact','0.1.0','2026-11-22T22:50:36+00:00');
CREATE TABLE origins (                      -- the installations that measured
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,                -- random, 32 hexadecimal digits
    label TEXT NOT NULL,                    -- the file from which its rows came first; local
    first_seen TEXT NOT NULL                -- ISO 8601, UTC; local
);
INSERT INTO "origins" VALUES(1,'0123456789abcdef0123456789abcdef','','2024-05-01T00:00:00+00:00');
INSERT INTO "origins" VALUES(2,'fedcba9876543210fedcba9876543210','theirs.db','2024-06-01T00:00:00+00:00');
CREATE TABLE row_origin_keys (
    kind INTEGER NOT NULL,
    row_key INTEGER NOT NULL,
    origin_key INTEGER NOT NULL REFERENCES origins (key),
    PRIMARY KEY (kind, row_key, origin_key)
) WITHOUT ROWID;
INSERT INTO "row_origin_keys" VALUES(1,1,1);
INSERT INTO "row_origin_keys" VALUES(1,2,1);
INSERT INTO "row_origin_keys" VALUES(1,3,1);
INSERT INTO "row_origin_keys" VALUES(2,1,1);
INSERT INTO "row_origin_keys" VALUES(2,2,1);
INSERT INTO "row_origin_keys" VALUES(3,1,1);
INSERT INTO "row_origin_keys" VALUES(3,2,1);
INSERT INTO "row_origin_keys" VALUES(4,1,1);
INSERT INTO "row_origin_keys" VALUES(5,1,1);
INSERT INTO "row_origin_keys" VALUES(5,2,1);
INSERT INTO "row_origin_keys" VALUES(5,3,1);
INSERT INTO "row_origin_keys" VALUES(5,4,1);
INSERT INTO "row_origin_keys" VALUES(5,5,1);
INSERT INTO "row_origin_keys" VALUES(6,1,1);
INSERT INTO "row_origin_keys" VALUES(7,1,1);
INSERT INTO "row_origin_keys" VALUES(8,1,1);
INSERT INTO "row_origin_keys" VALUES(8,2,1);
INSERT INTO "row_origin_keys" VALUES(8,3,1);
INSERT INTO "row_origin_keys" VALUES(8,4,1);
INSERT INTO "row_origin_keys" VALUES(8,5,1);
INSERT INTO "row_origin_keys" VALUES(8,6,2);
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
INSERT INTO "stacks" VALUES(1,'8dce791acf34d244eea8a42b7a9afe2d56b26a0bf05641c607f9990bb49ebc57','58900a98a3b447aee486cf78f2cc114a843949d7ed1b674cbdef67616a307256','CPython 3.11.2','gcc','glibc 2.36','debian 12','[]','[]');
INSERT INTO "stacks" VALUES(2,'b23b9173820676a6e16e11255a4b9d74c294253cddc09f8d57f613ad50c9945c','1ee57fbbf8598f8c88838e34f63fa8b02da3466518158a3c927964884e898309','CPython 3.11.2','gcc','glibc 2.36','debian 12','[]','[]');
CREATE TABLE texts (                        -- each once: logs, environments, lists of limits
    key INTEGER PRIMARY KEY,
    digest BLOB NOT NULL UNIQUE,            -- first 16 bytes of SHA-256
    text TEXT NOT NULL
);
INSERT INTO "texts" VALUES(1,X'92EB9CD081F0EC170823692B9AF05567','the end');
INSERT INTO "texts" VALUES(2,X'4F53CDA18C2BAA0C0354BB5F9A3ECBE5','[]');
CREATE INDEX lock_pins_by_artifact ON lock_pins (artifact_key);
CREATE INDEX stacks_by_lock ON stacks (lock_id);
CREATE INDEX inspections_by_place ON inspection_rows (campaign_key, block, stack_key, indicator_key, role);
CREATE INDEX inspections_by_stack ON inspection_rows (stack_key);
CREATE INDEX inspections_by_indicator ON inspection_rows (indicator_key, machine_key);
CREATE INDEX inspections_by_failure ON inspection_rows (outcome) WHERE outcome <> 'ok';
CREATE INDEX row_origin_keys_by_origin ON row_origin_keys (origin_key);
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
CREATE VIEW inspection_circumstances AS
SELECT lower(hex(i.id)) AS inspection_id, name.value AS name,
       CASE held.type WHEN 'integer' THEN own.value ELSE held.value END AS value
FROM inspection_rows AS i JOIN texts ON texts.key = i.environment_key
JOIN json_each(texts.text) AS pair
JOIN json_each(pair.value) AS name ON name.key = 0
JOIN json_each(pair.value) AS held ON held.key = 1
LEFT JOIN json_each(i.measured) AS own ON held.type = 'integer' AND own.key = held.value;
CREATE VIEW inspection_loaded AS
SELECT lower(hex(i.id)) AS inspection_id, m.position, d.name, d.version, m.compiled
FROM inspection_rows AS i JOIN load_set_rows AS m ON m.load_set_key = i.load_set_key
JOIN distributions AS d ON d.key = m.distribution_key;
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
COMMIT;
PRAGMA user_version = 5;
PRAGMA application_id = 1937009511;
