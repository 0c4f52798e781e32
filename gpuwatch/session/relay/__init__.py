"""One session for several viewers: the relay in the process that holds the links, and a viewer's session."""
