//! What is refused before a target is opened for writing, and what its first sectors say.

use std::path::Path;

use crate::error::{DeviceError, Refusal};
use crate::facts::{Facts, Kind};

/// The option that names the target whose data may be destroyed, as the command line has it.
const NAMED_BY: &str = "--destroy-data-on";

/// Refuse a target that was not named, before anything is asked of it.
pub(super) fn check_named(path: &Path, destroy: Option<&Path>) -> Result<(), DeviceError> {
    // Compared as they were given: two ways to write one path may be an oversight.
    if destroy.is_some_and(|destroy| destroy.as_os_str() == path.as_os_str()) {
        return Ok(());
    }
    let found = destroy.map_or("nothing".into(), |destroy| format!("\"{}\"", destroy.display()));
    Err(DeviceError::refused(
        Refusal::NotNamed,
        format!(
            "{NAMED_BY}: found {found}, expected \"{0}\": measuring writes to {0} and destroys what it holds",
            path.display()
        ),
    ))
}

/// Refuse what somebody needs.
pub(super) fn check_facts(facts: &Facts, least_bytes: u64) -> Result<(), DeviceError> {
    let path = facts.path.display();
    let refused = |why, text: String| Err(DeviceError::refused(why, format!("{path} {text}")));
    if !facts.mounted.is_empty() {
        return refused(
            Refusal::Mounted,
            format!("is mounted at {}: unmount it first", facts.mounted.join(", ")),
        );
    }
    if !facts.partitions.is_empty() {
        let text = format!("has partitions ({}): expected a target without", facts.partitions.join(", "));
        return refused(Refusal::Partitioned, text);
    }
    if !facts.users.is_empty() {
        return refused(Refusal::InUse, format!("is in use by {}", facts.users.join(", ")));
    }
    if facts.read_only == Some(true) {
        return refused(Refusal::ReadOnly, "is read-only: expected one that can be written".into());
    }
    if facts.kind == Kind::File && matches!(facts.file_system.as_deref(), Some("tmpfs" | "ramfs")) {
        let text = "lies in memory: its file system has no O_DIRECT, which leads past the page cache";
        return refused(Refusal::NoDirectIo, text.into());
    }
    if facts.bytes < least_bytes {
        let text = format!("is too small: found {} bytes, expected at least {least_bytes}", facts.bytes);
        return refused(Refusal::TooSmall, text);
    }
    Ok(())
}

/// The kind of partition table that begins a drive. The system need not have looked for one.
pub(super) fn partition_table(head: &[u8], block_bytes: usize) -> Option<&'static str> {
    if head.get(block_bytes..block_bytes + 8) == Some(b"EFI PART") {
        return Some("GPT");
    }
    let entries = head.get(446..512)?;
    if entries[64..] != [0x55, 0xaa] {
        return None;
    }
    // Boot sectors of file systems end with the same mark; they have code here.
    let entries = entries[..64].chunks(16);
    let sane = entries.clone().all(|entry| matches!(entry[0], 0 | 0x80));
    (sane && entries.into_iter().any(|entry| entry[4] != 0)).then_some("MBR")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, [0; 4096]).unwrap();
        let system = super::super::facts::System { sys: "/nowhere".into(), proc: "/nowhere".into() };
        let metadata = std::fs::metadata(&file).unwrap();
        system.facts(Path::new("/dev/x"), &file, &metadata)
    }

    #[test]
    fn only_the_very_same_name_will_do() {
        let path = Path::new("/dev/x");
        assert_eq!(check_named(path, Some(path)), Ok(()));
        for other in ["/dev/./x", "/dev//x", "/dev/x/", "/dev/x1", "x", "/dev/X", ""] {
            let error = check_named(path, Some(Path::new(other))).unwrap_err();
            assert_eq!(error.refusal(), Some(Refusal::NotNamed), "{other}");
            assert!(
                error.to_string().contains(&format!("found \"{other}\", expected \"/dev/x\"")),
                "{error}"
            );
        }
        assert!(
            check_named(path, None).unwrap_err().to_string().starts_with("--destroy-data-on: found nothing")
        );
    }

    #[test]
    fn what_somebody_needs_is_refused() {
        type Change = fn(&mut Facts);
        let cases: [(Change, Refusal, &str); 6] = [
            (|facts| facts.mounted = vec!["/home".into()], Refusal::Mounted, "/dev/x is mounted at /home"),
            (
                |facts| facts.partitions = vec!["x1".into()],
                Refusal::Partitioned,
                "/dev/x has partitions (x1)",
            ),
            (|facts| facts.users = vec!["dm-0".into()], Refusal::InUse, "/dev/x is in use by dm-0"),
            (|facts| facts.read_only = Some(true), Refusal::ReadOnly, "/dev/x is read-only"),
            (|facts| facts.file_system = Some("tmpfs".into()), Refusal::NoDirectIo, "/dev/x lies in memory"),
            (
                |facts| facts.bytes = 100,
                Refusal::TooSmall,
                "/dev/x is too small: found 100 bytes, expected at least 4096",
            ),
        ];
        assert_eq!(check_facts(&facts(), 4096), Ok(()));
        for (change, why, text) in cases {
            let mut facts = facts();
            change(&mut facts);
            let error = check_facts(&facts, 4096).unwrap_err();
            assert_eq!(error.refusal(), Some(why));
            assert!(error.to_string().starts_with(text), "{error}");
        }
    }

    #[test]
    fn partition_tables_are_seen() {
        let mut head = vec![0_u8; 8192];
        assert_eq!(partition_table(&head, 512), None);
        head[510..512].copy_from_slice(&[0x55, 0xaa]);
        assert_eq!(partition_table(&head, 512), None);
        head[446 + 16 + 4] = 0x83;
        assert_eq!(partition_table(&head, 512), Some("MBR"));
        // Code of a boot sector.
        head[446] = 0x31;
        assert_eq!(partition_table(&head, 512), None);
        head[4096..4104].copy_from_slice(b"EFI PART");
        assert_eq!((partition_table(&head, 512), partition_table(&head, 4096)), (None, Some("GPT")));
    }
}
