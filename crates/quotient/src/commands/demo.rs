//! `quotient demo`: a simulated cluster that lives in accelerated time, in the browser or as text.

use std::fs::File;
use std::io::BufWriter;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use anyhow::{Context, Result, bail};
use quotient_dashboard::demo::core::{Input, MINUTE_MS};
use quotient_dashboard::demo::objects::configuration_body;
use quotient_dashboard::demo::player::Recording;
use quotient_dashboard::demo::story::{CHAPTERS, END_MS};
use quotient_dashboard::demo::{Core, Player};
use quotient_dashboard::gate::OpenGate;
use quotient_dashboard::server::Server;
use quotient_replay::lines::Recorder;

use crate::arguments::{DemoArguments, Format};
use crate::exit::Exit;
use crate::printer::{Printer, Tone};

/// Ports that are tried where none is named.
const PORTS: std::ops::Range<u16> = 8080..8100;

/// Serves the dashboard until it is interrupted, or tells the story and ends.
pub fn run(arguments: DemoArguments) -> Result<Exit> {
    let DemoArguments { seed, nodes, listen, record, headless } = arguments;
    if let Some(address) = listen.filter(|address| !address.ip().is_loopback()) {
        bail!(
            "--listen {address}: the demo asks for no token, so it serves a loopback address only, such as 127.0.0.1:8080"
        );
    }
    let recording = record.as_deref().map(recording).transpose()?;
    if headless {
        return tell(seed, nodes, recording);
    }
    let mut printer = Printer::new(Format::Table);
    let player = match Player::new(seed, nodes, recording) {
        Ok(player) => player,
        Err(stuck) => return Ok(printer.bug(&stuck)),
    };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("the runtime cannot be started")?;
    runtime.block_on(async {
        let server = || Server::new(player.hub(), player.clone(), std::sync::Arc::new(OpenGate)).on_loopback_only();
        let here = |port: u16| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        let (address, answer) = match listen {
            Some(address) => server().serve(address).await?,
            None => {
                let mut served = None;
                for port in PORTS {
                    if let Ok(bound) = server().serve(here(port)).await {
                        served = Some(bound);
                        break;
                    }
                }
                match served {
                    Some(served) => served,
                    None => server().serve(here(0)).await?,
                }
            }
        };
        printer.line(format_args!("http://{address}/"))?;
        printer.finish()?;
        printer
            .note(format_args!("{nodes} simulated nodes, seed {seed}. Open the address in a browser; Ctrl+C ends it."));
        let moves = player.clone();
        std::thread::spawn(move || moves.play());
        tokio::spawn(answer);
        tokio::signal::ctrl_c().await.context("signals cannot be received")?;
        Ok(Exit::Fine)
    })
}

fn recording(path: &Path) -> Result<Recording> {
    let file = File::create(path).with_context(|| format!("--record {}: cannot be written", path.display()))?;
    let mut recording = Recorder::new(BufWriter::new(file));
    recording.configured(&configuration_body())?;
    Ok(recording)
}

/// Tells the story as text, as fast as it can.
fn tell(seed: u64, nodes: u32, mut recording: Option<Recording>) -> Result<Exit> {
    let mut printer = Printer::new(Format::Table);
    let mut core = match Core::new(seed, nodes, recording.is_some()) {
        Ok(core) => core,
        Err(stuck) => return Ok(printer.bug(&stuck)),
    };
    for (index, chapter) in CHAPTERS.iter().enumerate() {
        printer.progress(format_args!("chapter {} of {}", index + 1, CHAPTERS.len()));
        if let Err(stuck) = core.advance(chapter.outcome_at_ms) {
            return Ok(printer.bug(&stuck));
        }
        record(&mut core, recording.as_mut())?;
        let minute = chapter.at_ms / MINUTE_MS;
        printer.line(printer.paint(Tone::Strong, &format!("{}. {} (minute {minute})", index + 1, chapter.title)))?;
        printer.line(format_args!("   {}", chapter.text))?;
        let told = &core.told[index];
        let tone = if told.as_told { Tone::Good } else { Tone::Bad };
        let outcome = told.outcome.as_deref().unwrap_or("nothing yet");
        printer.line(format_args!("   → {}", printer.paint(tone, outcome)))?;
        printer.line("")?;
    }
    if let Err(stuck) = core.advance(END_MS) {
        return Ok(printer.bug(&stuck));
    }
    record(&mut core, recording.as_mut())?;
    let evicted = core.evicted.len();
    printer.line(format_args!(
        "{evicted} pods were evicted in {} minutes, each for a pod that was entitled to the room.",
        END_MS / MINUTE_MS
    ))?;
    printer.finish()?;
    Ok(if core.told.iter().all(|chapter| chapter.as_told) { Exit::Fine } else { Exit::Bug })
}

fn record(core: &mut Core, recording: Option<&mut Recording>) -> Result<()> {
    let inputs = core.take_inputs();
    let Some(recording) = recording else { return Ok(()) };
    for input in inputs {
        if let Input::Applied { at_ms, object, runs_ms } = input {
            recording.applied(at_ms.unsigned_abs(), &object, runs_ms.map(i64::unsigned_abs))?;
        }
    }
    recording.flush()?;
    Ok(())
}
