//! A check of everything the tree relies on.

use crate::arena::{NodeId, NONE};
use crate::tree::Tree;

impl Tree {
    /// Walks the whole tree; the first thing that is wrong, in words.
    pub fn check_integrity(&self) -> Result<(), String> {
        if !self.spaces.is_consistent() {
            return Err("the namespaces and their roots disagree".to_owned());
        }
        if !self.handles.is_consistent() {
            return Err("the pages of handles contradict themselves".to_owned());
        }
        let (mut nodes, mut tokens, mut handles) = (0, 0, 0);
        for (name, root) in self.spaces.roots() {
            let node = &self.nodes[root];
            if node.parent != NONE || !node.label.is_empty() || node.count == 0 {
                return Err(format!("node {root} is no live root of namespace {name:?}"));
            }
            handles += node.count as usize;
            let mut pending = vec![root];
            while let Some(id) = pending.pop() {
                nodes += 1;
                if nodes > self.nodes.len() {
                    return Err("the tree reaches more nodes than there are".to_owned());
                }
                tokens += self.nodes[id].label.len();
                self.check_node(id)
                    .map_err(|fault| format!("node {id} in namespace {name:?}: {fault}"))?;
                let children = self.nodes[id].children.entries();
                pending.extend(children.into_iter().map(|(_, child)| child));
            }
        }
        let free = self.nodes.check_free_list()?;
        let slots = self.nodes.slots();
        for (what, found, recorded) in [
            ("nodes reached", nodes, self.nodes.len()),
            ("slots used or free", nodes + free, slots),
            ("tokens stored", tokens, self.tokens),
            ("handles at nodes", handles, self.handles.len()),
        ] {
            if found != recorded {
                return Err(format!("{what}: {found} found, {recorded} recorded"));
            }
        }
        Ok(())
    }

    /// One node: its links, counts, order and handles.
    fn check_node(&self, id: NodeId) -> Result<(), String> {
        let node = &self.nodes[id];
        let first_of = |child: NodeId| self.nodes[child].first;
        node.children.check(first_of)?;
        let (mut count, mut first) = (node.own.len(), node.own.first());
        let mut waiting = 0;
        for (token, child) in node.children.entries() {
            let below = &self.nodes[child];
            if below.parent != id {
                return Err(format!("its child {child} has parent {}", below.parent));
            }
            if below.label.first() != Some(&token) {
                return Err(format!(
                    "its child {child}, whose label begins with {:?}, is kept under {token}",
                    below.label.first()
                ));
            }
            count += below.count as usize;
            waiting += below.waiting;
            first = first.min(below.first);
        }
        if count != node.count as usize || count == 0 {
            return Err(format!("it counts {} handles and has {count}", node.count));
        }
        if first != node.first {
            return Err(format!(
                "its first handle is {first}, recorded {}",
                node.first
            ));
        }
        if !node.is_root() && node.own.len() == 0 && node.children.len() < 2 {
            return Err("no key ends or parts here".to_owned());
        }
        if node.is_root() && node.own.len() > 0 {
            return Err("a key without tokens".to_owned());
        }
        for handle in node.own.handles() {
            match self.handles.entry(handle) {
                Some(entry) if entry.node == id => waiting += u32::from(!entry.retired),
                _ => return Err(format!("handle {handle} does not lead here")),
            }
            if !self.handles.was_issued(handle) {
                return Err(format!("handle {handle} was never handed out"));
            }
        }
        if waiting != node.waiting {
            return Err(format!(
                "it counts {} handles that wait and has {waiting}",
                node.waiting
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn damaged(damage: impl FnOnce(&mut Tree)) -> String {
        let mut tree = Tree::new();
        for key in [&[1, 2, 3][..], &[1, 2, 4], &[1, 5], &[1, 5]] {
            tree.insert("", key).unwrap();
        }
        tree.check_integrity().unwrap();
        damage(&mut tree);
        tree.check_integrity().unwrap_err()
    }

    fn node_of(tree: &Tree, handle: u64) -> NodeId {
        tree.handles.get(handle).unwrap()
    }

    #[test]
    fn each_kind_of_damage_is_named() {
        let fault = damaged(|tree| {
            let id = node_of(tree, 1);
            tree.nodes[id].label = [9].into();
        });
        assert!(fault.contains("kept under 3"), "{fault}");
        let fault = damaged(|tree| {
            let id = node_of(tree, 1);
            tree.nodes[id].parent = id;
        });
        assert!(fault.contains("has parent"), "{fault}");
        let fault = damaged(|tree| {
            let id = node_of(tree, 3);
            tree.nodes[id].count += 1;
        });
        assert!(fault.contains("counts 4 handles and has 5"), "{fault}");
        let fault = damaged(|tree| {
            let id = node_of(tree, 3);
            tree.nodes[id].first = 4;
        });
        assert!(fault.contains("first handle is 3"), "{fault}");
        let fault = damaged(|tree| tree.handles.retire(3));
        assert!(fault.contains("2 handles that wait and has 1"), "{fault}");
        let fault = damaged(|tree| tree.tokens += 1);
        assert!(fault.contains("tokens stored"), "{fault}");
        let fault = damaged(|tree| tree.handles.relocate(2, 0));
        assert!(fault.contains("handle 2 does not lead here"), "{fault}");
        let fault = damaged(|tree| tree.handles.push(77, 0));
        assert!(fault.contains("handles at nodes: 4 found, 5"), "{fault}");
    }
}
