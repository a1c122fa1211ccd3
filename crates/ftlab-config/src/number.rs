//! Numbers as people write them: thousands, and powers of ten.

/// `"16k"`, `"1M"` and `"2G"` as counts: thousands, as nobody counts requests in powers of two.
pub(crate) fn count(text: &str) -> Option<u64> {
    let text = text.trim();
    let (number, factor) = match text.char_indices().next_back()? {
        (at, 'k' | 'K') => (&text[..at], 1e3),
        (at, 'M') => (&text[..at], 1e6),
        (at, 'G') => (&text[..at], 1e9),
        _ => return None,
    };
    whole(number.trim_end().replace('_', "").parse::<f64>().ok()? * factor)
}

/// `1e6` as a count.
pub(crate) fn whole(number: f64) -> Option<u64> {
    // Beyond this, not every whole number has a floating-point one.
    (number.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&number)).then_some(number as u64)
}
