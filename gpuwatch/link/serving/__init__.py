"""Reads the `/metrics` of inference servers over HTTP: vLLM, SGLang, TGI and Triton."""
