//! Starting processes that cannot outlive the test run.

use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::{LazyLock, Mutex, mpsc};
use std::thread;

/// Starts `program` so that the kernel kills it when this process ends in any way, SIGKILL
/// included.
///
/// `prepare` adds arguments and environment. Without `setpriv` (util-linux) the program is started
/// plainly, and a killed test run leaves it behind.
pub(crate) fn spawn_bound(
    program: impl AsRef<OsStr>,
    prepare: impl FnOnce(&mut Command),
) -> io::Result<Child> {
    let mut command = match SETPRIV.as_ref() {
        Some(setpriv) => {
            let mut command = Command::new(setpriv);
            command.args(["--pdeathsig", "KILL", "--"]).arg(program);
            command
        }
        None => Command::new(program),
    };
    prepare(&mut command);
    let (answer, answered) = mpsc::sync_channel(1);
    SPAWNER
        .lock()
        .unwrap()
        .send(Order { command, answer })
        .expect("the spawner thread lives as long as the process");
    answered.recv().expect("the spawner answers every order")
}

/// Finds a program on the path.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        // Debian keeps some of them where only root looks.
        .chain(["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|directory| directory.join(name))
        .find(|candidate| candidate.is_file())
}

struct Order {
    command: Command,
    answer: mpsc::SyncSender<io::Result<Child>>,
}

static SETPRIV: LazyLock<Option<PathBuf>> = LazyLock::new(|| find_program("setpriv"));

/// The kernel means the *thread* when it watches a child's parent. A test's own thread may end
/// while its servers are still needed, so one thread that never ends is the parent of all.
static SPAWNER: LazyLock<Mutex<mpsc::Sender<Order>>> = LazyLock::new(|| {
    let (orders, incoming) = mpsc::channel::<Order>();
    thread::Builder::new()
        .name("server-parent".into())
        .spawn(move || {
            for mut order in incoming {
                // The asker may have given up; then the child is dropped, and dies with this
                // process.
                let _ = order.answer.send(order.command.spawn());
            }
        })
        .expect("a thread can be started");
    Mutex::new(orders)
});
