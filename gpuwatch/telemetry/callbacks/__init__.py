"""Callbacks of trainers: HF Trainer, Lightning, Accelerate; each module imports its framework."""
