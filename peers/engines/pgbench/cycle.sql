-- An acquire and a release in turn: a transaction of pgbench is one statement, so its log has the latency of each.
\if :is_held
UPDATE lease SET ends = '-infinity' WHERE name = :client_id::text AND token = :token::text;
\set is_held 0
\else
\set token random(1, 9000000000000000000)
INSERT INTO lease AS l (name, token, fence, ends) VALUES (:client_id::text, :token::text, 1, clock_timestamp() + interval '10 s') ON CONFLICT (name) DO UPDATE SET token = excluded.token, fence = l.fence + 1, ends = excluded.ends WHERE l.ends <= clock_timestamp() RETURNING fence;
\set is_held 1
\endif
