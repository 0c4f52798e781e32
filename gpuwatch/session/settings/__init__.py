"""Files in the settings folder: own packs, silences, followed folders."""
