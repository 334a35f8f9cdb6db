//! Fencing at the resource: a database that refuses the write of a holder that was paused too long.
//!
//! The pattern is one column and one condition. It works in any SQL database; here it is SQLite.
//!
//! `cargo run -p fenced-sql`

use quorlock::{Fence, Locker};
use rusqlite::{Connection, params};
use std::error::Error;
use std::time::Duration;

/// Each protected row carries the highest fence that wrote it.
const SCHEMA: &str =
    "CREATE TABLE report (id INTEGER PRIMARY KEY, text TEXT NOT NULL, fence INTEGER NOT NULL)";

/// Writes only if no later holder has written. One statement, so check and write are atomic.
const FENCED_WRITE: &str = "INSERT INTO report (id, text, fence) VALUES (?1, ?2, ?3)
     ON CONFLICT (id) DO UPDATE SET text = excluded.text, fence = excluded.fence
     WHERE report.fence <= excluded.fence";

/// The outcome of a fenced write.
#[derive(Debug, PartialEq, Eq)]
enum Written {
    Yes,
    /// A client with a higher fence has written: we are no longer the holder.
    Stale,
}

fn write(database: &Connection, text: &str, fence: Fence) -> Result<Written, Box<dyn Error>> {
    let rows = database.execute(FENCED_WRITE, params![1, text, i64::try_from(fence.get())?])?;
    Ok(if rows == 0 { Written::Stale } else { Written::Yes })
}

fn main() -> Result<(), Box<dyn Error>> {
    let database = Connection::open_in_memory()?;
    database.execute(SCHEMA, [])?;
    let lock = Locker::builder().nodes(["memory:fenced-sql"]).build_blocking()?.named("report")?;

    // The first holder is paused until its lock has expired (here: it never extends the lock).
    let paused = lock.clone().watchdog(false).ttl(Duration::from_millis(300)).acquire()?;
    let next = lock.acquire()?;
    println!("next holder writes with fence {}: {:?}", next.fence(), write(&database, "new", next.fence())?);
    println!("paused holder wakes, fence {}: {:?}", paused.fence(), write(&database, "old", paused.fence())?);
    let text: String = database.query_row("SELECT text FROM report", [], |row| row.get(0))?;
    println!("the report says `{text}`");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn database() -> Connection {
        let database = Connection::open_in_memory().unwrap();
        database.execute(SCHEMA, []).unwrap();
        database
    }

    fn text(database: &Connection) -> String {
        database.query_row("SELECT text FROM report", [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn a_write_with_an_older_fence_changes_nothing() {
        let database = database();
        assert_eq!(write(&database, "new", Fence::new(34)).unwrap(), Written::Yes);
        assert_eq!(write(&database, "old", Fence::new(33)).unwrap(), Written::Stale);
        assert_eq!(text(&database), "new");
    }

    #[test]
    fn the_same_holder_may_write_again_and_a_later_one_too() {
        let database = database();
        for (text_of_holder, fence) in [("a", 33), ("b", 33), ("c", 34)] {
            assert_eq!(write(&database, text_of_holder, Fence::new(fence)).unwrap(), Written::Yes);
            assert_eq!(text(&database), text_of_holder);
        }
    }

    /// Goal: MISSION 16, a process paused past its ttl. Two clients believe that they hold the lock; the resource decides.
    #[test]
    fn a_paused_holder_cannot_overwrite_the_next_one() {
        let database = database();
        let lock = Locker::builder().nodes(["memory:"]).build_blocking().unwrap().named("report").unwrap();
        let short = lock.clone().watchdog(false).ttl(Duration::from_millis(300));
        let paused = short.acquire().unwrap();
        let next = lock.acquire().unwrap();
        assert!(!paused.is_held() && next.is_held());
        assert_eq!(write(&database, "new", next.fence()).unwrap(), Written::Yes);
        assert_eq!(write(&database, "old", paused.fence()).unwrap(), Written::Stale);
    }
}
