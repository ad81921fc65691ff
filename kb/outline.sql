-- Version 6: what is derived of the whole knowledge base; made again when it is missing.
CREATE TABLE derived_outline (
    key INTEGER PRIMARY KEY CHECK (key = 1),
    stamp TEXT NOT NULL,                    -- what it was made of
    content BLOB NOT NULL                   -- MessagePack: stackgen/knowledge/outline.py
);
