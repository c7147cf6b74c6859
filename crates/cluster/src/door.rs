//! A port: who gets a place at it, for how long, and who goes when it is full.
//!
//! Whoever reaches a port may open connections and say nothing. So a connection is closed that does not ask soon; and
//! where every place is taken, one that says nothing goes for one that comes: first those that never asked anything,
//! then those of the address with most connections, the oldest first. Who keeps few connections and uses them is not
//! locked out by who keeps many.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;

/// The bounds of a port.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// What is served there, for the log.
    pub serves: &'static str,
    /// Connections at once, and those of one address.
    pub places: usize,
    pub places_of_address: usize,
    /// How long a connection may take until its first question has come, with TLS.
    pub first_max: Duration,
    /// How long it may be silent after an answer.
    pub idle_max: Duration,
}

/// A connection that has a place.
#[derive(Debug)]
struct Guest {
    address: IpAddr,
    /// A question is being answered.
    is_busy: bool,
    /// It asked something that was answered well.
    has_asked: bool,
    /// The beginning of its silence.
    since: Instant,
    close: Arc<Notify>,
}

/// The places of one port.
#[derive(Debug, Clone)]
struct Places(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    rules: Rules,
    guests: Mutex<Guests>,
}

#[derive(Debug, Default)]
struct Guests {
    all: BTreeMap<u64, Guest>,
    number: u64,
}

/// A place, which is given back with the value.
#[derive(Debug)]
struct Place {
    places: Places,
    number: u64,
    close: Arc<Notify>,
}

impl Guests {
    fn of(&self, address: IpAddr) -> usize {
        self.all.values().filter(|guest| guest.address == address).count()
    }

    /// The connection that goes for another one of this address.
    fn to_go(&self, rules: &Rules, address: IpAddr) -> Option<u64> {
        let mut counts = BTreeMap::<IpAddr, usize>::new();
        self.all.values().for_each(|guest| *counts.entry(guest.address).or_default() += 1);
        let own = counts.get(&address).copied().unwrap_or(0);
        let is_over = own >= rules.places_of_address;
        let may_go = self.all.iter().filter(|(_, guest)| !is_over || guest.address == address);
        let silent = may_go.filter(|(_, guest)| !guest.is_busy);
        let first = silent.min_by_key(|(_, guest)| (guest.has_asked, Reverse(counts[&guest.address]), guest.since));
        if first.is_some() || is_over {
            return first.map(|(number, _)| *number);
        }
        // All are being answered: who has most gives one to who has few.
        let most = self.all.iter().max_by_key(|(_, guest)| (counts[&guest.address], Reverse(guest.since)))?;
        (counts[&most.1.address] > own + 1).then_some(*most.0)
    }
}

impl Places {
    fn new(rules: Rules) -> Self {
        Places(Arc::new(Shared { rules, guests: Mutex::default() }))
    }

    fn guests(&self) -> MutexGuard<'_, Guests> {
        self.0.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a connection of an address, if there is one or one can be made.
    fn admit(&self, address: IpAddr, now: Instant) -> Option<Place> {
        let (rules, mut guests) = (&self.0.rules, self.guests());
        if guests.all.len() >= rules.places || guests.of(address) >= rules.places_of_address {
            let goes = guests.to_go(rules, address)?;
            // It is closed by its own task, and has no place from now on.
            guests.all.remove(&goes)?.close.notify_one();
        }
        guests.number += 1;
        let (number, close) = (guests.number, Arc::<Notify>::default());
        let guest = Guest { address, is_busy: false, has_asked: false, since: now, close: close.clone() };
        guests.all.insert(number, guest);
        Some(Place { places: self.clone(), number, close })
    }
}

impl Place {
    fn change(&self, change: impl FnOnce(&mut Guest)) {
        if let Some(guest) = self.places.guests().all.get_mut(&self.number) {
            change(guest);
        }
    }

    /// A question has come.
    fn asks(&self) {
        self.change(|guest| guest.is_busy = true);
    }

    /// It was answered.
    fn is_answered(&self, well: bool, now: Instant) {
        self.change(|guest| {
            (guest.is_busy, guest.since) = (false, now);
            guest.has_asked |= well;
        });
    }

    /// When its silence has been too long, unless it says something; `None`: the place is another's.
    fn deadline(&self, now: Instant) -> Option<Instant> {
        let (rules, guests) = (&self.places.0.rules, self.places.guests());
        let guest = guests.all.get(&self.number)?;
        Some(match (guest.is_busy, guest.has_asked) {
            (true, _) => now + rules.first_max,
            (false, true) => guest.since + rules.idle_max,
            (false, false) => guest.since + rules.first_max,
        })
    }

    /// Waits until the connection is to be closed.
    async fn ends(&self) {
        while let Some(deadline) = self.deadline(Instant::now()).filter(|deadline| *deadline > Instant::now()) {
            tokio::select! {
                () = self.close.notified() => return,
                () = tokio::time::sleep_until(deadline.into()) => {}
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.guests().all.remove(&self.number);
    }
}

/// Answers whoever comes, for ever.
pub async fn answer_all<R, F>(listener: TcpListener, tls: Option<TlsAcceptor>, rules: Rules, respond: R)
where
    R: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<Full<Bytes>>> + Send,
{
    let places = Places::new(rules);
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            // Too many open files, most likely: others close theirs meanwhile.
            Err(error) => {
                tracing::warn!("a connection for {} was not accepted: {error}", rules.serves);
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let Some(place) = places.admit(peer.ip(), Instant::now()) else {
            tracing::debug!(address = %peer.ip(), "has its places at the port for {}, and gets no more", rules.serves);
            continue;
        };
        let (tls, respond) = (tls.clone(), respond.clone());
        tokio::spawn(async move {
            let conversation = async {
                match tls {
                    None => converse(stream, &place, rules, respond).await,
                    // Somebody who knocks and goes away, or who does not trust us yet.
                    Some(tls) => match tls.accept(stream).await {
                        Ok(stream) => converse(stream, &place, rules, respond).await,
                        Err(error) => tracing::debug!("no TLS connection for {}: {error}", rules.serves),
                    },
                }
            };
            tokio::select! {
                () = conversation => {}
                () = place.ends() => {}
            }
        });
    }
}

async fn converse<R, F>(stream: impl AsyncRead + AsyncWrite + Unpin, place: &Place, rules: Rules, respond: R)
where
    R: Fn(Request<Incoming>) -> F,
    F: Future<Output = Response<Full<Bytes>>>,
{
    let service = service_fn(|request: Request<Incoming>| {
        place.asks();
        let answer = respond(request);
        async move {
            let answer = answer.await;
            place.is_answered(answer.status().is_success(), Instant::now());
            Ok::<_, Infallible>(answer)
        }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(rules.idle_max);
    // Whoever asked has gone away: nothing is lost.
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules = Rules {
        serves: "tests",
        places: 8,
        places_of_address: 4,
        first_max: Duration::from_secs(5),
        idle_max: Duration::from_secs(120),
    };

    fn address(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    /// Places of a full port; every address has as many as is said, the first came first.
    fn full(begun: Instant, counts: &[(u8, usize)]) -> (Places, Vec<Place>) {
        let places = Places::new(RULES);
        let all = counts.iter().flat_map(|(last, count)| std::iter::repeat_n(*last, *count));
        let at = |number: usize| begun + Duration::from_millis(number as u64);
        let taken = all.enumerate().filter_map(|(number, last)| places.admit(address(last), at(number))).collect();
        (places, taken)
    }

    fn has_place(place: &Place) -> bool {
        place.deadline(Instant::now()).is_some()
    }

    fn kept(taken: &[Place]) -> Vec<usize> {
        (0..taken.len()).filter(|at| has_place(&taken[*at])).collect()
    }

    #[test]
    fn a_newcomer_gets_the_place_of_the_oldest_that_never_asked_and_has_most() {
        let begun = Instant::now();
        let (places, taken) = full(begun, &[(1, 4), (2, 3), (3, 1)]);
        let newcomer = places.admit(address(9), begun).expect("one goes for it");
        assert_eq!(kept(&taken), [1, 2, 3, 4, 5, 6, 7]);
        drop(newcomer);
        // Who asked and was answered stays, though it came first.
        taken[1].asks();
        taken[1].is_answered(true, begun);
        let _first = places.admit(address(8), begun);
        let _second = places.admit(address(9), begun);
        assert_eq!(kept(&taken), [1, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn an_address_has_its_places_and_gets_another_for_one_of_its_own() {
        let begun = Instant::now();
        let (places, taken) = full(begun, &[(1, 4)]);
        let fifth = places.admit(address(1), begun).expect("its oldest goes for it");
        assert_eq!(kept(&taken), [1, 2, 3]);
        fifth.asks();
        taken.iter().for_each(Place::asks);
        assert!(places.admit(address(1), begun).is_none(), "all of its own are being answered");
        assert!(places.admit(address(2), begun).is_some());
    }

    #[test]
    fn who_is_being_answered_gives_way_only_to_who_has_fewer() {
        let begun = Instant::now();
        let (places, taken) = full(begun, &[(1, 4), (2, 4)]);
        taken.iter().for_each(Place::asks);
        let third = places.admit(address(3), begun).expect("the others have four");
        third.asks();
        assert_eq!(kept(&taken), [1, 2, 3, 4, 5, 6, 7]);
        let (places, taken) = full(begun, &[(1, 1), (2, 1), (3, 1), (4, 1), (5, 1), (6, 1), (7, 1), (8, 1)]);
        taken.iter().for_each(Place::asks);
        assert!(places.admit(address(1), begun).is_none(), "it has as many as the others");
    }

    #[test]
    fn silence_ends_sooner_before_the_first_question_than_after_an_answer() {
        let begun = Instant::now();
        let (places, taken) = full(begun, &[(1, 1)]);
        let place = &taken[0];
        assert_eq!(place.deadline(begun), Some(begun + RULES.first_max));
        place.asks();
        place.is_answered(false, begun);
        assert_eq!(place.deadline(begun), Some(begun + RULES.first_max), "what makes no sense is no question");
        place.asks();
        place.is_answered(true, begun);
        assert_eq!(place.deadline(begun), Some(begun + RULES.idle_max));
        drop(taken);
        assert!(places.guests().all.is_empty(), "nothing is kept of those who went");
    }
}
