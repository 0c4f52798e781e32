"""What is measured in a rank: distributions of numbers, timers on the host and on the GPU."""
