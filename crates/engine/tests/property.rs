//! The engine decides as the reference does.

mod naive;
