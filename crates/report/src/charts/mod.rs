//! Charts as pure functions from plain vectors to SVG.
//!
//! Spans come in nanoseconds, colours and dashes are classes that the page's style sheet fills
//! (`measured`, `simulated`, `bound`, …), so that one drawing serves light, dark and paper.

pub(crate) mod axis;
pub(crate) mod counter;
pub(crate) mod cycle;
pub(crate) mod ecdf;
pub(crate) mod offsets;
pub(crate) mod split;
pub(crate) mod stack;
pub(crate) mod svg;
pub(crate) mod timeline;

/// Widths a drawing is made for: the style sheet shows the one that fits, with letters of the same size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Width {
    /// The width of a card on a desk.
    Wide,
    /// A telephone, or half a card.
    Narrow,
}

impl Width {
    /// Both, the wide one first.
    pub(crate) const BOTH: [Self; 2] = [Self::Wide, Self::Narrow];

    /// In units of the drawing.
    pub(crate) fn units(self) -> f64 {
        match self {
            Self::Wide => 1000.0,
            Self::Narrow => 360.0,
        }
    }

    /// The class the style sheet switches by.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::Wide => "wide",
            Self::Narrow => "narrow",
        }
    }
}
