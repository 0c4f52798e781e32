"""The filter language over GPUs."""
