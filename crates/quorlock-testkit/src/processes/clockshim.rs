//! A clock for one child process that a test sets.

use rustix::time::{ClockId, clock_gettime};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tempfile::{NamedTempFile, TempPath};

/// A clock that the test sets while the process runs: give [`env`](Self::env) to a child, then
/// change it live.
///
/// Works for programs that ask libc for the time: Redis, Valkey, and Rust programs with `std` or
/// with `rustix` over libc. Go programs ask the kernel and do not notice. Clones are handles to the
/// same clock.
#[derive(Clone, Debug)]
pub struct ClockShim {
    controls: Arc<Mutex<Controls>>,
    path: Arc<TempPath>,
}

/// The fields of `struct controls` in clockshim.c, in its order.
#[derive(Debug)]
struct Controls {
    file: fs::File,
    generation: i64,
    wall_offset_us: i64,
    boot_offset_us: i64,
    rate_ppm: i64,
    base_us: i64,
}

const SOURCE: &str = include_str!("../../clockshim/clockshim.c");

impl ClockShim {
    /// A clock that shows the true time until it is changed.
    ///
    /// # Panics
    /// There is no C compiler (`cc`).
    #[allow(clippy::new_without_default)] // It creates a file; a default should not.
    pub fn new() -> Self {
        let (file, path) = NamedTempFile::with_prefix("quorlock-clock-").unwrap().into_parts();
        let mut controls =
            Controls { file, generation: 0, wall_offset_us: 0, boot_offset_us: 0, rate_ppm: 0, base_us: 0 };
        controls.write();
        Self { controls: Arc::new(Mutex::new(controls)), path: Arc::new(path) }
    }

    /// The environment of a process that is to see this clock.
    pub fn env(&self) -> [(&'static str, OsString); 2] {
        [("LD_PRELOAD", library().into()), ("CLOCKSHIM", self.path.as_os_str().to_owned())]
    }

    /// Sets the wall clock forward, as an administrator or a first NTP answer does. Valkey 9 looks
    /// at most once a millisecond; Redis at once.
    pub fn jump_wall(&self, by: Duration) {
        self.change(|controls| controls.wall_offset_us += micros(by));
    }

    /// Sets the wall clock back.
    pub fn jump_wall_back(&self, by: Duration) {
        self.change(|controls| controls.wall_offset_us -= micros(by));
    }

    /// Sleeps as a closed laptop does: the boot clock and the wall clock advance, the monotonic
    /// clock does not.
    pub fn suspend(&self, by: Duration) {
        self.change(|controls| {
            controls.boot_offset_us += micros(by);
            controls.wall_offset_us += micros(by);
        });
    }

    /// Lets the wall clock and the boot clock run this many millionths too fast (or too slow) from
    /// now on.
    pub fn drift(&self, ppm: i64) {
        self.change(|controls| {
            // What the old rate has gained stays gained.
            let now = true_boot_us();
            let gained = (now - controls.base_us) * controls.rate_ppm / 1_000_000;
            controls.wall_offset_us += gained;
            controls.boot_offset_us += gained;
            controls.base_us = now;
            controls.rate_ppm = ppm;
        });
    }

    fn change(&self, how: impl FnOnce(&mut Controls)) {
        let mut controls = self.controls.lock().unwrap();
        how(&mut controls);
        controls.write();
    }
}

impl Controls {
    /// The generation is odd while the other fields change, so that a reader never mixes old and
    /// new.
    fn write(&mut self) {
        self.generation += 1;
        self.write_generation();
        let fields = [self.wall_offset_us, self.boot_offset_us, self.rate_ppm, self.base_us];
        let bytes: Vec<u8> = fields.into_iter().flat_map(i64::to_ne_bytes).collect();
        self.file.write_all_at(&bytes, 8).unwrap();
        self.generation += 1;
        self.write_generation();
    }

    fn write_generation(&self) {
        let bytes = self.generation.to_ne_bytes();
        self.file.write_all_at(&bytes, 0).unwrap();
    }
}

/// The compiled library: built once per version of its source, shared by all test processes.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let user = rustix::process::getuid().as_raw();
        let directory = std::env::temp_dir().join(format!("quorlock-clockshim-{user}"));
        fs::create_dir_all(&directory).unwrap();
        let library = directory.join(format!("{:016x}.so", fingerprint(SOURCE)));
        if !library.exists() {
            compile(&directory, &library);
        }
        library
    })
}

/// Compiles under a private name and moves the result into place: another test process may be doing
/// the same.
fn compile(directory: &Path, library: &Path) {
    let work = tempfile::tempdir_in(directory).unwrap();
    let (source, object) = (work.path().join("clockshim.c"), work.path().join("clockshim.so"));
    fs::write(&source, SOURCE).unwrap();
    let status = Command::new("cc")
        .args(["-std=gnu11", "-O2", "-fPIC", "-shared", "-Wall", "-Wextra", "-o"])
        .args([&object, &source])
        .status()
        .expect("a C compiler, see scripts/setup-tests");
    assert!(status.success(), "cc: {status}");
    fs::rename(object, library).unwrap();
}

/// FNV-1a: the standard hasher does not promise the same answer to the next build.
fn fingerprint(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap()
}

fn true_boot_us() -> i64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec * 1_000_000 + now.tv_nsec / 1_000
}
