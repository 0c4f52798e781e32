"""The ssh transport: bounds on what a peer may send, and one reading thread for many connections."""
