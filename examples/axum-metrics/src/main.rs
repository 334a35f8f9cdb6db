//! A web service that acquires a lock per request and exports its metrics to Prometheus.
//!
//! ```sh
//! QUORLOCK_NODES=file: cargo run -p axum-metrics   # or redis://a,redis://b,redis://c
//! curl -X POST localhost:3000/orders/42; curl localhost:3000/metrics
//! ```

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use quorlock::metrics::{BUCKETS, Metrics, record_health};
use quorlock::{AcquireError, Builder, Locker};
use std::error::Error;
use std::time::Duration;
use tokio::net::TcpListener;

#[derive(Clone)]
struct Service {
    locker: Locker,
    prometheus: PrometheusHandle,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let prometheus = install_recorder()?; // before the locker: earlier metrics would be lost
    let locker = Builder::from_env()?.metrics(Metrics::new()).build()?;
    if let Err(error) = locker.connect().await {
        eprintln!("{error}"); // the locker goes on trying
    }
    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    let interrupted = async {
        let _ = tokio::signal::ctrl_c().await;
    };
    run(listener, Service { locker, prometheus }, interrupted).await
}

/// The exporter makes histograms only of metrics that it has buckets for.
fn install_recorder() -> Result<PrometheusHandle, Box<dyn Error>> {
    let mut exporter = PrometheusBuilder::new();
    for (name, buckets) in BUCKETS {
        exporter = exporter.set_buckets_for_metric(Matcher::Full((*name).to_owned()), buckets)?;
    }
    Ok(exporter.install_recorder()?)
}

/// Serves until `shutdown`, then waits for the running requests, which release their locks.
async fn run(
    listener: TcpListener,
    service: Service,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), Box<dyn Error>> {
    let locker = service.locker.clone();
    let routes = Router::new()
        .route("/orders/{id}", post(ship))
        .route("/metrics", get(show_metrics))
        .with_state(service);
    axum::serve(listener, routes).with_graceful_shutdown(shutdown).await?;
    // Releases of the last requests reach the nodes before the process ends.
    locker.flush().await;
    Ok(())
}

/// Ships an order under its lock: one at a time in all processes that share the nodes.
async fn ship(State(service): State<Service>, Path(id): Path<u32>) -> (StatusCode, String) {
    let lock = match service.locker.named(format!("order:{id}")) {
        Ok(lock) => lock.wait_timeout(Duration::from_secs(2)),
        Err(error) => return (StatusCode::BAD_REQUEST, error.to_string()),
    };
    match lock.acquire().await {
        Ok(guard) => {
            let text = format!("shipped order {id} under fence {}\n", guard.fence());
            let _outcome = guard.release().await;
            (StatusCode::OK, text)
        }
        Err(error @ AcquireError::Held { .. }) => (StatusCode::CONFLICT, format!("{error}\n")),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")),
    }
}

async fn show_metrics(State(service): State<Service>) -> String {
    record_health(&service.locker.health());
    service.prometheus.run_upkeep();
    service.prometheus.render()
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorlock_testkit::exposition;
    use std::net::SocketAddr;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    async fn request(to: SocketAddr, line: &str) -> String {
        let mut stream = TcpStream::connect(to).await.unwrap();
        let request = format!("{line} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    #[tokio::test]
    async fn a_scrape_shows_what_requests_did() {
        let prometheus = install_recorder().unwrap();
        let locker = Locker::builder().nodes(["memory:axum"]).metrics(Metrics::new()).build().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let serving = async {
            let stopped = async { drop(stopped.await) };
            run(listener, Service { locker, prometheus }, stopped).await.unwrap();
        };
        let asking = async {
            assert!(request(address, "POST /orders/7").await.contains("shipped order 7"));
            let scrape = request(address, "GET /metrics").await;
            let _ = stop.send(());
            scrape
        };
        let ((), scrape) = tokio::join!(serving, asking);

        let samples = exposition::parse(&scrape);
        let count = "redlock_acquire_duration_seconds_count{resource=\"order:7\"}";
        assert_eq!(samples.get(count), Some(&1.0), "{scrape}");
        assert!(scrape.contains("# TYPE redlock_acquire_duration_seconds histogram"), "{scrape}");
        assert!(exposition::promtool_agrees(&scrape).is_none_or(|verdict| verdict.is_ok()));
    }
}
