"""Joins of facts from any file: process -> rank, child -> parent, name of a pod or container -> rank."""
