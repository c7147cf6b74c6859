//! Looking again and again.

use std::time::Duration;

use anyhow::Result;

use crate::arguments::{Format, StateArguments, WatchArguments};
use crate::exit::Exit;
use crate::printer::Printer;
use crate::state::State;

/// The least time between two looks at a cluster.
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// What shows it: screen after screen, or once and then through a pager.
pub fn printer(format: Format, watch: WatchArguments) -> Printer {
    if watch.watch.is_some() { Printer::full_screen(format) } else { Printer::paged(format) }
}

/// Shows the state once, or again and again until nobody reads any more.
pub fn show(
    printer: &mut Printer,
    arguments: StateArguments,
    watch: WatchArguments,
    tell: &mut dyn FnMut(&mut Printer, &State) -> Result<Exit>,
) -> Result<Exit> {
    loop {
        let StateArguments { files, cluster, setup } = arguments.clone();
        let state = match State::open_whole(printer, &files, cluster.which(None), setup) {
            Ok(state) => state,
            Err(exit) => return Ok(exit),
        };
        if watch.watch.is_some() {
            printer.next_screen()?;
        }
        let exit = tell(printer, &state)?;
        printer.finish()?;
        let Some(pause) = watch.watch.filter(|_| exit == Exit::Fine && !printer.is_closed()) else {
            // The process ends: to give the memory of a large cluster back piece by piece takes longer than the answer.
            std::mem::forget(state);
            return Ok(exit);
        };
        std::thread::sleep(pause.max(PAUSE_MIN));
    }
}
