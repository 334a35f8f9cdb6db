use super::*;
use tokio::time::timeout;

const SHORT: Duration = Duration::from_millis(20);
const LONG: Duration = Duration::from_secs(9);

/// A gate whose passes are all taken.
async fn busy(gate: &Gate) -> Vec<Pass<'_>> {
    let mut passes = Vec::new();
    for _ in 0..MOST_ATTEMPTS {
        passes.push(gate.pass(|| SHORT).await.unwrap());
    }
    passes
}

#[tokio::test(start_paused = true)]
async fn who_comes_too_many_waits_for_a_pass_to_come_back_and_not_longer_than_allowed() {
    let gate = Gate::default();
    let mut passes = busy(&gate).await;
    let start = Instant::now();
    assert!(timeout(LONG, gate.pass(|| SHORT)).await.unwrap().is_none());
    assert!((SHORT..=SHORT + LOOK).contains(&start.elapsed()), "{:?}", start.elapsed());
    let (next, ()) = tokio::join!(gate.pass(|| SHORT), async { drop(passes.pop()) });
    assert!(next.is_some());
}

#[tokio::test(start_paused = true)]
async fn who_has_all_the_time_in_the_world_waits() {
    let gate = Gate::default();
    let mut passes = busy(&gate).await;
    let (next, ()) = tokio::join!(gate.pass(|| Duration::MAX), async { drop(passes.pop()) });
    assert!(next.is_some());
}

#[tokio::test(start_paused = true)]
async fn the_impatient_are_told_in_time_though_others_have_longer() {
    let gate = Gate::default();
    let _passes = busy(&gate).await;
    let start = Instant::now();
    let wait = |limit| {
        let gate = &gate;
        async move { (gate.pass(|| limit).await.is_some(), start.elapsed()) }
    };
    let late = async {
        tokio::time::sleep(LONG / 2).await;
        wait(SHORT).await
    };
    let all = async { tokio::join!(wait(LONG), wait(SHORT), late) };
    let (long, short, late) = timeout(2 * LONG, all).await.unwrap();
    for ((passed, took), limit) in [(long, LONG), (short, SHORT), (late, LONG / 2 + SHORT)] {
        assert!(!passed && (limit..=limit + LOOK).contains(&took), "{took:?} instead of {limit:?}");
    }
    assert!(gate.queue().waiting.is_empty(), "who left takes no place");
}

#[tokio::test(start_paused = true)]
async fn passes_are_given_in_the_order_of_coming_and_those_who_left_get_none() {
    let gate = Gate::default();
    let mut passes = busy(&gate).await;
    let order = Mutex::new(Vec::new());
    let wait = |number| {
        let (gate, order) = (&gate, &order);
        async move {
            let _pass = gate.pass(|| LONG).await.unwrap();
            order.lock().unwrap().push(number);
        }
    };
    let gives_up = timeout(SHORT, wait(9));
    let comes_back = async {
        tokio::time::sleep(2 * SHORT).await;
        drop(passes.pop());
    };
    let (_, (), left, (), ()) = tokio::join!(wait(0), wait(1), gives_up, wait(2), comes_back);
    assert!(left.is_err());
    assert_eq!(*order.lock().unwrap(), [0, 1, 2]);
    drop(passes);
    assert_eq!(gate.queue().free, MOST_ATTEMPTS);
}

#[tokio::test(start_paused = true)]
async fn a_pass_that_came_to_somebody_who_left_goes_to_the_next() {
    let gate = Gate::default();
    let mut passes = busy(&gate).await;
    let mut first = Box::pin(gate.pass(|| LONG));
    assert!(poll_once(&mut first).is_pending());
    let mut second = Box::pin(gate.pass(|| LONG));
    assert!(poll_once(&mut second).is_pending());
    drop(passes.pop());
    // It is the first one's now, who does not look any more.
    drop(first);
    assert!(matches!(poll_once(&mut second), Poll::Ready(Some(_))));
}

fn poll_once<F: Future>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test(start_paused = true)]
async fn the_porter_goes_when_nobody_waits_and_is_called_again() {
    let gate = Gate::default();
    let passes = busy(&gate).await;
    for _ in 0..2 {
        assert!(timeout(LONG, gate.pass(|| SHORT)).await.unwrap().is_none());
        assert_eq!(gate.queue().porters.len(), 1);
        tokio::time::sleep(2 * LOOK).await;
        assert!(gate.queue().porters.is_empty());
    }
    drop(passes);
}

#[test]
fn who_waits_in_one_runtime_does_not_depend_on_another() {
    let gate = Gate::default();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let (idle, other) = (runtime(), runtime());
    let _passes = idle.block_on(busy(&gate));
    // Its porter stands still from here on, as nobody drives this runtime.
    let mut waits = Box::pin(gate.pass(|| LONG));
    idle.block_on(async { assert!(poll_once(&mut waits).is_pending()) });
    assert!(other.block_on(async { timeout(LONG, gate.pass(|| SHORT)).await.unwrap() }).is_none());
    drop((waits, idle));
    assert!(gate.queue().porters.iter().all(|porter| *porter == other.handle().id()));
}
