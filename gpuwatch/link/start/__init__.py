"""Starting the agent on a node: loader, bundle, settings, reasons of failure."""
