//! What can go wrong, and what a command of flash answers.

use std::fmt;

/// What a command of flash answers: a broken rule stops the run.
pub type FlashResult<T> = Result<T, Box<RunError>>;

/// A value that makes no sense, alone or together with another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// Dotted key, such as `ftl.over_provisioning`.
    pub key: String,
    /// What was found.
    pub found: String,
    /// What was expected, in a sentence.
    pub expected: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}: {}", self.key, self.found, self.expected)
    }
}

impl std::error::Error for ConfigError {}

impl ConfigError {
    /// The same, for a key of `section`.
    #[must_use]
    pub fn within(mut self, section: &str) -> Self {
        self.key = format!("{section}.{}", self.key);
        self
    }
}

/// Refuse the value `found` of `key`.
pub(crate) fn refuse<T>(
    key: &str,
    found: impl fmt::Display,
    expected: impl Into<String>,
) -> Result<T, ConfigError> {
    Err(ConfigError { key: key.into(), found: found.to_string(), expected: expected.into() })
}

/// Why a source of requests cannot go on. `Display` names file, line, column, what was found and expected.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SourceError {
    /// The file or generator.
    pub origin: String,
    /// 1-based line (text) or record (binary), when there is one.
    pub line: Option<u64>,
    /// 1-based column in characters, when there is one.
    pub column: Option<u64>,
    /// The offending text, shortened to 80 characters.
    pub found: String,
    /// What was expected, or the whole message when nothing was found.
    pub expected: String,
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.origin)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(column) = self.column {
            write!(f, ":{column}")?;
        }
        if self.found.is_empty() {
            write!(f, ": {}", self.expected)
        } else {
            write!(f, ": found {:?}, expected {}", self.found, self.expected)
        }
    }
}

impl std::error::Error for SourceError {}

/// Why a run ended before its workload did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunError {
    /// The device makes no sense. Nothing was run.
    Config(ConfigError),
    /// The workload could not be read on. The message names the place.
    Source(SourceError),
    /// A request that the device cannot take: beyond its end, empty, or out of order.
    Request(String),
    /// The drive has no space left to collect: a defect of ftlab, as validation refuses what would fill up.
    Full(String),
    /// The translation layer broke a rule of flash: a defect of ftlab. Names command, address and cause.
    Rule(String),
    /// Verification found data that is not the newest write: a defect of ftlab.
    Mismatch(String),
    /// The power was cut.
    PowerCut,
    /// Somebody asked for the end. It came between two commands, in the middle of a request.
    Interrupted,
}

impl RunError {
    /// Whether the input is at fault (exit status 2) rather than the run (exit status 1).
    pub fn is_input(&self) -> bool {
        matches!(self, RunError::Config(_) | RunError::Source(_) | RunError::Request(_))
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Config(error) => error.fmt(f),
            RunError::Source(error) => error.fmt(f),
            RunError::Request(text)
            | RunError::Full(text)
            | RunError::Rule(text)
            | RunError::Mismatch(text) => f.write_str(text),
            RunError::PowerCut => f.write_str("the power was cut"),
            RunError::Interrupted => f.write_str("the run was interrupted"),
        }
    }
}

impl std::error::Error for RunError {}
