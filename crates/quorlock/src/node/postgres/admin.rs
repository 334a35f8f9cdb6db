//! Preparing a database, and examining it.

use crate::node::engine::Failure;
use crate::node::postgres::Postgres;
use crate::node::postgres::connection::Connection;
use crate::node::postgres::errors;
use crate::node::postgres::pool::Pool;
use crate::node::postgres::statement::literal;
use crate::node::{DatabaseFacts, EpochFacts, Names, NodeError};
use quorlock_core::Name;
use std::time::Duration;
use tokio::time::timeout;

const SCHEMA: &str = include_str!("schema.sql");
/// The class of the advisory locks of names: a number of our own.
const ADVISORY_CLASS: i32 = 0x7175_6f72;
/// A number of our own, so that two clients do not prepare one database at once.
const ADVISORY_LOCK: i64 = 0x7175_6f72_6c6f_636b;

impl Postgres {
    /// Creates tables and functions, and declares that nothing which was forgotten matters.
    pub(crate) async fn prepare(&self) -> Result<(), NodeError> {
        let connection = self.pool.connector.connect(None).await?;
        let schema = &self.pool.quoted_schema;
        let longest = millis(self.longest_ttl);
        let version = Pool::VERSION;
        let statements = SCHEMA
            .replace("{schema}", schema)
            .replace("{channel}", &literal(&self.pool.schema))
            .replace("{advisory}", &ADVISORY_CLASS.to_string());
        let remember = format!(
            "INSERT INTO {schema}.memory (version, longest_ms, system, timeline, run) \
             SELECT {version}, {longest}, system_identifier, {schema}.timeline(), pg_postmaster_start_time() \
             FROM pg_control_system() \
             ON CONFLICT (only_one) DO UPDATE SET version = excluded.version, \
             longest_ms = greatest(memory.longest_ms, excluded.longest_ms), system = excluded.system, \
             timeline = excluded.timeline, run = excluded.run, changed = NULL, is_moved = false"
        );
        // Statements that are sent together are one transaction.
        let batch = format!("SELECT pg_advisory_xact_lock({ADVISORY_LOCK});\n{statements}\n{remember}");
        self.run(&connection, &batch).await?;
        // They know the old functions, or the lack of them.
        self.pool.close_idle();
        Ok(())
    }

    /// Records that clients may use a ttl of up to `longest`.
    pub(crate) async fn record_longest_ttl(&self, longest: Duration) -> Result<(), NodeError> {
        let connection = self.pool.connector.connect(None).await?;
        let (schema, longest) = (&self.pool.quoted_schema, millis(longest));
        let raise = format!("UPDATE {schema}.memory SET longest_ms = greatest(longest_ms, {longest})");
        self.run(&connection, &raise).await?;
        self.pool.close_idle();
        Ok(())
    }

    async fn run(&self, connection: &Connection, statement: &str) -> Result<(), NodeError> {
        let limit = 10 * self.limits.request;
        let done = timeout(limit, connection.query(statement)).await;
        let done = done.map_err(|_| NodeError::Timeout { after: limit })?;
        done.map(drop).map_err(|error| errors::cause(&error, &self.pool.schema))
    }

    /// The names that are held.
    pub(crate) async fn held_names(&self) -> Result<Names, NodeError> {
        let most = Names::MOST as i64 + 1;
        let write = |echo, _| self.pool.call("names").number(most).select_columns(echo, "names");
        let rows = self.pool.ask(write).await.map_err(Failure::into_error)?;
        let names = rows.iter().filter_map(|row| Name::from_store(row.get(1)?.as_deref()?).ok());
        Ok(Names::new(names))
    }

    /// Examines the database, without changing what it keeps.
    pub(crate) async fn facts(&self) -> Result<DatabaseFacts, NodeError> {
        let limit = self.limits.request.max(Duration::from_secs(2));
        let examined = async {
            let connection = self.pool.connector.connect_any(None).await?;
            self.examine_on(&connection).await
        };
        timeout(limit, examined).await.unwrap_or(Err(NodeError::Timeout { after: limit }))
    }

    async fn examine_on(&self, connection: &Connection) -> Result<DatabaseFacts, NodeError> {
        let greeting = &connection.greeting;
        let mut facts = DatabaseFacts {
            version: format!("postgres {}", greeting.version),
            server: greeting.server.clone(),
            refusal: greeting.check().err(),
            schema: self.pool.schema.clone(),
            schema_version: None,
            is_pooled: !greeting.is_direct,
            synchronous_commit: greeting.settings.synchronous_commit.clone(),
            standbys: None,
            epoch: None,
            clock_ahead_micros: greeting.ahead_micros,
            round_trip: greeting.round_trip,
        };
        if facts.refusal.is_some() {
            return Ok(facts);
        }
        let standbys = connection.query("SELECT count(*) FROM pg_stat_replication").await.unwrap_or_default();
        facts.standbys = standbys.first().and_then(|row| row.first()?.as_deref()?.parse().ok());
        let columns = "version, longest_ms, is_compared, quarantine_ms, changed_ms, epoch";
        let about = self.pool.call("about").select_columns(1, columns);
        let rows = match connection.ask(&about, 1, &self.pool.schema).await {
            Ok(rows) => rows,
            // A database that was not prepared needs only that.
            Err(Failure::Unsent(NodeError::Schema { .. })) => return Ok(facts),
            Err(failure) => {
                facts.refusal = Some(failure.into_error());
                return Ok(facts);
            }
        };
        let cell = |at: usize| rows.first().and_then(|row| row.get(at)?.as_deref());
        let number = |at: usize| cell(at).and_then(|text| text.parse::<u64>().ok());
        let span = |at: usize| number(at).map(Duration::from_millis).unwrap_or_default();
        facts.schema_version = number(1).and_then(|version| u32::try_from(version).ok());
        if facts.schema_version.is_none_or(|version| version < Pool::VERSION) {
            return Ok(facts);
        }
        let is_of_this_run = cell(3) == Some("t");
        let quarantine = match self.is_durable {
            true => Duration::ZERO,
            // The next vote begins it.
            false if !is_of_this_run => span(2) + Duration::from_secs(10),
            false => span(4),
        };
        facts.epoch = Some(EpochFacts {
            age: span(5),
            longest_ttl: span(2),
            is_of_this_run,
            quarantine,
            nonce: cell(6).unwrap_or_default().to_owned(),
        });
        Ok(facts)
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
