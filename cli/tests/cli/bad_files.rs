//! Bad files of OpenVINO IR: each command says what is wrong with them. `fuzz/bad_files.py` writes the list.

use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::thread;

use serde_json::Value;

use super::{Files, Ran, run};

/// Files whose errors are not yet as they should be.
const TO_MEND: [&str; 0] = [];

const COMMANDS: [&str; 5] = ["run", "check", "bench", "facts", "convert"];

/// Nobody reads more.
const LONGEST: usize = 2000;

/// An entry of the list.
struct Case {
    name: String,
    /// "load", "run", or "" for a file that only looks bad.
    fails: String,
    /// What the error has to contain.
    error: Vec<String>,
}

impl Case {
    fn new(entry: &Value) -> Case {
        let text = |it: &Value| it.as_str().unwrap().to_string();
        Case {
            name: text(&entry["name"]),
            fails: text(&entry["fails"]),
            error: entry["error"].as_array().unwrap().iter().map(text).collect(),
        }
    }

    /// Whether a command fails for it; none if that is left open: a command that runs nothing may see what is bad
    /// in a value, and not every model has the form of an archive.
    fn fails(&self, command: &str) -> Option<bool> {
        let runs = ["run", "check", "bench"].contains(&command);
        match &*self.fails {
            "load" => Some(true),
            "run" if runs => Some(true),
            "" if command != "convert" => Some(false),
            _ => None,
        }
    }

    /// What is not as it should be with what a command did.
    fn problems(&self, command: &str, ran: &Ran) -> Vec<String> {
        let mut problems = vec![];
        let failed = match (ran.status, command) {
            (Some(0), _) => false,
            (Some(2), _) | (Some(1), "check") => true,
            (status, _) => {
                problems.push(format!("ends with {status:?}"));
                true
            }
        };
        if self.fails(command).is_some_and(|fails| fails != failed) {
            problems.push(if failed { "fails" } else { "does not fail" }.into());
        }
        // It has a line for each stage.
        let errors: Vec<&str> = match command {
            "check" => ran.stdout.lines().filter(|line| line.starts_with("FAIL")).collect(),
            _ => vec![&ran.stderr],
        };
        for error in errors {
            if error.contains("panicked") {
                problems.push("panics".into());
            }
            if error.len() > LONGEST {
                problems.push(format!("its error has {} bytes", error.len()));
            }
            if self.fails(command) == Some(true) {
                let missing = self.error.iter().filter(|piece| !error.contains(&***piece));
                problems.extend(missing.map(|piece| format!("does not say {piece:?}")));
            }
        }
        if !problems.is_empty() {
            problems.push(format!("{}{}", ran.stdout, ran.stderr));
        }
        problems
    }
}

#[test]
fn bad_files_are_errors_that_say_what_to_do() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad_files");
    let list = fs::read_to_string(folder.join("cases.json")).unwrap();
    let list: Value = serde_json::from_str(&list).unwrap();
    let cases: Vec<Case> = list.as_array().unwrap().iter().map(Case::new).collect();
    let files = Files::new();
    let problems = Mutex::new(vec![]);
    let check = |case: &Case| {
        let model = folder.join(&case.name).to_str().unwrap().to_string();
        let archive = files.path(&format!("{}.nnef.tgz", case.name));
        let mut found = vec![];
        for command in COMMANDS {
            let more: &[&str] = match command {
                "bench" => &["--warm-up", "0", "--time", "0"],
                "convert" => &[&archive],
                _ => &[],
            };
            let ran = run(&[&[command, &model], more].concat());
            let problems = case.problems(command, &ran);
            found.extend(problems.iter().map(|it| format!("{command} {}: {it}", case.name)));
        }
        if found.is_empty() == TO_MEND.contains(&&*case.name) {
            found.push(format!("{} in the list of those to mend", case.name));
            problems.lock().unwrap().extend(found);
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for part in cases.chunks(cases.len().div_ceil(threads)) {
            scope.spawn(|| part.iter().for_each(&check));
        }
    });
    let problems = problems.into_inner().unwrap();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
