"""Folders of logs whose layout is composed at random: tags, files, tables and times that no list holds."""
