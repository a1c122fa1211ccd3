//! What is written to a target: contents that say themselves what they are.
//!
//! Each sector begins with a mark, the seed, its own number and the version of the write. The rest follows from these, so
//! that no drive can compress it or find it twice. A read of it proves which write it comes from.

use ftlab_core::host::request::SECTOR_BYTES;
use ftlab_core::rng::splitmix;

const SECTOR: usize = SECTOR_BYTES as usize;
const WORD: usize = 8;
const MARK: u64 = u64::from_le_bytes(*b"ftlabsec");
const HEAD: usize = 4;

fn words(seed: u64, lba: u64, version: u32) -> impl Iterator<Item = u64> {
    let mut state = seed;
    state = splitmix(&mut state) ^ lba;
    state = splitmix(&mut state) ^ u64::from(version);
    let body = (HEAD..SECTOR / WORD).map(move |_| splitmix(&mut state));
    [MARK, seed, lba, version.into()].into_iter().chain(body)
}

/// Fill whole sectors from `lba` on as write `version` does.
pub fn fill(buffer: &mut [u8], seed: u64, lba: u64, version: u32) {
    for (sector, lba) in buffer.chunks_exact_mut(SECTOR).zip(lba..) {
        for (place, word) in sector.chunks_exact_mut(WORD).zip(words(seed, lba, version)) {
            place.copy_from_slice(&word.to_le_bytes());
        }
    }
}

/// Spoil whole sectors, so that what they hold is never taken for what a read brought.
pub fn spoil(buffer: &mut [u8]) {
    for sector in buffer.chunks_exact_mut(SECTOR) {
        sector[..WORD].fill(0xa5);
    }
}

/// Compare one sector with write `version` of sector `lba`.
///
/// # Errors
/// What it holds instead, to follow the words "sector N".
pub fn check(sector: &[u8], seed: u64, lba: u64, version: u32) -> Result<(), String> {
    let found = |index: usize| {
        let word = &sector[index * WORD..(index + 1) * WORD];
        u64::from_le_bytes(word.try_into().expect("a word"))
    };
    let differs = words(seed, lba, version).enumerate().find(|(index, word)| found(*index) != *word);
    let Some((index, _)) = differs else { return Ok(()) };
    let [mark, its_seed, its_lba, its_version] = std::array::from_fn(found);
    Err(if mark != MARK {
        "holds nothing that was written by this program".into()
    } else if its_seed != seed {
        format!("holds what seed {its_seed} wrote: expected seed {seed}")
    } else if its_lba != lba {
        format!("holds the data of sector {its_lba}")
    } else if its_version != u64::from(version) {
        format!("holds write {its_version}: expected write {version}, which was acknowledged")
    } else {
        format!("is damaged from byte {} on", index * WORD)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_difference_is_found_and_named() {
        let mut data = vec![0; 4 * SECTOR];
        fill(&mut data, 7, 100, 3);
        for (sector, lba) in data.chunks(SECTOR).zip(100..) {
            assert_eq!(check(sector, 7, lba, 3), Ok(()));
        }
        let second = &data[SECTOR..2 * SECTOR];
        let told = |seed, lba, version| check(second, seed, lba, version).unwrap_err();
        assert_eq!(told(8, 101, 3), "holds what seed 7 wrote: expected seed 8");
        assert_eq!(told(7, 102, 3), "holds the data of sector 101");
        assert_eq!(told(7, 101, 4), "holds write 3: expected write 4, which was acknowledged");
        for byte in [40, 511] {
            let mut damaged = second.to_vec();
            damaged[byte] ^= 1;
            assert_eq!(
                check(&damaged, 7, 101, 3).unwrap_err(),
                format!("is damaged from byte {} on", byte / 8 * 8)
            );
        }
        spoil(&mut data);
        assert_eq!(
            check(&data[..SECTOR], 7, 100, 3).unwrap_err(),
            "holds nothing that was written by this program"
        );
    }
}
