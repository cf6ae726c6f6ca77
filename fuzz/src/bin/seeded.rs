//! A target on stable Rust, without coverage: on each model as it is, and on so many byte strings of a generator
//! with a seed.
//!
//! ```text
//! cargo run --bin seeded -- TARGET EXECUTIONS [SEED]
//! ```

use tract_openvino_fuzz::{Target, panics};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().expect("the name of a target");
    let target = Target::of_name(&name).expect("a target of that name");
    let mut numbers = arguments.map(|it| it.parse::<u64>().expect("a number"));
    let executions = numbers.next().expect("the number of executions");
    let mut state = numbers.next().unwrap_or(1);
    let mut random = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 32) as u32
    };

    let seeds: Vec<_> = target.seeds().map(|seed| (target.run)(&seed)).collect();
    let run = seeds.iter().filter(|it| **it == Some(true)).count();
    println!("{name}: {} seeds, of which {run} had an output", seeds.len());
    let (mut cases, mut outputs) = (0u64, 0u64);
    for _ in 0..executions {
        let length = random() as usize % 600;
        let bytes: Vec<u8> = (0..length).map(|_| random() as u8).collect();
        let result = (target.run)(&bytes);
        cases += result.is_some() as u64;
        outputs += (result == Some(true)) as u64;
    }
    println!("{executions} generated, of which {cases} were cases and {outputs} had an output");
    for (place, times) in panics::of_tract() {
        println!("tract panicked {times} times at {place}");
    }
    assert!(outputs * 20 > executions, "the generator makes too few cases with an output");
}
