//! The kinds of card that a node has, from its labels and what is allocatable on it.
//!
//! `<vendor>/<kind>.product` names the product; `<vendor>/<kind>.memory` (in MB) and `<vendor>/<kind>.replicas` stand
//! beside it. A vendor may have several kinds, and a node cards of several vendors.
//!
//! | resource | card |
//! |---|---|
//! | `<vendor>/<kind>` | `<product>` |
//! | `<vendor>/<kind>.shared` | `<product>/mps-<gigabytes>g*1/<replicas>` |
//! | `<vendor>/mig-<profile>` | `<product>/mig-<profile>-mixed` |
//!
//! There are as many as the resource is allocatable: a label says what the node was built with, and not what can be
//! had.

use quotient_engine::fact::{Amounts, NodeCard};

use crate::cursor::Cursor;
use crate::intern::Interner;

/// What the label of a product ends with.
const PRODUCT: &str = ".product";

/// The kind of card that is cut into MIG devices, where a vendor has several.
const MIG_KIND: &str = "gpu";

/// The cards of a node with these labels and resources. A label that cannot be read is noted, and costs the cards
/// whose name it is part of; labels that have nothing to do with what is allocatable are left alone.
pub(crate) fn cards(labels: &Cursor<'_, '_>, allocatable: &Amounts, interner: &mut Interner) -> Vec<NodeCard> {
    let mut cards: Vec<NodeCard> = Vec::new();
    for (label, value) in labels.entries() {
        let Some(Product { vendor, kind }) = product_of(label) else { continue };
        let resources = Resources::of(vendor, kind, labels, allocatable);
        if resources.is_empty() {
            continue;
        }
        let Some(product) = value.non_empty_str() else {
            value.note("expected the name of the card");
            continue;
        };
        check_count(labels, vendor, kind);
        let Resources { whole, shared, mig } = resources;
        let whole = whole.map(|resource| (product.to_string(), resource));
        // The labels are looked at in any case: one that is wrong is worth a word before it matters.
        let share = share(labels, vendor, kind, shared.is_some());
        let shared = shared.and_then(|resource| Some((format!("{product}/{}", share?), resource)));
        let mig = mig.into_iter().filter_map(|resource| {
            let profile = resource.strip_prefix(vendor)?.strip_prefix('/')?;
            Some((format!("{product}/{profile}-mixed"), resource.clone()))
        });
        for (name, resource) in whole.into_iter().chain(shared).chain(mig) {
            if cards.iter().any(|card| *card.name == *name) {
                value.note(format!("{name} is counted as another resource already: {resource} has no name of its own"));
                continue;
            }
            cards.push(NodeCard { name: interner.name(&name), resource: interner.name(&resource) });
        }
    }
    cards.sort_by(|a, b| a.name.cmp(&b.name));
    cards
}

/// A vendor's kind of card.
#[derive(Debug, Clone, Copy)]
struct Product<'a> {
    vendor: &'a str,
    kind: &'a str,
}

/// `nvidia.com` and `gpu` of `nvidia.com/gpu.product`.
fn product_of(label: &str) -> Option<Product<'_>> {
    let (vendor, name) = label.split_once('/')?;
    let kind = name.strip_suffix(PRODUCT).filter(|kind| !kind.is_empty())?;
    Some(Product { vendor, kind })
}

/// The resources by which the cards of one kind are asked for, as far as the node has any of them.
#[derive(Debug)]
struct Resources {
    whole: Option<String>,
    shared: Option<String>,
    mig: Vec<String>,
}

impl Resources {
    fn of(vendor: &str, kind: &str, labels: &Cursor<'_, '_>, allocatable: &Amounts) -> Self {
        let there = |resource: String| (allocatable.get(&resource) > 0).then_some(resource);
        let prefix = format!("{vendor}/mig-");
        let mig = allocatable.iter().map(|(resource, _)| resource).filter(|resource| resource.starts_with(&prefix));
        // MIG devices do not say which kind they are parts of; of several kinds it is the GPU.
        let is_cut = kind == MIG_KIND || !labels.field(&format!("{vendor}/{MIG_KIND}{PRODUCT}")).exists();
        Resources {
            whole: there(format!("{vendor}/{kind}")),
            shared: there(format!("{vendor}/{kind}.shared")),
            mig: if is_cut { mig.map(ToString::to_string).collect() } else { Vec::new() },
        }
    }

    fn is_empty(&self) -> bool {
        let Resources { whole, shared, mig } = self;
        whole.is_none() && shared.is_none() && mig.is_empty()
    }
}

/// The count is not used, for what is allocatable counts; that it cannot be read is worth a word all the same.
fn check_count(labels: &Cursor<'_, '_>, vendor: &str, kind: &str) {
    let name = format!("{vendor}/{kind}.count");
    number(&labels.field(&name), "expected the number of cards");
}

/// `mps-80g*1/8`: the memory of a card, and into how many shares it is cut.
fn share(labels: &Cursor<'_, '_>, vendor: &str, kind: &str, is_needed: bool) -> Option<String> {
    let (memory, replicas) = (format!("{vendor}/{kind}.memory"), format!("{vendor}/{kind}.replicas"));
    let (memory_at, replicas_at) = (labels.field(&memory), labels.field(&replicas));
    let megabytes = number(&memory_at, "expected the memory of a card in MB");
    let shares = number(&replicas_at, "expected into how many shares a card is cut, at least 1");
    if shares == Some(0) {
        replicas_at.note("expected into how many shares a card is cut, at least 1");
        return None;
    }
    for (at, name) in [(&memory_at, &memory), (&replicas_at, &replicas)] {
        if is_needed && !at.exists() {
            labels.note_missing(name, &format!("without it the shares of {vendor}/{kind} have no name"));
        }
    }
    let gigabytes = megabytes?.checked_add(512)? / 1024;
    Some(format!("mps-{gigabytes}g*1/{}", shares?))
}

/// The whole number that a label has.
fn number(at: &Cursor<'_, '_>, expected: &str) -> Option<u64> {
    let number = at.str()?.parse().ok();
    if number.is_none() {
        at.note(expected);
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cursor::Notes;
    use serde_json::{Value, json};

    fn found(labels: &Value, allocatable: &[(&str, i64)]) -> (Vec<String>, Vec<String>) {
        let notes = Notes::default();
        let allocatable = allocatable.iter().map(|(name, amount)| ((*name).into(), *amount)).collect();
        let cards = cards(&Cursor::root(labels, &notes), &allocatable, &mut Interner::default());
        let shown = cards.iter().map(|card| format!("{} = {}", card.name, card.resource)).collect();
        (shown, notes.into_vec().iter().map(ToString::to_string).collect())
    }

    fn check(labels: Value, allocatable: &[(&str, i64)], cards: &[&str]) {
        let (found, problems) = found(&labels, allocatable);
        assert_eq!(found, cards, "{labels}");
        assert_eq!(problems, Vec::<String>::new(), "{labels}");
    }

    #[test]
    fn whole_shared_and_cut_cards() {
        let v100 = json!({"nvidia.com/gpu.product": "Tesla-V100", "nvidia.com/gpu.count": "2", "nvidia.com/gpu.memory": "32768",
            "nvidia.com/gpu.replicas": "4"});
        check(v100.clone(), &[("nvidia.com/gpu", 2)], &["Tesla-V100 = nvidia.com/gpu"]);
        let both = ["Tesla-V100 = nvidia.com/gpu", "Tesla-V100/mps-32g*1/4 = nvidia.com/gpu.shared"];
        check(v100, &[("nvidia.com/gpu", 2), ("nvidia.com/gpu.shared", 8)], &both);
        let a100 = json!({"nvidia.com/gpu.product": "Tesla-A100", "nvidia.com/gpu.memory": "81920"});
        let mig = [
            "Tesla-A100/mig-1g.10gb-mixed = nvidia.com/mig-1g.10gb",
            "Tesla-A100/mig-2g.20gb-mixed = nvidia.com/mig-2g.20gb",
        ];
        check(a100, &[("nvidia.com/mig-1g.10gb", 4), ("nvidia.com/mig-2g.20gb", 2)], &mig);
    }

    #[test]
    fn any_vendor_and_several_of_them() {
        let labels = json!({"amd.com/gpu.product": "MI300X", "huawei.com/npu.product": "Ascend910B", "nvidia.com/gpu.product": "L4",
            "example.com/app.product": ""});
        let allocatable = [("amd.com/gpu", 8), ("huawei.com/npu", 8), ("nvidia.com/gpu", 1), ("cpu", 64000)];
        check(labels, &allocatable, &["Ascend910B = huawei.com/npu", "L4 = nvidia.com/gpu", "MI300X = amd.com/gpu"]);
    }

    #[test]
    fn memory_is_rounded_to_gigabytes() {
        for (megabytes, gigabytes) in
            [("81920", 80), ("143771", 140), ("15360", 15), ("511", 0), ("512", 1), ("81559", 80)]
        {
            let labels = json!({"nvidia.com/gpu.product": "X", "nvidia.com/gpu.memory": megabytes, "nvidia.com/gpu.replicas": "2"});
            let name = format!("X/mps-{gigabytes}g*1/2 = nvidia.com/gpu.shared");
            check(labels, &[("nvidia.com/gpu.shared", 2)], &[&name]);
        }
    }

    #[test]
    fn what_cannot_be_read_is_said_and_the_rest_counts() {
        let shared = [("nvidia.com/gpu", 2), ("nvidia.com/gpu.shared", 8)];
        let cases = [
            (
                json!({"nvidia.com/gpu.product": "V", "nvidia.com/gpu.memory": "32768", "nvidia.com/gpu.replicas": "a"}),
                1,
            ),
            (
                json!({"nvidia.com/gpu.product": "V", "nvidia.com/gpu.memory": "32768", "nvidia.com/gpu.replicas": "0"}),
                1,
            ),
            (json!({"nvidia.com/gpu.product": "V", "nvidia.com/gpu.memory": "-1", "nvidia.com/gpu.replicas": "4"}), 1),
            (
                json!({"nvidia.com/gpu.product": "V", "nvidia.com/gpu.memory": "lots", "nvidia.com/gpu.count": "some"}),
                3,
            ),
            (json!({"nvidia.com/gpu.product": "V"}), 2),
        ];
        for (labels, problems) in cases {
            let (cards, said) = found(&labels, &shared);
            assert_eq!(cards, ["V = nvidia.com/gpu"], "{labels}");
            assert_eq!(said.len(), problems, "{labels}: {said:?}");
        }
        let (cards, said) = found(&json!({"nvidia.com/gpu.product": ""}), &shared);
        assert_eq!((cards.len(), said.len()), (0, 1));
    }
}
