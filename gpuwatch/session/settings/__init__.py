"""Files in the settings folder: own rule packs, silences, followed folders."""
