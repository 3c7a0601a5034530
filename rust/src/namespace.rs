//! One root for each namespace that has live keys. Keys of different namespaces never meet.

use std::collections::HashMap;
use std::sync::Arc;

use crate::arena::NodeId;
use crate::hashing::map_bytes;

/// Roots by name, and names by root: a removal starts at a handle and must find the name.
#[derive(Default)]
pub struct Namespaces {
    roots: HashMap<Arc<str>, NodeId>,
    names: HashMap<NodeId, Arc<str>>,
}

impl Namespaces {
    /// Namespaces with a root.
    pub fn len(&self) -> usize {
        self.roots.len()
    }

    /// The root of a namespace.
    pub fn get(&self, name: &str) -> Option<NodeId> {
        self.roots.get(name).copied()
    }

    /// Gives a namespace its root.
    pub fn insert(&mut self, name: &str, root: NodeId) {
        let name: Arc<str> = name.into();
        self.roots.insert(Arc::clone(&name), root);
        self.names.insert(root, name);
    }

    /// Forgets the namespace of a root.
    pub fn remove(&mut self, root: NodeId) {
        let name = self.names.remove(&root).expect("a root has a name");
        self.roots.remove(&name);
        if self.names.capacity() > 32 && self.names.len() * 4 < self.names.capacity() {
            self.names.shrink_to(self.names.len() * 2);
            self.roots.shrink_to(self.roots.len() * 2);
        }
    }

    /// A root has moved.
    pub fn relocate(&mut self, from: NodeId, to: NodeId) {
        let name = self.names.remove(&from).expect("a root has a name");
        self.roots.insert(Arc::clone(&name), to);
        self.names.insert(to, name);
    }

    /// Every `(name, root)`.
    pub fn roots(&self) -> impl Iterator<Item = (&str, NodeId)> {
        self.roots.iter().map(|(name, &root)| (&**name, root))
    }

    /// Whether both directions agree.
    pub fn is_consistent(&self) -> bool {
        self.roots.len() == self.names.len()
            && self
                .roots
                .iter()
                .all(|(name, root)| self.names.get(root) == Some(name))
    }

    /// Heap bytes.
    pub fn bytes(&self) -> usize {
        // A shared string is allocated with two counters in front.
        let text: usize = self.roots.keys().map(|name| name.len() + 16).sum();
        text + map_bytes(self.roots.capacity(), size_of::<(Arc<str>, NodeId)>())
            + map_bytes(self.names.capacity(), size_of::<(NodeId, Arc<str>)>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_agree_through_moves_and_removals() {
        let mut spaces = Namespaces::default();
        for root in 0..100 {
            spaces.insert(&format!("salt {root}"), root);
        }
        spaces.relocate(3, 300);
        for root in 10..100 {
            spaces.remove(root);
        }
        assert_eq!(
            (spaces.get("salt 3"), spaces.get("salt 50")),
            (Some(300), None)
        );
        assert!(spaces.is_consistent());
        assert_eq!(spaces.roots().count(), 10);
    }
}
