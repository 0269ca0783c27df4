//! The near end: it opens connections, one after the other, and what both ends took of each is
//! gathered.

use super::far::{ABOUT_TO_ACCEPT, ACCEPTED, Served, Took, Wish, limited, timed};
use super::opening::{
    Closes, Ending, Meter, Opened, Opener, acknowledged, close, ended, finish, reset,
};
use crate::net::wire::{Dialer, Line, PATIENCE, Refused, bound, completed};
use anyhow::{Context, Result, bail, ensure};
use laws::net::connect::Closer;
use socket2::SockRef;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Events {
    /// connect(2), of those whose SYN was answered at once.
    pub(super) connect: Vec<f64>,
    /// connect(2), of those whose SYN was sent again.
    pub(super) connect_late: Vec<f64>,
    pub(super) socket_connect: Vec<f64>,
    /// From the begin of connect(2) to the end of accept(2).
    pub(super) accepted: Vec<f64>,
    pub(super) client: Closes,
    pub(super) server: Closes,
    pub(super) count: u64,
}

impl Events {
    pub(super) fn opened(&mut self, opened: &Opened) {
        self.count += 1;
        if opened.is_late {
            self.connect_late.push(opened.connect_ns);
            return;
        }
        self.connect.push(opened.connect_ns);
        self.socket_connect.push(opened.socket_ns + opened.connect_ns);
    }
}

pub(super) trait Both {
    fn sequence(&mut self, count: u64, events: &mut Events) -> Result<()>;

    /// Opens so many connections that wait, and has them accepted as quickly as that goes; `None`
    /// where a stranger came between.
    fn take(&mut self, count: u64) -> Result<Option<Took>>;
}

pub(super) struct OneThread<'round> {
    listener: TcpListener,
    opener: Opener<'round>,
    closer: Option<Closer>,
}

impl<'round> OneThread<'round> {
    /// Listens on loopback, and has `opener` made for it.
    pub(super) fn new(
        backlog: u32,
        closer: Option<Closer>,
        opener: impl FnOnce(SocketAddr) -> Opener<'round>,
    ) -> Result<OneThread<'round>> {
        let socket = bound(IpAddr::V4(Ipv4Addr::LOCALHOST))?;
        socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX)).context("listening")?;
        let listener = TcpListener::from(socket);
        let opener = opener(listener.local_addr()?);
        SockRef::from(&listener).set_read_timeout(Some(opener.limit))?;
        Ok(OneThread { listener, opener, closer })
    }

    /// The accepted end of a connection that was just opened, and the ticks when accept(2)
    /// returned. Others that connect are dropped: the address distinguishes them.
    fn accept(&self, near: &TcpStream) -> Result<(TcpStream, u64)> {
        let until = Instant::now() + self.opener.limit;
        loop {
            let accepted = self.listener.accept();
            let at = self.opener.clock.end();
            match completed(accepted).context("accepting")? {
                Some((stream, from)) if from == near.local_addr()? => return Ok((stream, at)),
                _ => {}
            }
            ensure!(Instant::now() < until, "a connection did not reach its listener");
        }
    }

    /// Ends both ends, the first first.
    fn end(&self, number: u64, near: TcpStream, far: TcpStream, events: &mut Events) -> Result<()> {
        let (clock, limit) = (self.opener.clock, self.opener.limit);
        let ((first, mut second), (of_first, of_second)) = match self.closer {
            Some(Closer::Client) | None => ((near, far), (&mut events.client, &mut events.server)),
            Some(Closer::Server) => ((far, near), (&mut events.server, &mut events.client)),
        };
        let ending = Ending::from_number(number);
        match ending {
            Ending::Close => {
                of_first.close_ns.push(close(first, clock)?);
                ended(&mut second)?;
                of_second.end(second, ending, clock, limit)
            }
            Ending::Acknowledged => {
                let start = clock.start();
                finish(&first)?;
                ended(&mut second)?;
                of_second.end(second, ending, clock, limit)?;
                let end = acknowledged(&first, clock, limit)?;
                of_first.fin_ns.push(clock.between_ns(start, end));
                Ok(())
            }
        }
    }
}

impl Both for OneThread<'_> {
    fn sequence(&mut self, count: u64, events: &mut Events) -> Result<()> {
        let mut meter = Meter::begin();
        for number in 0..count {
            let opened = self.opener.open()?;
            let (far, at) = self.accept(&opened.stream)?;
            limited(&far)?;
            events.opened(&opened);
            if !opened.is_late {
                let clock = self.opener.clock;
                events.accepted.push(clock.between_ns(opened.began, at));
            }
            self.end(number, opened.stream, far, events)?;
            meter.ended(number);
        }
        events.client.cpu_ns += meter.cpu_ns;
        Ok(())
    }

    fn take(&mut self, count: u64) -> Result<Option<Took>> {
        let waiting: Vec<TcpStream> =
            (0..count).map(|_| Ok(self.opener.open()?.stream)).collect::<Result<_>>()?;
        let (took, taken) = timed(self.opener.clock, || {
            let accept = |_| self.listener.accept().context("accepting");
            (0..count).map(accept).collect::<Result<Vec<_>>>()
        })?;
        let ours: Vec<SocketAddr> =
            waiting.iter().map(TcpStream::local_addr).collect::<Result<_, _>>()?;
        let all_right = taken.iter().all(|(_, from)| ours.contains(from));
        for stream in &waiting {
            reset(&SockRef::from(stream))?;
        }
        Ok(all_right.then_some(took))
    }
}

pub(super) struct TwoEnds<'round> {
    pub(super) dialer: &'round mut Dialer,
    pub(super) line: &'round mut Line,
    /// Says when the far end is about to accept.
    pub(super) pace: TcpStream,
    pub(super) opener: Opener<'round>,
    pub(super) closer: Option<Closer>,
    /// Both ends read the same clock.
    pub(super) is_one_clock: bool,
}

/// Waits until the far end says that it is about to accept, or has accepted. What it said of a
/// stranger before is passed over.
pub(super) fn paced(pace: &mut TcpStream, word: u8) -> Result<()> {
    let mut said = [0];
    while said != [word] {
        pace.read_exact(&mut said).context("waiting for the far end to accept")?;
    }
    Ok(())
}

impl TwoEnds<'_> {
    /// One connection from its begin to its end; ticks when it began, and whether it was late.
    fn one(&mut self, number: u64, token: &[u8], events: &mut Events) -> Result<(u64, bool)> {
        paced(&mut self.pace, ABOUT_TO_ACCEPT)?;
        let mut opened = self.opener.open()?;
        // On one CPU the acceptor has its turn now, and not when all else is said.
        paced(&mut self.pace, ACCEPTED)?;
        opened.stream.write_all(token).context("sending a token")?;
        events.opened(&opened);
        let Opened { mut stream, began, is_late, .. } = opened;
        stream.read_exact(&mut [0]).context("waiting for the far end to accept the token")?;
        if self.closer == Some(Closer::Server) {
            stream.write_all(b"r").context("asking the far end to close")?;
            ended(&mut stream)?;
        }
        let Opener { clock, limit, .. } = self.opener;
        events.client.end(stream, Ending::from_number(number), clock, limit)?;
        Ok((began, is_late))
    }

    /// The far end's reason for a failure, or the failure itself.
    fn reason(&mut self, error: anyhow::Error) -> anyhow::Error {
        const SOON: Duration = Duration::from_millis(200);
        match self.line.hear::<Served>(SOON) {
            Err(told) if told.is::<Refused>() => told,
            _ => error,
        }
    }
}

impl Both for TwoEnds<'_> {
    fn sequence(&mut self, count: u64, events: &mut Events) -> Result<()> {
        self.line.tell(&Wish::Sequence(count))?;
        let mut began = Vec::with_capacity(count as usize);
        let tokens: Vec<Vec<u8>> = (0..count).map(|_| self.dialer.preamble()).collect();
        let mut meter = Meter::begin();
        for (number, token) in (0..).zip(&tokens) {
            match self.one(number, token, events) {
                Ok(one) => began.push(one),
                Err(error) => return Err(self.reason(error)),
            }
            meter.ended(number);
        }
        events.client.cpu_ns += meter.cpu_ns;
        let served: Served = self.line.hear(PATIENCE)?;
        ensure!(
            served.accepted.len() == began.len(),
            "{} connections were opened but {} were accepted",
            began.len(),
            served.accepted.len()
        );
        if self.is_one_clock {
            let clock = self.opener.clock;
            let each = began.iter().zip(&served.accepted);
            let times = each.filter(|((_, is_late), _)| !is_late);
            let times = times.map(|((began, _), at)| clock.between_ns(*began, *at));
            events.accepted.extend(times);
        }
        events.server.extend(served.closes);
        Ok(())
    }

    fn take(&mut self, count: u64) -> Result<Option<Took>> {
        let open = |_| {
            let mut stream = self.opener.open()?.stream;
            let token = self.dialer.preamble();
            stream.write_all(&token).context("sending a token")?;
            Ok(stream)
        };
        let waiting: Vec<TcpStream> = (0..count).map(open).collect::<Result<_>>()?;
        self.line.tell(&Wish::Take(count))?;
        let took: Took = self.line.hear(PATIENCE)?;
        for stream in &waiting {
            reset(&SockRef::from(stream))?;
        }
        if took.ns <= 0.0 {
            bail!("the far end reports that it accepted {count} connections in {} ns", took.ns);
        }
        Ok(took.all_right.then_some(took))
    }
}
