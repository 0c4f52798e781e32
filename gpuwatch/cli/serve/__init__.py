"""The command `serve`: one session for several browsers, and the process of a viewer."""
