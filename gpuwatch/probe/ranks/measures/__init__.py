"""The measurements of a rank: collectives, pairs, GPUs, clocks."""
