//! Charts: horizontal bars, one panel for each main load.

use super::{Report, page::thousands};
use crate::run::contest::{Figures, MAIN, Standing};
use svg::{
    Document,
    node::element::{Rectangle, Style, Text},
};

const WIDTH: f64 = 860.0;
/// Where bars begin, right of their names.
const LEFT: f64 = 220.0;
/// Longest bar; behind it is room for its value.
const LONGEST: f64 = 480.0;
const BAR: f64 = 16.0;
const STEP: f64 = 24.0;

/// Readable on white and on black.
const STYLE: &str = "text { font: 13px system-ui, sans-serif; fill: #57606a } .title { font-weight: 600 } \
                     @media (prefers-color-scheme: dark) { text { fill: #9aa4af } }";
const OURS: &str = "#2f81f7";
const THEIRS: &str = "#8c959f";
/// Parts of a bar, light to dark.
const PARTS: [&str; 3] = ["#2f81f7", "#d29922", "#a371f7"];

/// One bar: name, parts with their colours, and the text behind it.
struct Bar {
    name: String,
    parts: Vec<(f64, &'static str)>,
    label: String,
}

struct Panel {
    title: String,
    bars: Vec<Bar>,
}

fn colour(system: &str) -> &'static str {
    if system.starts_with("strowger") { OURS } else { THEIRS }
}

/// A panel for each main contest, a bar for each system that has what is shown.
fn panels(
    report: &Report,
    suffix: impl Fn(&str) -> String,
    bar: impl Fn(&Figures) -> Option<Bar>,
) -> Vec<Panel> {
    let panel = |standing: &Standing| Panel {
        title: format!("{}: {}", standing.title, suffix(&standing.unit)),
        bars: standing.figures.iter().filter_map(&bar).collect(),
    };
    let main = report.contests.iter().filter(|standing| MAIN.contains(&standing.name.as_str()));
    main.map(panel).filter(|p| !p.bars.is_empty()).collect()
}

/// Highest rate without loss on one core.
pub(super) fn rates(report: &Report) -> String {
    let bar = |figures: &Figures| {
        let rate = figures.best.as_ref()?.rate;
        let parts = vec![(rate, colour(&figures.system))];
        Some(Bar { name: figures.system.clone(), parts, label: thousands(rate) })
    };
    draw(&panels(report, |unit| format!("{unit} on one core, without loss"), bar), &[])
}

/// Median and 99th percentile at half the highest rate.
pub(super) fn latencies(report: &Report) -> String {
    let bar = |figures: &Figures| {
        let half = figures.half.as_ref()?;
        let parts = vec![(half.p50_us, PARTS[0]), ((half.p99_us - half.p50_us).max(0.0), PARTS[1])];
        let label = format!("{} / {}", thousands(half.p50_us), thousands(half.p99_us));
        Some(Bar { name: figures.system.clone(), parts, label })
    };
    let panels = panels(report, |_| "microseconds at half the highest rate".into(), bar);
    draw(&panels, &["median", "99th percentile"])
}

/// Processor time of the core for a packet, by kind.
pub(super) fn costs(report: &Report) -> String {
    let bar = |figures: &Figures| {
        let cost = figures.cost.as_ref()?.core.as_ref()?;
        let values = [cost.user_ns, cost.system_ns, cost.softirq_ns];
        let label = thousands(values.iter().sum());
        Some(Bar { name: figures.system.clone(), parts: values.into_iter().zip(PARTS).collect(), label })
    };
    let unit = |unit: &str| format!("nanoseconds for each of the {}", unit.trim_end_matches("/s"));
    draw(&panels(report, unit, bar), &["user", "system", "soft interrupt"])
}

fn draw(panels: &[Panel], legend: &[&str]) -> String {
    let mut document = Document::new().add(Style::new(STYLE));
    let mut y = 24.0;
    let mut x = LEFT;
    for (name, colour) in legend.iter().zip(PARTS) {
        document = document.add(rectangle(x, y - 11.0, 11.0, 11.0, colour)).add(text(x + 16.0, y, name));
        x += 40.0 + 8.0 * name.len() as f64;
    }
    if !legend.is_empty() {
        y += 30.0;
    }
    for panel in panels {
        document = document.add(text(8.0, y, &panel.title).set("class", "title"));
        y += 12.0;
        let total = |bar: &Bar| bar.parts.iter().map(|(value, _)| value).sum::<f64>();
        let scale = LONGEST / panel.bars.iter().map(total).fold(f64::MIN_POSITIVE, f64::max);
        for bar in &panel.bars {
            let middle = y + BAR - 4.0;
            document = document.add(text(LEFT - 10.0, middle, &bar.name).set("text-anchor", "end"));
            let mut x = LEFT;
            for (value, colour) in &bar.parts {
                document = document.add(rectangle(x, y, value * scale, BAR, colour));
                x += value * scale;
            }
            document = document.add(text(x + 8.0, middle, &bar.label));
            y += STEP;
        }
        y += 28.0;
    }
    let height = y - 12.0;
    document.set("viewBox", (0.0, 0.0, WIDTH, height)).set("width", WIDTH).set("height", height).to_string()
        + "\n"
}

fn text(x: f64, y: f64, content: &str) -> Text {
    Text::new(content).set("x", round(x)).set("y", round(y))
}

fn rectangle(x: f64, y: f64, width: f64, height: f64, colour: &str) -> Rectangle {
    let [x, y, width, height] = [x, y, width, height].map(round);
    Rectangle::new().set("x", x).set("y", y).set("width", width).set("height", height).set("fill", colour)
}

fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}
