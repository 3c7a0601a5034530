//! Fuzzing of the index: programs of bytes, run on the tree and on a plain map of keys side by side.
//!
//! `cargo test` replays the inputs in `corpus/`. `make fuzz` makes new ones for a while, guided by the edges of the code
//! that they reach, and keeps one that fails there; without its flags the search is blind.

mod coverage;
mod heap;
mod leaks;
mod mutate;
mod operands;
mod oracle;
mod program;

use std::collections::BTreeSet;
use std::fs;
use std::panic::{catch_unwind, set_hook, take_hook};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use coverage::Coverage;
use mutate::{minimise, mutate, Random};
use program::{run, Course};

fn corpus_folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("rust/fuzz/corpus")
}

/// Bytes in hex; what stands behind a `#` is for people.
fn read_input(text: &str) -> Vec<u8> {
    let digits = text.lines().flat_map(|line| line.split('#').next());
    let digits = digits.flat_map(str::split_whitespace);
    digits
        .map(|byte| u8::from_str_radix(byte, 16).expect("two hex digits a byte"))
        .collect()
}

fn write_input(name: &str, comment: &str, bytes: &[u8]) -> PathBuf {
    let comment = comment.replace('\n', "\n# ");
    let lines = bytes.chunks(32).map(|line| {
        let line: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        line.join(" ") + "\n"
    });
    let path = corpus_folder().join(name);
    let text = format!("# {comment}\n{}", lines.collect::<String>());
    fs::write(&path, text).expect("the corpus can be written");
    path
}

/// The corpus, by name.
fn corpus() -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(corpus_folder()).expect("there is a corpus");
    let paths = entries.map(|entry| entry.expect("the corpus can be read").path());
    let mut found: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|kind| kind == "hex"))
        .map(|path| {
            let text = fs::read_to_string(&path).expect("an input is text");
            (path.display().to_string(), read_input(&text))
        })
        .collect();
    found.sort();
    found
}

/// What went wrong, if it did.
fn attempt(bytes: &[u8]) -> Result<Course, String> {
    catch_unwind(|| run(bytes)).map_err(|payload| {
        let text = payload.downcast_ref::<String>().cloned();
        let text = text.or_else(|| {
            payload
                .downcast_ref::<&str>()
                .map(|text| (*text).to_owned())
        });
        text.unwrap_or_else(|| "unknown cause".to_owned())
    })
}

/// FNV-1a, to name a file by what is in it.
fn name_of(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[test]
fn every_input_of_the_corpus_agrees_with_a_plain_map_and_leaves_nothing() {
    let mut met = BTreeSet::new();
    let mut operations = 0;
    for (name, bytes) in corpus() {
        let course = attempt(&bytes).unwrap_or_else(|fault| panic!("{name}: {fault}"));
        operations += course.operations;
        met.extend(course.met);
    }
    let wanted = [
        "a handle that isn't live",
        "a key again",
        "a ladder",
        "a wide fan",
        "ask all",
        "clear",
        "compaction",
        "insert",
        "insert nothing",
        "match",
        "remove",
        "retire",
        "several namespaces",
    ];
    assert!(met.iter().eq(wanted.iter()), "the corpus meets {met:?}");
    assert!(operations > 1_000, "{operations} operations");
}

#[test]
fn a_failing_input_is_made_small() {
    let fails = |bytes: &[u8]| bytes.contains(&7) && bytes.contains(&9);
    let input: Vec<u8> = (0..200).map(|i| i % 11).collect();
    let mut small = minimise(input, fails);
    small.sort_unstable();
    assert_eq!(small, [7, 9]);
}

/// The long run. `RADIXFLOW_FUZZ_SECONDS`: how long; `RADIXFLOW_FUZZ_SEED`: from where; `RADIXFLOW_FUZZ_KEEP`: keep
/// in the corpus what reached something new.
#[test]
#[ignore = "takes as long as it is told to: make fuzz"]
fn fuzz() {
    let number = |name, default| {
        let text = std::env::var(name).unwrap_or_default();
        text.parse().unwrap_or(default)
    };
    let seed = number("RADIXFLOW_FUZZ_SEED", u64::from(std::process::id()));
    let time = Duration::from_secs(number("RADIXFLOW_FUZZ_SECONDS", 60));
    let keep = std::env::var("RADIXFLOW_FUZZ_KEEP").is_ok();
    let mut random = Random::new(seed);
    let mut coverage = Coverage::new();
    let mut pool: Vec<Vec<u8>> = corpus().into_iter().map(|(_, bytes)| bytes).collect();
    let given = pool.len();
    let (mut inputs, mut operations) = (0_u64, 0_usize);
    let start = Instant::now();
    let hook = take_hook();
    set_hook(Box::new(|_| {}));
    while start.elapsed() < time {
        // The corpus itself first, so that what it reaches is no news.
        let bytes = match pool.get(inputs as usize) {
            Some(bytes) if (inputs as usize) < given => bytes.clone(),
            _ => mutate(&pool, &mut random),
        };
        inputs += 1;
        coverage.start();
        let outcome = attempt(&bytes);
        match outcome {
            Ok(course) => operations += course.operations,
            Err(_) => {
                let small = minimise(bytes, |bytes| attempt(bytes).is_err());
                let fault = attempt(&small).err().expect("what is small fails, too");
                let name = format!("failure-{:016x}.hex", name_of(&small));
                let path = write_input(&name, &fault, &small);
                set_hook(hook);
                panic!(
                    "{fault}\nafter {operations} operations, seed {seed}; kept as {}: `cargo test --test fuzz` replays \
                     it. Mend the index, rename the file to what it shows, and commit it",
                    path.display()
                );
            }
        }
        if coverage.is_news() && inputs as usize > given {
            if keep {
                let name = format!("found-{:016x}.hex", name_of(&bytes));
                write_input(&name, "reached something new", &bytes);
            }
            pool.push(bytes);
        }
    }
    set_hook(hook);
    println!(
        "{operations} operations in {inputs} inputs agree, {:.0} s, seed {seed}; {} of {} edges; pool of {given} and {}",
        start.elapsed().as_secs_f64(),
        coverage.reached(),
        coverage.edges(),
        pool.len() - given,
    );
}
