//! Kubernetes' binary format, for what is read and written by the thousand: pods and nodes, binds and events.
//!
//! An API server makes and reads it in a fraction of the time that JSON takes, and other clients share what it makes
//! for them; so does this program. What comes out is the same plain JSON value as from the text, without what is
//! dropped ([`Plan`]), so that nobody else knows which of the two it was.
//!
//! The format is that of protocol buffers. Which field of a message has which number is in `layout.txt`, which is made
//! from Kubernetes' own types. A number that is not there is passed over: a newer server may know more. An object goes
//! out in it only if every one of its fields is there, otherwise as text.

mod decode;
mod encode;
mod layout;

pub use decode::{Plan, Reading, Wire, WireError};
pub use encode::encode;

/// The media type, and that of the answer to a watch.
pub const BINARY: &str = "application/vnd.kubernetes.protobuf";

/// What a message in this format begins with, where it stands by itself.
const MAGIC: &[u8] = b"k8s\0";

/// The largest frame of a watch. An object has 1.5 MiB at most by default, as etcd does.
const FRAME_MAX: usize = 64 << 20;

/// The first whole frame of a watch: its content, and how many bytes it takes. `None`: there is more to come.
pub fn frame(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, WireError> {
    let Some((length, rest)) = bytes.split_first_chunk() else { return Ok(None) };
    let length = u32::from_be_bytes(*length) as usize;
    if length > FRAME_MAX {
        return Err(WireError("a frame is larger than any object"));
    }
    Ok(rest.get(..length).map(|content| (content, 4 + length)))
}

/// What the frame of a watch tells: the type of the event, and the object.
pub fn event(frame: &[u8]) -> Result<(String, &[u8]), WireError> {
    const TYPE: u64 = 1;
    const OBJECT: u64 = 2;
    const RAW: u64 = 1;
    let (mut kind, mut object) = (String::new(), &[][..]);
    let mut reading = Reading::of_message(frame);
    while let Some((number, part)) = reading.next()? {
        match (number, part) {
            (TYPE, Wire::Bytes(bytes)) => kind = String::from_utf8_lossy(bytes).into_owned(),
            (OBJECT, Wire::Bytes(bytes)) => {
                let mut inner = Reading::of_message(bytes);
                while let Some((number, part)) = inner.next()? {
                    if let (RAW, Wire::Bytes(bytes)) = (number, part) {
                        object = bytes;
                    }
                }
            }
            _ => {}
        }
    }
    Ok((kind, object))
}

#[cfg(test)]
mod tests;
