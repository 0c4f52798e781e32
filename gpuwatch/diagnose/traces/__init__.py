"""What measured traces and memory reports show: flags with their evidence and the next steps."""
