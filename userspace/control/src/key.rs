//! The key of the Record-Route cookies, in a file of its own: it must outlive a restart, so that calls
//! in progress can be ended and changed afterwards, and be the same on nodes that stand in for each
//! other.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

/// Reads the key, or makes a file with a new one where there is none, readable by its owner only.
///
/// # Errors
/// The file cannot be read or made, or holds something else than a key.
pub fn load_or_create(path: &Path) -> io::Result<[u8; 16]> {
    match fs::read_to_string(path) {
        Ok(text) => parse(text.trim()).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, "no key, expected 32 hexadecimal digits")
        }),
        Err(e) if e.kind() == io::ErrorKind::NotFound => create(path),
        Err(e) => Err(e),
    }
}

fn create(path: &Path) -> io::Result<[u8; 16]> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let mut key = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut key)?;
    let text: String = key.iter().map(|b| format!("{b:02x}")).collect();
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    writeln!(file, "{text}")?;
    Ok(key)
}

fn parse(text: &str) -> Option<[u8; 16]> {
    let is_key = text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit());
    u128::from_str_radix(text, 16).ok().filter(|_| is_key).map(u128::to_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_key_is_made_once_kept_and_checked() {
        let directory = std::env::temp_dir().join(format!("strowger-key-{}", std::process::id()));
        let path = directory.join("sub/node.key");
        let key = load_or_create(&path).unwrap();
        assert_ne!(key, [0; 16]);
        assert_eq!(load_or_create(&path).unwrap(), key);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        for bad in ["", "123", "+1234567890123456789012345678901", "zz345678901234567890123456789012"] {
            fs::write(&path, bad).unwrap();
            assert!(load_or_create(&path).is_err(), "{bad:?}");
        }
        fs::remove_dir_all(directory).unwrap();
    }
}
