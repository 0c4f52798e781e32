"""One session for several viewers: the relay in the process with the links, and the viewers' sessions."""
