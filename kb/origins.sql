-- Version 2: which knowledge base this is, and which of its rows came from others.

CREATE TABLE identity (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    id TEXT NOT NULL                        -- random; drawn when this version first opens the file
);

CREATE TABLE origins (                      -- the knowledge bases that were merged into this one
    id INTEGER PRIMARY KEY,
    base_id TEXT NOT NULL,                  -- its identity; "" where it had none
    file TEXT NOT NULL,                     -- its name, without folders
    merged_at TEXT NOT NULL,                -- for the first time; ISO 8601, UTC
    UNIQUE (base_id, file)
);

-- Rows without an entry were recorded here; one with several entries came from each of them.
-- Members of locks and load sets have the origin of their lock or load set.
CREATE TABLE row_origins (
    table_name TEXT NOT NULL,
    row_key TEXT NOT NULL,                  -- the id; JSON list where a key has several columns
    origin_id INTEGER NOT NULL REFERENCES origins (id),
    PRIMARY KEY (table_name, row_key, origin_id)
) WITHOUT ROWID;
