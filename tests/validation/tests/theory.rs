//! Write amplification against closed forms, within 1 %.
#![allow(clippy::print_stdout, reason = "measured values, shown with --nocapture")]

use ftlab_validation::{d_choices, fifo, greedy, in_use, is_long, random, run, settings, two_class_lru};

const PAGES: u32 = 64;
/// Physical over logical pages: spare factors 0.048, 0.091, 0.2 and 0.333.
const ALPHAS: [f64; 4] = [1.05, 1.1, 1.25, 1.5];

/// The forms hold in the limit of many blocks: with as many as in `make test`, 1 % holds too.
fn blocks() -> u32 {
    if is_long() { 8192 } else { 2048 }
}

/// This many requests for each block.
fn requests(of_a_block: u64) -> u64 {
    u64::from(blocks()) * of_a_block
}

/// Steady write amplification of `ideal-page` with `alpha`, and the exact alpha that integers allow.
fn measure(
    alpha: f64,
    gc: &[(&str, &dyn std::fmt::Display)],
    workload: &str,
    keys: &[(&str, &dyn std::fmt::Display)],
) -> (f64, f64) {
    // One block is free and one is being filled.
    let physical = f64::from((blocks() - 2) * PAGES);
    let logical = (physical / alpha).floor();
    let blocks = blocks();
    let mut device = vec![
        ("geometry.blocks_per_plane", &blocks as &dyn std::fmt::Display),
        ("ftl.logical_pages", &logical),
    ];
    device.extend_from_slice(gc);
    let mut workload_keys: Vec<(&str, &dyn std::fmt::Display)> = keys.to_vec();
    let requests = requests(500);
    workload_keys.push(("requests", &requests));
    let outcome = run("ideal-page", &settings(&device), workload, &settings(&workload_keys), false);
    assert!(outcome.summary.precondition.as_ref().unwrap().reached, "the drive did not become steady");
    (outcome.summary.write_amplification.unwrap().total, physical / logical)
}

fn assert_meets(what: &str, found: f64, expected: f64) {
    println!("{what}: {found:.4}, theory {expected:.4} ({:+.2} %)", (found / expected - 1.0) * 100.0);
    assert!((found / expected - 1.0).abs() < 0.01, "{what}: {found} instead of {expected}");
}

#[test]
fn closed_forms_give_their_published_values() {
    for (alpha, values) in [
        (1.05, [10.6721, 21.0, 9.1962]),
        (1.1, [5.6775, 11.0, 5.2471]),
        (1.25, [2.6927, 5.0, 2.5993]),
        (1.5, [1.7158, 3.0, 1.6808]),
    ] {
        for (found, expected) in [fifo(alpha), random(alpha), greedy(alpha, 64)].iter().zip(values) {
            assert!((found - expected).abs() < 1e-4, "{alpha}: {found} {expected}");
        }
    }
    for (alpha, share, space, expected) in [
        (1.0914, 0.7258, 0.1420, 6.589),
        (1.1, 0.8, 0.2, 6.038),
        (1.25, 0.8, 0.2, 3.034),
        (1.1, 0.9, 0.1, 6.682),
    ] {
        assert!((two_class_lru(alpha, share, space) - expected).abs() < 2e-3);
    }
    // One choice is random; many are greedy.
    assert!((d_choices(1.25, 64, 1) / random(1.25) - 1.0).abs() < 1e-3);
    assert!((d_choices(1.25, 64, 200) / greedy(1.25, 64) - 1.0).abs() < 5e-3);
}

#[test]
#[ignore = "a long test: make test-long"]
fn fifo_meets_the_closed_form() {
    for alpha in ALPHAS {
        let (found, alpha) = measure(alpha, &[("ftl.gc", &"fifo")], "uniform", &[]);
        assert_meets(&format!("fifo, alpha {alpha:.4}"), found, fifo(alpha));
    }
}

#[test]
#[ignore = "a long test: make test-long"]
fn random_meets_the_closed_form() {
    for alpha in ALPHAS {
        let (found, alpha) = measure(alpha, &[("ftl.gc", &"random")], "uniform", &[]);
        assert_meets(&format!("random, alpha {alpha:.4}"), found, random(alpha));
    }
}

#[test]
#[ignore = "a long test: make test-long"]
fn greedy_meets_the_exact_form_and_nothing_beats_it() {
    let found = ALPHAS.map(|alpha| {
        let (found, alpha) = measure(alpha, &[("ftl.gc", &"greedy")], "uniform", &[]);
        assert_meets(&format!("greedy, alpha {alpha:.4}"), found, greedy(alpha, PAGES));
        found
    });
    let best = found[ALPHAS.iter().position(|alpha| *alpha == 1.1).unwrap()];
    for gc in ["cost_benefit", "windowed_greedy"] {
        let other = measure(1.1, &[("ftl.gc", &gc)], "uniform", &[]).0;
        println!("{gc}: {other:.4}, greedy {best:.4}");
        assert!(other > best * 0.998, "{gc} {other} beats greedy {best}");
    }
}

#[test]
fn windowed_greedy_lies_between_fifo_and_greedy() {
    let with = |window: u32| {
        measure(1.1, &[("ftl.gc", &"windowed_greedy"), ("ftl.gc_window", &window)], "uniform", &[]).0
    };
    let alpha = 1.1;
    assert_meets("a window of one block is FIFO", with(1), fifo(alpha));
    assert_meets("a window of all blocks is greedy", with(blocks()), greedy(alpha, PAGES));
    let middle = with(256);
    assert!(middle < fifo(alpha) && middle > greedy(alpha, PAGES) * 0.999, "{middle}");
}

#[test]
#[ignore = "a long test: make test-long"]
fn d_choices_meets_the_mean_field() {
    for (index, d) in [2, 10].into_iter().enumerate() {
        // Two of the four each.
        let every = if is_long() { 1 } else { 2 };
        for &alpha in ALPHAS.iter().skip(if is_long() { 0 } else { index }).step_by(every) {
            let (found, alpha) =
                measure(alpha, &[("ftl.gc", &"d_choices"), ("ftl.gc_choices", &d)], "uniform", &[]);
            assert_meets(&format!("{d} choices, alpha {alpha:.4}"), found, d_choices(alpha, PAGES, d));
        }
    }
}

#[test]
fn lru_with_two_classes_meets_its_equation() {
    for (alpha, share, space) in [(1.1, 0.8, 0.2), (1.25, 0.8, 0.2), (1.1, 0.9, 0.1), (1.5, 0.9, 0.1)] {
        let keys: [(&str, &dyn std::fmt::Display); 2] =
            [("hot_access_fraction", &share), ("hot_space_fraction", &space)];
        let (found, alpha) = measure(alpha, &[("ftl.gc", &"fifo")], "hotcold", &keys);
        assert_meets(
            &format!("{share} of writes to {space} of space, alpha {alpha:.4}"),
            found,
            two_class_lru(alpha, share, space),
        );
    }
}

/// The generator of trims starts with every page in use, and so does a drive that was filled: write amplification of
/// the second half of a long run on it.
#[test]
#[ignore = "a long test: make test-long"]
fn trim_leaves_the_space_that_its_chain_predicts() {
    const TIGHT: [f64; 3] = [1.02, 1.05, 1.1];
    for (index, q) in [0.1, 0.2, 0.3].into_iter().enumerate() {
        for alpha in if is_long() { &TIGHT[..] } else { &TIGHT[index..=index] } {
            let physical = f64::from((blocks() - 2) * PAGES);
            let logical = (physical / alpha).floor();
            let device = settings(&[
                ("geometry.blocks_per_plane", &blocks()),
                ("ftl.logical_pages", &logical),
                ("ftl.gc", &"fifo"),
                ("precondition.kind", &"fill"),
            ]);
            let pages = |count: u64| {
                let keys = settings(&[("requests", &count), ("trim_fraction", &q)]);
                let outcome = run("ideal-page", &device, "uniform", &keys, false);
                let flash = &outcome.summary.flash;
                (flash.programs.total + flash.copybacks.total, outcome.summary.host.write_pages)
            };
            let (before, after) = (pages(requests(730)), pages(requests(1460)));
            let found = (after.0 - before.0) as f64 / (after.1 - before.1) as f64;
            let alpha = physical / logical;
            assert_meets(&format!("trim {q}, alpha {alpha:.4}"), found, fifo(alpha / in_use(q)));
        }
    }
}

#[test]
#[ignore = "a long test: make test-long"]
fn sequential_overwrite_costs_nothing() {
    for gc in ["greedy", "fifo"] {
        let (found, _) = measure(1.1, &[("ftl.gc", &gc)], "sequential", &[]);
        assert!((found - 1.0).abs() < 5e-4, "{gc}: {found}");
    }
}

#[test]
#[ignore = "a long test: make test-long"]
fn a_public_simulator_agrees_on_greedy() {
    // 10,000 logical blocks of 64 pages, spare factor 0.08, collection below 32 free blocks: 5.875.
    let blocks = (10_000.0_f64 / 0.92).floor() as u32 + 32;
    let device = settings(&[
        ("geometry.blocks_per_plane", &blocks),
        ("ftl.logical_pages", &640_000),
        ("ftl.gc_low_free_blocks", &31),
    ]);
    let outcome = run("ideal-page", &device, "uniform", &settings(&[("requests", &6_000_000)]), false);
    let found = outcome.summary.write_amplification.unwrap().total;
    println!("{found:.4}");
    assert!((found / 5.875 - 1.0).abs() < 0.002, "{found}");
}
