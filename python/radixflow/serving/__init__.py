"""Decision serving: `/v1/systemone` as an endpoint plugin of vLLM, and the command that starts it.

Typed questions, templates and formulas are in :mod:`radixflow.decisions`; here they meet HTTP and an engine.
"""
