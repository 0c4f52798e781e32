"""Names and units of the series that the exporter writes and the prometheus link reads."""
