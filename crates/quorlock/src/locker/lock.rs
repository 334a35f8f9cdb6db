//! A named thing that one could hold, and how to take it.

use crate::acquire::attempt::AttemptParams;
use crate::acquire::name_queue::{NameQueue, NameQueues};
use crate::acquire::{Acquirer, Limits};
use crate::context::event::{Event, ReleaseKind};
use crate::context::mutex::Mutex;
use crate::context::options::{Options, check_attempts, check_margin, check_max_hold};
use crate::context::trace;
use crate::error::{AcquireError, ConfigError, ExtendError, Holder, Lost};
use crate::hold::HeldLock;
use crate::hold::extend::extend;
use crate::hold::extend_by_token::{ExtendOutcome, extend_token};
use crate::hold::guard::Guard;
use crate::hold::handle::LockHandle;
use crate::hold::lease::Lease;
use crate::hold::release::{ReleaseOutcome, await_release};
use crate::inspect::slots::{SlotsInspection, inspect_slots};
use crate::inspect::{Answers, InspectError, Inspection, inspect, inspect_all};
use crate::locker::Locker;
use crate::node::{Command, Commands};
use crate::quorum::Nodes;
use crate::quorum::round::Round;
use quorlock_core::{FenceClock, Label, LeaseTerms, Mode, Moment, Name, NameSet, Token};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// A lock by its name. It is not held: [`Lock::acquire`] takes it. Cheap to clone.
///
/// The settings come from the [`Locker`] and can be changed for this lock alone; each setter gives the
/// changed lock back.
///
/// | you want to | call |
/// |---|---|
/// | wait for it, bounded | [`Lock::acquire`] |
/// | have it now or know who has it | [`Lock::try_acquire`] |
/// | run something while it is held, and stop when it is lost | [`Lock::run`] |
/// | inspect it without taking it | [`Lock::inspect`] |
#[derive(Clone, Debug)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct Lock {
    locker: Locker,
    names: NameSet,
    mode: Mode,
    options: Arc<Options>,
    /// The queue of the names, once it was needed.
    queue: OnceLock<Arc<NameQueue>>,
}

impl Lock {
    pub(crate) fn new(locker: Locker, names: NameSet, options: Arc<Options>) -> Self {
        Self { locker, names, mode: Mode::Exclusive, options, queue: OnceLock::new() }
    }

    /// Its name; of several names the first.
    pub fn name(&self) -> &Name {
        self.names.first()
    }

    /// All its names, in the order of their text: one, unless it comes from [`Locker::all`].
    pub fn names(&self) -> &[Name] {
        self.names.as_slice()
    }

    /// The same lock, to be held together with other clients that share it: any number of readers, or one
    /// writer.
    ///
    /// A client that waits to hold it exclusively keeps further readers out, so that it gets its turn. A
    /// reader has a fence, too: an outdated reader can be refused like an outdated writer.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locker = quorlock::Locker::builder().nodes(["memory:"]).build()?;
    /// let lock = locker.named("config")?;
    /// let (one, two) = (lock.clone().shared().acquire().await?, lock.clone().shared().acquire().await?);
    /// assert!(lock.try_acquire().await.is_err()); // readers keep writers out
    /// # drop((one, two));
    /// # Ok(()) }
    /// ```
    pub fn shared(mut self) -> Self {
        self.mode = Mode::Shared;
        self
    }

    /// Takes the lock, waiting for it if another client has it.
    ///
    /// Waits at most the [wait limit](Lock::wait_timeout) (10 s by default) and makes at most
    /// [`max_attempts`](Lock::max_attempts) attempts (10 000 by default). Tasks that share a [`Locker`] get
    /// their turn in the order of their calls. A call whose turn has come keeps it until it is done or
    /// dropped, so do not hold on to this future without polling it.
    ///
    /// Over all names, 256 attempts of a locker are under way at most. The others wait; that is no
    /// attempt and counts as waiting.
    ///
    /// # Errors
    /// [`AcquireError`]: held by another client, contended, no quorum, too slow, cancelled, too many
    /// waiters, or a setting that cannot be used.
    ///
    /// # Cancel safety
    /// Cancel safe: dropped half-way, it leaves the queue and releases what it may have set on any node.
    pub async fn acquire(&self) -> Result<Guard, AcquireError> {
        self.acquire_within(Limits::for_acquire(&self.options)).await
    }

    /// Takes the lock without waiting for a client that has it.
    ///
    /// One attempt is enough if the lock is free or held: one round to vote and, if it is held, one to
    /// see which client has it. Clients that try at the same moment may split the votes, so that all are
    /// refused. Then this tries again after a random delay, until one client has a majority: at most 16
    /// attempts within 5 s, and within the validity of the ttl.
    ///
    /// While 256 other attempts of the locker are under way it begins when one of them ends, within the
    /// validity of the ttl at most.
    ///
    /// # Errors
    /// As [`Lock::acquire`]; [`AcquireError::Held`] says which client has it, [`AcquireError::Contended`]
    /// that no client had a majority until the last attempt.
    ///
    /// # Cancel safety
    /// As [`Lock::acquire`].
    pub async fn try_acquire(&self) -> Result<Guard, AcquireError> {
        self.acquire_within(Limits::for_try_acquire(&self.options)).await
    }

    /// Runs `work` while the lock is held, and releases it.
    ///
    /// If the lock is lost, the work is cancelled (dropped at its next `await`) before the deadline, and
    /// once the deadline has passed it is not resumed, even if the whole process was paused. What the
    /// work returns, an error of its own included, comes back as it is: nothing that happens to the lock
    /// after it has finished hides it.
    ///
    /// ```
    /// # async fn example(lock: quorlock::Lock) -> Result<(), Box<dyn std::error::Error>> {
    /// let rows = lock.run(|lease| async move { update_report(lease.fence()).await }).await??;
    /// # Ok(()) }
    /// # async fn update_report(fence: quorlock::Fence) -> Result<u32, std::io::Error> { Ok(1) }
    /// ```
    ///
    /// # Errors
    /// [`RunError`] if the lock could not be taken, or was lost before the work had finished.
    ///
    /// # Cancel safety
    /// Cancel safe: dropped half-way, it drops the work and releases the lock.
    pub async fn run<W, F, T>(&self, work: W) -> Result<T, RunError>
    where
        W: FnOnce(Lease) -> F,
        F: Future<Output = T>,
    {
        let guard = self.acquire().await?;
        let result = until_lost(&guard.lease(), work(guard.lease())).await;
        // The outcome goes to the observers; it must not hide what the work returned.
        let _outcome = guard.release().await;
        result
    }

    /// Asks all nodes what they store, without taking the lock; of several names, for the first.
    ///
    /// # Errors
    /// [`InspectError`] if fewer than a quorum answered.
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is changed anywhere.
    pub async fn inspect(&self) -> Result<Inspection, InspectError> {
        self.locker.nodes().wait_connected().await;
        inspect(self.locker.nodes(), self.name(), Answers::All).await
    }

    /// The same for each of its names.
    ///
    /// # Errors
    /// [`InspectError`] if fewer than a quorum answered.
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is changed anywhere.
    pub async fn inspect_all(&self) -> Result<Vec<Inspection>, InspectError> {
        self.locker.nodes().wait_connected().await;
        inspect_all(self.locker.nodes(), &self.names, Answers::All).await
    }

    /// How many slots the nodes have recorded, if a semaphore has this name, and whether its clients agree.
    ///
    /// # Errors
    /// [`InspectError`] if fewer than a quorum answered.
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is changed anywhere.
    pub async fn inspect_slots(&self) -> Result<SlotsInspection, InspectError> {
        self.locker.nodes().wait_connected().await;
        inspect_slots(self.locker.nodes(), self.name()).await
    }

    /// Extends the lock that a client holds with exactly this `token` by `ttl` from now: for a program
    /// that knows only name and token, such as a script that acquires in one process and extends in
    /// another.
    ///
    /// There is no guard: nothing keeps the lock alive, and nothing releases it. Nodes that lost it do
    /// not get it back, as they would by a guard's extension. On the file node it stays tied to the
    /// process that it was tied to.
    ///
    /// # Errors
    /// [`ExtendError::Lost`] if a majority does not hold `token`, or agreed too late;
    /// [`ExtendError::NoQuorum`] if too few nodes answered: it is then held until the deadline that it
    /// had, and can be tried again; [`ExtendError::Config`] if the ttl cannot be used.
    ///
    /// # Cancel safety
    /// Cancel safe: the nodes may have extended.
    pub async fn extend_token(&self, token: Token, ttl: Duration) -> Result<ExtendOutcome, ExtendError> {
        let ttl = self.locker.rules().check(ttl)?;
        self.locker.nodes().wait_connected().await;
        extend_token(self.locker.nodes(), &self.names, token, ttl).await
    }

    /// Releases the lock that the caller holds with exactly this `token`: for a program that knows only
    /// name and token. The counterpart of [`Lock::extend_token`].
    ///
    /// # Cancel safety
    /// Cancel safe: dropped half-way, the release is on its way to every node.
    pub async fn release_token(&self, token: Token) -> ReleaseOutcome {
        let nodes = self.locker.nodes();
        nodes.wait_connected().await;
        await_release(nodes, pin!(self.send_release(token))).await.0
    }

    /// Releases the lock that another client holds with exactly this `token`, as [`Lock::inspect`]
    /// returns it. Observers get [`Event::ForceReleased`], even if the call is dropped half-way.
    ///
    /// The holder is not asked; it learns of the loss at its next extension, and no node that was reached
    /// takes the lock back from it. A client that acquired the lock in the meantime has another token and
    /// is not touched.
    ///
    /// # Cancel safety
    /// Cancel safe: dropped half-way, the release is on its way to every node.
    pub async fn force_release(&self, token: Token) -> ReleaseOutcome {
        let nodes = self.locker.nodes();
        nodes.wait_connected().await;
        let token = match nodes.ctx.injected.forces_only_its_token() {
            true => token,
            false => self.current_token().await.unwrap_or(token),
        };
        let round = pin!(self.send_release(token));
        let mut forced = Forced { lock: self, outcome: ReleaseKind::Dropped };
        let released = await_release(nodes, round).await.0;
        forced.outcome = released.event_kind();
        released
    }

    fn send_release(&self, token: Token) -> Round {
        let release = |name: &Name| Command::Release {
            name: name.clone(),
            token,
            quiet: false,
            stored_after_token: None,
            may_be_shared: true,
            forced: true,
        };
        self.locker.nodes().ask(Commands::each(&self.names, release))
    }

    /// For an injected bug: the token of the current holder.
    async fn current_token(&self) -> Option<Token> {
        match inspect(self.locker.nodes(), self.name(), Answers::All).await.ok()?.holder {
            Holder::Owner { token, .. } => Some(token),
            _ => None,
        }
    }

    /// Takes over a lock that is held under `handle`, by extending it on a majority of nodes.
    pub(crate) async fn adopt(&self, handle: &LockHandle) -> Result<Guard, ExtendError> {
        self.check()?;
        let clock = &self.locker.nodes().ctx.clock;
        self.locker.nodes().wait_connected().await;
        let (start, wall) = (clock.now(), clock.wall());
        let options = &self.options;
        let lease =
            LeaseTerms::new(handle.token(), handle.fence(), options.ttl, options.max_hold, start, wall);
        let label = Label::new(options.signature.clone(), wall);
        let hold = self.hold((lease, 0), self.names.clone(), (label, false));
        // The lease counts only if this round finds a majority that still holds the token.
        let stragglers = match self.locker.nodes().ctx.injected.asks_before_adoption() {
            true => Some(extend(&hold, options.ttl).await?),
            false => None,
        };
        let fence = hold.fence();
        let guard = self.guard(hold.clone(), clock.now());
        if let Some(stragglers) = stragglers {
            stragglers.repair_later(hold);
        }
        self.locker.nodes().ctx.emit_each(&self.names, |name| Event::Adopted { name, fence });
        Ok(guard)
    }

    async fn acquire_within(&self, limits: Limits) -> Result<Guard, AcquireError> {
        if let Err(source) = self.check() {
            return Err(AcquireError::Config { lock: self.names.clone(), source });
        }
        let params = AttemptParams {
            names: self.names.clone(),
            mode: self.mode,
            options: &self.options,
            fences: self.locker.fences(),
        };
        let acquirer = Acquirer::new(self.locker.nodes(), params, self.queues(), limits);
        self.acquire_with(acquirer).await
    }

    /// Runs `acquirer` and makes a guard of what it was granted.
    pub(crate) async fn acquire_with(&self, mut acquirer: Acquirer<'_>) -> Result<Guard, AcquireError> {
        let (grant, turn) = trace::traced!(trace::acquiring(&self.names), acquirer.run())?;
        // No await from here on: the grant must reach its guard.
        let names = acquirer.names().clone();
        let hold = self.hold((grant.lease, grant.votes), names, (grant.label, true));
        let guard = self.guard(hold, grant.at);
        // The next task of the queue sees the new local holder before it contends.
        drop(turn);
        match guard.check_lost() {
            None => Ok(guard),
            // Since a majority agreed, the process was paused or an observer took its time.
            Some(_) => {
                let took = grant.took + self.locker.nodes().ctx.clock.now().since(grant.at);
                Err(AcquireError::TooSlow { lock: self.names.clone(), took, ttl: self.options.ttl.span() })
            }
        }
    }

    pub(crate) fn nodes(&self) -> &Nodes {
        self.locker.nodes()
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    pub(crate) fn fences(&self) -> &Mutex<FenceClock> {
        self.locker.fences()
    }

    /// All queues of the locker, and that of its names.
    pub(crate) fn queues(&self) -> (&NameQueues, &Arc<NameQueue>) {
        (self.locker.queues(), self.queue())
    }

    fn queue(&self) -> &Arc<NameQueue> {
        self.queue.get_or_init(|| self.locker.queues().of(&self.names))
    }

    fn hold(&self, lease: (LeaseTerms, usize), names: NameSet, label: (Label, bool)) -> Arc<HeldLock> {
        let (queue, keeper) = (self.queue().clone(), self.locker.keeper().clone());
        HeldLock::new(lease, (names, self.mode), self.options.clone(), label, queue, keeper)
    }

    fn guard(&self, hold: Arc<HeldLock>, granted: Moment) -> Guard {
        hold.announce();
        Guard::new(hold, granted, self.locker.rules())
    }
}

/// Settings of this lock alone. A value that cannot be used makes [`Lock::acquire`] fail with
/// [`AcquireError::Config`].
impl Lock {
    /// How long the nodes keep the lock without hearing from its holder.
    pub fn ttl(self, ttl: Duration) -> Self {
        let checked = self.locker.rules().check(ttl);
        self.set_checked(checked, |options, ttl| options.ttl = ttl)
    }

    /// How long [`Lock::acquire`] waits at most. It is kept to within one node timeout, whatever the
    /// nodes do.
    pub fn wait_timeout(mut self, limit: Duration) -> Self {
        self.set().wait = limit;
        self
    }

    /// How many attempts [`Lock::acquire`] makes at most, at least 1. Waiting for a hint costs none.
    pub fn max_attempts(self, attempts: u32) -> Self {
        self.set_checked(check_attempts(attempts), |options, attempts| options.attempts = attempts)
    }

    /// Whether the lock is extended in the background. If not, it is lost at its deadline unless
    /// [`Guard::extend`] is called.
    pub fn watchdog(mut self, on: bool) -> Self {
        self.set().watchdog = on;
        self
    }

    /// How long the lock may be held at most, however often it is extended; more than zero.
    pub fn max_hold(self, hold: Duration) -> Self {
        self.set_checked(check_max_hold(hold), |options, hold| options.max_hold = Some(hold))
    }

    /// How long before the deadline a loss is announced: at most half of the validity, 2 % of the ttl by
    /// default; see [`Builder::loss_margin`](crate::Builder::loss_margin).
    pub fn loss_margin(self, margin: Duration) -> Self {
        let checked = check_margin(margin, self.options.ttl);
        self.set_checked(checked, |options, margin| options.loss_margin = Some(margin))
    }

    /// The owner of the lock, for people who ask who holds it (default `user@host`).
    pub fn owner(mut self, who: impl Into<Arc<str>>) -> Self {
        self.set().who = who.into();
        self.set().sign();
        self
    }

    /// Why the lock is taken, for people who ask who holds it.
    pub fn reason(mut self, reason: impl Into<Arc<str>>) -> Self {
        self.set().reason = Some(reason.into());
        self.set().sign();
        self
    }

    /// Gives up waiting when `token` is cancelled. A lock that is held already is not touched.
    pub fn cancel_on(mut self, token: CancellationToken) -> Self {
        self.set().cancel = Some(token);
        self
    }

    /// Whether the lock stays when this process ends without releasing it, until its ttl is over, so that
    /// another process can [adopt](Locker::adopt) it. Only the file node distinguishes; on servers it is
    /// always so.
    pub fn outlives_process(mut self, outlives: bool) -> Self {
        self.set().tied = !outlives;
        self
    }

    fn set(&mut self) -> &mut Options {
        Arc::make_mut(&mut self.options)
    }

    /// Applies a value that was checked, or keeps the first error for [`Lock::acquire`].
    fn set_checked<T>(
        mut self,
        checked: Result<T, ConfigError>,
        apply: impl FnOnce(&mut Options, T),
    ) -> Self {
        match checked {
            Ok(value) => apply(self.set(), value),
            Err(error) if self.options.invalid.is_none() => self.set().invalid = Some(Box::new(error)),
            Err(_) => {}
        }
        self
    }

    /// The first setting that cannot be used.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        self.options.invalid.as_deref().cloned().map_or(Ok(()), Err)
    }
}

/// Runs `work` to its end, or drops it once the lock is lost.
async fn until_lost<T>(lease: &Lease, work: impl Future<Output = T>) -> Result<T, RunError> {
    let (mut lost, mut work) = (pin!(lease.lost()), pin!(work));
    poll_fn(|context| {
        if let Poll::Ready(lost) = lost.as_mut().poll(context) {
            return Poll::Ready(Err(lost.into()));
        }
        // After a pause the work may be woken before any timer: the clock decides whether it may go on.
        match lease.check_lost() {
            Some(lost) => Poll::Ready(Err(lost.into())),
            None => work.as_mut().poll(context).map(Ok),
        }
    })
    .await
}

/// A forced release that was sent. Reported when this is dropped.
struct Forced<'a> {
    lock: &'a Lock,
    outcome: ReleaseKind,
}

impl Drop for Forced<'_> {
    fn drop(&mut self) {
        let outcome = self.outcome;
        let event = |name| Event::ForceReleased { name, outcome };
        self.lock.locker.nodes().ctx.emit_each(&self.lock.names, event);
    }
}

/// Why [`Lock::run`] did not run the work to its end.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The lock could not be taken; the work was not started.
    #[error(transparent)]
    Acquire(#[from] AcquireError),
    /// The lock was lost; the work was cancelled.
    #[error(transparent)]
    Lost(#[from] Lost),
}
