-- Version 3: indicators are identified by revisions in place of the digest of their source.

CREATE TABLE id_scheme (                    -- how all ids of this file were computed
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    version INTEGER NOT NULL                -- ID_SCHEME of stackgen/model/identity.py
);

ALTER TABLE indicators ADD COLUMN revision INTEGER NOT NULL DEFAULT 1;  -- of the script
ALTER TABLE indicators ADD COLUMN protocol INTEGER NOT NULL DEFAULT 1;  -- of the harness
-- Of a script that belongs to the identity: a user's own, or one of before there were revisions.
ALTER TABLE indicators ADD COLUMN own_sha256 TEXT NOT NULL DEFAULT '';
