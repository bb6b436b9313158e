use super::*;
use crate::{Field, Spec, testing};
use std::collections::BTreeMap;

fn entry(spec: &Arc<Spec>, name: &str, node: &str, revision: u64) -> Arc<Entry> {
    let json =
        format!(r#"{{"metadata":{{"name":"{name}","namespace":"n"}},"spec":{{"nodeName":"{node}"}}}}"#);
    testing::entry(spec, &json, revision)
}

fn spec() -> Arc<Spec> {
    Arc::new(Spec::namespaced("pods").unwrap().field(Field::new("spec.nodeName")))
}

fn check(node: &Node, order: Order, depth: usize, depths: &mut Vec<usize>, root: bool) {
    assert!(root || node.width() > 0);
    assert!(node.width() <= WIDTH);
    match node {
        Node::Leaf(entries) => {
            depths.push(depth);
            assert!(entries.is_sorted_by(|a, b| order.of(a) < order.of(b)));
            check_found(order, entries);
        }
        Node::Branch(children) => {
            check_found(order, children);
            for child in children.iter() {
                assert_eq!(child.len, child.node.len());
                assert!(Arc::ptr_eq(&child.first, child.node.first().unwrap()));
                check(&child.node, order, depth + 1, depths, false);
            }
        }
    }
}

/// Each item is found where it is.
fn check_found<T: Positioned>(order: Order, items: &Items<T>) {
    for (at, item) in items.iter().enumerate() {
        assert_eq!(items.find(order, &Position::new(order.of(item.entry()))), Ok(at));
    }
}

fn assert_same(tree: &Tree, model: &BTreeMap<String, Arc<Entry>>) {
    let mut depths = Vec::new();
    check(&tree.root, tree.order, 0, &mut depths, true);
    depths.dedup();
    assert_eq!(depths.len(), 1, "all leaves lie equally deep");
    assert_eq!(tree.len(), model.len());
    let all: Vec<_> = tree.range(0, usize::MAX).collect();
    assert!(all.iter().zip(model.values()).all(|(a, b)| Arc::ptr_eq(a, b)));
    assert_eq!(all.len(), model.len());
}

#[test]
fn tree_agrees_with_a_plain_map_through_many_changes() {
    let (spec, mut random) = (spec(), fastrand::Rng::with_seed(3));
    let mut tree = Tree::new(Order::Key);
    let mut model = BTreeMap::new();
    let mut versions = Vec::new();
    for step in 0..12_000u64 {
        let name = format!("p{}", random.u32(0..1500));
        let key = format!("n/{name}");
        let at = Sort { value: b"", key: key.as_bytes() };
        let growing = (step / 3000) % 2 == 0;
        if random.u32(0..10) < if growing { 7 } else { 2 } {
            let entry = entry(&spec, &name, "", step + 1);
            let replaced = tree.insert(entry.clone());
            assert_eq!(
                replaced.map(|e| e.mod_revision()),
                model.insert(key, entry).map(|e| e.mod_revision())
            );
        } else {
            assert_eq!(tree.remove(at).is_some(), model.remove(&key).is_some());
            assert!(tree.get(at).is_none());
        }
        if step % 701 == 0 {
            assert_same(&tree, &model);
            versions.push((tree.clone(), model.clone()));
        }
    }
    for (tree, model) in &versions {
        assert_same(tree, model);
    }
}

#[test]
fn ranks_and_ranges_agree_with_counting() {
    let spec = spec();
    for count in [0usize, 1, 24, 25, 32, 33, 700, 5000] {
        let names: Vec<String> = (0..count).map(|i| format!("p{i:05}")).collect();
        let entries = names.iter().rev().map(|name| entry(&spec, name, "", 1)).collect();
        let tree = Tree::from_entries(Order::Key, entries);
        check(&tree.root, tree.order, 0, &mut Vec::new(), true);
        for at in [0, 1, 23, 24, 25, 31, 32, 33, 699, 4999, 6000] {
            let key = format!("n/p{at:05}");
            let rank = tree.rank(Sort { value: b"", key: key.as_bytes() });
            assert_eq!(rank, at.min(count));
            let found: Vec<_> = tree.range(rank, rank + 40).map(|e| e.name().to_owned()).collect();
            assert_eq!(found, names.iter().skip(at).take(40).cloned().collect::<Vec<_>>());
            for every in [1, 3, 37] {
                let picks = |name: &str| name[1..].parse::<usize>().unwrap() % every == 0;
                let mut range = tree.range(rank, rank + 90);
                let found: Vec<_> = std::iter::from_fn(|| range.next_where(|e| picks(e.name()))).collect();
                let wanted = names.iter().skip(at).take(90).filter(|name| picks(name));
                assert!(found.iter().map(|e| e.name()).eq(wanted), "one in {every} from {at}");
                assert!(range.len() == 0 && range.next().is_none());
            }
        }
    }
}

#[test]
fn an_index_is_sorted_by_value_and_key() {
    let spec = spec();
    let entries = [("a", "n2"), ("b", "n1"), ("c", ""), ("d", "n1")];
    let entries = entries.map(|(name, node)| entry(&spec, name, node, 1)).to_vec();
    let mut tree = Tree::from_entries(Order::Field(0), entries);
    tree.insert(entry(&spec, "aa", "n1", 2));
    let from = tree.rank(Sort { value: b"n1", key: b"" });
    let to = tree.rank(Sort { value: b"n1\0", key: b"" });
    let names: Vec<_> = tree.range(from, to).map(|e| e.name().to_owned()).collect();
    assert_eq!(names, ["aa", "b", "d"]);
}

/// Values and keys that begin alike, end early, and hold zeros: what a node keeps of them must not bring them
/// out of order.
#[test]
fn any_values_and_keys_are_found_in_order() {
    let (spec, mut random) = (spec(), fastrand::Rng::with_seed(5));
    for order in [Order::Key, Order::Field(0)] {
        let mut tree = Tree::new(order);
        let mut model: BTreeMap<(Vec<u8>, Vec<u8>), Arc<Entry>> = BTreeMap::new();
        for step in 1..=4000u64 {
            let mut text = |alphabet: &[&str], most| -> String {
                (0..random.usize(0..most)).map(|_| *random.choice(alphabet).unwrap()).collect()
            };
            let node = text(&["\\u0000", "a", "\u{ff}", "node-of-the-long-name"], 4);
            let name = format!("n{}", text(&["-", "a", "ab", "same-for-many-of-them"], 4));
            let entry = entry(&spec, &name, &node, step);
            let Sort { value, key } = order.of(&entry);
            let place = (value.to_vec(), key.to_vec());
            let replaced = match step % 3 {
                0 => (tree.remove(order.of(&entry)), model.remove(&place)),
                _ => (tree.insert(entry.clone()), model.insert(place, entry)),
            };
            assert_eq!(replaced.0.map(|e| e.mod_revision()), replaced.1.map(|e| e.mod_revision()));
        }
        check(&tree.root, order, 0, &mut Vec::new(), true);
        assert!(tree.range(0, usize::MAX).zip(model.values()).all(|(a, b)| Arc::ptr_eq(&a, b)));
        assert!(tree.len() == model.len() && tree.len() > WIDTH, "{} in {order:?}", tree.len());
        for (rank, (value, key)) in model.keys().enumerate() {
            assert_eq!(tree.rank(Sort { value, key }), rank);
            assert_eq!(tree.rank(Sort { value, key: &[key.as_slice(), b"\0"].concat() }), rank + 1);
        }
    }
}
