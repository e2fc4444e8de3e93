//! Pages of a column, checked before they are decoded.
//!
//! The decoders of the parquet library believe the header of a page: with a damaged one they ask for memory without
//! end, or panic. What they rely on is checked here.

use parquet::basic::Encoding;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};

/// No value takes fewer bytes in a dictionary: INT32, or the length of a text.
const SMALLEST_VALUE: usize = 4;

/// The pages of one column in one row group.
pub(super) struct Pages {
    inner: Box<dyn PageReader>,
    /// Rows of the row group that no page has held yet.
    rows: usize,
    /// Whether the dictionary came.
    dictionary: bool,
}

impl Pages {
    pub(super) fn new(inner: Box<dyn PageReader>, rows: usize) -> Self {
        Self { inner, rows, dictionary: false }
    }

    fn check(&mut self, page: &Page) -> Result<()> {
        let count = page.num_values() as usize;
        match page {
            Page::DictionaryPage { buf, .. } => {
                self.dictionary = true;
                return require(count <= buf.len() / SMALLEST_VALUE, "a dictionary is shorter than it says");
            }
            Page::DataPage { buf, encoding, def_level_encoding, .. } => {
                #[expect(deprecated, reason = "old files may have it")]
                let packed = Encoding::BIT_PACKED;
                require(*def_level_encoding != packed || count.div_ceil(8) <= buf.len(), "levels are cut short")?;
                self.check_encoding(*encoding)?;
            }
            Page::DataPageV2 { buf, encoding, def_levels_byte_len, rep_levels_byte_len, .. } => {
                let levels = u64::from(*def_levels_byte_len) + u64::from(*rep_levels_byte_len);
                require(levels <= buf.len() as u64, "levels are cut short")?;
                self.check_encoding(*encoding)?;
            }
        }
        // Columns are flat: a value or a null for every row.
        require(count <= self.rows, "a page has more values than the row group has rows")?;
        self.rows -= count;
        Ok(())
    }

    fn check_encoding(&self, encoding: Encoding) -> Result<()> {
        match encoding {
            Encoding::PLAIN_DICTIONARY | Encoding::RLE_DICTIONARY => {
                require(self.dictionary, "the dictionary is missing")
            }
            // What writers choose for whole numbers and texts. The others do not check the length of the page.
            Encoding::PLAIN
            | Encoding::DELTA_BINARY_PACKED
            | Encoding::DELTA_LENGTH_BYTE_ARRAY
            | Encoding::DELTA_BYTE_ARRAY => Ok(()),
            other => Err(ParquetError::General(format!("a page is encoded as {other}"))),
        }
    }
}

fn require(held: bool, otherwise: &str) -> Result<()> {
    if held { Ok(()) } else { Err(ParquetError::General(otherwise.to_owned())) }
}

impl PageReader for Pages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let page = self.inner.get_next_page()?;
        if let Some(page) = &page {
            self.check(page)?;
        }
        Ok(page)
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.inner.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.inner.skip_next_page()
    }
}

impl Iterator for Pages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}
