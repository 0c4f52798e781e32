"""Rules and file ranges on which a log reader hung, which the next one leaves out."""
