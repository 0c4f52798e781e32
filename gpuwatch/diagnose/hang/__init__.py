"""Silent jobs: the signs of each rank, the threshold and the verdict, what the ranks answer, remedies."""
