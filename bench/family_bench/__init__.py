"""Parts of `bench/families.py`: real engines of the hybrid families, one process for all of them."""
