"""Links deliver the frames of nodes to the session: one dialer per kind of link, all opened together."""
