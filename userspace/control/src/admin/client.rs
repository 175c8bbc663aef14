//! The command line's way to a running node: HTTP over its Unix socket.

use http_body_util::{BodyExt as _, Empty};
use hyper::{Method, Request, body::Bytes, client::conn::http1, header};
use hyper_util::rt::TokioIo;
use std::{io, path::Path, time::Duration};
use tokio::{net::UnixStream, time::timeout};

/// How long a node may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Sends one request; status and body of the answer.
///
/// # Errors
/// No node listens there, or it does not answer in time.
pub async fn ask(socket: &Path, method: Method, path: &str) -> io::Result<(u16, String)> {
    let conversation = async {
        let stream = UnixStream::connect(socket).await?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        let connection = tokio::spawn(connection);
        let request = Request::builder().method(method).uri(path).header(header::HOST, "localhost");
        let request = request.body(Empty::<Bytes>::new()).map_err(io::Error::other)?;
        let answer = sender.send_request(request).await.map_err(io::Error::other)?;
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await.map_err(io::Error::other)?.to_bytes();
        connection.abort();
        Ok((status, String::from_utf8_lossy(&body).into_owned()))
    };
    timeout(PATIENCE, conversation).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}

/// The same for whoever has no runtime.
///
/// # Errors
/// As [`ask`].
pub fn ask_blocking(socket: &Path, method: Method, path: &str) -> io::Result<(u16, String)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(ask(socket, method, path))
}

/// A name as a part of a path.
pub fn escape(name: &str) -> String {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~');
    name.as_bytes()
        .iter()
        .map(|b| if plain(b) { char::from(*b).to_string() } else { format!("%{b:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn names_become_one_part_of_a_path() {
        assert_eq!(escape("a1"), "a1");
        assert_eq!(
            escape("sbc.example.net/192.0.2.1:5060@voice"),
            "sbc.example.net%2F192.0.2.1%3A5060%40voice"
        );
        assert_eq!(escape("ü %"), "%C3%BC%20%25");
    }
}
