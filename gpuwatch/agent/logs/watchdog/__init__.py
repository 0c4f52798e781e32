"""Records the rules and file ranges on which a log reader hung; the next reader leaves them out."""
