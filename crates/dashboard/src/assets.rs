//! The pages as they were built from `web/`: they are part of the program, so that it needs no folder beside it.

/// A file that is served.
pub struct Asset {
    pub path: &'static str,
    pub kind: &'static str,
    pub bytes: &'static [u8],
}

const HTML: &str = "text/html; charset=utf-8";

/// All files. Their names do not change with their content; the entity tag does.
pub const ASSETS: [Asset; 4] = [
    Asset { path: "/", kind: HTML, bytes: include_bytes!("../../../web/dist/index.html") },
    Asset {
        path: "/assets/app.js",
        kind: "text/javascript; charset=utf-8",
        bytes: include_bytes!("../../../web/dist/assets/app.js"),
    },
    Asset {
        path: "/assets/app.css",
        kind: "text/css; charset=utf-8",
        bytes: include_bytes!("../../../web/dist/assets/app.css"),
    },
    Asset { path: "/icon.svg", kind: "image/svg+xml", bytes: include_bytes!("../../../web/dist/icon.svg") },
];

/// The file at a path. Paths of pages are the page itself, which finds its way by the rest of the address.
pub fn find(path: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.path == path)
}
