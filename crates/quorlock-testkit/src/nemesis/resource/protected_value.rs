//! What the locks protect, as a client uses it: two values on a real server for each name.
//!
//! Each value is written as `ID<PARENT`: the write, and the write whose value was read before. The
//! harness sees every write at the server, in its order, and so every update that was overwritten
//! unread. The value that compares fences is `ID<PARENT<FENCE`.
//!
//! It refuses a write whose fence is below any that was seen, and the read of a reader whose fence is
//! below that of the last write. So readers do not shut out each other, and a value does not change
//! between two reads of one reader.

use crate::nemesis::resource::access::{Access, AccessReport, Answer, Report, Step};
use crate::servers::connection::{Connection, Reply};
use quorlock::fenced::FENCED_SET;
use std::path::Path;

/// The prefix of the value that any client may write.
pub(crate) const PLAIN: &str = "plain:";

/// The prefix of the value that is written by the library's script, which compares fences.
pub(crate) const FENCED: &str = "fenced:";

/// What a reader does there, in one step.
const FENCED_READ: &str = include_str!("fenced_read.lua");

/// One client's access to the values.
pub(crate) struct ProtectedValues {
    connection: Connection,
    me: String,
    writes: u64,
    report: Report,
}

/// Both values, as they were read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) plain: String,
    /// `None` if the fence was outdated already.
    pub(crate) fenced: Option<String>,
}

impl ProtectedValues {
    /// `report` gets every access to a value that compares fences.
    pub(crate) fn open(socket: &Path, me: String, report: Report) -> Self {
        let connection = Connection::open(socket).expect("the resource is always up");
        Self { connection, me, writes: 0, report }
    }

    /// Shows the fence, then reads. A resource that compares fences at the write only would let a
    /// newer holder overwrite the late write of an older one that came after its read.
    pub(crate) fn read(&mut self, name: &str, fence: u64) -> Seen {
        let is_newest = self.reported(name, fence, Step::Show, |it| {
            let is_newest = it.set_fenced("shown:", name, fence, "");
            (is_newest, Answer::Accepted(is_newest))
        });
        let plain = self.id(PLAIN, name);
        let read = |it: &mut Self| {
            let id = it.id(FENCED, name);
            (id.clone(), Answer::Value(id))
        };
        Seen { plain, fenced: is_newest.then(|| self.reported(name, fence, Step::Read, read)) }
    }

    /// Reads both values for a client that shares the lock.
    pub(crate) fn read_shared(&mut self, name: &str, fence: u64) -> Seen {
        let plain = self.id(PLAIN, name);
        let fenced = self.reported(name, fence, Step::SharedRead, |it| {
            let id = it.get_fenced(name, fence);
            let answer = id.clone().map_or(Answer::Accepted(false), Answer::Value);
            (id, answer)
        });
        Seen { plain, fenced }
    }

    /// Writes both values. `false` if the fence is outdated.
    pub(crate) fn write(&mut self, name: &str, fence: u64, seen: &Seen) -> bool {
        self.writes += 1;
        let id = format!("{}.{}", self.me, self.writes);
        self.ask(&["SET", &format!("{PLAIN}{name}"), &format!("{id}<{}", seen.plain)]);
        let Some(parent) = &seen.fenced else { return false };
        let step = Step::Write { value: id.clone(), based_on: parent.clone() };
        self.reported(name, fence, step, |it| {
            let is_newest = it.set_fenced(FENCED, name, fence, &format!("{id}<{parent}<{fence}"));
            (is_newest, Answer::Accepted(is_newest))
        })
    }

    /// Reports an access before it and after it.
    fn reported<T>(
        &mut self,
        name: &str,
        fence: u64,
        step: Step,
        access: impl FnOnce(&mut Self) -> (T, Answer),
    ) -> T {
        (self.report)(AccessReport::Begins(&Access { name: name.to_owned(), fence, step }));
        let (result, answer) = access(self);
        (self.report)(AccessReport::Ends(&answer));
        result
    }

    /// Reads which write made the value.
    fn id(&mut self, kind: &str, name: &str) -> String {
        id_of(&self.ask(&["GET", &format!("{kind}{name}")]))
    }

    /// Reads which write made the value; `None` if a later writer has written.
    fn get_fenced(&mut self, name: &str, fence: u64) -> Option<String> {
        let (key, seen, fence) = (format!("{FENCED}{name}"), seen_key(name), fence.to_string());
        match self.ask(&["EVAL", FENCED_READ, "2", &key, &seen, &fence]) {
            Reply::Nil => None,
            value => Some(id_of(&value)),
        }
    }

    fn set_fenced(&mut self, kind: &str, name: &str, fence: u64, value: &str) -> bool {
        let (key, seen, fence) = (format!("{kind}{name}"), seen_key(name), fence.to_string());
        self.ask(&["EVAL", FENCED_SET, "2", &key, &seen, &fence, value]) == Reply::Integer(1)
    }

    fn ask(&mut self, command: &[&str]) -> Reply {
        self.connection.ask(command).expect("the resource is always up")
    }
}

/// Where the highest fence is that the resource has seen of a name.
fn seen_key(name: &str) -> String {
    format!("seen:{name}")
}

fn id_of(value: &Reply) -> String {
    value.to_string().split('<').next().unwrap_or_default().to_owned()
}
