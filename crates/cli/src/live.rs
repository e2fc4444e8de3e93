//! A run watched while it goes on: the state that the thread of the run fills and others read, and the screen.
//!
//! Nothing here is near a cyclic thread: those are in other processes, whose trace rings the run empties anyway.

mod bar;
mod draw;
mod picture;
mod screen;
mod state;
mod words;

pub(crate) use screen::{Screen, can_draw};
pub(crate) use state::{Shared, State, Watcher};
pub(crate) use words::begins_in;
