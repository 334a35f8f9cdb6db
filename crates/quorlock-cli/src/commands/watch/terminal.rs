//! A terminal that is drawn on in place, and comes back as it was.

use anstream::adapter::strip_str;
use anstream::{AutoStream, ColorChoice};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr,
};
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::thread;
use tokio::sync::Notify;

/// A screen of its own, no cursor, long lines cut off.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";
/// If the terminal does not tell.
const USUAL_ROWS: usize = 24;

/// The terminal, ours until it is dropped.
pub(super) struct Terminal {
    keys: Option<Keys>,
}

impl Terminal {
    pub(super) fn open() -> io::Result<Self> {
        let keys = if isatty(io::stdin()) { Some(Keys::listen()?) } else { None };
        let terminal = Self { keys };
        write(ENTER)?;
        Ok(terminal)
    }

    /// Shows `page` instead of the one before, as far as it fits.
    pub(super) fn draw(&self, page: &str) -> io::Result<()> {
        let rows = tcgetwinsize(io::stdout()).map_or(0, |size| usize::from(size.ws_row));
        let rows = if rows == 0 { USUAL_ROWS } else { rows };
        let has_colors = AutoStream::choice(&io::stdout()) != ColorChoice::Never;
        let page = if has_colors { page.to_owned() } else { strip_str(page).to_string() };
        write(&frame(&page, rows))
    }

    /// Waits for q. Without a keyboard only signals end the watch.
    ///
    /// # Cancel safety
    /// Cancel safe: a q that was typed stays.
    pub(super) async fn quit(&self) {
        match &self.keys {
            Some(keys) => keys.quit().await,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Nothing to be done if the terminal is gone.
        let _ = write(LEAVE);
    }
}

/// The keyboard without waiting for whole lines.
struct Keys {
    before: Termios,
    quit: Arc<Notify>,
}

impl Keys {
    fn listen() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut modes = before.clone();
        modes.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        // Stopped with Ctrl-Z we would leave the terminal as it is now.
        modes.special_codes[SpecialCodeIndex::VSUSP] = 0;
        tcsetattr(io::stdin(), OptionalActions::Now, &modes)?;
        let keys = Self { before, quit: Arc::default() };
        let quit = keys.quit.clone();
        // It waits for a key until the program ends.
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

impl Drop for Keys {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

/// The bytes that put `page` over what was there, with the last of `rows` for the rest.
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
