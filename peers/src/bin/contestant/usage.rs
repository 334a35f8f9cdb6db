//! What the process used: CPU time and allocations.

use rustix::time::{ClockId, clock_gettime};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// CPU time and allocations so far.
#[derive(Clone, Copy)]
pub struct Usage {
    pub cpu_us: u64,
    pub allocs: u64,
}

impl Usage {
    pub fn now() -> Self {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        let allocs = COUNTS.iter().map(|count| count.0.load(Ordering::Relaxed)).sum();
        Self { cpu_us: cpu.tv_sec as u64 * 1_000_000 + cpu.tv_nsec as u64 / 1000, allocs }
    }

    pub fn since(self, before: Self) -> Self {
        Self { cpu_us: self.cpu_us - before.cpu_us, allocs: self.allocs - before.allocs }
    }
}

/// The system's allocator, counted. Each thread counts on a line of its own, so that counting costs next to nothing.
pub struct Counting;

#[repr(align(128))]
struct Count(AtomicU64);

const LINES: usize = 64;
static COUNTS: [Count; LINES] = [const { Count(AtomicU64::new(0)) }; LINES];
static NEXT_LINE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static LINE: Cell<usize> = const { Cell::new(usize::MAX) };
}

fn count() {
    let line = LINE.with(|line| {
        if line.get() == usize::MAX {
            line.set(NEXT_LINE.fetch_add(1, Ordering::Relaxed) % LINES);
        }
        line.get()
    });
    let count = &COUNTS[line].0;
    count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

// SAFETY: everything is passed on to the system's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise, passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promise, passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
