"""Inference servers: their `/metrics` over HTTP, in the dialects of vLLM, SGLang, TGI and Triton."""
