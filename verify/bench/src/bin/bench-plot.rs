//! Draws the memory of a cache per 10,000 pods from the results of `bench --results FILE`: `bench-plot RESULTS SVG`.

use std::fmt::Write;

use serde_json::Value;

/// The bars: the peer in the results, and its label.
const BARS: [(&str, &str); 6] = [
    ("kube-runtime", "kube-runtime"),
    ("client-go", "client-go"),
    ("ours", "typed, Pod"),
    ("packed", "packed, Lazy<Pod>"),
    ("projected", "projected"),
    ("metadata", "metadata only"),
];
/// The others are of this library.
const PEERS: [&str; 2] = ["kube-runtime", "client-go"];

/// In the order of preference: a run without the real server has the second one only.
const FIGURES: [&str; 2] = ["packed-real-steady", "packed-replay-steady"];

const WIDTH: f64 = 720.0;
const LEFT: f64 = 150.0;
const RIGHT: f64 = 90.0;
const TOP: f64 = 44.0;
const ROW: f64 = 30.0;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [results, svg] = arguments.as_slice() else {
        return Err("usage: bench-plot RESULTS.json PLOT.svg".into());
    };
    let text = std::fs::read_to_string(results).map_err(|error| format!("cannot read {results}: {error}"))?;
    let plot = plot(&serde_json::from_str(&text)?)?;
    std::fs::write(svg, plot).map_err(|error| format!("cannot write {svg}: {error}"))?;
    Ok(())
}

/// The plot as SVG.
fn plot(results: &Value) -> Result<String, String> {
    let objects = results["objects"].as_f64().filter(|objects| *objects > 0.0);
    let objects = objects.ok_or("the results have no number of objects")?;
    let figure = FIGURES
        .into_iter()
        .find(|figure| results["medians"][*figure].is_object())
        .ok_or("the results have no memory: run `verify/bench/run --only packed --results FILE`")?;
    let mut bars = Vec::new();
    for (peer, label) in BARS {
        let megabytes = results["medians"][figure][peer].as_f64();
        let megabytes = megabytes.ok_or_else(|| format!("the results have no memory of {peer}"))?;
        bars.push((peer, label, megabytes * 10_000.0 / objects));
    }
    let largest = bars.iter().map(|(.., value)| *value).fold(1.0, f64::max);
    let height = TOP + ROW * bars.len() as f64 + 10.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         role=\"img\" aria-label=\"Resident memory per 10,000 pods\">\n\
         <style>text {{ font: 13px system-ui, sans-serif; fill: #24292f }} .title {{ font-weight: 600 }} .peer {{ fill: #8c959f }} \
         .ours {{ fill: #0969da }}\n\
         @media (prefers-color-scheme: dark) {{ text {{ fill: #c9d1d9 }} .peer {{ fill: #6e7681 }} .ours {{ fill: #58a6ff }} }}</style>\n\
         <text class=\"title\" x=\"8\" y=\"22\">Resident memory per 10,000 pods, MB</text>\n"
    );
    for (row, (peer, label, value)) in bars.iter().enumerate() {
        let (y, length) = (TOP + ROW * row as f64, (WIDTH - LEFT - RIGHT) * value / largest);
        let class = if PEERS.contains(peer) { "peer" } else { "ours" };
        let label = label.replace('<', "&lt;").replace('>', "&gt;");
        let (middle, end) = (y + 15.0, LEFT + length + 6.0);
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{middle}\" text-anchor=\"end\">{label}</text>\
             <rect class=\"{class}\" x=\"{LEFT}\" y=\"{y}\" width=\"{length:.1}\" height=\"20\" rx=\"2\"/>\
             <text x=\"{end:.1}\" y=\"{middle}\">{value:.0}</text>",
            LEFT - 8.0
        );
    }
    svg.push_str("</svg>\n");
    Ok(svg)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bars_are_scaled_to_ten_thousand_pods() {
        let memory = json!({
            "kube-runtime": 400.0, "client-go": 200.0, "ours": 300.0, "packed": 80.0, "projected": 20.0, "metadata": 30.0,
        });
        let mut results = json!({ "objects": 20_000, "medians": { "packed-replay-steady": memory } });

        let svg = plot(&results).unwrap();

        assert!(svg.contains("packed, Lazy&lt;Pod&gt;"), "{svg}");
        for value in [200, 100, 150, 40, 10, 15] {
            assert!(svg.contains(&format!(">{value}</text>")), "{value}: {svg}");
        }
        assert!(
            svg.contains("width=\"480.0\"") && svg.contains("width=\"96.0\""),
            "{svg}"
        );
        results["medians"]["packed-replay-steady"]["packed"] = Value::Null;
        assert_eq!(
            plot(&results).unwrap_err(),
            "the results have no memory of packed"
        );
    }

    #[test]
    fn committed_plot_shows_the_committed_results() {
        let read = |file: &str| {
            let path = format!("{}/../../docs/images/{file}", env!("CARGO_MANIFEST_DIR"));
            std::fs::read_to_string(&path).unwrap()
        };
        let results: Value = serde_json::from_str(&read("memory.json")).unwrap();

        assert!(
            plot(&results).unwrap() == read("memory.svg"),
            "run verify/bench/plot and commit docs/images/memory.svg"
        );
    }
}
