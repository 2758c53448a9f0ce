//! The cost of the pipeline, from bytes to handlers: `cargo bench -p kube-informers --bench line [-- SCENARIO…]`. The store
//! has a separate benchmark.
//!
//! Each scenario runs three times, each time in a separate process, and the median is printed.
//! Times are CPU times of the process where the scenario has one thread, wall times otherwise.

mod data;
mod measure;
mod scenarios;

use std::collections::BTreeMap;
use std::process::Command;

const RUNS: usize = 3;

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench" && argument != "--test")
        .collect();
    if let [flag, name] = arguments.as_slice()
        && flag == "--scenario"
    {
        return scenarios::run(name);
    }
    let wanted: Vec<&str> = scenarios::NAMES
        .iter()
        .copied()
        .filter(|name| arguments.is_empty() || arguments.iter().any(|wanted| name.contains(wanted.as_str())))
        .collect();
    println!("{:<34} {:<42} {:>12}", "scenario", "figure", "median of 3");
    for name in wanted {
        let mut figures: BTreeMap<(usize, String), Vec<f64>> = BTreeMap::new();
        for _ in 0..RUNS {
            let output = Command::new(std::env::current_exe().expect("the path of this program"))
                .args(["--scenario", name])
                .output()
                .expect("a run of this program");
            assert!(
                output.status.success(),
                "{name}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            for (line, figure) in text.lines().enumerate() {
                let (value, what) = figure.split_once(' ').expect("a value and a name");
                let value: f64 = value.parse().expect("a number");
                figures.entry((line, what.to_owned())).or_default().push(value);
            }
        }
        for ((_, what), mut values) in figures {
            values.sort_by(f64::total_cmp);
            println!("{name:<34} {what:<42} {:>12.2}", values[values.len() / 2]);
        }
    }
}
