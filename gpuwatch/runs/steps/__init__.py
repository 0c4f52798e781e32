"""The steps, epochs and operations that log files show for each rank."""
