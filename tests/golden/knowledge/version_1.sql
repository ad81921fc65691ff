PRAGMA application_id = 1937009511;
PRAGMA user_version = 1;
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
);
INSERT INTO "indicators" VALUES('e254f9c8f889c34f44b004e494e5832c023d154093c14ec7343f37b34c11aa65','numpy/matmul','numpy','a product','','1f',0,300.0,'[]','[["size", "256"]]');
INSERT INTO "indicators" VALUES('1110a082dd33e60f9662c0ceb0e70071715a231f6838ce4f266f859bdc295a74','numpy/matmul','numpy','a product','','2a4360acbaff78546fb073dab4f62c9456c19427edfeea679603bfc74c760e07',0,300.0,'[]','[["size", "256"]]');
INSERT INTO "indicators" VALUES('2425adea09830620793813a4b3a978acb0225e8986f7dda5dad60638ca5cf407','numpy/matmul','numpy','a product','','abababababababababababababababababababababababababababababababab',0,300.0,'[]','[["size", "256"]]');
INSERT INTO "indicators" VALUES('a6dd75aac9124b25eb60a9ba32b5cf2e2f73a05522f317fec53a7547819307fa','smooth','numpy','a product','','cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd',0,300.0,'[]','[["size", "256"]]');
INSERT INTO "indicators" VALUES('2e514b59aeaa901784a0e88f66ea3eee60319025e39c45be14a919c4ee0c3785','program','program','a product','','960a8c408c917451f115a237fae4a03a734159b3b3d23fcbf06570f708af89c5',0,300.0,'[]','[["command", "python train.py"], ["threads", "1"]]');
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
INSERT INTO "inspections" VALUES('9da9b00245155b31c4f5834ad1ea36376ca79e2951d1b140ab9f04a34bc2d731','8dce791acf34d244eea8a42b7a9afe2d56b26a0bf05641c607f9990bb49ebc57','fa3d0073cae406f50b93f41714448671f557c9988f05caed1cbcd554725b817d','1110a082dd33e60f9662c0ceb0e70071715a231f6838ce4f266f859bdc295a74','52b1264f8d6ae7e54f2f6cd08f2bd61d06c4de4c0a39e3e6fc037428f75ad9a1',1,0,'reference','ok','2024-05-01T10:00:00+00:00',1.5,'the end','[]','[0.002, 0.002]',4,NULL,1,NULL,NULL,'[]','b6922dcf3c7b95ac0c52b9eff81d7f8bb09948e2a67b714b2e0f254c80ee15e6');
INSERT INTO "inspections" VALUES('d01ac8954ca3e7eeebb0acf03e6cf17ee0db4ed2d543f957095a792f16adac55','8dce791acf34d244eea8a42b7a9afe2d56b26a0bf05641c607f9990bb49ebc57','fa3d0073cae406f50b93f41714448671f557c9988f05caed1cbcd554725b817d','2425adea09830620793813a4b3a978acb0225e8986f7dda5dad60638ca5cf407','52b1264f8d6ae7e54f2f6cd08f2bd61d06c4de4c0a39e3e6fc037428f75ad9a1',2,0,'challenger','ok','2024-05-01T10:00:00+00:00',1.5,'the end','[]','[0.002, 0.003]',4,NULL,1,NULL,NULL,'[]','b6922dcf3c7b95ac0c52b9eff81d7f8bb09948e2a67b714b2e0f254c80ee15e6');
INSERT INTO "inspections" VALUES('8998b2bc2e3623218fb395989295686b8b483542de7ac7f9160b7101b439d46b','8dce791acf34d244eea8a42b7a9afe2d56b26a0bf05641c607f9990bb49ebc57','fa3d0073cae406f50b93f41714448671f557c9988f05caed1cbcd554725b817d','a6dd75aac9124b25eb60a9ba32b5cf2e2f73a05522f317fec53a7547819307fa','52b1264f8d6ae7e54f2f6cd08f2bd61d06c4de4c0a39e3e6fc037428f75ad9a1',1,0,'twin','ok','2024-05-01T10:00:00+00:00',1.5,'the end','[]','[0.002, 0.002]',4,NULL,1,NULL,NULL,'[]','b6922dcf3c7b95ac0c52b9eff81d7f8bb09948e2a67b714b2e0f254c80ee15e6');
INSERT INTO "inspections" VALUES('5738d108a5cc24a9778582ad08e5a1532a23e2e0c27b53ce489a5094cef96a32','8dce791acf34d244eea8a42b7a9afe2d56b26a0bf05641c607f9990bb49ebc57','fa3d0073cae406f50b93f41714448671f557c9988f05caed1cbcd554725b817d','2e514b59aeaa901784a0e88f66ea3eee60319025e39c45be14a919c4ee0c3785','52b1264f8d6ae7e54f2f6cd08f2bd61d06c4de4c0a39e3e6fc037428f75ad9a1',1,0,'search','ok','2024-05-01T10:00:00+00:00',1.5,'the end','[]','[0.002, 0.002]',4,NULL,1,NULL,NULL,'[]','b6922dcf3c7b95ac0c52b9eff81d7f8bb09948e2a67b714b2e0f254c80ee15e6');
INSERT INTO "inspections" VALUES('2c7fd9b104e28ca89fe24126a13a4c84289ec8b40d4c21c68a3c120a0dc96cab','8dce791acf34d244eea8a42b7a9afe2d56b26a0bf05641c607f9990bb49ebc57','fa3d0073cae406f50b93f41714448671f557c9988f05caed1cbcd554725b817d','1110a082dd33e60f9662c0ceb0e70071715a231f6838ce4f266f859bdc295a74','52b1264f8d6ae7e54f2f6cd08f2bd61d06c4de4c0a39e3e6fc037428f75ad9a1',0,0,'calibration','timeout','2024-05-01T10:00:00+00:00',1.5,'the end','[]',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "inspections" VALUES('e48395cb9d6a0662f854e59985648c35ace2841be6ff1efc00627d370bf48f6e','8dce791acf34d244eea8a42b7a9afe2d56b26a0bf05641c607f9990bb49ebc57','fa3d0073cae406f50b93f41714448671f557c9988f05caed1cbcd554725b817d','1110a082dd33e60f9662c0ceb0e70071715a231f6838ce4f266f859bdc295a74','52b1264f8d6ae7e54f2f6cd08f2bd61d06c4de4c0a39e3e6fc037428f75ad9a1',3,0,'reference','ok','2024-05-01T10:00:00+00:00',1.5,'the end','[]','[0.002, 0.004]',4,NULL,1,NULL,NULL,'[]','b6922dcf3c7b95ac0c52b9eff81d7f8bb09948e2a67b714b2e0f254c80ee15e6');
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
CREATE TABLE releases_seen (
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    first_seen TEXT NOT NULL,               -- ISO 8601, UTC
    PRIMARY KEY (name, version)
) WITHOUT ROWID;
INSERT INTO "releases_seen" VALUES('numpy | virtualenv system | default indicators','2.0.0','2024-06-16T00:00:00+00:00');
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
