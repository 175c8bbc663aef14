//! A Unix socket that answers `status` with one line of JSON. Readable and writable by the owner only.

use std::{
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixStream},
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

/// Answers one client in a task of its own, so that a slow one holds up nothing.
pub fn answer(stream: UnixStream, status: String) {
    tokio::spawn(async move {
        let _ = timeout(PATIENCE, converse(stream, &status)).await;
    });
}

async fn converse(mut stream: UnixStream, status: &str) -> io::Result<()> {
    let (reader, mut writer) = stream.split();
    let mut request = String::new();
    BufReader::new(reader.take(MAX_REQUEST)).read_line(&mut request).await?;
    let answer = match request.trim() {
        "status" => status,
        _ => r#"{"error":"unknown request, expected: status"}"#,
    };
    writer.write_all(answer.as_bytes()).await?;
    writer.write_all(b"\n").await
}

/// Asks a node for its status.
///
/// # Errors
/// No node listens there, or it does not answer in time.
pub fn ask(path: &Path) -> io::Result<String> {
    use std::io::{Read, Write};
    let mut stream = std::os::unix::net::UnixStream::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"status\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
