-- Version 5: copies the tables of version 4 (here with the suffix _4). The functions are those of
-- stackgen/knowledge/migrations.py; they are given bytes, since a text may not be valid UTF-8.

INSERT INTO artifacts (name, version, sha256, filename, url, index_name, size, requires_python, uploaded, yanked)
SELECT name, version, sha256, filename, url, index_name, size, requires_python, uploaded, yanked
FROM artifacts_4 ORDER BY rowid;
INSERT INTO locks (id) SELECT id FROM locks_4 ORDER BY rowid;
INSERT OR IGNORE INTO lock_pins
SELECT coalesce(locks.key, -1), coalesce(artifacts.key, -1) FROM lock_artifacts_4 AS old
LEFT JOIN locks ON locks.id = old.lock_id
LEFT JOIN artifacts ON (artifacts.name, artifacts.version, artifacts.sha256) = (old.name, old.version, old.sha256);
INSERT INTO stacks (id, lock_id, python, python_build, libc, distribution, system_packages, settings)
SELECT id, lock_id, python, python_build, libc, distribution, system_packages, settings
FROM stacks_4 ORDER BY rowid;
INSERT INTO machines (id, identity, circumstances)
SELECT id, identity, circumstances FROM machines_4 ORDER BY rowid;
INSERT INTO indicators (id, name, component, summary, unit, sha256, one_shot, timeout_s, parameters, arguments, revision, protocol, own_sha256)
SELECT id, name, component, summary, unit, sha256, one_shot, timeout_s, parameters, arguments, revision, protocol, own_sha256
FROM indicators_4 ORDER BY rowid;
INSERT INTO campaigns (id, kind, request, seed, machine_id, stackgen_version, started_at)
SELECT id, kind, request, seed, machine_id, stackgen_version, started_at FROM campaigns_4 ORDER BY rowid;
INSERT INTO distributions (name, version) SELECT DISTINCT name, version FROM load_set_members_4;
INSERT INTO load_sets (id) SELECT id FROM load_sets_4 ORDER BY rowid;
INSERT INTO load_set_rows
SELECT coalesce(load_sets.key, -1), old.position, distributions.key, old.compiled
FROM load_set_members_4 AS old
LEFT JOIN load_sets ON load_sets.id = old.load_set_id
JOIN distributions ON (distributions.name, distributions.version) = (old.name, old.version);

INSERT OR IGNORE INTO texts (digest, text)
SELECT digest(typeof(text), CAST(text AS BLOB)), text FROM (
    SELECT log AS text FROM inspections_4
    UNION ALL SELECT unenforced FROM inspections_4
    UNION ALL SELECT shared(CAST(circumstances AS BLOB)) FROM inspections_4 WHERE circumstances IS NOT NULL
);
INSERT INTO inspection_rows (
    id, stack_key, machine_key, indicator_key, campaign_key, block, position, role, outcome, started_at,
    duration_s, log_key, unenforced_key, samples, best_s, loops, work, steady, checksum,
    peak_memory_bytes, environment_key, measured, load_set_key
)
SELECT CASE WHEN length(old.id) = 64 AND old.id NOT GLOB '*[^0-9a-f]*' THEN idbytes(CAST(old.id AS BLOB)) ELSE old.id END,
       stacks.key, machines.key, indicators.key, campaigns.key, old.block, old.position, old.role,
       old.outcome, old.started_at, old.duration_s,
       (SELECT key FROM texts WHERE texts.digest = digest(typeof(old.log), CAST(old.log AS BLOB))),
       (SELECT key FROM texts WHERE texts.digest = digest(typeof(old.unenforced), CAST(old.unenforced AS BLOB))),
       packed(CAST(old.values_s AS BLOB)), fastest(CAST(old.values_s AS BLOB)), old.loops, old.work,
       old.steady, old.checksum, old.peak_memory_bytes,
       (SELECT key FROM texts WHERE texts.digest = digest(
           typeof(shared(CAST(old.circumstances AS BLOB))), CAST(shared(CAST(old.circumstances AS BLOB)) AS BLOB))),
       own(CAST(old.circumstances AS BLOB)), load_sets.key
FROM inspections_4 AS old
LEFT JOIN stacks ON stacks.id = old.stack_id
LEFT JOIN machines ON machines.id = old.machine_id
LEFT JOIN indicators ON indicators.id = old.indicator_id
LEFT JOIN campaigns ON campaigns.id = old.campaign_id
LEFT JOIN load_sets ON load_sets.id = old.load_set_id
ORDER BY old.rowid;

INSERT INTO origins (id, label, first_seen)
SELECT identity.id, '', coalesce((SELECT min(applied_at) FROM migrations), '') FROM identity;
INSERT OR IGNORE INTO origins (id, label, first_seen)
SELECT named(base_id, file), file, min(merged_at) FROM origins_4 GROUP BY named(base_id, file) ORDER BY origins_4.id;

CREATE TEMP TABLE recorded (kind INTEGER, table_name TEXT, row_key INTEGER, id TEXT);
INSERT INTO recorded SELECT 1, 'artifacts', key, named_key(name, version, sha256) FROM artifacts;
INSERT INTO recorded SELECT 2, 'locks', key, id FROM locks;
INSERT INTO recorded SELECT 3, 'stacks', key, id FROM stacks;
INSERT INTO recorded SELECT 4, 'machines', key, id FROM machines;
INSERT INTO recorded SELECT 5, 'indicators', key, id FROM indicators;
INSERT INTO recorded SELECT 6, 'campaigns', key, id FROM campaigns;
INSERT INTO recorded SELECT 7, 'load_sets', key, id FROM load_sets;
INSERT INTO recorded SELECT 8, 'inspections', key, CASE typeof(id) WHEN 'blob' THEN lower(hex(id)) ELSE id END FROM inspection_rows;
INSERT INTO row_origin_keys
SELECT DISTINCT recorded.kind, recorded.row_key, origins.key
FROM recorded JOIN row_origins_4 AS old ON (old.table_name, old.row_key) = (recorded.table_name, recorded.id)
JOIN origins_4 ON origins_4.id = old.origin_id
JOIN origins ON origins.id = named(origins_4.base_id, origins_4.file);
INSERT INTO row_origin_keys
SELECT kind, row_key, 1 FROM recorded
WHERE NOT EXISTS (SELECT 1 FROM row_origin_keys AS known WHERE (known.kind, known.row_key) = (recorded.kind, recorded.row_key));
DROP TABLE recorded;
DELETE FROM origins WHERE key NOT IN (SELECT origin_key FROM row_origin_keys);
