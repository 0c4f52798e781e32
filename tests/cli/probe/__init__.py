"""`gpuwatch probe`, its questions and what it prints."""
