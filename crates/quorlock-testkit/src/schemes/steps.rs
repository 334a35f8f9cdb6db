//! The steps of each scheme: how it takes the lock and releases it, as published.

use crate::schemes::TTL;
use crate::schemes::client::{Client, Died};
use crate::schemes::scheme::Scheme;
use crate::schemes::store::{Command, Key, Reply};
use std::time::Duration;

pub(crate) const LOCK: Key = "the lock";
pub(crate) const PROTECTED_VALUE: Key = "the protected value";
/// How often an optimistic update is tried.
const TRIES: u32 = 5;

/// What a client knows of a lock that it took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    value: u64,
    /// Until when it may believe to hold: counted from before the request, even where the published
    /// scheme does not.
    pub(crate) until: Duration,
}

/// Asks for the lock once.
pub(crate) async fn acquire(scheme: Scheme, client: &mut Client) -> Result<Option<Held>, Died> {
    match scheme {
        Scheme::SetnxExpire => setnx_then_expire(client).await,
        Scheme::SetnxGetset => setnx_or_getset(client).await,
        _ => set_nx_px(client).await,
    }
}

/// Releases the lock.
pub(crate) async fn release(scheme: Scheme, client: &mut Client, held: Held) -> Result<(), Died> {
    match scheme {
        Scheme::SetnxExpire | Scheme::PlainDel => {
            client.call(Command::Del(LOCK)).await?;
        }
        // An expired lock may be another client's by now.
        Scheme::SetnxGetset => {
            if client.wall() < held.value {
                client.call(Command::Del(LOCK)).await?;
            }
        }
        Scheme::GetThenDel => {
            client.record("sends GET".to_owned());
            if client.call(Command::Read(LOCK)).await? == Reply::Value(Some(held.value)) {
                client.record("saw its own value and sends DEL".to_owned());
                client.call(Command::Del(LOCK)).await?;
            }
        }
        _ => {
            client.call(Command::CompareDel(LOCK, held.value)).await?;
        }
    }
    Ok(())
}

/// Adds one to the protected value without a lock. `false` if others came first every time.
pub(crate) async fn update_optimistically(client: &mut Client) -> Result<bool, Died> {
    for _ in 0..TRIES {
        let Reply::Watched { value, version } = client.call(Command::Watch(PROTECTED_VALUE)).await? else {
            continue;
        };
        client.think().await?;
        if client.call(Command::Exec(PROTECTED_VALUE, version, value + 1)).await? == Reply::Done {
            return Ok(true);
        }
        client.rest().await;
    }
    Ok(false)
}

async fn setnx_then_expire(client: &mut Client) -> Result<Option<Held>, Died> {
    if client.call(Command::SetNx(LOCK, 1)).await? != Reply::Done {
        return Ok(None);
    }
    let until = client.now() + TTL;
    client.call(Command::Expire(LOCK, TTL)).await?;
    Ok(Some(Held { value: 1, until }))
}

async fn setnx_or_getset(client: &mut Client) -> Result<Option<Held>, Died> {
    let ttl = u64::try_from(TTL.as_millis()).unwrap();
    let mine = |client: &Client| {
        let value = client.wall() + ttl;
        Held { value, until: client.when(value) }
    };
    let held = mine(client);
    if client.call(Command::SetNx(LOCK, held.value)).await? == Reply::Done {
        return Ok(Some(held));
    }
    let is_past = |client: &Client, reply| match reply {
        Reply::Value(Some(expiry)) => expiry < client.wall(),
        _ => false,
    };
    let found = client.call(Command::Read(LOCK)).await?;
    if !is_past(client, found) {
        return Ok(None);
    }
    client.record("finds the lock expired, by its own clock".to_owned());
    let held = mine(client);
    let before = client.call(Command::GetSet(LOCK, held.value)).await?;
    // Another client that saw it expired may have been faster: then its value came back.
    Ok((is_past(client, before) || before == Reply::Value(None)).then_some(held))
}

async fn set_nx_px(client: &mut Client) -> Result<Option<Held>, Died> {
    let (value, until) = (client.rng.draw(), client.now() + TTL);
    let reply = client.call(Command::SetNxPx(LOCK, value, TTL)).await?;
    Ok((reply == Reply::Done).then_some(Held { value, until }))
}
