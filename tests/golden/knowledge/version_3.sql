PRAGMA application_id = 1937009511;
PRAGMA user_version = 3;
BEGIN TRANSACTION;
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
INSERT INTO "artifacts" VALUES('numpy','1.26.4','numpy1.26.4','numpy-1.26.4-py3-none-any.whl','https://index.invalid/numpy-1.26.4-py3-none-any.whl','default',NULL,NULL,NULL,NULL);
INSERT INTO "artifacts" VALUES('tensorflow','2.12.1','tensorflow2.12.1','tensorflow-2.12.1-py3-none-any.whl','https://index.invalid/tensorflow-2.12.1-py3-none-any.whl','default',NULL,NULL,NULL,NULL);
INSERT INTO "artifacts" VALUES('numpy','2.0.0','numpy2.0.0','numpy-2.0.0-py3-none-any.whl','https://index.invalid/numpy-2.0.0-py3-none-any.whl','default',NULL,NULL,NULL,NULL);
CREATE TABLE campaigns (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,                     -- explore, compare, nightly
    request TEXT NOT NULL,                  -- canonical JSON
    seed TEXT NOT NULL,                     -- a whole number, of any size
    machine_id TEXT NOT NULL REFERENCES machines (id),
    stackgen_version TEXT NOT NULL,         -- that first began it
    started_at TEXT NOT NULL                -- when it first began; ISO 8601, UTC
);
INSERT INTO "campaigns" VALUES('52b1264f8d6ae7e54f2f6cd08f2bd61d06c4de4c0a39e3e6fc037428f75ad9a1','explore','{}','7','fa3d0073cae406f50b93f41714448671f557c9988f05caed1cbcd554725b817d','0.1','2024-05-01T10:00:00+00:00');
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
CREATE TABLE indicators (                   -- one row is a script, in one state, with its arguments
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    component TEXT NOT NULL,
    summary TEXT NOT NULL,
    unit TEXT NOT NULL,                     -- of the work: FLOP, byte; "" where time is all
    sha256 TEXT NOT NULL,                   -- of the script and its harness
    one_shot INTEGER NOT NULL,
    timeout_s NOT NULL,
    parameters TEXT NOT NULL,               -- JSON: [[name, type, default, [allowed], help], ...]
    arguments TEXT NOT NULL                 -- JSON: [[parameter, value], ...]
, revision INTEGER NOT NULL DEFAULT 1, protocol INTEGER NOT NULL DEFAULT 1, own_sha256 TEXT NOT NULL DEFAULT '');
INSERT INTO "indicators" VALUES('1e066d319a5d2488f432b4adc14b8287463ca4a14fb26d256bcb67e9cfc59501','numpy/matmul','numpy','a product','','1f',0,300.0,'[]','[["size", "256"]]',1,1,'1f');
INSERT INTO "indicators" VALUES('b7163353eff559808f78eb3e7ad0c65953a4f992e1ffcaeb5257d783e183d69e','numpy/matmul','numpy','a product','','2a4360acbaff78546fb073dab4f62c9456c19427edfeea679603bfc74c760e07',0,300.0,'[]','[["size", "256"]]',1,1,'');
INSERT INTO "indicators" VALUES('6d68a49c31fa8223806e23a7570d1035258b1fe54592b58b18c14ba1f1bc627f','numpy/matmul','numpy','a product','','abababababababababababababababababababababababababababababababab',0,300.0,'[]','[["size", "256"]]',1,1,'abababababababababababababababababababababababababababababababab');
INSERT INTO "indicators" VALUES('d00d33e3db79e832682bad97e32de4ae32af1896bc94dd2537773f22e230b9bc','smooth','numpy','a product','','cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd',0,300.0,'[]','[["size", "256"]]',1,1,'cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd');
INSERT INTO "indicators" VALUES('636c2c44ac66a0f93cfdef9ed9cf109963781935f0dff0605233e590ceeed551','program','program','a product','','960a8c408c917451f115a237fae4a03a734159b3b3d23fcbf06570f708af89c5',0,300.0,'[]','[["command", "python train.py"], ["threads", "1"]]',1,1,'');
CREATE TABLE inspections (
    id TEXT PRIMARY KEY,
    stack_id TEXT NOT NULL REFERENCES stacks (id),
    machine_id TEXT NOT NULL REFERENCES machines (id),
    indicator_id TEXT NOT NULL REFERENCES indicators (id),
    campaign_id TEXT NOT NULL REFERENCES campaigns (id),
    block INTEGER NOT NULL,                 -- from 1; 0 outside of blocks
    position INTEGER NOT NULL,              -- within the block, from 0
    role TEXT NOT NULL,                     -- reference, twin, challenger, calibration
    outcome TEXT NOT NULL,                  -- ok, or how it failed
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
INSERT INTO "inspections" VALUES('1557205c849350ea456fa34ae43f2d222e42acc140b91c57086bad0ec94fae76','8dce791acf34d244eea8a42b7a9afe2d56b26a0bf05641c607f9990bb49ebc57','fa3d0073cae406f50b93f41714448671f557c9988f05caed1cbcd554725b817d','b7163353eff559808f78eb3e7ad0c65953a4f992e1ffcaeb5257d783e183d69e','52b1264f8d6ae7e54f2f6cd08f2bd61d06c4de4c0a39e3e6fc037428f75ad9a1',1,0,'baseline','ok','2024-05-01T10:00:00+00:00',1.5,'the end','[]','[0.002, 0.002]',4,NULL,1,NULL,NULL,'[]','b6922dcf3c7b95ac0c52b9eff81d7f8bb09948e2a67b714b2e0f254c80ee15e6');
INSERT INTO "inspections" VALUES('7ab9035015ecc9e59c410e0474beca185f363fd1789f4afb5663e198286c0163','8dce791acf34d244eea8a42b7a9afe2d56b26a0bf05641c607f9990bb49ebc57','fa3d0073cae406f50b93f41714448671f557c9988f05caed1cbcd554725b817d','6d68a49c31fa8223806e23a7570d1035258b1fe54592b58b18c14ba1f1bc627f','52b1264f8d6ae7e54f2f6cd08f2bd61d06c4de4c0a39e3e6fc037428f75ad9a1',2,0,'candidate','ok','2024-05-01T10:00:00+00:00',1.5,'the end','[]','[0.002, 0.003]',4,NULL,1,NULL,NULL,'[]','b6922dcf3c7b95ac0c52b9eff81d7f8bb09948e2a67b714b2e0f254c80ee15e6');
INSERT INTO "inspections" VALUES('8e00b55470554289aca2bcebc9329084266538fd747edb7bed523f03f424f25f','8dce791acf34d244eea8a42b7a9afe2d56b26a0bf05641c607f9990bb49ebc57','fa3d0073cae406f50b93f41714448671f557c9988f05caed1cbcd554725b817d','d00d33e3db79e832682bad97e32de4ae32af1896bc94dd2537773f22e230b9bc','52b1264f8d6ae7e54f2f6cd08f2bd61d06c4de4c0a39e3e6fc037428f75ad9a1',1,0,'twin','ok','2024-05-01T10:00:00+00:00',1.5,'the end','[]','[0.002, 0.002]',4,NULL,1,NULL,NULL,'[]','b6922dcf3c7b95ac0c52b9eff81d7f8bb09948e2a67b714b2e0f254c80ee15e6');
INSERT INTO "inspections" VALUES('d34788a777ea3dc723c658ea15cf1a552ff98176fd6480eee609a6d71a969e52','8dce791acf34d244eea8a42b7a9afe2d56b26a0bf05641c607f9990bb49ebc57','fa3d0073cae406f50b93f41714448671f557c9988f05caed1cbcd554725b817d','636c2c44ac66a0f93cfdef9ed9cf109963781935f0dff0605233e590ceeed551','52b1264f8d6ae7e54f2f6cd08f2bd61d06c4de4c0a39e3e6fc037428f75ad9a1',1,0,'search','ok','2024-05-01T10:00:00+00:00',1.5,'the end','[]','[0.002, 0.002]',4,NULL,1,NULL,NULL,'[]','b6922dcf3c7b95ac0c52b9eff81d7f8bb09948e2a67b714b2e0f254c80ee15e6');
INSERT INTO "inspections" VALUES('97ac98c6f822e2aa8250654ef79e69b3028de3c9652ced99c36e3247fc0f7959','8dce791acf34d244eea8a42b7a9afe2d56b26a0bf05641c607f9990bb49ebc57','fa3d0073cae406f50b93f41714448671f557c9988f05caed1cbcd554725b817d','b7163353eff559808f78eb3e7ad0c65953a4f992e1ffcaeb5257d783e183d69e','52b1264f8d6ae7e54f2f6cd08f2bd61d06c4de4c0a39e3e6fc037428f75ad9a1',0,0,'calibration','timeout','2024-05-01T10:00:00+00:00',1.5,'the end','[]',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "inspections" VALUES('a65aeebe01ccb7ff317f413c285828ad3bfdf102b98beace3b2d1141af6ffe8a','8dce791acf34d244eea8a42b7a9afe2d56b26a0bf05641c607f9990bb49ebc57','fa3d0073cae406f50b93f41714448671f557c9988f05caed1cbcd554725b817d','b7163353eff559808f78eb3e7ad0c65953a4f992e1ffcaeb5257d783e183d69e','52b1264f8d6ae7e54f2f6cd08f2bd61d06c4de4c0a39e3e6fc037428f75ad9a1',3,0,'baseline','ok','2024-05-01T10:00:00+00:00',1.5,'the end','[]','[0.002, 0.004]',4,NULL,1,NULL,NULL,'[]','b6922dcf3c7b95ac0c52b9eff81d7f8bb09948e2a67b714b2e0f254c80ee15e6');
CREATE TABLE load_set_members (
    load_set_id TEXT NOT NULL REFERENCES load_sets (id),
    position INTEGER NOT NULL,
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    compiled INTEGER NOT NULL,              -- 1 where a shared library of it was loaded
    PRIMARY KEY (load_set_id, position)
) WITHOUT ROWID;
INSERT INTO "load_set_members" VALUES('b6922dcf3c7b95ac0c52b9eff81d7f8bb09948e2a67b714b2e0f254c80ee15e6',0,'numpy','1.26.4',1);
CREATE TABLE load_sets (id TEXT PRIMARY KEY);
INSERT INTO "load_sets" VALUES('b6922dcf3c7b95ac0c52b9eff81d7f8bb09948e2a67b714b2e0f254c80ee15e6');
CREATE TABLE lock_artifacts (
    lock_id TEXT NOT NULL REFERENCES locks (id),
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    PRIMARY KEY (lock_id, name),
    FOREIGN KEY (name, version, sha256) REFERENCES artifacts (name, version, sha256)
) WITHOUT ROWID;
INSERT INTO "lock_artifacts" VALUES('1ee57fbbf8598f8c88838e34f63fa8b02da3466518158a3c927964884e898309','numpy','2.0.0','numpy2.0.0');
INSERT INTO "lock_artifacts" VALUES('58900a98a3b447aee486cf78f2cc114a843949d7ed1b674cbdef67616a307256','numpy','1.26.4','numpy1.26.4');
INSERT INTO "lock_artifacts" VALUES('58900a98a3b447aee486cf78f2cc114a843949d7ed1b674cbdef67616a307256','tensorflow','2.12.1','tensorflow2.12.1');
CREATE TABLE locks (id TEXT PRIMARY KEY);
INSERT INTO "locks" VALUES('58900a98a3b447aee486cf78f2cc114a843949d7ed1b674cbdef67616a307256');
INSERT INTO "locks" VALUES('1ee57fbbf8598f8c88838e34f63fa8b02da3466518158a3c927964884e898309');
CREATE TABLE machines (
    id TEXT PRIMARY KEY,
    identity TEXT NOT NULL,                 -- JSON: [[name, value], ...]
    circumstances TEXT NOT NULL             -- JSON: [[name, value], ...], as first seen
);
INSERT INTO "machines" VALUES('fa3d0073cae406f50b93f41714448671f557c9988f05caed1cbcd554725b817d','[["cpu", "example"]]','[]');
CREATE TABLE migrations (
    version INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    stackgen_version TEXT NOT NULL,
    applied_at TEXT NOT NULL                -- ISO 8601, UTC
);
INSERT INTO "migrations" VALUES(1,'initial','0.1.0','2024-05-01T00:00:00+00:00');
INSERT INTO "migrations" VALUES(2,'origins','0.1.0','2024-05-01T00:00:00+00:00');
INSERT INTO "migrations" VALUES(3,'id scheme','0.1.0','2024-05-01T00:00:00+00:00');
CREATE TABLE origins (                      -- the knowledge bases that were merged into this one
    id INTEGER PRIMARY KEY,
    base_id TEXT NOT NULL,                  -- its identity; "" where it had none
    file TEXT NOT NULL,                     -- its name, without folders
    merged_at TEXT NOT NULL,                -- for the first time; ISO 8601, UTC
    UNIQUE (base_id, file)
);
INSERT INTO "origins" VALUES(1,'fedcba9876543210fedcba9876543210','theirs.db','2024-06-01T00:00:00+00:00');
CREATE TABLE releases_seen (
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    first_seen TEXT NOT NULL,               -- ISO 8601, UTC
    PRIMARY KEY (name, version)
) WITHOUT ROWID;
INSERT INTO "releases_seen" VALUES('numpy | virtualenv system | default indicators','2.0.0','2024-06-16T00:00:00+00:00');
CREATE TABLE row_origins (
    table_name TEXT NOT NULL,
    row_key TEXT NOT NULL,                  -- the id; JSON list where a key has several columns
    origin_id INTEGER NOT NULL REFERENCES origins (id),
    PRIMARY KEY (table_name, row_key, origin_id)
) WITHOUT ROWID;
INSERT INTO "row_origins" VALUES('inspections','a65aeebe01ccb7ff317f413c285828ad3bfdf102b98beace3b2d1141af6ffe8a',1);
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
INSERT INTO "stacks" VALUES('8dce791acf34d244eea8a42b7a9afe2d56b26a0bf05641c607f9990bb49ebc57','58900a98a3b447aee486cf78f2cc114a843949d7ed1b674cbdef67616a307256','CPython 3.11.2','gcc','glibc 2.36','debian 12','[]','[]');
INSERT INTO "stacks" VALUES('b23b9173820676a6e16e11255a4b9d74c294253cddc09f8d57f613ad50c9945c','1ee57fbbf8598f8c88838e34f63fa8b02da3466518158a3c927964884e898309','CPython 3.11.2','gcc','glibc 2.36','debian 12','[]','[]');
CREATE INDEX lock_artifacts_by_release ON lock_artifacts (name, version);
CREATE INDEX stacks_by_lock ON stacks (lock_id);
CREATE INDEX inspections_by_block ON inspections (campaign_id, block);
CREATE INDEX inspections_by_stack ON inspections (stack_id);
CREATE INDEX inspections_by_indicator ON inspections (indicator_id, machine_id);
CREATE INDEX inspections_by_outcome ON inspections (outcome);
CREATE VIEW inspection_loaded AS
SELECT i.id AS inspection_id, m.position, m.name, m.version, m.compiled
FROM inspections AS i JOIN load_set_members AS m ON m.load_set_id = i.load_set_id;
CREATE VIEW timings AS
SELECT id AS inspection_id, stack_id, machine_id, indicator_id, campaign_id, block, role,
       (SELECT min(value) FROM json_each(inspections.values_s)) AS best_s
FROM inspections WHERE outcome = 'ok';
COMMIT;
