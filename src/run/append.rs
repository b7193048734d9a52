//! A file that is only appended to, and that is never left with half an entry.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::error::RunError;

/// An append-only file. A write that fails is taken back, so that what is in the file stays valid.
#[derive(Debug)]
pub(super) struct AppendFile {
    file: File,
    path: PathBuf,
    /// Bytes that are known to be good.
    len: u64,
    /// A failed write may have left bytes behind `len`.
    dirty: bool,
}

impl AppendFile {
    /// Makes the file; it must not exist.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create_new(true).open(path)?;
        Ok(Self { file, path: path.to_owned(), len: 0, dirty: false })
    }

    /// Opens the file, made if need be, to be appended to after its first `len` bytes. Nothing is
    /// cut yet: the first write or [`AppendFile::cut`] does.
    pub(super) fn open(path: &Path, len: u64) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        Ok(Self { file, path: path.to_owned(), len, dirty: true })
    }

    /// The same file with its first `len` bytes as the good ones.
    pub(super) fn keeping(self, len: u64) -> Self {
        Self { len, dirty: true, ..self }
    }

    /// Keeps other processes from appending, until this handle is dropped. False where another
    /// process has it already. A file system without locks is used without.
    pub(super) fn lock(&self) -> io::Result<bool> {
        match self.file.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => Ok(true),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Cuts off what lies behind the good bytes.
    pub(super) fn cut(&mut self) -> Result<(), RunError> {
        if self.dirty {
            self.file.set_len(self.len).map_err(|error| RunError::write(&self.path, &error))?;
            self.dirty = false;
        }
        Ok(())
    }

    /// Appends `bytes`, all or none of them.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<(), RunError> {
        self.cut()?;
        if let Err(error) = self.file.write_all(bytes) {
            self.dirty = true;
            // The error that counts is the first one; a cut that fails too is tried again later.
            let _ = self.cut();
            return Err(RunError::write(&self.path, &error));
        }
        self.len += bytes.len() as u64;
        Ok(())
    }

    /// Brings everything appended so far to the disk.
    pub(super) fn sync(&mut self) -> Result<(), RunError> {
        self.file.sync_data().map_err(|error| RunError::write(&self.path, &error))
    }

    /// Length of the good bytes.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Follows a rename of the folder that holds the file, for messages.
    pub(super) fn moved_to(&mut self, path: PathBuf) {
        self.path = path;
    }
}
