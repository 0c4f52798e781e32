"""Where the time goes: traces of code sections, communication, torch's profiler."""
