"""Inference servers over real sockets, by pages in the form of each engine."""
