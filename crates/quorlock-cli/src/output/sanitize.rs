//! Removes control characters from arguments, paths and configuration files. Text from nodes is
//! printable already.

use quorlock::printable;

/// The most that is shown of a line, in bytes: more than all nodes of a configuration need.
const MAX_SHOWN: usize = 64 * 1024;

/// `text` without control characters except line feeds. A checkout of another user's files may contain any
/// path and any configuration.
pub(crate) fn sanitize_lines(text: &str) -> String {
    let lines: Vec<String> = text.split('\n').map(|line| printable(line, MAX_SHOWN)).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_line_feeds_are_left_of_what_controls_a_terminal() {
        assert_eq!(sanitize_lines("a\u{1b}[31mb\nc\u{202e}d é 잠"), "a\u{fffd}[31mb\nc\u{fffd}d é 잠");
    }
}
