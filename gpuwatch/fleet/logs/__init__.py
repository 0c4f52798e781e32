"""Log files, streams, progress and checkpoints as the nodes report them."""
