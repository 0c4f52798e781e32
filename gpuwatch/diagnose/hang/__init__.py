"""Silent jobs: signals of each rank, the verdict, what the ranks answer, remedies."""
