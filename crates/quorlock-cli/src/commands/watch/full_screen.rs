//! The terminal's alternate screen: pages are drawn in place, and the terminal is restored at the
//! end.

use anstream::adapter::strip_str;
use anstream::{AutoStream, ColorChoice};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr,
};
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::thread;
use tokio::sync::Notify;

/// The alternate screen, without a cursor, without line wrapping.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";
/// The height of a terminal that does not report it.
const DEFAULT_ROWS: usize = 24;

/// The alternate screen. Dropping it restores the terminal.
pub(super) struct FullScreen {
    keys: Option<Keyboard>,
}

impl FullScreen {
    pub(super) fn open() -> io::Result<Self> {
        let keys = if isatty(io::stdin()) { Some(Keyboard::listen()?) } else { None };
        let screen = Self { keys };
        write(ENTER)?;
        Ok(screen)
    }

    /// Replaces the page before by as much of `page` as fits.
    pub(super) fn draw(&self, page: &str) -> io::Result<()> {
        let rows = tcgetwinsize(io::stdout()).map_or(0, |size| usize::from(size.ws_row));
        let rows = if rows == 0 { DEFAULT_ROWS } else { rows };
        let has_colors = AutoStream::choice(&io::stdout()) != ColorChoice::Never;
        let page = if has_colors { page.to_owned() } else { strip_str(page).to_string() };
        write(&frame(&page, rows))
    }

    /// Waits for q. Without a keyboard only signals end the watch.
    ///
    /// # Cancel safety
    /// Cancel safe: the next call returns for a q that this one did not return for.
    pub(super) async fn quit(&self) {
        match &self.keys {
            Some(keys) => keys.quit().await,
            None => std::future::pending().await,
        }
    }
}

impl Drop for FullScreen {
    fn drop(&mut self) {
        // The terminal may be gone.
        let _ = write(LEAVE);
    }
}

/// The keyboard, read key by key instead of line by line.
struct Keyboard {
    before: Termios,
    quit: Arc<Notify>,
}

impl Keyboard {
    fn listen() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut modes = before.clone();
        modes.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        // Ctrl-Z would stop us without restoring the terminal.
        modes.special_codes[SpecialCodeIndex::VSUSP] = 0;
        tcsetattr(io::stdin(), OptionalActions::Now, &modes)?;
        let keys = Self { before, quit: Arc::default() };
        let quit = keys.quit.clone();
        // The thread waits for a key until the program ends.
        thread::Builder::new().name("keys".to_owned()).spawn(move || {
            read_until_quit();
            quit.notify_one();
        })?;
        Ok(keys)
    }

    async fn quit(&self) {
        self.quit.notified().await;
    }
}

/// Returns at q, or when the terminal was closed.
fn read_until_quit() {
    let keys = io::stdin().lock().bytes().map_while(Result::ok);
    keys.take_while(|key| !matches!(key, b'q' | b'Q')).for_each(drop);
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

/// The bytes that draw `page` over the one before. If it is longer than `rows`, the last row says
/// by how much.
fn frame(page: &str, rows: usize) -> String {
    let lines: Vec<&str> = page.lines().collect();
    let fits = if lines.len() < rows { lines.len() } else { rows.saturating_sub(2) };
    let mut frame = String::from("\x1b[H");
    for line in &lines[..fits] {
        frame.push_str(line);
        frame.push_str("\x1b[K\n");
    }
    if fits < lines.len() {
        frame.push_str(&format!("... {} more lines\x1b[K", lines.len() - fits));
    }
    frame.push_str("\x1b[J");
    frame
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_fits_is_drawn_whole() {
        assert_eq!(frame("a\nb", 24), "\x1b[Ha\x1b[K\nb\x1b[K\n\x1b[J");
    }

    #[test]
    fn a_page_that_is_too_long_says_so_on_the_last_row() {
        let page = "line\n".repeat(30);
        let frame = frame(&page, 10);
        assert_eq!(frame.matches('\n').count(), 8);
        assert!(frame.contains("... 22 more lines"), "{frame}");
    }
}
