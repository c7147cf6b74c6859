//! Checks of text and layout, in `tests`: they read the sources and build none of them.
