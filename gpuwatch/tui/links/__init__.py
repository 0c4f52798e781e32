"""Screen 5: probes of the links between ranks."""
