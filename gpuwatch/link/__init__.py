"""How frames arrive: one dialer a kind of link, opened together."""
