"""Regular expressions of modules, compiled when they are first used."""
