//! The targets on stable Rust, without coverage: on the corpus, and on so many byte strings of a generator
//! with a seed.
//!
//! ```text
//! cargo run --release --bin seeded -- EXECUTIONS [SEED]
//! ```

use std::path::Path;

use tract_openvino_fuzz::operator;

fn main() {
    let mut arguments = std::env::args().skip(1).map(|it| it.parse::<u64>().expect("a number"));
    let executions = arguments.next().expect("the number of executions");
    let mut state = arguments.next().unwrap_or(1);
    let mut random = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 32) as u32
    };

    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/operator");
    let mut files = 0;
    for file in std::fs::read_dir(&corpus).into_iter().flatten() {
        let file = file.expect("the folder can be read").path();
        operator::run(&std::fs::read(&file).expect("the file can be read"));
        files += 1;
    }
    let (mut cases, mut outputs) = (0u64, 0u64);
    for _ in 0..executions {
        let length = random() as usize % 600;
        let bytes: Vec<u8> = (0..length).map(|_| random() as u8).collect();
        let result = operator::run(&bytes);
        cases += result.is_some() as u64;
        outputs += (result == Some(true)) as u64;
    }
    println!(
        "operator: {files} files, and {executions} generated, of which {cases} were cases and \
         {outputs} had an output"
    );
    assert!(outputs * 20 > executions, "the generator makes too few cases with an output");
}
