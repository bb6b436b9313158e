//! `bench proxied`: a get that another API server answers, beside one that the server answers itself. The
//! other server is a small one in this process, so that the figures are those of the server alone.

use crate::Outcome;
use crate::process::cpu_time_of;
use crate::report::{Row, Style};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use testkit::http::Connection;
use testkit::{ExtensionServer, Server, release_binary};

/// The line of help.
pub(crate) const ABOUT: &str = "a get that another API server answers, beside a local one";

const GETS: u32 = 20_000;
/// Gets of one sort before some of the other, so that what else the machine does hits both alike.
const BATCH: u32 = 1_000;
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs and prints.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let style =
        if arguments.iter().any(|argument| argument == "--json") { Style::Json } else { Style::Table };
    let server = Server::start(&release_binary(), &["--storage=memory"])?;
    let pid = server.process().ok_or("the server has to be a process of this run")?.id();
    let group = "bench.example.com";
    let (_extension, registration) = ExtensionServer::behind(&server, group)?;
    let services = "/apis/apiregistration.k8s.io/v1/apiservices";
    made(&server, services, &registration)?;
    wait_until_available(&server, &format!("{services}/v1.{group}"))?;
    let widgets = format!("/apis/{group}/v1/namespaces/default/widgets");
    made(
        &server,
        &widgets,
        &json!({"kind": "Widget", "apiVersion": format!("{group}/v1"), "metadata": {"name": "one"}}),
    )?;
    let maps = "/api/v1/namespaces/default/configmaps";
    made(&server, maps, &json!({"metadata": {"name": "one"}, "data": {"size": "3"}}))?;

    let mut connection = server.target()?.connect(PATIENCE)?;
    let paths = [format!("{maps}/one"), format!("{widgets}/one")];
    let mut spent = [Duration::ZERO; 2];
    for path in &paths {
        gets(&server, &mut connection, path, BATCH)?;
    }
    for _ in 0..GETS / BATCH {
        for (path, spent) in paths.iter().zip(&mut spent) {
            let before = cpu_time_of(pid)?;
            gets(&server, &mut connection, path, BATCH)?;
            *spent += cpu_time_of(pid)?.saturating_sub(before);
        }
    }
    let [local, proxied] = spent.map(|spent| spent.as_secs_f64() * 1e6 / f64::from(GETS));
    Row::new("local get").figure("cpu", local, "us").print(style)?;
    Row::new("proxied get")
        .figure("cpu", proxied, "us")
        .figure("more", proxied - local, "us")
        .print(style)?;
    Ok(())
}

fn made(server: &Server, path: &str, object: &Value) -> Outcome {
    match server.call("POST", path, object)? {
        (201, _) => Ok(()),
        (code, said) => Err(format!("POST {path}: {code} {said}").into()),
    }
}

fn wait_until_available(server: &Server, path: &str) -> Outcome {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        let (_, service) = server.call("GET", path, &Value::Null)?;
        if service.pointer("/status/conditions/0/status") == Some(&json!("True")) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err("the other server does not become available".into())
}

fn gets(server: &Server, connection: &mut Connection, path: &str, number: u32) -> Outcome {
    let host = server.url().trim_start_matches("https://");
    let token = server.token();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n");
    connection.allow(PATIENCE);
    for _ in 0..number {
        connection.send(request.as_bytes())?;
        let mut head = connection.head("GET")?;
        connection.body(&mut head)?;
        if head.status != 200 {
            return Err(format!("GET {path}: {}", head.status).into());
        }
    }
    Ok(())
}
