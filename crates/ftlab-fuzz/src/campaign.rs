//! What all targets share: cases by their numbers, a budget of cases or of time, and what is told of findings.

use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};

/// What a program returns that was interrupted.
const INTERRUPTED: i32 = 128 + SIGINT;

/// What can be tried with case after case, each of which is a number.
pub trait Target: Sync {
    /// What it is called on the command line.
    const NAME: &'static str;
    /// Seconds after which a case has failed, whatever it says in the end.
    const MOST_SECONDS: u64;
    /// Something to be tried.
    type Case;
    /// What a case that held has seen.
    type Lived;
    /// All of it.
    type Seen: Default + Display + Send;

    /// Case `seed`: the same on every machine.
    fn case(&self, seed: u64) -> Self::Case;

    /// Try it.
    ///
    /// # Errors
    /// What did not hold.
    fn run(&self, case: &Self::Case, seed: u64) -> Result<Self::Lived, String>;

    /// Add what a case has seen.
    fn count(&self, seen: &mut Self::Seen, case: &Self::Case, lived: Self::Lived, seed: u64);

    /// Change a case that fails with `text`, step by step into a smaller one that `fails` too.
    fn smallest(
        &self,
        case: Self::Case,
        text: &str,
        fails: impl Fn(&Self::Case) -> Option<String>,
    ) -> (Self::Case, String);

    /// A file that repeats the case, and others to look at; each with the ending of its name.
    fn files(&self, case: &Self::Case, seed: u64, text: &str) -> Vec<(String, Vec<u8>)>;

    /// The case of such a file.
    ///
    /// # Errors
    /// Why it is none.
    fn case_of(&self, ending: &str, bytes: Vec<u8>) -> Result<Self::Case, String>;
}

/// How much is tried, and where findings go.
pub struct Budget {
    /// The first case.
    pub seed: u64,
    /// How many cases.
    pub cases: u64,
    /// No case begins later.
    pub time: Option<Duration>,
    /// The folder for findings; they are printed when there is none.
    pub out: Option<PathBuf>,
}

/// The largest of something, and the case that had it.
#[derive(Default, Clone, Copy)]
pub struct Most(pub f64, pub u64);

impl Most {
    /// Keep `value` if it is larger.
    pub fn see(&mut self, value: f64, seed: u64) {
        if value > self.0 {
            *self = Self(value, seed);
        }
    }
}

#[derive(Default)]
struct Tally<S> {
    cases: u64,
    findings: u64,
    seconds: Most,
    seen: S,
}

thread_local! {
    static CATCHING: Cell<bool> = const { Cell::new(false) };
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Run something; a panic is a finding as any other, and says where it was.
pub fn caught<T>(run: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if CATCHING.get() {
                PANIC.set(info.to_string().replace('\n', " "));
            } else {
                usual(info);
            }
        }));
    });
    CATCHING.set(true);
    let result = catch_unwind(AssertUnwindSafe(run));
    CATCHING.set(false);
    result.unwrap_or_else(|_| Err(PANIC.take()))
}

/// Whether two findings are of one kind: numbers differ from case to case, and so does what is quoted.
pub fn alike(one: &str, other: &str) -> bool {
    let words = |text: &str| {
        let plain = text.split('"').step_by(2).collect::<String>();
        plain.chars().filter(|letter| !letter.is_ascii_digit()).take(80).collect::<String>()
    };
    words(one) == words(other)
}

/// Try the case, and say so if it took too long.
fn tried<T: Target>(target: &T, case: &T::Case, seed: u64) -> (Result<T::Lived, String>, f64) {
    let start = Instant::now();
    let result = caught(|| target.run(case, seed));
    let seconds = start.elapsed().as_secs_f64();
    if result.is_ok() && seconds > T::MOST_SECONDS as f64 {
        return (Err(format!("it took {seconds:.0} s")), seconds);
    }
    (result, seconds)
}

/// What is to be said of a finding, with the smallest case that has it.
fn tell<T: Target>(target: &T, seed: u64, text: &str, out: Option<&Path>) -> io::Result<()> {
    println!("{} case {seed}: {text}", T::NAME);
    let fails = |case: &T::Case| tried(target, case, seed).0.err();
    let (small, text) = target.smallest(target.case(seed), text, fails);
    println!("  made smaller: {text}");
    for (ending, file) in target.files(&small, seed, &text) {
        match out {
            Some(folder) => keep::<T>(folder, seed, &ending, &file)?,
            None => println!("{}", String::from_utf8_lossy(&file)),
        }
    }
    Ok(())
}

/// Write a file of a finding.
fn keep<T: Target>(folder: &Path, seed: u64, ending: &str, file: &[u8]) -> io::Result<()> {
    let path = folder.join(format!("{}-{seed}.{ending}", T::NAME));
    println!("  {}", path.display());
    fs::write(path, file)
}

/// The case that a thread tries, kept where it is found after an abort.
struct Underway {
    file: Option<(File, PathBuf)>,
}

impl Underway {
    fn new(name: &str, thread: usize, out: Option<&Path>) -> io::Result<Self> {
        let Some(folder) = out else { return Ok(Self { file: None }) };
        let path = folder.join(format!("{name}-underway-{thread}"));
        Ok(Self { file: Some((File::create(&path)?, path)) })
    }

    fn note(&self, seed: u64) -> io::Result<()> {
        self.file
            .as_ref()
            .map_or(Ok(()), |(file, _)| file.write_all_at(format!("{seed:<20}\n").as_bytes(), 0))
    }

    fn end(self) -> io::Result<()> {
        self.file.map_or(Ok(()), |(_, path)| fs::remove_file(path))
    }
}

/// What the threads of a campaign share.
struct Campaign<'a, T: Target> {
    target: &'a T,
    budget: &'a Budget,
    start: Instant,
    next: AtomicU64,
    stop: AtomicBool,
    tally: Mutex<Tally<T::Seen>>,
    /// For each thread: its case, and when that began.
    under_way: Mutex<Vec<Option<(u64, Instant)>>>,
}

impl<T: Target> Campaign<'_, T> {
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed) && self.budget.time.is_none_or(|time| self.start.elapsed() < time)
    }

    /// The cases of a thread; when their findings cannot be written, no other thread goes on.
    fn work(&self, thread: usize) -> io::Result<()> {
        let result = self.try_all(thread);
        self.stop.fetch_or(result.is_err(), Ordering::Relaxed);
        result
    }

    fn try_all(&self, thread: usize) -> io::Result<()> {
        let out = self.budget.out.as_deref();
        let under_way = Underway::new(T::NAME, thread, out)?;
        while self.goes_on() {
            let at = self.next.fetch_add(1, Ordering::Relaxed);
            if at >= self.budget.cases {
                break;
            }
            let seed = self.budget.seed.wrapping_add(at);
            under_way.note(seed)?;
            self.set_under_way(thread, Some((seed, Instant::now())));
            let case = caught(|| Ok(self.target.case(seed))).map_err(|text| {
                io::Error::other(format!("case {seed} of {} cannot be made: {text}", T::NAME))
            })?;
            let (result, seconds) = tried(self.target, &case, seed);
            self.set_under_way(thread, None);
            let mut tally = self.tally.lock().expect("nobody panics with it");
            tally.cases += 1;
            tally.seconds.see(seconds, seed);
            match result {
                Ok(lived) => self.target.count(&mut tally.seen, &case, lived, seed),
                Err(text) => {
                    tally.findings += 1;
                    drop(tally);
                    tell(self.target, seed, &text, out)?;
                }
            }
        }
        under_way.end()
    }

    fn set_under_way(&self, thread: usize, case: Option<(u64, Instant)>) {
        self.under_way.lock().expect("nobody panics with it")[thread] = case;
    }

    /// A case that never ends cannot be stopped, and nor can its thread: say which it is and give up. One that takes long is
    /// not waited for when somebody wants an end.
    fn watch(&self, done: &AtomicBool, interrupted: &AtomicBool) {
        let most = Duration::from_secs(4 * T::MOST_SECONDS);
        while !done.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(20));
            if interrupted.load(Ordering::Relaxed) {
                self.say("interrupted, ");
                std::process::exit(INTERRUPTED);
            }
            let under_way = self.under_way.lock().expect("nobody panics with it");
            let mut late = under_way.iter().flatten().filter(|(_, since)| since.elapsed() > most);
            if let Some((seed, _)) = late.next() {
                println!("{} case {seed}: has not ended after {} s", T::NAME, most.as_secs());
                for (ending, file) in self.target.files(&self.target.case(*seed), *seed, "does not end") {
                    let _ = self.budget.out.as_ref().map(|folder| keep::<T>(folder, *seed, &ending, &file));
                }
                std::process::exit(1);
            }
        }
    }

    /// Say what has come of it, and how it ended; gives the number of findings.
    fn say(&self, ending: &str) -> u64 {
        let seconds = self.start.elapsed().as_secs_f64();
        let Tally { cases, findings, seconds: slowest, seen } =
            &*self.tally.lock().expect("nobody panics with it");
        println!(
            "{}: {ending}{cases} cases from {}, {seconds:.0} s: {findings} findings\n  slowest {:.2} s (case {}); {seen}",
            T::NAME,
            self.budget.seed,
            slowest.0,
            slowest.1
        );
        *findings
    }
}

/// Try the cases of a budget on all processors, and tell what did not hold; gives the number of findings.
///
/// # Errors
/// When the folder for findings cannot be written, or the system gives no signals.
pub fn run<T: Target>(target: &T, budget: &Budget) -> io::Result<u64> {
    if let Some(folder) = &budget.out {
        fs::create_dir_all(folder)?;
    }
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let campaign = Campaign {
        target,
        budget,
        start: Instant::now(),
        next: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        tally: Mutex::default(),
        under_way: Mutex::new(vec![None; threads]),
    };
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, interrupted.clone())?;
    }
    let done = AtomicBool::new(false);
    let campaign = &campaign;
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|thread| scope.spawn(move || campaign.work(thread))).collect();
        scope.spawn(|| campaign.watch(&done, &interrupted));
        let results = workers.into_iter().map(|worker| worker.join().expect("findings are caught"));
        let result = results.fold(Ok(()), io::Result::and);
        done.store(true, Ordering::Relaxed);
        result
    })?;
    Ok(campaign.say(""))
}

/// Try the case of a file again; gives the number of findings.
///
/// # Errors
/// Why it is no case.
pub fn repeat<T: Target>(target: &T, path: &Path) -> Result<u64, String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (number, ending) = name
        .strip_prefix(T::NAME)
        .and_then(|rest| rest.strip_prefix('-')?.split_once('.'))
        .ok_or_else(|| format!("expected a name like {}-7.toml", T::NAME))?;
    let seed = number.parse().map_err(|_| format!("{number:?} is no number of a case"))?;
    let bytes = fs::read(path).map_err(|error| error.to_string())?;
    let case = target.case_of(ending, bytes)?;
    match tried(target, &case, seed).0 {
        Ok(_) => println!("{name}: it holds"),
        Err(text) => {
            println!("{name}: {text}");
            return Ok(1);
        }
    }
    Ok(0)
}

/// The first cases of a target, as tests try them; `long` of them where `FTLAB_LONG` is set.
///
/// # Panics
/// When one did not hold.
#[cfg(test)]
pub fn hold<T: Target>(target: &T, quick: u64, long: u64) -> T::Seen {
    let count = if std::env::var_os("FTLAB_LONG").is_some() { long } else { quick };
    let mut seen = T::Seen::default();
    for seed in 1..=count {
        let case = target.case(seed);
        match tried(target, &case, seed).0 {
            Ok(lived) => target.count(&mut seen, &case, lived, seed),
            Err(text) => {
                let files: Vec<Vec<u8>> =
                    target.files(&case, seed, &text).into_iter().map(|file| file.1).collect();
                let files = String::from_utf8_lossy(&files.join(&b'\n')).into_owned();
                panic!("ftlab-fuzz {} --cases 1 --seed {seed}: {text}\n{files}", T::NAME);
            }
        }
    }
    seen
}
