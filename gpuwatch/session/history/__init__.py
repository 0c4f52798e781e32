"""The incidents of earlier sessions, remembered per node and GPU."""
