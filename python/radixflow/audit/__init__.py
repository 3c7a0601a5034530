"""How far a decision may be trusted: the same decisions alone, in batches and in a crowd, under several schedulers."""
