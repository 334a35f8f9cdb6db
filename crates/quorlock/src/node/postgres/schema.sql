-- What `quorlock init` creates, in one transaction. {schema} is the quoted name of the schema.
--
-- Every command of a client is one call of one function, and one statement has one call or several, so a pooler
-- may give each to another session.
-- A function first locks the row of the name, then reads the clock, then decides. An acquire also takes an
-- advisory lock, which transactions that called quorlock_check share: it waits for them, and all other commands
-- do not, so that a holder can extend meanwhile.
-- Results: 0 done (an acquire raised the counter), above 0 a counter, -1 taken, -2 gone, and other negative
-- numbers that the client knows.
--
-- All functions run with the rights of their owner, so none may find a foreign function, operator or type. Most
-- fix the search path. `acquire` and `release` name the schema of everything instead, because that is faster.

CREATE SCHEMA IF NOT EXISTS {schema};

-- One row: which server this memory belongs to.
CREATE TABLE IF NOT EXISTS {schema}.memory (
    only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    version integer NOT NULL,
    -- The longest ttl that clients may use.
    longest_ms bigint NOT NULL,
    -- The cluster of files and the timeline of its log. Another one may have forgotten the last commits.
    system bigint NOT NULL,
    timeline text NOT NULL,
    -- The run of the server in which the above was last compared.
    run timestamptz NOT NULL,
    -- When a client first met another server than before, until the quarantine is over.
    changed timestamptz,
    -- Whether that is another cluster of files, which no replication can explain.
    is_moved boolean NOT NULL DEFAULT false,
    swept timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE IF NOT EXISTS {schema}.lock (
    name text COLLATE "C" PRIMARY KEY,
    -- The highest fence that was handed out; 0 if none was.
    counter bigint NOT NULL DEFAULT 0,
    -- The exclusive holder.
    token text,
    fence bigint,
    label text,
    -- When the last hold ends, of the exclusive holder or of the readers.
    ends timestamptz,
    -- Readers: token, fence, label, end, and the highest fence that was given up by a downgrade.
    readers jsonb,
    no_readers_until timestamptz,
    -- Of a semaphore: how many slots it has, and which client was refused last.
    slots integer,
    refused integer,
    refused_at timestamptz,
    -- Until when a client listens.
    awaited_until timestamptz,
    -- Until when undone attempts of this name are kept.
    undone_until timestamptz,
    used timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- Attempts that were released although they had not been answered: they must not take effect later.
CREATE TABLE IF NOT EXISTS {schema}.undone (
    token text COLLATE "C",
    name text COLLATE "C",
    until timestamptz NOT NULL,
    PRIMARY KEY (token, name)
);

-- The timeline of this server; raises an error on a standby.
CREATE OR REPLACE FUNCTION {schema}.timeline() RETURNS text
LANGUAGE sql VOLATILE AS $$ SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8) $$;

-- For how many milliseconds this server may not vote yet. A server that was not compared with what is
-- recorded is compared now. Where replication is synchronous, a standby that took over has all commits.
CREATE OR REPLACE FUNCTION {schema}.quarantine(p_durable boolean) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    m {schema}.memory;
    here bigint;
    line text := {schema}.timeline();
    left_ms bigint := 0;
BEGIN
    SELECT * INTO STRICT m FROM {schema}.memory FOR UPDATE;
    SELECT system_identifier INTO here FROM pg_control_system();
    IF m.system <> here OR m.timeline <> line THEN
        m.is_moved := m.system <> here OR m.is_moved;
        m.changed := clock_timestamp();
    END IF;
    IF m.changed IS NOT NULL THEN
        left_ms := {schema}.quarantine_left(m.changed, m.longest_ms);
    END IF;
    UPDATE {schema}.memory SET system = here, timeline = line, run = pg_postmaster_start_time(),
        changed = CASE WHEN left_ms > 0 THEN m.changed END, is_moved = m.is_moved AND left_ms > 0;
    RETURN CASE WHEN p_durable AND NOT m.is_moved THEN 0 ELSE left_ms END;
END $$;

-- Ten seconds more than the longest ttl: the clocks of two servers and of clients differ.
CREATE OR REPLACE FUNCTION {schema}.quarantine_left(p_changed timestamptz, p_longest_ms bigint) RETURNS bigint
LANGUAGE sql VOLATILE AS $$
    SELECT greatest(0, ceil(p_longest_ms * 1.01 + 10000
        - extract(epoch FROM clock_timestamp() - p_changed) * 1000))::bigint
$$;

-- An exclusive hold. If the name is free, its counter below the proposal, and nothing else unusual, one
-- statement decides.
CREATE OR REPLACE FUNCTION {schema}.acquire(
    p_name text, p_token text, p_proposal bigint, p_label text, p_ttl_ms bigint,
    p_durable boolean, p_row_timeout_ms integer
) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
BEGIN
    UPDATE {schema}.lock l SET
        counter = p_proposal, token = p_token, fence = p_proposal, label = p_label, readers = NULL,
        ends = pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+)
            (p_ttl_ms OPERATOR(pg_catalog.*) interval '1 ms'),
        used = pg_catalog.clock_timestamp()
        FROM {schema}.memory m
        WHERE l.name OPERATOR(pg_catalog.=) p_name
        AND l.counter OPERATOR(pg_catalog.<) p_proposal
        AND (l.ends IS NULL OR l.ends OPERATOR(pg_catalog.<=) pg_catalog.clock_timestamp())
        AND l.undone_until IS NULL
        AND m.changed IS NULL
        AND m.longest_ms OPERATOR(pg_catalog.>=) p_ttl_ms
        AND m.run OPERATOR(pg_catalog.=) pg_catalog.pg_postmaster_start_time()
        AND m.timeline OPERATOR(pg_catalog.=)
            pg_catalog.left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 8)
        AND pg_catalog.current_setting('synchronous_commit')
            OPERATOR(pg_catalog.=) ANY ('{on,remote_write,remote_apply}'::pg_catalog.text[])
        AND pg_catalog.pg_try_advisory_xact_lock({advisory}, pg_catalog.hashtext(p_name));
    IF FOUND THEN
        RETURN 0;
    END IF;
    RETURN {schema}.acquire_slowly(p_name, p_token, p_proposal, p_label, p_ttl_ms, p_durable, p_row_timeout_ms);
END $$;

-- An exclusive hold, with everything that can be unusual.
CREATE OR REPLACE FUNCTION {schema}.acquire_slowly(
    p_name text, p_token text, p_proposal bigint, p_label text, p_ttl_ms bigint,
    p_durable boolean, p_row_timeout_ms integer
) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    r {schema}.lock;
    moment timestamptz;
    refused bigint;
BEGIN
    -- A name that is held is refused without waiting for its row.
    IF EXISTS (SELECT FROM {schema}.lock l WHERE l.name = p_name AND l.ends > clock_timestamp()) THEN
        RETURN -1;
    END IF;
    IF {schema}.must_wait(p_name, p_row_timeout_ms) THEN
        RETURN -6;
    END IF;
    r := {schema}.row_for_vote(p_name, p_row_timeout_ms);
    moment := clock_timestamp();
    IF r.name IS NULL OR r.ends > moment
        OR r.undone_until > moment AND {schema}.is_undone(p_token, p_name)
    THEN
        RETURN -1;
    END IF;
    refused := {schema}.refusal(p_ttl_ms, p_durable);
    IF refused < 0 THEN
        RETURN refused;
    END IF;
    UPDATE {schema}.lock SET
        counter = greatest(counter, p_proposal), token = p_token, fence = p_proposal, label = p_label,
        ends = moment + p_ttl_ms * interval '1 ms', readers = NULL, used = moment,
        undone_until = CASE WHEN undone_until > moment THEN undone_until END
        WHERE name = p_name;
    RETURN CASE WHEN p_proposal = 0 OR r.counter < p_proposal THEN 0 ELSE r.counter END;
END $$;

-- The row of a name, locked for a vote and created if there is none. The commit will be durable, whatever the
-- session is set to.
CREATE OR REPLACE FUNCTION {schema}.row_for_vote(p_name text, p_row_timeout_ms integer) RETURNS {schema}.lock
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    r {schema}.lock;
BEGIN
    PERFORM {schema}.be_durable();
    IF p_row_timeout_ms > 0 THEN
        PERFORM set_config('lock_timeout', p_row_timeout_ms::text, true);
    END IF;
    PERFORM pg_advisory_xact_lock({advisory}, hashtext(p_name));
    INSERT INTO {schema}.lock (name) VALUES (p_name) ON CONFLICT DO NOTHING;
    SELECT * INTO r FROM {schema}.lock WHERE name = p_name FOR NO KEY UPDATE;
    RETURN r;
END $$;

-- Whether a vote that must not wait would wait for a transaction that called quorlock_check.
CREATE OR REPLACE FUNCTION {schema}.must_wait(p_name text, p_row_timeout_ms integer) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN p_row_timeout_ms < 0 AND NOT pg_try_advisory_xact_lock({advisory}, hashtext(p_name));
END $$;

CREATE OR REPLACE FUNCTION {schema}.be_durable() RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF current_setting('synchronous_commit') IN ('off', 'local') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
END $$;

-- Why this server may not vote for such a ttl; 0 if it may.
CREATE OR REPLACE FUNCTION {schema}.refusal(p_ttl_ms bigint, p_durable boolean) RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    m {schema}.memory;
    left_ms bigint := 0;
BEGIN
    SELECT * INTO STRICT m FROM {schema}.memory;
    IF m.run <> pg_postmaster_start_time() OR m.timeline <> {schema}.timeline()
        OR m.changed IS NOT NULL AND (m.is_moved OR NOT p_durable)
    THEN
        left_ms := {schema}.quarantine(p_durable);
    END IF;
    RETURN CASE
        WHEN left_ms > 0 THEN -1000 - left_ms
        WHEN p_ttl_ms > m.longest_ms AND NOT p_durable THEN -4
        ELSE 0
    END;
END $$;

CREATE OR REPLACE FUNCTION {schema}.is_undone(p_token text, p_name text) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM {schema}.undone u WHERE u.token = p_token AND u.name = p_name)
$$;

-- The readers whose time is not over.
CREATE OR REPLACE FUNCTION {schema}.live(p_readers jsonb, p_moment timestamptz) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT coalesce(jsonb_object_agg(key, value) FILTER (WHERE (value->>'ends')::timestamptz > p_moment), '{}')
    FROM jsonb_each(coalesce(p_readers, '{}'))
$$;

-- When the last of these readers ends.
CREATE OR REPLACE FUNCTION {schema}.last_end(p_readers jsonb) RETURNS timestamptz
LANGUAGE sql STABLE AS $$
    SELECT max((value->>'ends')::timestamptz) FROM jsonb_each(coalesce(p_readers, '{}'))
$$;

-- A shared hold, or an exclusive one of the only reader.
CREATE OR REPLACE FUNCTION {schema}.share(
    p_name text, p_token text, p_proposal bigint, p_label text, p_ttl_ms bigint,
    p_durable boolean, p_upgrade boolean, p_row_timeout_ms integer
) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    r {schema}.lock;
    moment timestamptz;
    live jsonb;
    refused bigint;
    result bigint;
BEGIN
    -- A name that another client holds exclusively is refused without waiting for its row.
    IF EXISTS (SELECT FROM {schema}.lock l
        WHERE l.name = p_name AND l.token <> p_token AND l.ends > clock_timestamp())
    THEN
        RETURN -1;
    END IF;
    IF {schema}.must_wait(p_name, p_row_timeout_ms) THEN
        RETURN -6;
    END IF;
    r := {schema}.row_for_vote(p_name, p_row_timeout_ms);
    moment := clock_timestamp();
    IF r.name IS NULL
        OR r.undone_until > moment AND NOT p_upgrade AND {schema}.is_undone(p_token, p_name)
    THEN
        RETURN -1;
    END IF;
    refused := {schema}.refusal(p_ttl_ms, p_durable);
    IF refused < 0 THEN
        RETURN refused;
    END IF;
    IF r.ends IS NULL OR r.ends <= moment THEN
        r.token := NULL;
        live := '{}';
    ELSE
        live := {schema}.live(r.readers, moment);
    END IF;
    result := CASE WHEN p_proposal = 0 OR r.counter < p_proposal THEN 0 ELSE r.counter END;
    IF p_upgrade THEN
        IF r.token = p_token THEN
            NULL; -- It is exclusive already.
        ELSIF r.token IS NOT NULL OR (live - p_token) <> '{}' THEN
            RETURN -1;
        ELSIF NOT live ? p_token THEN
            RETURN -2;
        -- A downgrade came first, and has undone it.
        ELSIF p_proposal > 0 AND p_proposal <= (live->p_token->>'given_up')::bigint THEN
            RETURN -1;
        END IF;
        UPDATE {schema}.lock SET
            counter = greatest(counter, p_proposal), token = p_token, fence = p_proposal, label = p_label,
            ends = greatest(moment + p_ttl_ms * interval '1 ms', r.ends), readers = NULL, used = moment
            WHERE name = p_name;
        RETURN result;
    END IF;
    -- A vote that arrives twice changes nothing. It is not refused as taken: its release must be executed.
    IF live ? p_token THEN
        RETURN -2;
    END IF;
    IF r.token IS NOT NULL OR r.no_readers_until > moment THEN
        RETURN -1;
    END IF;
    IF (SELECT count(*) FROM jsonb_object_keys(live)) >= 256 THEN
        RETURN -3;
    END IF;
    live := live || jsonb_build_object(p_token, jsonb_build_object(
        'fence', p_proposal, 'label', p_label, 'ends', moment + p_ttl_ms * interval '1 ms'));
    UPDATE {schema}.lock SET
        counter = greatest(counter, p_proposal), token = NULL, fence = NULL, label = NULL,
        ends = {schema}.last_end(live), readers = live, used = moment
        WHERE name = p_name;
    RETURN result;
END $$;

-- The row of a name whose holder changes something, locked, without the holds that are over.
CREATE OR REPLACE FUNCTION {schema}.held(p_name text, p_row_timeout_ms integer) RETURNS {schema}.lock
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    r {schema}.lock;
BEGIN
    IF p_row_timeout_ms > 0 THEN
        PERFORM set_config('lock_timeout', p_row_timeout_ms::text, true);
    END IF;
    SELECT * INTO r FROM {schema}.lock WHERE name = p_name FOR NO KEY UPDATE;
    IF r.ends IS NULL OR r.ends <= clock_timestamp() THEN
        r.token := NULL;
        r.ends := NULL;
        r.readers := '{}';
    ELSE
        r.readers := {schema}.live(r.readers, clock_timestamp());
    END IF;
    RETURN r;
END $$;

CREATE OR REPLACE FUNCTION {schema}.stamp(
    p_name text, p_token text, p_at_least bigint, p_row_timeout_ms integer
) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    r {schema}.lock := {schema}.held(p_name, p_row_timeout_ms);
    stamped bigint;
BEGIN
    PERFORM {schema}.be_durable();
    IF r.token IS DISTINCT FROM p_token AND NOT r.readers ? p_token THEN
        RETURN CASE WHEN r.token IS NULL THEN -2 ELSE -1 END;
    END IF;
    stamped := greatest(r.counter + 1, p_at_least);
    IF stamped >= 9007199254740992 THEN
        RETURN -5;
    END IF;
    IF r.token = p_token THEN
        UPDATE {schema}.lock SET counter = stamped, fence = stamped, used = clock_timestamp()
            WHERE name = p_name;
    ELSE
        UPDATE {schema}.lock SET counter = stamped, used = clock_timestamp(),
            readers = jsonb_set(r.readers, ARRAY[p_token, 'fence'], to_jsonb(stamped))
            WHERE name = p_name;
    END IF;
    RETURN stamped;
END $$;

CREATE OR REPLACE FUNCTION {schema}.extend(
    p_name text, p_token text, p_ttl_ms bigint, p_exclusive boolean, p_row_timeout_ms integer
) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    r {schema}.lock := {schema}.held(p_name, p_row_timeout_ms);
    until timestamptz := clock_timestamp() + p_ttl_ms * interval '1 ms';
BEGIN
    PERFORM {schema}.be_durable();
    IF r.token = p_token THEN
        UPDATE {schema}.lock SET ends = greatest(r.ends, until), used = clock_timestamp()
            WHERE name = p_name;
        RETURN 0;
    END IF;
    IF r.token IS NOT NULL THEN
        RETURN -1;
    END IF;
    IF p_exclusive OR NOT r.readers ? p_token THEN
        RETURN -2;
    END IF;
    until := greatest(until, (r.readers->p_token->>'ends')::timestamptz);
    r.readers := jsonb_set(r.readers, ARRAY[p_token, 'ends'], to_jsonb(until));
    UPDATE {schema}.lock SET ends = greatest(r.ends, until), readers = r.readers, used = clock_timestamp()
        WHERE name = p_name;
    RETURN 0;
END $$;

CREATE OR REPLACE FUNCTION {schema}.downgrade(
    p_name text, p_token text, p_at_most bigint, p_fence bigint, p_row_timeout_ms integer
) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    r {schema}.lock := {schema}.held(p_name, p_row_timeout_ms);
    reader jsonb;
BEGIN
    PERFORM {schema}.be_durable();
    IF r.token = p_token THEN
        -- A later upgrade has a higher fence.
        IF r.fence > p_at_most THEN
            RETURN -1;
        END IF;
        r.readers := '{}';
        reader := jsonb_build_object('label', r.label, 'ends', r.ends);
    ELSIF r.readers ? p_token THEN
        reader := r.readers->p_token;
        IF (reader->>'fence')::bigint > p_at_most THEN
            RETURN -1;
        END IF;
    ELSE
        RETURN CASE WHEN r.token IS NULL THEN -2 ELSE -1 END;
    END IF;
    -- An upgrade with such a fence may still be on its way, and is too late.
    reader := reader || jsonb_build_object('fence', p_fence,
        'given_up', greatest(p_at_most, (reader->>'given_up')::bigint));
    UPDATE {schema}.lock SET token = NULL, fence = NULL, label = NULL,
        readers = r.readers || jsonb_build_object(p_token, reader), used = clock_timestamp()
        WHERE name = p_name;
    PERFORM {schema}.hint(p_name, p_name, r.awaited_until);
    RETURN 0;
END $$;

-- Wakes the clients that listen, if there are any. A notification costs every commit of the database a
-- common lock.
CREATE OR REPLACE FUNCTION {schema}.hint(p_name text, p_topic text, p_awaited timestamptz) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF p_topic <> p_name THEN
        SELECT awaited_until INTO p_awaited FROM {schema}.lock WHERE name = p_topic;
    END IF;
    IF p_awaited > clock_timestamp() THEN
        PERFORM pg_notify({channel}, p_topic);
    END IF;
END $$;

-- A release that is lost in a crash costs the rest of the ttl and no more, so it does not wait for the disk.
-- A later acquire does, and the log is written in its order.
-- That is so for the whole transaction: a statement that releases must not call anything but releases.
CREATE OR REPLACE FUNCTION {schema}.release(
    p_name text, p_token text, p_topic text, p_quiet boolean, p_row_timeout_ms integer
) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
DECLARE
    awaited pg_catalog.timestamptz;
BEGIN
    UPDATE {schema}.lock l SET
        token = NULL, fence = NULL, label = NULL, ends = NULL, used = pg_catalog.clock_timestamp()
        WHERE l.name OPERATOR(pg_catalog.=) p_name AND l.token OPERATOR(pg_catalog.=) p_token
        AND l.ends OPERATOR(pg_catalog.>) pg_catalog.clock_timestamp()
        RETURNING CASE WHEN pg_catalog.set_config('synchronous_commit', 'off', true) IS NULL THEN NULL
            WHEN p_name OPERATOR(pg_catalog.<>) p_topic THEN 'infinity'::pg_catalog.timestamptz
            ELSE l.awaited_until END
        INTO awaited;
    IF NOT FOUND THEN
        RETURN {schema}.leave(p_name, p_token, p_topic, p_quiet, p_row_timeout_ms);
    END IF;
    IF awaited IS NOT NULL AND NOT p_quiet THEN
        PERFORM {schema}.hint(p_name, p_topic, awaited);
    END IF;
    RETURN 0;
END $$;

-- Ends the hold of a token, exclusive or shared.
CREATE OR REPLACE FUNCTION {schema}.leave(
    p_name text, p_token text, p_topic text, p_quiet boolean, p_row_timeout_ms integer
) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    r {schema}.lock := {schema}.held(p_name, p_row_timeout_ms);
BEGIN
    IF r.token IS DISTINCT FROM p_token AND NOT r.readers ? p_token THEN
        RETURN CASE WHEN r.token IS NULL THEN -2 ELSE -1 END;
    END IF;
    r.readers := r.readers - p_token;
    UPDATE {schema}.lock SET token = NULL, fence = NULL, label = NULL,
        ends = {schema}.last_end(r.readers), readers = NULLIF(r.readers, '{}'), used = clock_timestamp()
        WHERE name = p_name;
    IF NOT p_quiet THEN
        PERFORM {schema}.hint(p_name, p_topic, r.awaited_until);
    END IF;
    RETURN 0;
END $$;

-- Releases, and makes sure that an acquire with this token has no effect if it arrives later.
CREATE OR REPLACE FUNCTION {schema}.undo(
    p_name text, p_token text, p_topic text, p_quiet boolean, p_row_timeout_ms integer
) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    result bigint;
BEGIN
    PERFORM {schema}.be_durable();
    INSERT INTO {schema}.lock (name) VALUES (p_name) ON CONFLICT DO NOTHING;
    result := {schema}.leave(p_name, p_token, p_topic, p_quiet, p_row_timeout_ms);
    UPDATE {schema}.lock SET undone_until = moment + interval '1 day', used = moment WHERE name = p_name;
    INSERT INTO {schema}.undone VALUES (p_token, p_name, moment + interval '1 day') ON CONFLICT DO NOTHING;
    RETURN result;
END $$;

CREATE OR REPLACE FUNCTION {schema}.hold_off_readers(p_name text, p_ttl_ms bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    INSERT INTO {schema}.lock (name) VALUES (p_name) ON CONFLICT DO NOTHING;
    UPDATE {schema}.lock SET no_readers_until = CASE WHEN p_ttl_ms > 0
        THEN clock_timestamp() + least(p_ttl_ms, 10000) * interval '1 ms' END WHERE name = p_name;
    RETURN 0;
END $$;

-- Announces that a client listens for the topic.
CREATE OR REPLACE FUNCTION {schema}.await(p_topic text, p_for_ms bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    INSERT INTO {schema}.lock (name) VALUES (p_topic) ON CONFLICT DO NOTHING;
    UPDATE {schema}.lock SET awaited_until = clock_timestamp() + p_for_ms * interval '1 ms'
        WHERE name = p_topic AND (awaited_until IS NULL
            OR awaited_until < clock_timestamp() + p_for_ms * interval '0.5 ms');
    RETURN 0;
END $$;

-- The counter, how long the name is held, the exclusive holder, and up to p_most readers, one per line.
CREATE OR REPLACE FUNCTION {schema}.inspect(
    p_name text, p_most integer,
    OUT counter bigint, OUT left_ms bigint, OUT holder text, OUT readers text
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    r {schema}.lock;
    moment timestamptz := clock_timestamp();
BEGIN
    SELECT * INTO r FROM {schema}.lock l WHERE l.name = p_name;
    counter := coalesce(r.counter, 0);
    IF r.ends > moment THEN
        left_ms := ceil(extract(epoch FROM r.ends - moment) * 1000);
        IF r.token IS NOT NULL THEN
            holder := concat_ws(' ', r.token, r.fence, r.label);
        ELSE
            SELECT string_agg(concat_ws(' ', key, value->>'fence', value->>'label'), chr(10) ORDER BY ends)
                INTO inspect.readers
                FROM (SELECT key, value, (value->>'ends')::timestamptz AS ends
                    FROM jsonb_each({schema}.live(r.readers, moment)) ORDER BY ends LIMIT p_most) few;
        END IF;
    END IF;
END $$;

-- p_record: 0 nothing, 1 the number unless one is recorded, 2 the number, 3 that a client was refused.
CREATE OR REPLACE FUNCTION {schema}.slots(
    p_name text, p_count integer, p_record integer,
    OUT recorded integer, OUT refused integer, OUT refused_ms bigint, OUT taken text
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    r {schema}.lock;
BEGIN
    IF p_record > 0 THEN
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
    SELECT * INTO r FROM {schema}.lock l WHERE l.name = p_name;
    IF p_record = 2 AND r.slots IS DISTINCT FROM p_count OR p_record = 1 AND r.slots IS NULL THEN
        INSERT INTO {schema}.lock (name) VALUES (p_name) ON CONFLICT DO NOTHING;
        UPDATE {schema}.lock l SET slots = p_count, refused = NULL, refused_at = NULL, used = clock_timestamp()
            WHERE l.name = p_name AND (p_record = 2 OR l.slots IS NULL);
    ELSIF p_record = 3 THEN
        UPDATE {schema}.lock l SET refused = p_count, refused_at = clock_timestamp(), used = clock_timestamp()
            WHERE l.name = p_name AND l.slots IS NOT NULL;
    -- A semaphore in use is kept.
    ELSIF p_record > 0 AND r.used < clock_timestamp() - interval '1 day' THEN
        UPDATE {schema}.lock l SET used = clock_timestamp() WHERE l.name = p_name;
    END IF;
    IF p_record > 0 THEN
        SELECT * INTO r FROM {schema}.lock l WHERE l.name = p_name;
    END IF;
    recorded := r.slots;
    refused := r.refused;
    refused_ms := extract(epoch FROM clock_timestamp() - r.refused_at) * 1000;
    SELECT string_agg(CASE WHEN l.ends > clock_timestamp() THEN '1' ELSE '0' END, '' ORDER BY slot)
        INTO taken
        FROM generate_series(0, p_count - 1) slot
        LEFT JOIN {schema}.lock l ON l.name = 'quorlock:slot:' || p_name || ':' || slot;
END $$;

CREATE OR REPLACE FUNCTION {schema}.names(p_most integer) RETURNS SETOF text
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT name FROM {schema}.lock WHERE ends > clock_timestamp() LIMIT p_most
$$;

-- Removes names that no client has used for two weeks, and old undone attempts, now and then.
CREATE OR REPLACE FUNCTION {schema}.sweep() RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    removed bigint;
BEGIN
    UPDATE {schema}.memory SET swept = clock_timestamp() WHERE swept < clock_timestamp() - interval '1 hour';
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    DELETE FROM {schema}.undone WHERE until < clock_timestamp();
    DELETE FROM {schema}.lock WHERE name IN (
        SELECT name FROM {schema}.lock
        WHERE used < clock_timestamp() - interval '14 days' AND (ends IS NULL OR ends < clock_timestamp())
        LIMIT 10000 FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN removed;
END $$;

-- What a client must know of this memory. It changes nothing.
CREATE OR REPLACE FUNCTION {schema}.about(
    OUT version integer, OUT longest_ms bigint, OUT is_compared boolean, OUT quarantine_ms bigint,
    OUT changed_ms bigint, OUT epoch text
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    m {schema}.memory;
BEGIN
    SELECT * INTO m FROM {schema}.memory;
    version := m.version;
    longest_ms := m.longest_ms;
    epoch := m.system::text || '/' || m.timeline;
    is_compared := m.timeline = {schema}.timeline()
        AND m.system = (SELECT system_identifier FROM pg_control_system());
    quarantine_ms := CASE WHEN m.changed IS NULL THEN 0
        ELSE {schema}.quarantine_left(m.changed, m.longest_ms) END;
    changed_ms := extract(epoch FROM clock_timestamp() - m.changed) * 1000;
END $$;

-- For transactions of the user's own: raises an error if this fence is outdated, and keeps any other client
-- from getting the lock until the transaction ends.
CREATE OR REPLACE FUNCTION {schema}.quorlock_check(p_name text, p_fence bigint) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    r {schema}.lock;
BEGIN
    PERFORM pg_advisory_xact_lock_shared({advisory}, hashtext(p_name));
    -- Locked, so that a transaction with an old view of the data gets an error.
    SELECT * INTO r FROM {schema}.lock l WHERE l.name = p_name FOR KEY SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no lock "%" is known', p_name USING ERRCODE = 'QL001';
    END IF;
    IF p_fence = r.counter OR EXISTS (
        SELECT FROM jsonb_each(coalesce(r.readers, '{}')) WHERE (value->>'fence')::bigint = p_fence)
    THEN
        RETURN;
    END IF;
    RAISE EXCEPTION 'the fence % of lock "%" is outdated: % was handed out', p_fence, p_name, r.counter
        USING ERRCODE = 'QL001', HINT = 'Another client got the lock in the meantime. Give up.';
END $$;
