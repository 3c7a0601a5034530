"""Experiments from the command line: `radixflow simulate` and its subcommands, and what they keep."""
