"""Verdicts from NCCL RAS: its two output formats and what they prove."""
