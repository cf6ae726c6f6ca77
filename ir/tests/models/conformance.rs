//! Models that others have thought of, or nobody: of which some do not pass.

#[path = "conformance/attributes.rs"]
mod attributes;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};

use super::{NETWORKS, Nnef, Open, check_folder};

/// Of one model. None takes more than seconds.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// How many random models that rules are about do not pass.
static DIFFERENT: AtomicUsize = AtomicUsize::new(0);

/// One in so many random models may not pass.
const MOST_DIFFERENT: usize = 500;

/// How many random models do not load with open dimensions, but with sizes; or are refused as the documents say.
pub static REFUSED: AtomicUsize = AtomicUsize::new(0);

/// One in so many of all random models may be one of these.
const MOST_REFUSED: usize = 8;

/// So many random models are enough for what is said of all of them. Fewer are a sample.
const ENOUGH: usize = 2000;

/// The random models of a sample that no rule is about, and do not pass.
static UNEXPLAINED: Mutex<Vec<String>> = Mutex::new(vec![]);

/// How many these may be. OpenVINO's CPU plug-in is wrong in one of 2,000 random models, in ways that no rule says yet.
const MOST_UNEXPLAINED: usize = 1;

/// One test for each model folder below `root`, and ends the process. A test fails if the model does, and if a model does
/// not fail that is listed. The random models that `differs.txt` in the folder names may fail or not, because rules say
/// which these are. They must be few, and random models must vary all attributes that the reader asks for.
pub fn run(arguments: &Arguments, root: &Path) -> ! {
    attributes::record();
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance/failures.txt");
    let list = std::fs::read_to_string(list).expect("the list is there");
    let mut listed: BTreeSet<&str> = list.lines().filter(|line| is_name(line)).collect();
    let rules = std::fs::read_to_string(root.join("differs.txt")).unwrap_or_default();
    let differs: BTreeSet<&str> =
        rules.lines().filter_map(|line| Some(line.split_once(": ")?.0)).collect();
    let mut trials = vec![];
    let mut random = vec![];
    let folders = model_cases::find(root).expect("the models are there");
    let is_sample = folders.len() < ENOUGH;
    for folder in folders {
        let name = folder.strip_prefix(root).expect("it is below").display().to_string();
        if name.starts_with("random/") {
            random.push(folder.join("model.xml"));
        }
        let open = if name.starts_with("random/") { Open::MayRefuse } else { Open::Loads };
        let (is_listed, may_differ) = (listed.remove(&*name), differs.contains(&*name));
        let test = format!("conformance/{name}");
        let is_drawn = is_sample && name.starts_with("random/");
        // What is listed may give an error, but may not panic or go on for ever.
        trials.push(Trial::test(test, move || match (is_listed, check_apart(folder, open)?) {
            (true, Err(_)) => Ok(()),
            (true, Ok(())) => Err("it is listed, but it passes".into()),
            (false, Err(_)) if may_differ => {
                DIFFERENT.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            (false, Err(failed)) if is_drawn => {
                let failed = failed.message().unwrap_or_default().to_string();
                UNEXPLAINED
                    .lock()
                    .expect("no test panics with it")
                    .push(format!("{name}: {failed}"));
                Ok(())
            }
            (false, result) => result,
        }));
    }
    assert!(!trials.is_empty(), "no model in {root:?}");
    // OpenVINO may refuse a model on one processor and not on another.
    if !listed.is_empty() && random.is_empty() {
        eprintln!("they are listed, but there are no such models here: {listed:?}");
    }
    let conclusion = libtest_mimic::run(arguments, trials);
    if !random.is_empty() && !arguments.list && conclusion.num_filtered_out == 0 {
        let [different, refused] = [&DIFFERENT, &REFUSED].map(|it| it.load(Ordering::Relaxed));
        println!(
            "{} random models: {different} differ, as rules say; {refused} are refused, most with open dimensions",
            random.len()
        );
        let unexplained = UNEXPLAINED.lock().expect("no test panics with it");
        unexplained.iter().for_each(|failed| println!("no rule is about {failed}"));
        assert!(unexplained.len() <= MOST_UNEXPLAINED, "too many differ, without a rule");
        if is_sample {
            conclusion.exit();
        }
        let unvaried = attributes::unvaried(&random);
        assert!(
            unvaried.is_empty(),
            "random models do not vary these attributes, which the reader asks for: {unvaried:?}"
        );
        assert!(different * MOST_DIFFERENT <= random.len(), "too many differ");
        assert!(refused * MOST_REFUSED <= random.len(), "too many are refused");
    }
    conclusion.exit()
}

/// Whether a line of the list is a model's name. The others are the reasons, and empty.
fn is_name(line: &str) -> bool {
    !line.is_empty() && !line.starts_with('#')
}

/// Checks a model in a thread that may panic, or not end: then there is no result.
fn check_apart(folder: PathBuf, open: Open) -> Result<Result<(), Failed>, Failed> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || sender.send(check_folder(&folder, NETWORKS, Nnef::Not, open)));
    receiver.recv_timeout(TIME_LIMIT).map_err(|error| match error {
        RecvTimeoutError::Timeout => "it does not end".into(),
        RecvTimeoutError::Disconnected => "it panics".into(),
    })
}
