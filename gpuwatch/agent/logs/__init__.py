"""Log files on the node: cut into lines, peeled of prefixes, sieved and matched against the rules."""
