"""The process beside a run: samples of this machine, and the summary at its end."""
