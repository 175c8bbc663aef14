//! A Unix socket that answers a request line with one line of JSON. Readable and writable by the owner
//! only. Requests: `status`, `explain CALL-ID`, `calls COUNT`.

use exchange::errands::Calls;
use std::{
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixStream},
    sync::{mpsc, oneshot},
    time::timeout,
};

/// Longest request.
const MAX_REQUEST: u64 = 1024;
/// How long a client may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// The listening socket; its file is removed with it.
pub struct StatusSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl StatusSocket {
    /// Binds the socket, in place of one that nobody listens on any more.
    ///
    /// # Errors
    /// The directory cannot be made or written, or another node listens there.
    pub async fn bind(path: &Path) -> io::Result<Self> {
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)?;
        }
        if UnixStream::connect(path).await.is_ok() {
            let message = format!("another node listens on {}", path.display());
            return Err(io::Error::new(io::ErrorKind::AddrInUse, message));
        }
        match std::fs::remove_file(path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let listener = UnixListener::bind(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        Ok(Self { listener, path: path.to_owned() })
    }

    /// The next client.
    ///
    /// # Errors
    /// The kernel refuses, for want of descriptors for instance.
    pub async fn accept(&self) -> io::Result<UnixStream> {
        Ok(self.listener.accept().await?.0)
    }
}

impl Drop for StatusSocket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// What a client asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// The node's state.
    Status,
    /// What became of calls.
    Explain(Calls),
}

/// A request and the way to answer it.
#[derive(Debug)]
pub struct Asked {
    /// What is asked.
    pub request: Request,
    /// Takes one line of JSON.
    pub reply: oneshot::Sender<String>,
}

impl Request {
    /// Reads a request line.
    fn parse(line: &str) -> Option<Self> {
        match line.trim().split_once(' ').unwrap_or((line.trim(), "")) {
            ("status", "") => Some(Self::Status),
            ("explain", call_id) if !call_id.trim().is_empty() => {
                Some(Self::Explain(Calls::Of(call_id.trim().as_bytes().into())))
            }
            ("calls", count) => count.trim().parse().ok().map(|n| Self::Explain(Calls::Latest(n))),
            _ => None,
        }
    }
}

/// Serves one client in a task of its own, so that a slow one holds up nothing.
pub fn serve(stream: UnixStream, questions: mpsc::Sender<Asked>) {
    tokio::spawn(async move {
        let _ = timeout(PATIENCE, converse(stream, &questions)).await;
    });
}

async fn converse(mut stream: UnixStream, questions: &mpsc::Sender<Asked>) -> io::Result<()> {
    let (reader, mut writer) = stream.split();
    let mut line = String::new();
    BufReader::new(reader.take(MAX_REQUEST)).read_line(&mut line).await?;
    let answer = match Request::parse(&line) {
        Some(request) => {
            let (reply, answer) = oneshot::channel();
            let _ = questions.send(Asked { request, reply }).await;
            match timeout(PATIENCE / 2, answer).await {
                Ok(Ok(answer)) => answer,
                _ => {
                    r#"{"error":"no answer in time: a worker is stuck, or the node is stopping"}"#.to_owned()
                }
            }
        }
        None => r#"{"error":"unknown request, expected: status, explain CALL-ID or calls COUNT"}"#.to_owned(),
    };
    writer.write_all(answer.as_bytes()).await?;
    writer.write_all(b"\n").await
}

/// Asks a node.
///
/// # Errors
/// No node listens there, or it does not answer in time.
pub fn ask(path: &Path, request: &str) -> io::Result<String> {
    use std::io::{Read, Write};
    let mut stream = std::os::unix::net::UnixStream::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(format!("{request}\n").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
