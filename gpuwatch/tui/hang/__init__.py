"""The screen with the hang report: query of the ranks, verdict, stacks."""
