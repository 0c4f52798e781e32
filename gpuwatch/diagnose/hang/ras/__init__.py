"""Verdicts from NCCL's RAS: its two formats and what they prove."""
