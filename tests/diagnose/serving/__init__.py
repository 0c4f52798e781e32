"""Inference servers."""
