//! Output for the user: errors with advice, similar names, lines that fit the terminal.

use std::backtrace::BacktraceStatus;
use std::fmt;
use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use tract_openvino::IndexError;
use tract_openvino::tract_onnx::prelude::*;

/// The style of what is right.
pub const GOOD: Style = AnsiColor::Green.on_default().bold();
/// The style of what is wrong.
pub const BAD: Style = AnsiColor::Red.on_default().bold();
/// The style of names of inputs, outputs and files.
pub const NAME: Style = AnsiColor::Cyan.on_default();

/// An error with advice for the user.
#[derive(Debug)]
struct Advised {
    message: String,
    help: Vec<String>,
}

impl std::error::Error for Advised {}

impl fmt::Display for Advised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// An error with advice.
pub fn error_with_help(
    message: impl Into<String>,
    help: impl IntoIterator<Item = String>,
) -> TractError {
    let help = help.into_iter().collect();
    TractError::new(Advised { message: message.into(), help })
}

/// The error for an unknown name.
pub fn unknown_name(message: impl Into<String>, name: &str, names: &[&str]) -> TractError {
    let help = match (nearest(name, names), names) {
        (Some(nearest), _) => format!("did you mean {nearest:?}?"),
        (None, []) => "there is none at all".into(),
        (None, _) => format!("there is {}", list(names)),
    };
    error_with_help(message, [help])
}

/// The first names of a list, for a text.
pub fn list(names: &[&str]) -> String {
    const SHOWN: usize = 20;
    let mut text: Vec<String> = names.iter().take(SHOWN).map(|name| format!("{name:?}")).collect();
    if names.len() > SHOWN {
        text.push(format!("{} more", names.len() - SHOWN));
    }
    text.join(", ")
}

/// The most similar of the names, if it is similar enough.
fn nearest<'a>(name: &str, names: &[&'a str]) -> Option<&'a str> {
    let distance =
        |other: &str| strsim::damerau_levenshtein(&name.to_lowercase(), &other.to_lowercase());
    let near = names.iter().map(|other| (distance(other), *other));
    let near =
        near.filter(|(distance, other)| *distance <= (name.len().max(other.len()) / 3).max(1));
    near.min_by_key(|(distance, _)| *distance).map(|(_, other)| other)
}

/// Standard output, without colours if it is not a terminal. If its reader has ended, as with `| head`, the command
/// continues without it, so that its exit status is right.
pub fn output() -> impl Write {
    Output(anstream::stdout())
}

struct Output(anstream::AutoStream<io::Stdout>);

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        unless_closed(self.0.write(bytes), bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        unless_closed(self.0.flush(), ())
    }
}

fn unless_closed<T>(result: io::Result<T>, instead: T) -> io::Result<T> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(instead),
        result => result,
    }
}

/// Prints a note on standard error.
pub fn note(text: &str) {
    let width = terminal_width(&io::stderr());
    let text = format!("{GOOD}note:{GOOD:#} {}\n", wrap(text, "      ", width));
    // Where standard error is closed there is nobody to tell.
    let _ = anstream::stderr().write_all(text.as_bytes());
}

/// Prints an error with its causes and advice.
pub fn show_error(error: &TractError) {
    let mut causes: Vec<String> = error.chain().map(|cause| cause.to_string()).collect();
    causes.dedup();
    let width = terminal_width(&io::stderr());
    let mut text = format!("{BAD}error:{BAD:#} {}\n", wrap(&causes[0], "       ", width));
    for cause in &causes[1..] {
        text += &format!("  {}\n", wrap(cause, "  ", width));
    }
    for help in advice(error) {
        text += &format!("{GOOD}help:{GOOD:#} {}\n", wrap(&help, "      ", width));
    }
    // Of the place where the error was made, if RUST_BACKTRACE asks for it.
    if error.backtrace().status() == BacktraceStatus::Captured {
        text += &format!("{}\n", error.backtrace());
    }
    // Where standard error is closed there is nobody to tell.
    let _ = anstream::stderr().write_all(text.as_bytes());
}

/// An error with its causes and advice on one line.
pub fn with_advice(error: &TractError) -> String {
    let mut text = format!("{error:#}");
    for help in advice(error) {
        text += &format!("; {help}");
    }
    text
}

fn advice(error: &TractError) -> Vec<String> {
    if error.downcast_ref().is_some_and(IndexError::would_wrap) {
        return vec!["with --negative-indices wrap, negative indices count from the end".into()];
    }
    let advised = error.chain().find_map(|cause| cause.downcast_ref::<Advised>());
    advised.map_or_else(Vec::new, |advised| advised.help.clone())
}

/// The columns of the terminal that a stream writes to.
fn terminal_width(stream: &impl io::IsTerminal) -> Option<usize> {
    if !stream.is_terminal() {
        return None;
    }
    let (width, _) = terminal_size::terminal_size()?;
    Some(usize::from(width.0))
}

/// The columns of standard output, if it is a terminal.
pub fn output_width() -> Option<usize> {
    terminal_width(&io::stdout())
}

/// Breaks a text into lines that fit the terminal. All but the first start with `indent`; the first one follows
/// something as wide.
pub fn wrap(text: &str, indent: &str, width: Option<usize>) -> String {
    let Some(width) = width else { return text.into() };
    let first = " ".repeat(indent.len());
    let options = textwrap::Options::new(width).initial_indent(&first).subsequent_indent(indent);
    textwrap::fill(text, options)[indent.len()..].into()
}

/// A line, cut to fit the terminal. A pipe gets all of it.
pub fn shorten(line: &str) -> String {
    let Some(width) = output_width() else { return line.into() };
    if textwrap::core::display_width(line) <= width {
        return line.into();
    }
    let mut shortened = String::new();
    for character in line.chars() {
        shortened.push(character);
        if textwrap::core::display_width(&shortened) >= width {
            shortened.pop();
            break;
        }
    }
    // Colours end where the line ends.
    format!("{shortened}…{}", anstyle::Reset.render())
}

/// A name from a model, with its control characters escaped.
pub fn printable(name: &str) -> String {
    let escape = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.into() };
    name.chars().map(escape).collect()
}

/// A table for standard output.
pub fn table(header: &[&str]) -> comfy_table::Table {
    use comfy_table::{Attribute, Cell, ContentArrangement, Table, presets};
    let mut table = Table::new();
    table.set_header(header.iter().map(|name| Cell::new(name).add_attribute(Attribute::Bold)));
    // Whether colours are wanted is for the stream to decide that the table is written to.
    table.enforce_styling().style_text_only();
    match output_width() {
        Some(width) => {
            table.load_style(presets::UTF8_HORIZONTAL_ONLY);
            table.set_width(width.try_into().unwrap_or(u16::MAX));
            table.set_content_arrangement(ContentArrangement::Dynamic);
        }
        None => {
            table.load_style(presets::NOTHING);
            table.set_content_arrangement(ContentArrangement::Disabled);
        }
    }
    table
}

/// Prints a table, without blanks at the ends of lines.
pub fn print_table(out: &mut impl Write, table: &comfy_table::Table) -> TractResult<()> {
    table.lines().try_for_each(|line| Ok(writeln!(out, "{}", line.trim_end())?))
}
