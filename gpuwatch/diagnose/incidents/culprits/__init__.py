"""Which rank, node or GPU an incident names: by its cause, by the hang, by the ranks that took no part."""
