//! Headless Chromium, told what to do by its DevTools protocol.

use crate::{Namespace, Process, process::eventually};
use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use std::{
    fs::{self, File},
    io::{Read as _, Write as _},
    net::TcpStream,
    os::unix::process::CommandExt as _,
    path::Path,
    process::Stdio,
    time::Duration,
};
use tungstenite::{Message, WebSocket};

const PORT: u16 = 9222;

/// A browser with one page open.
#[derive(Debug)]
pub struct Browser {
    socket: WebSocket<TcpStream>,
    next: u64,
    /// What the page or the browser complained of.
    pub complaints: Vec<String>,
    process: Process,
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Its many processes are one group.
        if let Some(group) = Pid::from_raw(self.process.id() as i32) {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Browser {
    /// Opens a page in a namespace; the browser's files go below `directory`.
    ///
    /// # Errors
    /// Chromium is missing, or does not start.
    pub fn open(namespace: &Namespace, directory: &Path, url: &str) -> Result<Self> {
        let own = directory.join("chromium");
        fs::create_dir_all(&own)?;
        let mut command = namespace.command("chromium");
        command
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
            ])
            .args(["--disable-extensions", "--disable-background-networking", "--window-size=1400,1600"])
            .arg(format!("--remote-debugging-port={PORT}"))
            .arg(format!("--user-data-dir={}", own.display()))
            .arg("about:blank")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(own.join("log"))?)
            .process_group(0);
        let process = Process::start("chromium", &mut command)?;
        let mut found = None;
        eventually("chromium answers", Duration::from_secs(30), || {
            found = namespace.enter(page_socket).ok().and_then(Result::ok);
            found.is_some()
        })?;
        let address = found.context("a page")?;
        let (socket, _) = namespace.enter(|| -> Result<_> {
            let stream = TcpStream::connect(("127.0.0.1", PORT))?;
            stream.set_read_timeout(Some(Duration::from_secs(10)))?;
            tungstenite::client(address, stream).map_err(|e| anyhow::anyhow!("{e}"))
        })??;
        let mut browser = Self { socket, next: 0, complaints: Vec::new(), process };
        for domain in ["Runtime.enable", "Log.enable", "Page.enable"] {
            browser.tell(domain, &json!({}))?;
        }
        browser.tell("Page.navigate", &json!({ "url": url }))?;
        Ok(browser)
    }

    /// Evaluates an expression in the page.
    ///
    /// # Errors
    /// The browser is gone, or the expression fails.
    pub fn evaluate(&mut self, expression: &str) -> Result<Value> {
        let answer =
            self.tell("Runtime.evaluate", &json!({ "expression": expression, "returnByValue": true }))?;
        if answer["exceptionDetails"].is_object() {
            bail!("{expression}: {}", answer["exceptionDetails"]);
        }
        Ok(answer["result"]["value"].clone())
    }

    /// Waits until an expression is true in the page.
    ///
    /// # Errors
    /// It is not within `limit`; the error holds the page's text.
    pub fn wait_until(&mut self, expression: &str, limit: Duration) -> Result<Duration> {
        let waited = eventually(expression, limit, || self.evaluate(expression).is_ok_and(|v| v == true));
        match waited {
            Ok(waited) => Ok(waited),
            Err(error) => Err(error.context(self.evaluate("document.body.innerText")?.to_string())),
        }
    }

    fn tell(&mut self, method: &str, params: &Value) -> Result<Value> {
        self.next += 1;
        let request = json!({ "id": self.next, "method": method, "params": params });
        self.socket.send(Message::text(request.to_string()))?;
        loop {
            let Message::Text(text) = self.socket.read()? else { continue };
            let message: Value = serde_json::from_str(&text)?;
            match message["method"].as_str() {
                Some("Runtime.exceptionThrown" | "Log.entryAdded") => self.complaints.push(text.to_string()),
                _ if message["id"] == self.next => return Ok(message["result"].clone()),
                _ => {}
            }
        }
    }
}

/// Where the only page can be talked to.
fn page_socket() -> Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", PORT))?;
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    stream.write_all(b"GET /json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")?;
    let mut answer = Vec::new();
    // It keeps the connection open; what it says is there by then.
    let mut chunk = [0; 4096];
    while !answer.trim_ascii_end().ends_with(b"]") {
        match stream.read(&mut chunk) {
            Ok(n) if n > 0 => answer.extend_from_slice(&chunk[..n]),
            _ => break,
        }
    }
    let text = String::from_utf8_lossy(&answer).into_owned();
    let (_, body) = text.split_once("\r\n\r\n").context("an answer")?;
    let pages: Value = serde_json::from_str(body)?;
    let page = pages.as_array().into_iter().flatten().find(|p| p["type"] == "page").context("a page")?;
    Ok(page["webSocketDebuggerUrl"].as_str().context("an address")?.to_owned())
}
