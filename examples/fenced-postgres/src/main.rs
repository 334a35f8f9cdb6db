//! Fencing in PostgreSQL: money moves between two accounts in a transaction that checks the fence first.
//!
//! `DATABASE_URL=postgres://postgres@localhost/postgres cargo run -p fenced-postgres`

use quorlock::{Fence, Locker};
use std::error::Error;
use tokio_postgres::{Client, NoTls};

const LOCK: &str = "accounts";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    match std::env::var("DATABASE_URL") {
        Ok(url) => run(&url).await,
        Err(_) => {
            println!("skipped: set DATABASE_URL to the address of a PostgreSQL database");
            Ok(())
        }
    }
}

/// A holder moves money; a former holder, which does not know that its lock is over, moves none.
async fn run(url: &str) -> Result<(), Box<dyn Error>> {
    let locker = Locker::builder().nodes([url]).build()?;
    for report in locker.init_fresh_nodes().await {
        println!("{report}");
    }
    let (mut client, connection) = tokio_postgres::connect(url, NoTls).await?;
    let _driver = tokio::spawn(connection);
    client
        .batch_execute(
            "CREATE TABLE IF NOT EXISTS account (owner text PRIMARY KEY, cents bigint NOT NULL CHECK (cents >= 0));
             INSERT INTO account VALUES ('ann', 1000), ('bob', 0)
                ON CONFLICT (owner) DO UPDATE SET cents = excluded.cents;",
        )
        .await?;

    let former = locker.named(LOCK)?.acquire().await?;
    let outdated = former.fence();
    let _ = former.release().await;

    let guard = locker.named(LOCK)?.acquire().await?;
    transfer(&mut client, guard.fence(), 500).await?;
    let refused = transfer(&mut client, outdated, 500).await;
    let why = refused.err().ok_or("an outdated holder moved money")?;
    println!(
        "refused: {}",
        why.as_db_error().map_or_else(|| why.to_string(), |error| error.message().into())
    );
    let _ = guard.release().await;

    for row in client.query("SELECT owner, cents FROM account ORDER BY owner", &[]).await? {
        let (owner, cents): (String, i64) = (row.get(0), row.get(1));
        println!("{owner} has {cents} cents");
    }
    Ok(())
}

/// Moves money from ann to bob, if no client has got the lock since `fence` was handed out.
async fn transfer(client: &mut Client, fence: Fence, cents: i64) -> Result<(), tokio_postgres::Error> {
    // A fence is below 2^53.
    let fence = fence.get() as i64;
    let transaction = client.transaction().await?;
    transaction.query("SELECT quorlock.quorlock_check($1, $2)", &[&LOCK, &fence]).await?;
    transaction.execute("UPDATE account SET cents = cents - $1 WHERE owner = 'ann'", &[&cents]).await?;
    transaction.execute("UPDATE account SET cents = cents + $1 WHERE owner = 'bob'", &[&cents]).await?;
    transaction.commit().await
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use quorlock_testkit::Postgres;

    #[tokio::test]
    async fn money_moves_once() {
        if !Postgres::is_here() {
            return eprintln!("skipped: no PostgreSQL here: apt-get install postgresql");
        }
        let server = Postgres::start();
        super::run(&server.url()).await.unwrap();
        assert_eq!(server.sql("SELECT cents FROM account ORDER BY owner"), "500\n500");
    }
}
