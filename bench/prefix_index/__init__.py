"""The parts of `bench/index.py`."""
