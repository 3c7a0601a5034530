//! The tokens on the edge into a node, and the comparison of token sequences.

/// The number of leading tokens that `a` and `b` share.
pub fn shared_length(a: &[u32], b: &[u32]) -> usize {
    // A large chunk is one call of the C library's compare, a small one a few instructions.
    let large = equal_chunks::<256>(a, b);
    let small = large + equal_chunks::<16>(&a[large..], &b[large..]);
    let rest = a[small..].iter().zip(&b[small..]);
    small + rest.take_while(|(a, b)| a == b).count()
}

/// The number of leading tokens that two sequences share in whole chunks of `CHUNK`.
fn equal_chunks<const CHUNK: usize>(a: &[u32], b: &[u32]) -> usize {
    let chunks = a.chunks_exact(CHUNK).zip(b.chunks_exact(CHUNK));
    chunks.take_while(|(a, b)| a == b).count() * CHUNK
}

/// Cuts a label at `length`; both parts own exactly their tokens.
pub fn cut(label: Box<[u32]>, length: usize) -> (Box<[u32]>, Box<[u32]>) {
    let mut head = Vec::from(label);
    let tail = head.split_off(length);
    (head.into_boxed_slice(), tail.into_boxed_slice())
}

/// Joins two labels.
pub fn join(head: Box<[u32]>, tail: &[u32]) -> Box<[u32]> {
    let mut whole = Vec::from(head);
    whole.reserve_exact(tail.len());
    whole.extend_from_slice(tail);
    whole.into_boxed_slice()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shared_length_is_exact_at_every_position() {
        let a: Vec<u32> = (0..700).collect();
        for position in 0..700 {
            let mut b = a.clone();
            b[position] = 999;
            assert_eq!(shared_length(&a, &b), position);
            assert_eq!(shared_length(&a[..position], &a), position);
        }
        assert_eq!(shared_length(&a, &a), 700);
        assert_eq!(shared_length(&[], &a), 0);
    }

    #[test]
    fn cut_and_join_are_inverse() {
        let whole: Box<[u32]> = (0..9).collect();
        let (head, tail) = cut(whole.clone(), 4);
        assert_eq!((&*head, &*tail), (&[0, 1, 2, 3][..], &[4, 5, 6, 7, 8][..]));
        assert_eq!(join(head, &tail), whole);
    }
}
