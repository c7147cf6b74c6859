//! Comparisons of the engine with the model.
//! One program holds them all, since linking is most of what a test program costs.

mod decisions;
mod metamorphic;
mod termination;
