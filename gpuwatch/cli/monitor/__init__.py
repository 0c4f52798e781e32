"""Commands over a live cluster: `watch`, `once`, `dmon`, `check`, `record`, `exporter`."""
