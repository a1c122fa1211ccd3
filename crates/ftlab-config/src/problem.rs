//! What is wrong with a file, and where.

use std::fmt::{self, Write};

use crate::elsewhere::elsewhere;
use crate::foreign;
use crate::node::Origin;

/// One mistake in a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where it was written; `None` for a value that was left at its default.
    pub origin: Option<Origin>,
    /// Dotted key, such as `ftl.gc`; empty when the file as a whole is at fault.
    pub key: String,
    /// The value found, as TOML; empty when there is none.
    pub found: String,
    /// What was expected, in a sentence without a full stop.
    pub expected: String,
    /// The nearest valid name, when one is near.
    pub nearest: Option<String>,
}

/// What is wrong with a key that nothing is called.
pub(crate) const UNKNOWN: &str = "unknown key";

/// What is wrong with a key that has to be there.
pub(crate) const MISSING: &str = "missing: this key has no default";

impl Problem {
    /// The key that was probably meant, where an unknown one was written.
    pub(crate) fn meant_key(&self) -> Option<String> {
        let nearest = self.nearest.as_ref().filter(|_| self.expected == UNKNOWN)?;
        Some(
            self.key
                .rsplit_once('.')
                .map_or_else(|| nearest.clone(), |(parent, _)| format!("{parent}.{nearest}")),
        )
    }

    pub(crate) fn is_missing(&self) -> bool {
        self.expected == MISSING
    }

    pub(crate) fn at(origin: Origin, expected: impl Into<String>) -> Self {
        Self {
            origin: Some(origin),
            key: String::new(),
            found: String::new(),
            expected: expected.into(),
            nearest: None,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tell(&mut OneLine(f))
    }
}

/// Writes control characters as their escapes: a problem is one line, whatever a user has written into it.
struct OneLine<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl Write for OneLine<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let breaks = |letter: char| letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}');
        for part in text.split_inclusive(breaks) {
            let (rest, last) = match part.chars().next_back().filter(|letter| breaks(*letter)) {
                Some(letter) => (&part[..part.len() - letter.len_utf8()], Some(letter)),
                None => (part, None),
            };
            self.0.write_str(rest)?;
            if let Some(letter) = last {
                write!(self.0, "{}", letter.escape_debug())?;
            }
        }
        Ok(())
    }
}

impl Problem {
    fn tell(&self, f: &mut impl Write) -> fmt::Result {
        let mut said = false;
        if let Some(origin) = &self.origin {
            write!(f, "{origin}: ")?;
            said = origin.states(&self.key);
        }
        if !self.key.is_empty() && !said {
            f.write_str(&self.key)?;
            if !self.found.is_empty() {
                write!(f, " = {}", self.found)?;
            }
            if self.origin.is_none() {
                f.write_str(" (default)")?;
            }
            f.write_str(": ")?;
        }
        f.write_str(&self.expected)?;
        if let Some(nearest) = &self.nearest {
            write!(f, "; did you mean {nearest:?}?")?;
        }
        Ok(())
    }
}

/// Every mistake found, in the order of the file. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Self(vec![problem])
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// The candidate that `name` was probably meant to be: a few letters away, or beginning alike.
pub(crate) fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = name.to_lowercase();
    let slips = 1.max(lower.chars().count() / 3);
    candidates
        .into_iter()
        .filter_map(|candidate| {
            let other = candidate.to_lowercase();
            // Without its first word a name is as good as whole; a unit alone is no name.
            let is_end =
                lower.contains('_') && other.strip_suffix(&lower).is_some_and(|front| front.ends_with('_'));
            let likeness = if is_end { 1.0 } else { strsim::jaro_winkler(&lower, &other) };
            let near = strsim::damerau_levenshtein(&lower, &other) <= slips || likeness >= 0.8;
            near.then_some((likeness, candidate))
        })
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

/// Names that are listed in full.
const MOST_NAMES: usize = 12;
/// Names that are given in place of a longer list.
const NEAREST_NAMES: usize = 5;

/// What is wrong with a key that nothing in the section is called, and the valid one that was probably meant.
pub(crate) fn unknown_key(section: &str, key: &str, valid: &[&str]) -> (String, Option<String>) {
    if let Some(ours) = foreign::ours(section, key) {
        return (format!("{UNKNOWN}: {ours}"), None);
    }
    match nearest(key, valid.iter().copied()) {
        Some(near) => (UNKNOWN.to_owned(), Some(near.to_owned())),
        None => match elsewhere(section, key) {
            Some(place) => (format!("{UNKNOWN}: {place}"), None),
            None => (instead_of(key, valid), None),
        },
    }
}

/// What such a key should have been: one of the valid ones, or of many those most like it.
fn instead_of(key: &str, valid: &[&str]) -> String {
    if valid.is_empty() {
        return format!("{UNKNOWN}: there are none here");
    }
    if valid.len() <= MOST_NAMES {
        return format!("{UNKNOWN}: expected {}", one_of(valid));
    }
    let lower = key.to_lowercase();
    let mut names = valid.to_vec();
    let likeness = |name: &str| strsim::jaro_winkler(&lower, &name.to_lowercase());
    names.sort_by(|a, b| likeness(b).total_cmp(&likeness(a)));
    format!("{UNKNOWN}: most like it of {} keys are {}", valid.len(), names[..NEAREST_NAMES].join(", "))
}

/// The names as a choice.
pub(crate) fn one_of(names: &[&str]) -> String {
    match names {
        [name] => (*name).to_owned(),
        _ => format!("one of {}", names.join(", ")),
    }
}
