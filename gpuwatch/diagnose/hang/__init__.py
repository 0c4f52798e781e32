"""Detection of hangs: signs of each rank, threshold, verdict, answers of ranks, remedies."""
