"""Reads exports of schedulers, clouds and log services (status documents, log tables) as log lines."""
