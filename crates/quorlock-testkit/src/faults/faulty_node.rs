//! A node with a fault that can be switched on: it breaks the contract between lock and node on
//! purpose.

use quorlock::Name;
use quorlock::node::{BoxFuture, Command, Facts, Health, Names, Node, NodeError, Reply, Request, Wakeup};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What is wrong with a node.
#[derive(Clone, Debug, Default)]
pub enum Fault {
    /// Nothing.
    #[default]
    None,
    /// It neither executes nor answers commands.
    Deaf,
    /// It executes commands but never answers.
    Mute,
    /// It executes commands and answers this much later.
    Slow(Duration),
    /// It executes nothing and answers this error at once.
    Broken(NodeError),
}

/// A node that passes commands on to another, unless its fault says otherwise.
#[derive(Debug)]
pub struct FaultyNode {
    node: Arc<dyn Node>,
    fault: Mutex<Fault>,
    received: Mutex<Vec<Command>>,
    /// Requests that are never answered must not be dropped either: that would be an answer.
    kept: Mutex<Vec<Request>>,
}

impl FaultyNode {
    /// A healthy front for `node`.
    pub fn new(node: impl Node) -> Arc<Self> {
        let (fault, received, kept) = Default::default();
        Arc::new(Self { node: Arc::new(node), fault, received, kept })
    }

    /// Changes what is wrong from the next command on.
    pub fn set(&self, fault: Fault) {
        *self.fault.lock().unwrap() = fault;
    }

    /// All commands so far, in order.
    pub fn received(&self) -> Vec<Command> {
        self.received.lock().unwrap().clone()
    }

    /// The names of the commands so far, in order, such as `acquire`.
    pub fn verbs(&self) -> Vec<&'static str> {
        let verb = |command: &Command| match command {
            Command::Acquire(acquire) if acquire.is_repair() => "repair",
            Command::Acquire(_) => "acquire",
            Command::Stamp { .. } => "stamp",
            Command::Extend { .. } => "extend",
            Command::Release { .. } => "release",
            Command::Inspect { .. } => "inspect",
            Command::Downgrade { .. } => "downgrade",
            Command::HoldOffReaders { .. } => "hold off readers",
            Command::Slots { .. } => "slots",
            _ => "other",
        };
        self.received().iter().map(verb).collect()
    }
}

impl Node for FaultyNode {
    fn id(&self) -> &str {
        self.node.id()
    }

    fn send(&self, request: Request) {
        let command = request.command().clone();
        self.received.lock().unwrap().push(command.clone());
        match self.fault.lock().unwrap().clone() {
            Fault::None => self.node.send(request),
            Fault::Deaf => self.kept.lock().unwrap().push(request),
            Fault::Mute => {
                self.node.send(Request::without_reply(command));
                self.kept.lock().unwrap().push(request);
            }
            Fault::Slow(delay) => {
                let (relay, reply) = Request::channel(command);
                self.node.send(relay);
                tokio::spawn(async move {
                    tokio::time::sleep(delay).await;
                    request.answer(reply.await);
                });
            }
            Fault::Broken(error) => request.answer(Reply::failed(error)),
        }
    }

    fn watch(&self, name: &Name, wakeup: &Wakeup) {
        self.node.watch(name, wakeup);
    }

    fn unwatch(&self, name: &Name) {
        self.node.unwatch(name);
    }

    fn wait_connected(&self) -> BoxFuture<'_, ()> {
        self.node.wait_connected()
    }

    fn names(&self) -> BoxFuture<'_, Result<Names, NodeError>> {
        let fault = self.fault.lock().unwrap().clone();
        Box::pin(async move {
            match fault {
                Fault::None => {}
                Fault::Deaf | Fault::Mute => std::future::pending().await,
                Fault::Slow(delay) => tokio::time::sleep(delay).await,
                Fault::Broken(error) => return Err(error),
            }
            self.node.names().await
        })
    }

    fn examine(&self) -> BoxFuture<'_, Result<Facts, NodeError>> {
        self.node.examine()
    }

    fn health(&self) -> Health {
        self.node.health()
    }
}
