//! Models that others have thought of, of which some do not pass.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use libtest_mimic::{Arguments, Conclusion, Failed, Trial};

use super::{NETWORKS, Nnef, check_folder};

/// Of one model. None takes more than seconds.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// One test for each model folder below `root`. It fails if the model does, and if a model does not fail that is
/// listed.
pub fn run(arguments: &Arguments, root: &Path) -> Conclusion {
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance/failures.txt");
    let list = std::fs::read_to_string(list).expect("the list is there");
    let mut listed: BTreeSet<&str> = list.lines().filter(|line| is_name(line)).collect();
    let mut trials = vec![];
    for folder in model_cases::find(root).expect("the models are there") {
        let name = folder.strip_prefix(root).expect("it is below").display().to_string();
        let is_listed = listed.remove(&*name);
        let test = format!("conformance/{name}");
        // What is listed may give an error, but may not panic or go on for ever.
        trials.push(Trial::test(test, move || match (is_listed, check_apart(folder)?) {
            (false, result) => result,
            (true, Err(_)) => Ok(()),
            (true, Ok(())) => Err("it is listed, but it passes".into()),
        }));
    }
    assert!(!trials.is_empty(), "no model in {root:?}");
    // OpenVINO may refuse a model on one processor and not on another.
    if !listed.is_empty() {
        eprintln!("they are listed, but there are no such models here: {listed:?}");
    }
    libtest_mimic::run(arguments, trials)
}

/// Whether a line of the list is a model's name. The others are the reasons, and empty.
fn is_name(line: &str) -> bool {
    !line.is_empty() && !line.starts_with('#')
}

/// Checks a model in a thread that may panic, or not end: then there is no result.
fn check_apart(folder: PathBuf) -> Result<Result<(), Failed>, Failed> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || sender.send(check_folder(&folder, NETWORKS, Nnef::Not)));
    receiver.recv_timeout(TIME_LIMIT).map_err(|error| match error {
        RecvTimeoutError::Timeout => "it does not end".into(),
        RecvTimeoutError::Disconnected => "it panics".into(),
    })
}
