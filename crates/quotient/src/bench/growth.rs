//! What a decision costs as one thing grows and everything else stays: over nodes, pods, quotas and shapes.

use std::fmt::Write;

use super::case::{Case, Figures};
use super::workload::System;
use quotient_replay::tell::grouped;

/// One thing that grows.
pub struct Family {
    pub title: &'static str,
    /// The sizes, from small to large, with the case of each.
    pub cases: Vec<(u32, Case)>,
}

/// The families. `quick` measures a tenth of everything.
pub fn families(quick: bool) -> Vec<Family> {
    let scale = move |n: u32| if quick { (n / 10).max(1) } else { n };
    let (nodes, pods) = (scale(5000), scale(20_000));
    let of = |title, sizes: &[u32], case: &dyn Fn(u32) -> Case| {
        let cases = sizes.iter().map(|size| (scale(*size), case(scale(*size)))).collect();
        Family { title, cases }
    };
    vec![
        of("nodes", &[500, 1000, 2000, 5000, 15_000], &|nodes| Case::Plain { nodes, pods, shapes: 8 }),
        of("pods", &[5000, 10_000, 20_000, 40_000, 80_000], &|pods| Case::Plain { nodes, pods, shapes: 8 }),
        of("quotas", &[10, 100, 1000, 5000], &|quotas| Case::Quotas {
            nodes,
            running: scale(50_000),
            pods,
            quotas,
            system: System::Pooled,
        }),
        of("shapes", &[10, 100, 500, 1000, 5000], &|shapes| Case::Plain { nodes, pods, shapes }),
    ]
}

/// What was measured of a family: size and nanoseconds a decision.
pub struct Curve {
    pub title: &'static str,
    pub points: Vec<(u32, u64)>,
}

impl Curve {
    pub fn new(family: &Family, figures: &[Figures]) -> Self {
        let sizes = family.cases.iter().map(|(size, _)| *size);
        Curve { title: family.title, points: sizes.zip(figures.iter().map(Figures::ns_per_decision)).collect() }
    }

    /// Whether a decision grows faster than the thing itself: in hundredths of an order, the slope from first to last.
    pub fn slope_hundredths(&self) -> i64 {
        let [(first, cheap), .., (last, dear)] = self.points[..] else { return 0 };
        let log = |from: f64, to: f64| (to / from).ln();
        let slope = log(cheap.max(1) as f64, dear.max(1) as f64) / log(f64::from(first), f64::from(last));
        (slope * 100.0).round() as i64
    }
}

/// A panel's plot, and the room to the left of it and above.
const WIDTH: f64 = 360.0;
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 64.0;
const TOP: f64 = 40.0;

/// The curves as a picture, a panel each; both axes are logarithmic, so that a straight line is a power.
pub fn svg(curves: &[Curve]) -> String {
    let (columns, rows) = (2, curves.len().div_ceil(2));
    let (panel_width, panel_height) = (WIDTH + LEFT + 24.0, HEIGHT + TOP + 48.0);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" font-size=\"12\" role=\"img\">\
         <title>Cost of a decision as the cluster grows</title><rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
        panel_width * columns as f64,
        panel_height * rows as f64
    );
    let all = || curves.iter().flat_map(|curve| &curve.points).map(|(_, ns)| (*ns).max(1) as f64);
    let low = 10f64.powf(all().fold(f64::INFINITY, f64::min).log10().floor());
    let high = 10f64.powf(all().fold(1.0, f64::max).log10().ceil()).max(low * 10.0);
    for (at, curve) in curves.iter().enumerate() {
        let (x, y) = ((at % columns) as f64 * panel_width, (at / columns) as f64 * panel_height);
        let _ = writeln!(out, "<g transform=\"translate({x},{y})\">{}</g>", panel(curve, low, high));
    }
    out.push_str("</svg>\n");
    out
}

fn panel(curve: &Curve, low: f64, high: f64) -> String {
    let (first, last) = match curve.points[..] {
        [(first, _), .., (last, _)] => (f64::from(first), f64::from(last)),
        _ => return String::new(),
    };
    let along = |size: f64| LEFT + WIDTH * (size / first).ln() / (last / first).ln();
    let up = |ns: f64| TOP + HEIGHT * (1.0 - (ns / low).ln() / (high / low).ln());
    let mut out = String::new();
    let slope = curve.slope_hundredths();
    let _ = write!(
        out,
        "<text x=\"{LEFT}\" y=\"22\" font-size=\"14\" fill=\"#1b1b1b\">over {}: size^{}{}.{:02}</text>",
        curve.title,
        if slope < 0 { "−" } else { "" },
        slope.abs() / 100,
        slope.abs() % 100
    );
    let mut line = low;
    while line <= high * 1.001 {
        let (y, label) =
            (up(line), if line >= 1e6 { format!("{} ms", line / 1e6) } else { format!("{} us", line / 1e3) });
        let _ = write!(
            out,
            "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#555\">{label}</text>",
            LEFT + WIDTH,
            LEFT - 6.0,
            y + 4.0
        );
        line *= 10.0;
    }
    let spots: Vec<(f64, f64)> =
        curve.points.iter().map(|(size, ns)| (along(f64::from(*size)), up((*ns).max(1) as f64))).collect();
    let path: Vec<String> = spots.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let _ =
        write!(out, "<polyline points=\"{}\" fill=\"none\" stroke=\"#1f5fbf\" stroke-width=\"2\"/>", path.join(" "));
    for ((x, y), (size, ns)) in spots.iter().zip(&curve.points) {
        let _ = write!(
            out,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"#1f5fbf\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#1b1b1b\">{}.{} us</text>\
             <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\" fill=\"#555\">{}</text>",
            y - 9.0,
            ns / 1000,
            ns % 1000 / 100,
            TOP + HEIGHT + 18.0,
            grouped(u64::from(*size))
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_straight_line_has_its_power() {
        let curve = |points: &[(u32, u64)]| Curve { title: "nodes", points: points.to_vec() };
        assert_eq!(curve(&[(10, 1000), (100, 10_000), (1000, 100_000)]).slope_hundredths(), 100);
        assert_eq!(curve(&[(10, 1000), (1000, 1000)]).slope_hundredths(), 0);
        assert_eq!(curve(&[(10, 1000), (1000, 10_000)]).slope_hundredths(), 50);
        let picture = svg(&[curve(&[(10, 1000), (1000, 10_000)])]);
        assert!(picture.contains("over nodes: size^0.50") && picture.ends_with("</svg>\n"), "{picture}");
    }
}
