"""The benchmark: the same decisions against stock vLLM and against RadixFlow's presets, over real HTTP.

`radixflow.bench.command.run_bench` is the entry point.  vLLM runs in its own processes, so nothing here
imports it.
"""
