//! The tokens on the edge into a node, and the comparison of token sequences.

/// The number of leading tokens that `a` and `b` share.
pub fn shared_length(a: &[u32], b: &[u32]) -> usize {
    // Whole chunks compile to vector compares; the first unequal chunk is then looked at token by token.
    const CHUNK: usize = 32;
    let equal = a
        .chunks_exact(CHUNK)
        .zip(b.chunks_exact(CHUNK))
        .take_while(|(a, b)| a == b)
        .count()
        * CHUNK;
    equal
        + a[equal..]
            .iter()
            .zip(&b[equal..])
            .take_while(|(a, b)| a == b)
            .count()
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
        let a: Vec<u32> = (0..150).collect();
        for position in 0..150 {
            let mut b = a.clone();
            b[position] = 999;
            assert_eq!(shared_length(&a, &b), position);
            assert_eq!(shared_length(&a[..position], &a), position);
        }
        assert_eq!(shared_length(&a, &a), 150);
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
