//! Samples on their way to files: so many a file, so many files at most.

use std::path::{Path, PathBuf};

use measure::{PtpRow, PtpRows, ResultsError, write_ptp_rows};

/// Samples a file; each is written whole, so that a run that is killed loses one at most.
const ROWS_A_FILE: usize = 100_000;

/// Keeps samples.
#[derive(Debug)]
pub(crate) struct Shelf {
    dir: PathBuf,
    pending: Vec<PtpRow>,
    written: u64,
    counts: Vec<u64>,
    told: PtpRows,
    files_at_most: usize,
}

impl Shelf {
    /// Keeps the newest `most` samples, in whole files.
    pub(crate) fn new(dir: &Path, most: u64) -> Self {
        let files = usize::try_from(most / ROWS_A_FILE as u64).unwrap_or(usize::MAX).max(1);
        Self {
            dir: dir.to_owned(),
            pending: Vec::new(),
            written: 0,
            counts: Vec::new(),
            told: PtpRows::default(),
            files_at_most: files,
        }
    }

    pub(crate) fn push(&mut self, row: PtpRow) -> Result<(), ResultsError> {
        self.pending.push(row);
        if self.pending.len() >= ROWS_A_FILE { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), ResultsError> {
        let name = format!("samples-{}.parquet", self.written + 1);
        write_ptp_rows(&self.dir, &name, &self.pending)?;
        self.written += 1;
        self.told.count += self.pending.len() as u64;
        self.counts.push(self.pending.len() as u64);
        self.told.files.push(name);
        self.pending.clear();
        while self.told.files.len() > self.files_at_most {
            let (oldest, count) = (self.told.files.remove(0), self.counts.remove(0));
            // One that somebody has taken away already is gone as well.
            _ = std::fs::remove_file(self.dir.join(oldest));
            self.told.count -= count;
            self.told.dropped += count;
        }
        Ok(())
    }

    /// Writes the rest.
    pub(crate) fn finish(mut self) -> Result<PtpRows, ResultsError> {
        if !self.pending.is_empty() {
            self.write()?;
        }
        Ok(self.told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_files_stay() {
        let dir = tempfile::tempdir().unwrap();
        let mut shelf = Shelf::new(dir.path(), 200_000);
        let row = PtpRow {
            at: 0,
            source: "ptp".into(),
            offset: 0,
            delay: None,
            servo: None,
            frequency: None,
            port_state: None,
            stamps: "software",
            grandmaster: None,
        };
        (0..300_007).for_each(|at| shelf.push(PtpRow { at, ..row.clone() }).unwrap());
        let told = shelf.finish().unwrap();
        assert_eq!(told.files, ["samples-3.parquet", "samples-4.parquet"]);
        assert_eq!((told.count, told.dropped), (100_007, 200_000));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
