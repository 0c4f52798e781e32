"""Links: deliver frames from nodes; one dialer per kind of link, all opened together."""
