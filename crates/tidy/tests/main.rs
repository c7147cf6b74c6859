//! Checks of text and layout: style, purity of the engine and the host, links, licences.

mod licences;
mod purity;
mod tidy;
