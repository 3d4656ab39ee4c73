//! The rules on random interleavings of a study's events.
