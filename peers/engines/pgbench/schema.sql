-- Lease rows as people write them themselves: one row for each name, with an end and a fence.
DROP TABLE IF EXISTS lease;
CREATE TABLE lease (
    name text PRIMARY KEY,
    token text NOT NULL,
    fence bigint NOT NULL,
    ends timestamptz NOT NULL
) WITH (fillfactor = 50);
